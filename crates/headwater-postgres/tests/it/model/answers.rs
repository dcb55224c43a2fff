//! PostgreSQL's answers in the model's terms: places as the model counts them, data and errors so
//! that they can be compared.

use std::collections::BTreeMap;

use headwater_core::{Append, AppendError, Appended, Event, Json, Ordering, Placed, RecordedEvent};
use proptest::test_runner::TestCaseError;
use serde_json::Value;

/// Which of PostgreSQL's sequences is which of the model's. A gapless log has the same; a sequence
/// may leave some out, but keeps the order.
#[derive(Debug)]
pub(crate) struct Places {
    ordering: Ordering,
    /// By the model's: the model counts 1, 2, 3, …
    theirs: Vec<u64>,
    ours: BTreeMap<u64, u64>,
}

impl Places {
    pub(crate) fn new(ordering: Ordering) -> Self {
        Places { ordering, theirs: Vec::new(), ours: BTreeMap::new() }
    }

    /// Notes the places of new events.
    pub(crate) fn learn(&mut self, model: &Appended, theirs: &Appended) -> Result<(), TestCaseError> {
        if model.retried || theirs.retried {
            return Ok(());
        }
        for (model, theirs) in model.events.iter().zip(&theirs.events) {
            let (ours, theirs) = (model.global_sequence, theirs.global_sequence);
            let fits = match self.ordering {
                Ordering::Gapless => theirs == ours,
                Ordering::Sequence => self.theirs.last().is_none_or(|last| theirs > *last),
            };
            if !fits {
                return Err(TestCaseError::fail(format!(
                    "event {ours} got sequence {theirs}, after {:?}",
                    self.theirs
                )));
            }
            self.theirs.push(theirs);
            self.ours.insert(theirs, ours);
        }
        Ok(())
    }

    /// The model's name for a place that PostgreSQL gave; 0 for one that it never gave.
    fn ours(&self, theirs: u64) -> u64 {
        self.ours.get(&theirs).copied().unwrap_or_default()
    }

    /// PostgreSQL's name for a place of the model's, which may lie beyond the end.
    pub(crate) fn theirs(&self, ours: u64) -> u64 {
        match ours.checked_sub(1) {
            None => 0,
            Some(place) => {
                let beyond = || self.theirs.last().unwrap_or(&0).saturating_add(ours);
                usize::try_from(place).ok().and_then(|place| self.theirs.get(place)).copied().unwrap_or_else(beyond)
            }
        }
    }

    pub(crate) fn appended(&self, theirs: Appended) -> Appended {
        let place = |placed: &Placed| Placed { global_sequence: self.ours(placed.global_sequence), ..*placed };
        Appended { events: theirs.events.iter().map(place).collect(), ..theirs }
    }

    pub(crate) fn events(&self, theirs: Vec<RecordedEvent>) -> Vec<Event> {
        let place = |event: Event| Event {
            global_sequence: event.global_sequence.map(|sequence| self.ours(sequence)),
            ..event
        };
        theirs.into_iter().map(RecordedEvent::into_event).map(place).collect()
    }
}

/// Without what may differ: the clock, the number of the transaction, and the formatting of data.
pub(crate) fn comparable(events: Vec<Event>) -> Vec<Event> {
    let comparable = |event: Event| Event {
        recorded_at: None,
        transaction_id: None,
        data: event.data.map(|data| canonical(&data)),
        ..event
    };
    events.into_iter().map(comparable).collect()
}

/// The same text for the same meaning: numbers as floats, since jsonb writes 1e3 as 1000.
fn canonical(data: &Json) -> Json {
    fn floats(value: Value) -> Value {
        match value {
            Value::Number(number) => number.as_f64().into(),
            Value::Array(values) => values.into_iter().map(floats).collect(),
            Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, floats(value))).collect(),
            other => other,
        }
    }
    floats(data.decode().expect("data is JSON")).into()
}

/// Fails with both if they differ.
pub(crate) fn same<T: std::fmt::Debug + PartialEq>(what: &str, model: T, theirs: T) -> Result<(), TestCaseError> {
    if model == theirs {
        return Ok(());
    }
    Err(TestCaseError::fail(format!("{what}\n  memory:     {model:?}\n  PostgreSQL: {theirs:?}")))
}

/// An answer whose error can be compared, by variant and fields.
pub(crate) fn answer(result: Result<Appended, AppendError>) -> Result<Appended, String> {
    result.map_err(|error| format!("{error:?}"))
}

/// An append in a few words, for messages.
pub(crate) fn brief(append: &Append) -> String {
    let events = append.events().iter().map(|event| {
        let stream = event.stream_id.as_deref().unwrap_or("-");
        format!("{} {} to {stream}", event.id.as_u128(), event.event_type)
    });
    let expected = append.writes().into_iter().map(|write| format!("{} at {}", write.stream_id, write.expected));
    format!(
        "append [{}] expecting [{}]",
        events.collect::<Vec<_>>().join(", "),
        expected.collect::<Vec<_>>().join(", ")
    )
}
