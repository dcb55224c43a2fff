//! Events for tests, as they are read from the log.

use std::sync::Arc;

use headwater_core::{Event, RecordedEvent};

/// An event with this place in the log.
pub(in crate::node) fn event(sequence: u64) -> RecordedEvent {
    recorded(sequence, None)
}

/// An event of a key.
pub(in crate::node) fn keyed(sequence: u64, key: &str) -> Arc<RecordedEvent> {
    Arc::new(recorded(sequence, Some(key.into())))
}

fn recorded(sequence: u64, key: Option<String>) -> RecordedEvent {
    let event = Event::raw("tested", serde_json::json!({}));
    let (global_sequence, recorded_at) = (Some(sequence), Some(chrono::Utc::now()));
    RecordedEvent::new(Event { global_sequence, recorded_at, key, ..event }).expect("it was recorded")
}
