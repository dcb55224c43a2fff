//! Between the WAL and a node's tail: events that have arrived, by their place in the log.
//!
//! Events arrive in commit order and are taken in log order. The taker says how far it has come,
//! and which holes it has up to there. It gets what fills the holes and what follows, and the rest
//! is dropped. It gets something behind a new hole only if it asks for that, because the event in
//! the hole may still be on its way.
//!
//! The feed never says that something is missing forever. It only reports commits, and it may lack
//! one: a row that could not be decoded, or a table that is not published. The taker proves holes
//! with the log itself. The feed is bounded: when it is full, the lowest events are dropped, and
//! the log has to be read.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;
use std::sync::Mutex;

use chrono::Utc;
use headwater_core::{Gaps, History, RecordedEvent};
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
    events: BTreeMap<u64, RecordedEvent>,
    bytes: usize,
    /// Whether something is missing here: then the log has to be read.
    incomplete: bool,
    /// The history in which the events were committed.
    history: Option<History>,
}

/// How far to take events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Only events that fill known holes.
    Holes,
    /// Also events that follow without a hole.
    Run,
    /// Also events that lie behind a hole.
    All,
}

/// The result of [`Feed::take`].
#[derive(Debug, Default, PartialEq)]
pub struct Taken {
    /// Events that filled holes, in order.
    pub filled: Vec<RecordedEvent>,
    /// Events that follow, in order.
    pub events: Vec<RecordedEvent>,
    /// What is left to take.
    pub rest: Rest,
}

/// What is left to take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rest {
    /// Nothing is left.
    #[default]
    Nothing,
    /// More events follow.
    More,
    /// Events are here, but the next one is not.
    BehindHole,
}

impl Feed {
    /// Creates an empty feed.
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

    /// Returns what the source is doing.
    pub fn status(&self) -> LiveStatus {
        self.status.borrow().clone()
    }

    /// Changes with the status.
    pub fn statuses(&self) -> watch::Receiver<LiveStatus> {
        self.status.subscribe()
    }

    /// Returns whether events come from the WAL at present, so that other wake-ups are not needed.
    pub fn is_streaming(&self) -> bool {
        self.status.borrow().state == LiveState::Streaming
    }

    /// Takes what is in `holes` and what follows `after`, for a reader of the log in a history that
    /// has everything else up to `after`. Events of another history are dropped. `None`: the log
    /// has to be read, because the stream has begun or ended, or something was not kept.
    pub fn take(&self, after: u64, holes: &Gaps, reach: Reach, history: Option<History>) -> Option<Taken> {
        let mut buffer = self.lock();
        if buffer.history != history {
            (buffer.events, buffer.bytes, buffer.incomplete) = (BTreeMap::new(), 0, true);
        }
        if std::mem::take(&mut buffer.incomplete) {
            return None;
        }
        let rest = buffer.events.split_off(&after.saturating_add(1));
        let before = std::mem::replace(&mut buffer.events, rest);
        buffer.bytes -= before.values().map(weight).sum::<usize>();
        let filled: Vec<_> =
            before.into_iter().filter(|(sequence, _)| holes.contains(*sequence)).map(|(_, event)| event).collect();
        let (mut events, mut next) = (Vec::new(), after.saturating_add(1));
        while reach != Reach::Holes && events.len() < MAX_RUN {
            let entry = buffer.events.first_entry().filter(|entry| reach == Reach::All || *entry.key() == next);
            let Some((sequence, event)) = entry.map(OccupiedEntry::remove_entry) else { break };
            buffer.bytes -= weight(&event);
            events.push(event);
            next = sequence.saturating_add(1);
        }
        let rest = match buffer.events.first_key_value() {
            None => Rest::Nothing,
            Some((first, _)) if *first == next => Rest::More,
            Some(_) => Rest::BehindHole,
        };
        drop(buffer);
        self.status.send_if_modified(|status| {
            status.taken += (filled.len() + events.len()) as u64;
            false
        });
        Some(Taken { filled, events, rest })
    }

    /// Returns the history in which its events were committed; `None`: no stream has begun yet.
    pub fn history(&self) -> Option<History> {
        self.lock().history
    }

    /// Adds transactions that were committed, and that everybody can see by now.
    pub fn add(&self, transactions: Vec<Transaction>) {
        let (mut received, mut overflowed) = (0, false);
        let mut buffer = self.lock();
        for transaction in transactions {
            buffer.incomplete |= transaction.left_out > 0 || !transaction.poison.is_empty();
            received += transaction.events.len() as u64 + transaction.left_out;
            overflowed |= transaction.left_out > 0;
            for event in transaction.events {
                let bytes = weight(&event);
                if let Some(same) = buffer.events.insert(event.sequence().get(), event) {
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

    /// Records how much WAL is sent and not safe yet.
    pub(crate) fn lag(&self, bytes: u64) {
        self.status.send_if_modified(|status| {
            status.lag_bytes = Some(bytes);
            false
        });
    }

    /// Forgets everything: it may belong to another history.
    pub fn clear(&self) {
        let mut buffer = self.lock();
        *buffer = Buffer { incomplete: true, history: buffer.history, ..Buffer::default() };
        drop(buffer);
        self.wake();
    }

    /// Records that a stream has begun, in a history that was read before.
    pub(crate) fn stream(&self, slot: &str, history: History) {
        self.lock().history = Some(history);
        self.enter(LiveState::Streaming, Some(slot), None);
    }

    /// Records what the source does. When it begins or stops to stream, the taker has to read the
    /// log.
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

    /// Records what may go wrong.
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

    use headwater_core::Event;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// What may happen between the WAL and the tail.
    #[derive(Debug, Clone)]
    enum Step {
        /// A transaction with these events arrives, perhaps not for the first time, perhaps with
        /// more than is kept.
        Add(Vec<u64>, bool),
        Take(Reach),
        /// The tail reads the log, and this many events beyond what the feed gave it.
        Read(u64),
        /// The stream breaks, and begins anew.
        Break,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (vec(1..60_u64, 1..8), prop::bool::weighted(0.1)).prop_map(|(events, more)| Step::Add(events, more)),
            4 => prop::sample::select(vec![Reach::Holes, Reach::Run, Reach::All]).prop_map(Step::Take),
            1 => (0..5_u64).prop_map(Step::Read),
            1 => Just(Step::Break),
        ]
    }

    proptest! {
        /// Whatever arrives, in any order and any number of times: what is handed over was missing,
        /// and has arrived; nothing behind a hole is handed over unless it was asked for; and an
        /// event that arrived after the last read of the log is handed over, or the feed asks for a
        /// read of the log.
        #[test]
        fn nothing_is_handed_over_twice_and_nothing_is_missed(steps in vec(step(), 1..60)) {
            let feed = Feed::new(&CdcOptions { max_buffered_events: 12, ..CdcOptions::default() });
            let (mut seen, mut come, mut holes) = (0, BTreeSet::new(), Gaps::new());
            for step in steps {
                match step {
                    Step::Add(sequences, more) => {
                        come.extend(sequences.iter().copied());
                        feed.add(vec![Transaction { left_out: u64::from(more), ..transaction(sequences) }]);
                    }
                    Step::Take(reach) => match feed.take(seen, &holes, reach, None) {
                        Some(Taken { filled, events, rest }) => {
                            for sequence in filled.iter().map(|event| event.sequence().get()) {
                                prop_assert!(come.contains(&sequence) && holes.contains(sequence));
                                holes.remove(sequence, sequence);
                            }
                            for sequence in events.iter().map(|event| event.sequence().get()) {
                                prop_assert!(come.contains(&sequence) && sequence > seen);
                                prop_assert!(sequence == seen + 1 || reach == Reach::All);
                                holes.insert(seen + 1, sequence - 1);
                                seen = sequence;
                            }
                            prop_assert!(reach != Reach::Holes || events.is_empty());
                            let next = come.range(seen + 1..).next().copied();
                            prop_assert_eq!(rest, match next {
                                None => Rest::Nothing,
                                Some(next) if next == seen + 1 => Rest::More,
                                Some(_) => Rest::BehindHole,
                            });
                            prop_assert!(reach != Reach::Run || rest != Rest::More);
                            prop_assert!(reach != Reach::All || rest == Rest::Nothing);
                            prop_assert!(come.range(..=seen).all(|sequence| !holes.contains(*sequence)));
                        }
                        // What the log shows: at least everything that has arrived.
                        None => read(&come, &mut holes, &mut seen, 0),
                    },
                    Step::Read(beyond) => read(&come, &mut holes, &mut seen, beyond),
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

    /// Updates what a reader of the log knows that reads this many events beyond.
    fn read(come: &BTreeSet<u64>, holes: &mut Gaps, seen: &mut u64, beyond: u64) {
        let last = come.last().copied().unwrap_or(0).max(*seen);
        let missing = (*seen + 1..=last).filter(|sequence| !come.contains(sequence));
        missing.for_each(|sequence| holes.insert(sequence, sequence));
        come.iter().for_each(|sequence| _ = holes.remove(*sequence, *sequence));
        *seen = last + beyond;
    }

    fn event(sequence: u64) -> RecordedEvent {
        let mut event = Event::raw("tested", serde_json::json!({}));
        (event.global_sequence, event.recorded_at) = (Some(sequence), Some(Utc::now()));
        RecordedEvent::new(event).unwrap()
    }

    fn transaction(sequences: impl IntoIterator<Item = u64>) -> Transaction {
        Transaction { events: sequences.into_iter().map(event).collect(), ..Transaction::default() }
    }

    fn feed() -> Feed {
        Feed::new(&CdcOptions::default())
    }

    fn take(feed: &Feed, after: u64) -> Option<Taken> {
        feed.take(after, &Gaps::new(), Reach::Run, None)
    }

    fn sequences(events: &[RecordedEvent]) -> Vec<u64> {
        events.iter().map(|event| event.sequence().get()).collect()
    }

    fn run(taken: Option<Taken>) -> (Vec<u64>, Rest) {
        let taken = taken.expect("the log need not be read");
        assert_eq!(taken.filled, []);
        (sequences(&taken.events), taken.rest)
    }

    #[test]
    fn what_comes_in_the_order_of_commits_leaves_in_the_order_of_the_log() {
        let feed = feed();
        assert_eq!(run(take(&feed, 4)), (vec![], Rest::Nothing));
        feed.add(vec![transaction([7, 8])]);
        assert_eq!(run(take(&feed, 4)), (vec![], Rest::BehindHole));
        feed.add(vec![transaction([5]), transaction([10])]);
        assert_eq!(run(take(&feed, 4)), (vec![5], Rest::BehindHole));
        feed.add(vec![transaction([6])]);
        assert_eq!(run(take(&feed, 5)), (vec![6, 7, 8], Rest::BehindHole));
        assert_eq!(run(take(&feed, 8)), (vec![], Rest::BehindHole));
        assert_eq!(
            run(take(&feed, 10)),
            (vec![], Rest::Nothing),
            "what was read from the log in the meantime is dropped"
        );
        assert_eq!(feed.lock().bytes, 0);
    }

    #[test]
    fn what_lies_behind_holes_is_taken_if_asked_for_and_fills_them_later() {
        let feed = feed();
        feed.add(vec![transaction([6, 8, 9]), transaction([12])]);
        let holes: Gaps = [(3, 3)].into_iter().collect();
        let all = feed.take(4, &holes, Reach::All, None).unwrap();
        assert_eq!((sequences(&all.events), all.rest), (vec![6, 8, 9, 12], Rest::Nothing));
        let holes: Gaps = [(3, 3), (5, 5), (7, 7), (10, 11)].into_iter().collect();
        feed.add(vec![transaction([8, 10, 14]), transaction([3, 13])]);
        let fill = feed.take(12, &holes, Reach::Holes, None).unwrap();
        assert_eq!((sequences(&fill.filled), fill.events, fill.rest), (vec![3, 10], vec![], Rest::More));
        assert_eq!(run(feed.take(12, &holes, Reach::Run, None)), (vec![13, 14], Rest::Nothing));
        assert_eq!((feed.lock().bytes, feed.status().taken), (0, 8));
    }

    #[test]
    fn what_was_committed_in_another_history_is_not_taken() {
        let (feed, old, new) = (feed(), History::new(uuid::Uuid::from_u128(1)), History::new(uuid::Uuid::from_u128(2)));
        let take = |after, history| feed.take(after, &Gaps::new(), Reach::All, Some(history));
        feed.stream("s", old);
        assert_eq!(take(0, old), None);
        feed.add(vec![transaction([1])]);
        assert_eq!(take(0, new), None);
        feed.add(vec![transaction([2])]);
        assert_eq!(take(1, new), None, "whatever the old server still sends");
        feed.stream("t", new);
        assert_eq!(take(0, new), None);
        feed.add(vec![transaction([1])]);
        assert_eq!(run(take(0, new)), (vec![1], Rest::Nothing));
    }

    #[test]
    fn what_comes_twice_is_there_once() {
        let feed = feed();
        feed.add(vec![transaction([1, 2]), transaction([1, 2])]);
        assert_eq!(run(take(&feed, 0)), (vec![1, 2], Rest::Nothing));
        assert_eq!(run(take(&feed, 2)), (vec![], Rest::Nothing));
        assert_eq!(feed.lock().bytes, 0);
    }

    #[test]
    fn what_is_too_much_is_read_from_the_log() {
        let feed = Feed::new(&CdcOptions { max_buffered_events: 3, ..CdcOptions::default() });
        feed.add(vec![transaction(1..=5)]);
        assert_eq!(take(&feed, 0), None);
        assert_eq!(feed.status().overflows, 1);
        assert_eq!(run(take(&feed, 0)), (vec![], Rest::BehindHole), "asked for once: what is here is kept");
        assert_eq!(run(take(&feed, 2)), (vec![3, 4, 5], Rest::Nothing));
        feed.add(vec![Transaction { left_out: 1, ..transaction([6]) }]);
        assert_eq!(take(&feed, 5), None);
        assert_eq!(feed.status().overflows, 2);
    }

    #[test]
    fn a_stream_that_begins_or_ends_has_the_log_read() {
        let feed = feed();
        let mut changes = feed.changes();
        feed.enter(LiveState::Streaming, Some("s"), None);
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert_eq!(take(&feed, 0), None);
        feed.add(vec![transaction([1])]);
        feed.enter(LiveState::Degraded, None, Some("broken".into()));
        assert!(changes.has_changed().unwrap());
        assert_eq!(take(&feed, 0), None);
        assert_eq!(take(&feed, 0), Some(Taken::default()), "what came before is of no use");
        feed.enter(LiveState::Recovering, None, None);
        assert_eq!(feed.status().error.as_deref(), Some("broken"));
        feed.enter(LiveState::Streaming, Some("s"), None);
        assert_eq!((feed.status().error, feed.status().streams), (None, 2));
        assert_eq!(take(&feed, 0), None);
        feed.lag(80);
        let told: std::collections::BTreeMap<_, _> = feed.status().metrics().into_iter().collect();
        assert_eq!((told["headwater_live_streaming"], told["headwater_live_degraded"]), (1, 0));
        assert_eq!((told["headwater_live_streams_total"], told["headwater_live_switches_total"]), (2, 3));
        assert_eq!((told["headwater_live_events_received_total"], told["headwater_live_lag_bytes"]), (1, 80));
        feed.enter(LiveState::Recovering, Some("s"), Some("behind".into()));
        assert_eq!(take(&feed, 0), None, "it has ceased to stream");
        assert_eq!((feed.status().switches, feed.status().lag_bytes), (4, None));
    }
}
