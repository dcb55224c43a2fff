//! `--live`: where new events come from.

use clap::{Args, ValueEnum};
use headwater::cdc::Live;
#[cfg(feature = "cdc")]
use headwater::cdc::{CdcMode, CdcOptions, Plugin};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LiveKind {
    /// Read the log when a wake-up says that there are new events
    #[default]
    Wake,
    /// Read the WAL by logical replication. While that is not possible, work as with wake
    #[cfg(feature = "cdc")]
    Cdc,
}

#[cfg(feature = "cdc")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PluginKind {
    #[default]
    Pgoutput,
    Wal2json,
}

#[cfg(feature = "cdc")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeKind {
    /// Each process reads the WAL from its own temporary slot
    #[default]
    Direct,
    /// One process at a time reads the WAL from a durable slot into a table, which all processes
    /// read
    Inbox,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LiveArgs {
    /// Where new events come from; see `headwater cdc --help`
    #[arg(long, value_enum, default_value_t, help_heading = super::commands::consume::OWNERSHIP)]
    live: LiveKind,
    /// With --live cdc: who reads the WAL
    #[cfg(feature = "cdc")]
    #[arg(long, value_enum, default_value_t, help_heading = super::commands::consume::OWNERSHIP)]
    cdc_mode: ModeKind,
    /// With --live cdc: the URL to replicate from, for example to bypass PgBouncer
    #[cfg(feature = "cdc")]
    #[arg(long, value_name = "URL", help_heading = super::commands::consume::OWNERSHIP)]
    cdc_url: Option<String>,
    /// With --live cdc: the output plugin, which decodes the WAL in the server
    #[cfg(feature = "cdc")]
    #[arg(long, value_enum, default_value_t, help_heading = super::commands::consume::OWNERSHIP)]
    cdc_plugin: PluginKind,
    /// With --cdc-mode inbox: warn when the server keeps more WAL than this for the slot, in MiB
    #[cfg(feature = "cdc")]
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..1 << 40), help_heading = super::commands::consume::OWNERSHIP)]
    cdc_warn_retained: u64,
}

impl LiveArgs {
    pub(crate) fn live(&self) -> Live {
        match self.live {
            LiveKind::Wake => Live::Wake,
            #[cfg(feature = "cdc")]
            LiveKind::Cdc => {
                let plugin = match self.cdc_plugin {
                    PluginKind::Pgoutput => Plugin::Pgoutput,
                    PluginKind::Wal2json => Plugin::Wal2json,
                };
                let mode = match self.cdc_mode {
                    ModeKind::Direct => CdcMode::Direct,
                    ModeKind::Inbox => CdcMode::inbox(),
                };
                let warn_retained_bytes = self.cdc_warn_retained << 20;
                Live::Cdc(CdcOptions {
                    mode,
                    plugin,
                    url: self.cdc_url.clone(),
                    warn_retained_bytes,
                    ..CdcOptions::default()
                })
            }
        }
    }
}
