//! Reads of the model. They follow the definitions, and scan where a scan is simpler than an index.

use std::collections::BTreeSet;

use headwater_core::{Direction, Gaps, LogPage, LogQuery, MAX_PAGE_SIZE, RecordedEvent, StreamQuery};
use uuid::Uuid;

use crate::state::State;

impl State {
    pub(crate) fn stream_page(&self, query: &StreamQuery) -> Vec<RecordedEvent> {
        let (from, to) = (query.from_version.unwrap_or(0), query.to_version.unwrap_or(u64::MAX));
        let stream = self.streams.get(&query.stream_id).into_iter().flatten().map(|place| &self.events[*place]);
        let asked =
            stream.filter(|event| event.stream_version().is_some_and(|version| version >= from && version <= to));
        page(asked, query.direction, query.page_size)
    }

    pub(crate) fn log_page(&self, query: &LogQuery) -> LogPage {
        let end = query.up_to.unwrap_or(u64::MAX).min(self.head());
        let asked = self.after(query.after).take_while(|event| event.sequence() <= end);
        // Ask for one event more than the page holds: it tells whether there is more.
        let page_size = query.page_size as usize;
        let mut events = page(asked.filter(|event| query.matches(event)), query.direction, query.page_size + 1);
        let more = events.len() > page_size;
        events.truncate(page_size);
        let last = events.last().map(|event| event.sequence().get()).filter(|_| more);
        let cursor = last.unwrap_or(match query.direction {
            Direction::Forwards => end.max(query.after),
            Direction::Backwards => query.after.saturating_add(1),
        });
        LogPage { events, gaps: Vec::new(), cursor, more }
    }

    pub(crate) fn correlated(&self, correlation_id: Uuid, after: u64, limit: u32) -> Vec<RecordedEvent> {
        let asked = self.after(after).filter(|event| event.correlation_id == Some(correlation_id));
        page(asked, Direction::Forwards, limit.min(MAX_PAGE_SIZE))
    }

    /// Returns the causes up to the first stored one, and all effects. The event itself need not be
    /// stored: the id of a command finds what the command led to.
    pub(crate) fn causation_chain(&self, id: Uuid, limit: u32) -> Vec<RecordedEvent> {
        let mut causes = BTreeSet::new();
        let mut cause = Some(id);
        // Stop at a cause that was found before, because users may write a circle.
        while let Some(id) = cause.filter(|id| causes.insert(*id)) {
            cause = self.event(id).and_then(|event| event.causation_id);
        }
        let mut effects = BTreeSet::from([id]);
        let mut unfollowed = vec![id];
        while let Some(cause) = unfollowed.pop() {
            let caused = self.events.iter().filter(|event| event.causation_id == Some(cause));
            unfollowed.extend(caused.map(|event| event.id).filter(|id| effects.insert(*id)));
        }
        let chain = self.events.iter().filter(|event| causes.contains(&event.id) || effects.contains(&event.id));
        page(chain, Direction::Forwards, limit.min(MAX_PAGE_SIZE))
    }

    /// The events in these ranges.
    pub(crate) fn within(&self, gaps: &Gaps) -> Vec<RecordedEvent> {
        let events = gaps.iter().flat_map(|(first, last)| {
            self.after(first.saturating_sub(1)).take_while(move |event| event.sequence() <= last)
        });
        events.cloned().collect()
    }

    pub(crate) fn after(&self, sequence: u64) -> impl Iterator<Item = &RecordedEvent> {
        self.events.iter().skip(usize::try_from(sequence).unwrap_or(usize::MAX))
    }
}

fn page<'a>(events: impl Iterator<Item = &'a RecordedEvent>, direction: Direction, size: u32) -> Vec<RecordedEvent> {
    let mut events: Vec<&RecordedEvent> = events.collect();
    if direction == Direction::Backwards {
        events.reverse();
    }
    events.into_iter().take(size as usize).cloned().collect()
}
