//! Between the WAL and a node's tail: events that have come, by their place in the log.
//!
//! Events come in the order of their commits and are taken in the order of the log. Who takes says how far it has come: what it has already is
//! dropped, and a run that follows without a hole is handed over. At a hole it has to read the log, which knows whether
//! the hole is one. The feed is bounded: beyond, the lowest are dropped, since whoever needs them is behind and reads the log anyway.

use std::collections::BTreeMap;
use std::sync::Mutex;

use chrono::Utc;
use headwater_core::{Event, History};
use tokio::sync::watch;

use crate::transactions::weight;
use crate::{CdcOptions, LiveState, LiveStatus, Transaction};

/// Most events that are handed over at once.
const MAX_RUN: usize = 1_000;

/// Events from the WAL, until they are taken.
#[derive(Debug)]
pub struct Feed {
    buffer: Mutex<Buffer>,
    changed: watch::Sender<u64>,
    status: watch::Sender<LiveStatus>,
    max_events: usize,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Buffer {
    events: BTreeMap<u64, Event>,
    bytes: usize,
    /// Something is not here that should be: the log has to be read.
    incomplete: bool,
    /// The history in which the events were committed.
    history: Option<History>,
}

/// What there was to take.
#[derive(Debug, PartialEq)]
pub enum Taken {
    /// Nothing new.
    Nothing,
    /// Events that follow without a hole; whether more is here.
    Run {
        /// The events, in order.
        events: Vec<Event>,
        /// Whether there is more, at once or behind a hole.
        more: bool,
    },
    /// Events are here, but the next is not.
    Hole,
    /// The log has to be read: the stream has begun or ended, or something was not kept.
    ReadTheLog,
}

impl Feed {
    /// An empty one.
    pub fn new(options: &CdcOptions) -> Self {
        Feed {
            buffer: Mutex::default(),
            changed: watch::Sender::new(0),
            status: watch::Sender::new(LiveStatus::default()),
            max_events: options.max_buffered_events,
            max_bytes: options.max_buffered_bytes,
        }
    }

    /// Changes when there may be something to take.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// What the source is doing.
    pub fn status(&self) -> LiveStatus {
        self.status.borrow().clone()
    }

    /// Changes with the status.
    pub fn statuses(&self) -> watch::Receiver<LiveStatus> {
        self.status.subscribe()
    }

    /// Whether events come from the WAL at present, so that other wake-ups are not needed.
    pub fn is_streaming(&self) -> bool {
        self.status.borrow().state == LiveState::Streaming
    }

    /// Takes what follows `after`, for somebody who reads the log in a history. What was committed in another is dropped.
    pub fn take(&self, after: u64, history: Option<History>) -> Taken {
        let mut buffer = self.lock();
        if buffer.history != history {
            (buffer.events, buffer.bytes, buffer.incomplete) = (BTreeMap::new(), 0, true);
        }
        if std::mem::take(&mut buffer.incomplete) {
            return Taken::ReadTheLog;
        }
        let rest = buffer.events.split_off(&after.saturating_add(1));
        let dropped = std::mem::replace(&mut buffer.events, rest);
        buffer.bytes -= dropped.values().map(weight).sum::<usize>();
        match buffer.events.first_key_value() {
            None => return Taken::Nothing,
            Some((first, _)) if *first != after + 1 => return Taken::Hole,
            Some(_) => {}
        }
        let mut events = Vec::new();
        while events.len() < MAX_RUN {
            let next = after + 1 + events.len() as u64;
            let Some(event) = buffer.events.remove(&next) else { break };
            buffer.bytes -= weight(&event);
            events.push(event);
        }
        let more = !buffer.events.is_empty();
        drop(buffer);
        self.status.send_if_modified(|status| {
            status.taken += events.len() as u64;
            false
        });
        Taken::Run { events, more }
    }

    /// The history in which its events were committed; `None`: no stream has begun yet.
    pub fn history(&self) -> Option<History> {
        self.lock().history
    }

    /// Adds what was committed, and can be seen by all by now.
    pub fn add(&self, transactions: Vec<Transaction>) {
        let (mut received, mut overflowed) = (0, false);
        let mut buffer = self.lock();
        for transaction in transactions {
            buffer.incomplete |= transaction.left_out > 0 || !transaction.poison.is_empty();
            received += transaction.events.len() as u64 + transaction.left_out;
            overflowed |= transaction.left_out > 0;
            for event in transaction.events {
                let bytes = weight(&event);
                let Some(sequence) = event.global_sequence else { continue };
                if let Some(same) = buffer.events.insert(sequence, event) {
                    buffer.bytes -= weight(&same);
                }
                buffer.bytes += bytes;
            }
        }
        while buffer.events.len() > self.max_events || buffer.bytes > self.max_bytes {
            let Some((_, event)) = buffer.events.pop_first() else { break };
            buffer.bytes -= weight(&event);
            (buffer.incomplete, overflowed) = (true, true);
        }
        drop(buffer);
        self.status.send_if_modified(|status| {
            status.received += received;
            status.overflows += u64::from(overflowed);
            false
        });
        self.wake();
    }

    /// Says how much WAL is sent and not safe yet.
    pub(crate) fn lag(&self, bytes: u64) {
        self.status.send_if_modified(|status| {
            status.lag_bytes = Some(bytes);
            false
        });
    }

    /// Forgets everything: it may be of another history.
    pub fn clear(&self) {
        let mut buffer = self.lock();
        *buffer = Buffer { incomplete: true, history: buffer.history, ..Buffer::default() };
        drop(buffer);
        self.wake();
    }

    /// A stream has begun, in a history that was asked for before.
    pub(crate) fn stream(&self, slot: &str, history: History) {
        self.lock().history = Some(history);
        self.enter(LiveState::Streaming, Some(slot), None);
    }

    /// Says what the source does. Whoever takes has to read the log whenever it begins or ceases to stream.
    pub(crate) fn enter(&self, state: LiveState, slot: Option<&str>, error: Option<String>) {
        let mut before = state;
        self.status.send_modify(|status| {
            before = status.state;
            let streams = state == LiveState::Streaming;
            status.streams += u64::from(streams);
            status.switches += u64::from(streams != (status.state == LiveState::Streaming));
            status.lag_bytes = status.lag_bytes.filter(|_| streams);
            let error = match state {
                LiveState::Streaming => None,
                _ => error.or(status.error.take()),
            };
            *status = LiveStatus { state, since: Utc::now(), slot: slot.map(str::to_owned), error, ..status.clone() };
        });
        if matches!(state, LiveState::Streaming | LiveState::Degraded) || before == LiveState::Streaming {
            self.clear();
        }
    }

    /// Says what may go wrong.
    pub(crate) fn warn(&self, warnings: Vec<String>) {
        self.status.send_if_modified(|status| {
            let changed = status.warnings != warnings;
            status.warnings = warnings;
            changed
        });
    }

    fn wake(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Buffer> {
        self.buffer.lock().expect("no holder of this lock panics")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// What may happen between the WAL and the tail.
    #[derive(Debug, Clone)]
    enum Step {
        /// A transaction of these comes, perhaps not for the first time; perhaps with more than is kept.
        Add(Vec<u64>, bool),
        Take,
        /// The tail reads the log, and so many beyond what the feed gave it.
        Read(u64),
        /// The stream breaks, and begins anew.
        Break,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (vec(1..60_u64, 1..8), prop::bool::weighted(0.1)).prop_map(|(events, more)| Step::Add(events, more)),
            4 => Just(Step::Take),
            1 => (0..5_u64).prop_map(Step::Read),
            1 => Just(Step::Break),
        ]
    }

    proptest! {
        /// Whatever comes how often in which order: what is handed over follows without a hole and has come; and an event that came after the log was last read
        /// is handed over, or the log is asked to be read.
        #[test]
        fn nothing_is_handed_over_that_does_not_follow_and_nothing_is_missed(steps in vec(step(), 1..60)) {
            let feed = Feed::new(&CdcOptions { max_buffered_events: 12, ..CdcOptions::default() });
            let (mut seen, mut come) = (0, BTreeSet::new());
            for step in steps {
                match step {
                    Step::Add(sequences, more) => {
                        come.extend(sequences.iter().copied());
                        feed.add(vec![Transaction { left_out: u64::from(more), ..transaction(sequences) }]);
                    }
                    Step::Take => match feed.take(seen, None) {
                        Taken::Run { events, .. } => {
                            for event in events {
                                prop_assert_eq!(event.global_sequence, Some(seen + 1));
                                prop_assert!(come.contains(&(seen + 1)));
                                seen += 1;
                            }
                        }
                        // As the log shows it: all that has come, at the least.
                        Taken::ReadTheLog | Taken::Hole => seen = seen.max(come.last().copied().unwrap_or(0)),
                        Taken::Nothing => prop_assert!(come.range(seen + 1..).next().is_none(), "{come:?} after {seen}"),
                    },
                    Step::Read(beyond) => seen = seen.max(come.last().copied().unwrap_or(0)) + beyond,
                    Step::Break => {
                        feed.enter(LiveState::Degraded, None, Some("broken".into()));
                        feed.enter(LiveState::Streaming, Some("s"), None);
                    }
                }
                let buffer = feed.lock();
                prop_assert!(buffer.events.len() <= 12);
                prop_assert_eq!(buffer.bytes, buffer.events.values().map(weight).sum::<usize>());
            }
        }
    }

    fn event(sequence: u64) -> Event {
        let mut event = Event::raw("tested", serde_json::json!({}));
        event.global_sequence = Some(sequence);
        event
    }

    fn transaction(sequences: impl IntoIterator<Item = u64>) -> Transaction {
        Transaction { events: sequences.into_iter().map(event).collect(), ..Transaction::default() }
    }

    fn feed() -> Feed {
        Feed::new(&CdcOptions::default())
    }

    fn run(taken: Taken) -> (Vec<u64>, bool) {
        match taken {
            Taken::Run { events, more } => (events.iter().filter_map(|event| event.global_sequence).collect(), more),
            other => panic!("no run: {other:?}"),
        }
    }

    #[test]
    fn what_comes_in_the_order_of_commits_leaves_in_the_order_of_the_log() {
        let feed = feed();
        assert_eq!(feed.take(4, None), Taken::Nothing);
        feed.add(vec![transaction([7, 8])]);
        assert_eq!(feed.take(4, None), Taken::Hole);
        feed.add(vec![transaction([5]), transaction([10])]);
        assert_eq!(run(feed.take(4, None)), (vec![5], true));
        feed.add(vec![transaction([6])]);
        assert_eq!(run(feed.take(5, None)), (vec![6, 7, 8], true));
        assert_eq!(feed.take(8, None), Taken::Hole);
        assert_eq!(feed.take(10, None), Taken::Nothing, "what was read from the log in the meantime is dropped");
        assert_eq!(feed.lock().bytes, 0);
    }

    #[test]
    fn what_was_committed_in_another_history_is_not_taken() {
        let (feed, old, new) = (feed(), History::new(uuid::Uuid::from_u128(1)), History::new(uuid::Uuid::from_u128(2)));
        feed.stream("s", old);
        assert_eq!(feed.take(0, Some(old)), Taken::ReadTheLog);
        feed.add(vec![transaction([1])]);
        assert_eq!(feed.take(0, Some(new)), Taken::ReadTheLog);
        feed.add(vec![transaction([2])]);
        assert_eq!(feed.take(1, Some(new)), Taken::ReadTheLog, "whatever the old server still sends");
        feed.stream("t", new);
        assert_eq!(feed.take(0, Some(new)), Taken::ReadTheLog);
        feed.add(vec![transaction([1])]);
        assert_eq!(run(feed.take(0, Some(new))), (vec![1], false));
    }

    #[test]
    fn what_comes_twice_is_there_once() {
        let feed = feed();
        feed.add(vec![transaction([1, 2]), transaction([1, 2])]);
        assert_eq!(run(feed.take(0, None)), (vec![1, 2], false));
        assert_eq!(feed.take(2, None), Taken::Nothing);
        assert_eq!(feed.lock().bytes, 0);
    }

    #[test]
    fn what_is_too_much_is_read_from_the_log() {
        let feed = Feed::new(&CdcOptions { max_buffered_events: 3, ..CdcOptions::default() });
        feed.add(vec![transaction(1..=5)]);
        assert_eq!(feed.take(0, None), Taken::ReadTheLog);
        assert_eq!(feed.status().overflows, 1);
        assert_eq!(feed.take(0, None), Taken::Hole, "asked for once: what is here is kept");
        assert_eq!(run(feed.take(2, None)), (vec![3, 4, 5], false));
        feed.add(vec![Transaction { left_out: 1, ..transaction([6]) }]);
        assert_eq!(feed.take(5, None), Taken::ReadTheLog);
        assert_eq!(feed.status().overflows, 2);
    }

    #[test]
    fn a_stream_that_begins_or_ends_has_the_log_read() {
        let feed = feed();
        let mut changes = feed.changes();
        feed.enter(LiveState::Streaming, Some("s"), None);
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert_eq!(feed.take(0, None), Taken::ReadTheLog);
        feed.add(vec![transaction([1])]);
        feed.enter(LiveState::Degraded, None, Some("broken".into()));
        assert!(changes.has_changed().unwrap());
        assert_eq!(feed.take(0, None), Taken::ReadTheLog);
        assert_eq!(feed.take(0, None), Taken::Nothing, "what came before is of no use");
        feed.enter(LiveState::Recovering, None, None);
        assert_eq!(feed.status().error.as_deref(), Some("broken"));
        feed.enter(LiveState::Streaming, Some("s"), None);
        assert_eq!((feed.status().error, feed.status().streams), (None, 2));
        assert_eq!(feed.take(0, None), Taken::ReadTheLog);
        feed.lag(80);
        let told: std::collections::BTreeMap<_, _> = feed.status().metrics().into_iter().collect();
        assert_eq!((told["headwater_live_streaming"], told["headwater_live_degraded"]), (1, 0));
        assert_eq!((told["headwater_live_streams_total"], told["headwater_live_switches_total"]), (2, 3));
        assert_eq!((told["headwater_live_events_received_total"], told["headwater_live_lag_bytes"]), (1, 80));
        feed.enter(LiveState::Recovering, Some("s"), Some("behind".into()));
        assert_eq!(feed.take(0, None), Taken::ReadTheLog, "it has ceased to stream");
        assert_eq!((feed.status().switches, feed.status().lag_bytes), (4, None));
    }
}
