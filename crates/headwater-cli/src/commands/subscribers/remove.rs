//! `headwater subscribers remove`

use clap::Args;
use headwater::Headwater;
use headwater::delivery::{OperatorStore, SubscriberError};

use super::{Target, view};
use crate::confirm::ConfirmArgs;
use crate::failure::Failure;
use crate::output::{Output, plural, printable};

/// Remove a subscriber, with its progress, its dead letters and its states
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater subscribers remove -n shop mailer
  headwater subscribers remove -n shop mailer --force --yes")]
pub(crate) struct Remove {
    #[command(flatten)]
    target: Target,
    /// Remove it even if a process owns it. That process stops
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl Remove {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let store = self.target.store(headwater).await?;
        let info = store.subscriber(&self.target.subscriber).await?;
        let id = printable(&info.subscriber_id);
        let mut what = format!(
            "subscriber {id} is forgotten: its position {}, {} and all its states",
            info.position,
            plural(info.dead_letters, "dead letter")
        );
        // Without --force, an owned subscriber is refused below: do not ask before that.
        if let Some(owner) = view::live_owner(&info).filter(|_| self.force) {
            what += &format!("; node {} runs it, and loses it", printable(&owner.node));
        }
        if self.force || view::live_owner(&info).is_none() {
            self.confirm.confirm(&what).await?;
        }
        store.remove(&self.target.subscriber, self.force).await.map_err(|error| match error {
            SubscriberError::InUse(_) => Failure::from(error).help("stop it there first, or repeat it with --force"),
            error => error.into(),
        })?;
        output.line(format_args!("subscriber {id} is removed"))
    }
}
