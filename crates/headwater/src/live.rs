//! Where new events come from.

#[cfg(feature = "cdc")]
use headwater_cdc::CdcOptions;

/// How nodes hear of new events. They poll the log in any case. This setting never decides what is
/// delivered, only how soon and at what cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Live {
    /// A wake-up says that there is something new, and the node reads the log: see
    /// [`WakeUpSource`](crate::node::WakeUpSource).
    #[default]
    Wake,
    /// Events come from the WAL by logical replication, without a read of the log and without
    /// NOTIFY. Where that is not available, or while it is broken, the node works as with
    /// [`Live::Wake`].
    #[cfg(feature = "cdc")]
    Cdc(CdcOptions),
}
