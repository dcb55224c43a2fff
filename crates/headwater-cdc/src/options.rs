//! The options for following the WAL.

use std::time::Duration;

use headwater_core::AdminError;

/// The server's plugin that turns the WAL into messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Plugin {
    /// PostgreSQL's own plugin. It needs a publication, which is created.
    #[default]
    Pgoutput,
    /// wal2json, where it is installed (Debian: `postgresql-15-wal2json`). It needs no publication.
    Wal2json,
}

impl Plugin {
    /// The server's name for the plugin.
    pub fn name(self) -> &'static str {
        match self {
            Plugin::Pgoutput => "pgoutput",
            Plugin::Wal2json => "wal2json",
        }
    }
}

/// Which nodes read the WAL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CdcMode {
    /// Each node, from its own temporary slot: nothing is stored, and nothing is left behind.
    #[default]
    Direct,
    /// One node at a time, from one durable slot of the namespace, into the table
    /// `headwater_private.cdc_inbox`, which all nodes read. There is one stream, however many nodes
    /// there are, but each event is written a second time.
    Inbox {
        /// How long dispatched events stay in the inbox.
        keep_for: Duration,
    },
}

impl CdcMode {
    /// `direct` or `inbox`.
    pub fn name(self) -> &'static str {
        match self {
            CdcMode::Direct => "direct",
            CdcMode::Inbox { .. } => "inbox",
        }
    }

    /// An inbox that keeps dispatched events for an hour.
    pub fn inbox() -> Self {
        CdcMode::Inbox { keep_for: Duration::from_secs(3600) }
    }
}

/// How to follow the WAL.
#[derive(Debug, Clone, PartialEq)]
pub struct CdcOptions {
    /// Which nodes read the WAL.
    pub mode: CdcMode,
    /// The plugin that turns the WAL into messages.
    pub plugin: Plugin,
    /// Where to connect for replication, if not where the pool connects: for example past a pooler,
    /// which cannot replicate.
    pub url: Option<String>,
    /// Most events that wait in memory to be taken. Further events are read from the log.
    pub max_buffered_events: usize,
    /// Most bytes of events that wait in memory.
    pub max_buffered_bytes: usize,
    /// In inbox mode: how long a silent node keeps the slot. Default: 10 s.
    pub lease: Duration,
    /// In inbox mode: nodes warn when the server keeps more WAL than this for the slot. Default: 1
    /// GiB.
    pub warn_retained_bytes: u64,
}

impl Default for CdcOptions {
    fn default() -> Self {
        CdcOptions {
            mode: CdcMode::default(),
            plugin: Plugin::default(),
            url: None,
            max_buffered_events: 16_384,
            max_buffered_bytes: 16 * 1024 * 1024,
            lease: Duration::from_secs(10),
            warn_retained_bytes: 1024 * 1024 * 1024,
        }
    }
}

impl CdcOptions {
    /// Checks all options.
    pub fn validate(&self) -> Result<(), AdminError> {
        let invalid = |message: String| Err(AdminError::InvalidInput(message));
        if !(1..=1_000_000).contains(&self.max_buffered_events) {
            return invalid(format!("invalid max_buffered_events {}: it is 1 to 1,000,000", self.max_buffered_events));
        }
        if !(64 * 1024..=1024 * 1024 * 1024).contains(&self.max_buffered_bytes) {
            return invalid(format!("invalid max_buffered_bytes {}: it is 64 KiB to 1 GiB", self.max_buffered_bytes));
        }
        if !(Duration::from_secs(2)..=Duration::from_secs(3600)).contains(&self.lease) {
            return invalid(format!("invalid lease {:?} of the slot: it is 2 s to 1 hour", self.lease));
        }
        Ok(())
    }
}
