//! Where the consumers' new events come from.

use clap::ValueEnum;
use headwater::cdc::{CdcMode, CdcOptions, Live};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// Wake-ups and reads of the log
    #[default]
    Notify,
    /// The WAL; each consumer has its own slot
    CdcDirect,
    /// The WAL through the inbox; all consumers share one slot
    CdcInbox,
}

impl Source {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Source::Notify => "notify",
            Source::CdcDirect => "cdc-direct",
            Source::CdcInbox => "cdc-inbox",
        }
    }

    pub(crate) fn live(self) -> Live {
        match self {
            Source::Notify => Live::Wake,
            Source::CdcDirect => Live::Cdc(CdcOptions::default()),
            Source::CdcInbox => Live::Cdc(CdcOptions { mode: CdcMode::inbox(), ..CdcOptions::default() }),
        }
    }

    /// Returns how many slots the consumers with these sources read.
    pub(crate) fn slots(sources: &[Source]) -> i64 {
        let direct = sources.iter().filter(|source| **source == Source::CdcDirect).count() as i64;
        direct + i64::from(sources.contains(&Source::CdcInbox))
    }
}
