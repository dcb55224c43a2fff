//! `headwater dead-letters discard`

use clap::Args;
use headwater::Headwater;
use headwater::delivery::OperatorStore;

use super::select::{ChosenArgs, Pages};
use crate::confirm::ConfirmArgs;
use crate::failure::Failure;
use crate::output::{Output, plural, printable};

/// Give up dead letters for good. They can still be listed, with the reason
///
/// Events that wait behind them in a parked key are then delivered.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater dead-letters discard -n shop mailer 1042 --reason 'a test order'
  headwater dead-letters discard -n shop mailer --event-type OrderPlaced --reason 'sent by hand' --yes")]
pub(crate) struct Discard {
    #[command(flatten)]
    chosen: ChosenArgs,
    /// Why they are discarded; it is kept with them
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl Discard {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let query = self.chosen.query()?;
        let store = headwater.namespace(&self.chosen.namespace).await?.subscribers();
        store.subscriber(&self.chosen.subscriber).await?;
        let found = Pages::new(&store, query.clone()).sequences().await?;
        if found.is_empty() {
            self.chosen.none()?;
            return output.line("no dead letters to discard");
        }
        let (letters, id) = (plural(found.len() as u64, "dead letter"), printable(&self.chosen.subscriber));
        self.confirm.confirm(&format!("{letters} of subscriber {id} will never be delivered")).await?;
        let discarded = store.discard(&query, &self.reason).await?;
        output.line(format_args!("{} discarded", plural(discarded, "dead letter")))
    }
}
