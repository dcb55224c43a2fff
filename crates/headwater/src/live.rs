//! Where new events come from.

use headwater_cdc::CdcOptions;

/// How nodes hear of new events. The log is polled in any case: nothing here decides what is delivered, only how soon, and at what cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Live {
    /// Wake-ups say that there is something, and the log is read: see [`WakeUpSource`](crate::WakeUpSource).
    #[default]
    Wake,
    /// From the WAL, by logical replication: events come without a read of the log, and without NOTIFY. Where that cannot be had, or while it is
    /// broken, as with [`Live::Wake`].
    Cdc(CdcOptions),
}
