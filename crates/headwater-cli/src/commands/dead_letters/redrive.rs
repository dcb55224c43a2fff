//! `headwater dead-letters redrive`

use std::collections::BTreeSet;

use clap::Args;
use headwater::Headwater;
use headwater::delivery::{DeadLetterQuery, DeadLetterState, OperatorStore};

use super::select::{ChosenArgs, Pages};
use super::wait;
use crate::failure::{Exit, Failure};
use crate::output::{Output, plural, printable};

/// Deliver dead letters again, and wait until that is done
///
/// The command marks them, and the process that owns the subscriber delivers them. With a letter
/// whose key is parked, all letters of that key are delivered, in order.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater dead-letters redrive -n shop mailer 1042
  headwater dead-letters redrive -n shop mailer --error-contains 'connection refused'
  headwater dead-letters redrive -n shop mailer --all --no-wait

The exit code is 7 if some failed again. Ctrl-C ends the waiting, not the delivery.")]
pub(crate) struct Redrive {
    #[command(flatten)]
    chosen: ChosenArgs,
    /// Only mark them, and do not wait
    #[arg(long)]
    no_wait: bool,
}

impl Redrive {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let query = self.chosen.query()?;
        let id = &self.chosen.subscriber;
        let store = headwater.namespace(&self.chosen.namespace).await?.subscribers();
        store.subscriber(id).await?;
        let states = vec![DeadLetterState::Dead, DeadLetterState::Parked];
        let asked = Pages::new(&store, DeadLetterQuery { states, ..query.clone() }).sequences().await?;
        let marked = store.redrive(&query).await?;
        if marked == 0 {
            self.chosen.none()?;
            return output.line("no dead letters to deliver again");
        }
        if self.no_wait {
            return output.line(format_args!("{} will be delivered again", plural(marked, "dead letter")));
        }
        // Letters of parked keys were marked too.
        let mut waited_for: BTreeSet<u64> = wait::redriving(&store, id).await?.into_iter().collect();
        waited_for.extend(asked);
        let done = wait::until_done(&store, id, &waited_for).await?;
        output.line(format_args!(
            "{} delivered again: {} handled, {} failed again, {} wait behind one that did, {} discarded",
            plural(waited_for.len() as u64, "dead letter"),
            done.handled(waited_for.len()),
            done.dead,
            done.parked,
            done.discarded,
        ))?;
        if done.dead + done.parked == 0 {
            return Ok(());
        }
        let message = format!("{} of {} failed again", done.dead + done.parked, waited_for.len());
        Err(Failure::new(Exit::Findings, message).help(format!(
            "see why with `headwater dead-letters list -n {} -s {}`",
            self.chosen.namespace,
            printable(id)
        )))
    }
}
