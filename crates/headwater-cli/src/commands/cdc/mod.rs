//! `headwater cdc`: status, doctor, drop-slot, poison, redeliver.

mod doctor;
mod drop_slot;
mod poison;
mod redeliver;
mod status;

use clap::Subcommand;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;

/// Manage events from the WAL (`--live cdc`): who follows it, what that needs, which WAL is
/// retained
#[derive(Debug, Subcommand)]
pub(crate) enum Cdc {
    Status(status::Status),
    Doctor(doctor::Doctor),
    DropSlot(drop_slot::DropSlot),
    Poison(poison::Poison),
    Redeliver(redeliver::Redeliver),
}

impl Cdc {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let mut output = Output::new();
        let outcome = match self {
            Cdc::Status(status) => status.run(&headwater, &mut output).await,
            Cdc::Doctor(doctor) => doctor.run(&headwater, &mut output).await,
            Cdc::DropSlot(drop_slot) => drop_slot.run(&headwater, &mut output).await,
            Cdc::Poison(poison) => poison.run(&headwater, &mut output).await,
            Cdc::Redeliver(redeliver) => redeliver.run(&headwater, &mut output).await,
        };
        headwater.shutdown().await;
        output.finish()?;
        outcome
    }
}
