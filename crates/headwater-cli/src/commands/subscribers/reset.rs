//! `headwater subscribers reset`

use clap::Args;
use headwater::Headwater;
use headwater::delivery::{OperatorStore, StartFrom, SubscriberInfo};

use super::{Target, view};
use crate::confirm::ConfirmArgs;
use crate::failure::Failure;
use crate::output::{Output, plural, printable};
use crate::start;

/// Move a subscriber to another place in the log, back or forwards
///
/// Work that its owner has in progress is not written any more. The owner goes on from the new
/// place. Dead letters stay.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater subscribers reset -n shop totals --to beginning
  headwater subscribers reset -n shop mailer --to 2026-01-31T12:00:00Z --yes")]
pub(crate) struct Reset {
    #[command(flatten)]
    target: Target,
    /// The new place. SEQUENCE: after this global_sequence
    #[arg(long, value_name = start::PLACE, value_parser = start::parse)]
    to: StartFrom,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl Reset {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let namespace = self.target.namespace(headwater).await?;
        let store = namespace.subscribers();
        let info = store.subscriber(&self.target.subscriber).await?;
        let mut position = start::position(&namespace, self.to).await?;
        let trimmed_to = namespace.trimmed_to();
        if position < trimmed_to {
            output
                .line(format_args!("events up to {trimmed_to} are trimmed: it begins with the first that is kept"))?;
            position = trimmed_to;
        }
        let end = headwater.admin().log_end(&self.target.namespace).await?;
        if position > end {
            let message = format!("{position} is beyond the log, which ends at {end}: events to come would be skipped");
            return Err(Failure::invalid(message).help("--to now skips everything that is in the log"));
        }
        self.confirm.confirm(&consequences(&info, position)).await?;
        store.reset(&self.target.subscriber, position).await?;
        let (id, from) = (printable(&self.target.subscriber), info.position);
        output.line(format_args!("subscriber {id} was at {from} and goes on after {position}"))
    }
}

fn consequences(info: &SubscriberInfo, position: u64) -> String {
    let (id, from) = (printable(&info.subscriber_id), info.position);
    let mut text = format!("subscriber {id} moves from {from} to {position}");
    text += &match position {
        _ if position < from => {
            format!(": {} ({} to {from}) will come again", plural(from - position, "sequence"), position + 1)
        }
        _ if position > from => {
            let skipped = plural(position - from, "sequence");
            format!(": {skipped} ({} to {position}) will be skipped, and never delivered", from + 1)
        }
        _ => ", where it is".into(),
    };
    if !info.pending_gaps.is_empty() {
        text += &format!("; its pending gaps ({}) are forgotten", view::gaps(info));
    }
    if let Some(owner) = view::live_owner(info) {
        text += &format!("; node {} runs it, and goes on from there", printable(&owner.node));
    }
    text
}
