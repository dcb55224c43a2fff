//! The contents of the log, and the only way to change them.

use std::collections::HashMap;

use chrono::{DateTime, SubsecRound, Utc};
use headwater_core::{Append, AppendError, Appended, Event, Placed, RecordedEvent, Sequence, StreamId};
use uuid::Uuid;

/// The log and its indexes. The indexes hold positions in `events`.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The events in order: the event with global_sequence n is at position n - 1.
    pub(crate) events: Vec<RecordedEvent>,
    /// The events of each stream in order: the n-th has stream_version n.
    pub(crate) streams: HashMap<StreamId, Vec<usize>>,
    pub(crate) ids: HashMap<Uuid, usize>,
    transactions: u64,
}

impl State {
    /// The last global_sequence. 0: the log is empty.
    pub(crate) fn head(&self) -> u64 {
        self.events.len() as u64
    }

    pub(crate) fn event(&self, id: Uuid) -> Option<&RecordedEvent> {
        self.ids.get(&id).map(|place| &self.events[*place])
    }

    /// Appends validated events, all or nothing.
    pub(crate) fn append(&mut self, append: &Append, recorded_at: DateTime<Utc>) -> Result<Appended, AppendError> {
        // Before the versions are checked: a repeated append must not conflict with itself.
        if let Some(first_result) = self.first_result(append)? {
            return Ok(first_result);
        }
        for write in append.writes() {
            let actual = self.version(write.stream_id);
            if !write.expected.allows(actual) {
                return Err(AppendError::Conflict {
                    stream_id: write.stream_id.clone(),
                    expected: write.expected,
                    actual,
                });
            }
        }
        self.transactions += 1;
        let events = append.events().iter().map(|event| self.push(event, recorded_at)).collect::<Result<_, _>>()?;
        Ok(Appended { events, retried: false })
    }

    /// The first result of this append. `None`: none of its events is stored.
    fn first_result(&self, append: &Append) -> Result<Option<Appended>, AppendError> {
        let stored: Vec<&RecordedEvent> = append.events().iter().filter_map(|event| self.event(event.id)).collect();
        let Some(first_stored) = stored.first() else { return Ok(None) };
        let differs = |event: &&Event| {
            self.event(event.id)
                .is_some_and(|stored| stored.event_type != event.event_type || stored.stream_id != event.stream_id)
        };
        if let Some(event) = append.events().iter().find(differs) {
            return Err(AppendError::IdReused { event_id: event.id });
        }
        if stored.len() < append.events().len() {
            return Err(AppendError::IdReused { event_id: first_stored.id });
        }
        let events = stored.into_iter().map(placed).collect();
        Ok(Some(Appended { events, retried: true }))
    }

    fn version(&self, stream_id: &StreamId) -> u64 {
        self.streams.get(stream_id).map_or(0, |stream| stream.len() as u64)
    }

    fn push(&mut self, event: &Event, recorded_at: DateTime<Utc>) -> Result<Placed, AppendError> {
        let place = self.events.len();
        let event = Event {
            stream_version: event.stream_id.as_ref().map(|stream_id| self.version(stream_id) + 1),
            global_sequence: Some(place as u64 + 1),
            recorded_at: Some(recorded_at),
            transaction_id: Some(self.transactions),
            data: event.data.clone().filter(|data| !data.is_null()),
            created_at: event.created_at.trunc_subsecs(6),
            ..event.clone()
        };
        let event = RecordedEvent::new(event).map_err(|error| AppendError::InvalidInput(error.to_string()))?;
        if let Some(stream_id) = event.stream_id.clone() {
            self.streams.entry(stream_id).or_default().push(place);
        }
        self.ids.insert(event.id, place);
        let placed = placed(&event);
        self.events.push(event);
        Ok(placed)
    }
}

fn placed(event: &RecordedEvent) -> Placed {
    Placed {
        id: event.id,
        global_sequence: event.sequence().get(),
        stream_version: event.stream_version().map(Sequence::get),
    }
}
