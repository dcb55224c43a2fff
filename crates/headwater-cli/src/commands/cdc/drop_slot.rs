//! `headwater cdc drop-slot`

use clap::Args;
use headwater::Headwater;
use headwater::cdc::SlotDropped;

use crate::confirm::ConfirmArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Output, plural};

/// Drop slots that nobody reads, so that the server does not keep WAL for them
///
/// No event is lost. The next node that follows the WAL creates a new slot, and reads from the log
/// what it has missed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater cdc drop-slot headwater_n1_d16384
  headwater cdc drop-slot --orphans --yes")]
pub(crate) struct DropSlot {
    /// The slot, as `headwater cdc status` shows it
    #[arg(required_unless_present = "orphans", conflicts_with = "orphans")]
    slot: Option<String>,
    /// Drop all of Headwater's slots in this database that nobody reads
    #[arg(long)]
    orphans: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl DropSlot {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let Some(slot) = &self.slot else { return self.drop_orphans(headwater, output).await };
        self.confirm.confirm(&format!("slot {slot} will be dropped")).await?;
        match headwater.admin().drop_replication_slot(slot).await? {
            SlotDropped::Dropped => output.line(format_args!("dropped {slot}")),
            SlotDropped::NotFound => Err(Failure::new(Exit::NotFound, format!("slot {slot:?} does not exist"))
                .help("list the slots with `headwater cdc status`")),
            SlotDropped::InUse => Err(Failure::new(Exit::Conflict, format!("slot {slot:?} is being read"))
                .help("stop its reader, which `headwater cdc status` names")),
        }
    }

    async fn drop_orphans(&self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let slots = headwater.admin().replication_slots().await?;
        let orphans: Vec<_> =
            slots.into_iter().filter(|slot| slot.active_pid.is_none()).map(|slot| slot.slot).collect();
        if orphans.is_empty() {
            return output.line("there are no slots that nobody reads");
        }
        let what = format!("{} will be dropped: {}", plural(orphans.len() as u64, "slot"), orphans.join(", "));
        self.confirm.confirm(&what).await?;
        for slot in orphans {
            match headwater.admin().drop_replication_slot(&slot).await? {
                SlotDropped::Dropped => output.line(format_args!("dropped {slot}"))?,
                // Another process has dropped it or reads it by now.
                SlotDropped::NotFound | SlotDropped::InUse => output.line(format_args!("left {slot}"))?,
            }
        }
        Ok(())
    }
}
