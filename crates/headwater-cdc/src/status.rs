//! The status of a live source.

use chrono::{DateTime, Utc};

/// The states of a live source: starting → streaming ⇄ (degraded → recovering).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LiveState {
    /// It is tried for the first time. Wake-ups and polling find events.
    #[default]
    Starting,
    /// Events come from the WAL.
    Streaming,
    /// It failed, and is tried again after a pause. Wake-ups and polling find events.
    Degraded,
    /// It is tried again, or works on a backlog. Wake-ups and polling find events.
    Recovering,
}

impl LiveState {
    /// Returns the name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            LiveState::Starting => "starting",
            LiveState::Streaming => "streaming",
            LiveState::Degraded => "degraded",
            LiveState::Recovering => "recovering",
        }
    }
}

impl std::fmt::Display for LiveState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The present status of a live source.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveStatus {
    /// What it does.
    pub state: LiveState,
    /// When it entered this state, by this machine's clock.
    pub since: DateTime<Utc>,
    /// The slot that it reads, while it streams.
    pub slot: Option<String>,
    /// The last error, and what to do about it.
    pub error: Option<String>,
    /// In inbox mode: what may go wrong with the namespace's durable slot, and what to do about it.
    pub warnings: Vec<String>,
    /// How many times it began to stream.
    pub streams: u64,
    /// How many events came from the WAL.
    pub received: u64,
    /// How many of these events the tail took. The tail had read the others from the log before, or
    /// there were too many to keep.
    pub taken: u64,
    /// How many times it changed from the WAL to polling, or back.
    pub switches: u64,
    /// How many times more arrived than is kept, so that the log was read instead.
    pub overflows: u64,
    /// How many bytes of WAL the server has sent that are not safe here yet; `None`: this node does
    /// not read the slot.
    pub lag_bytes: Option<u64>,
}

impl LiveStatus {
    /// Returns gauges, and counters (`…_total`), by their names, for a monitor.
    pub fn metrics(&self) -> Vec<(&'static str, u64)> {
        let state = |state| u64::from(self.state == state);
        let mut metrics = vec![
            ("headwater_live_starting", state(LiveState::Starting)),
            ("headwater_live_streaming", state(LiveState::Streaming)),
            ("headwater_live_degraded", state(LiveState::Degraded)),
            ("headwater_live_recovering", state(LiveState::Recovering)),
            ("headwater_live_streams_total", self.streams),
            ("headwater_live_switches_total", self.switches),
            ("headwater_live_overflows_total", self.overflows),
            ("headwater_live_events_received_total", self.received),
            ("headwater_live_events_taken_total", self.taken),
        ];
        metrics.extend(self.lag_bytes.map(|lag| ("headwater_live_lag_bytes", lag)));
        metrics
    }
}

impl Default for LiveStatus {
    fn default() -> Self {
        LiveStatus {
            state: LiveState::Starting,
            since: Utc::now(),
            slot: None,
            error: None,
            warnings: Vec::new(),
            streams: 0,
            received: 0,
            taken: 0,
            switches: 0,
            overflows: 0,
            lag_bytes: None,
        }
    }
}
