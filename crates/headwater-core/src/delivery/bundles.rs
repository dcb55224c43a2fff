//! Bundles: events that share a transaction, for handlers with one transaction per key.
//!
//! This module is pure. Its input is the admitted events and what is known about the ends of
//! transactions. Its output is batches of bundles, and each bundle is handled in one transaction.
//!
//! The events that one transaction appended for one key are never split: they wait until all of
//! them have come. A batch starts with the first events, up to a limit, and extends to the end of
//! the transactions that appended them. If such an end lies far ahead, or behind a gap that is
//! held, the keys of that transaction wait and other keys go first. Events of a key stay in order,
//! so everything behind a waiting event of the key waits too.
//!
//! Transactions interleave in the log, and any number of other events may lie between two events of
//! one transaction. Two sources tell where a transaction ends. One is the end of the log, if
//! somebody looked at it after the transaction's events became visible. The other is [`Spans`]: it
//! names every transaction that is spread over much of the log, so all others end soon after they
//! begin.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::{Gaps, Segment, Spans};
use crate::{RecordedEvent, missing_runs};

/// A transaction is long if its last event is at least this many sequences after its first.
pub const LONG_SPAN: u64 = 1_000;

/// Other keys go first once this many events wait for the end of a transaction.
const PATIENT_EVENTS: usize = 10_000;
/// Other keys go first once this many bytes wait for the end of a transaction.
const PATIENT_BYTES: usize = 16 * 1024 * 1024;

/// Decides which events belong to one bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bundle {
    /// The events of a key form a bundle.
    Key,
    /// The events of a key and an actor form a bundle. If events of other actors with the same key
    /// come between them, the actor gets several bundles, in order. What one transaction appended
    /// for an actor stays together, with everything that came between.
    KeyAndActor,
}

/// Events to handle, each bundle in one transaction.
#[derive(Debug, Default)]
pub struct BundleBatch {
    /// The bundles, in order of their first events.
    pub bundles: Vec<Vec<Arc<RecordedEvent>>>,
}

/// Admitted events that wait to be handled in bundles.
#[derive(Debug, Default)]
pub struct Bundles {
    /// Waiting events, in order of their sequence.
    waiting: Vec<Waiting>,
    bytes: usize,
    end: End,
    spans: Option<Arc<Spans>>,
    /// Where transactions of waiting events end, as far as that is known.
    ends: HashMap<u64, Bound>,
    /// The first transaction whose end is unknown.
    unknown: Option<WaitingTransaction>,
    /// Whether a look at the end of the log would tell if some transactions have ended.
    needs_look: bool,
}

/// The latest place where a transaction can end.
#[derive(Debug, Clone, Copy)]
struct Bound {
    last: u64,
    /// Whether `last` is exactly the transaction's last event, and not only an upper bound.
    is_there: bool,
}

#[derive(Debug)]
struct Waiting {
    sequence: u64,
    transaction: Option<u64>,
    visible_by: Instant,
    /// When the event was added. Other readers could see it by then.
    came: Instant,
    bytes: usize,
    key: String,
    event: Arc<RecordedEvent>,
    taken: bool,
}

/// What is known about the log after the waiting events.
#[derive(Debug, Default)]
struct End {
    /// Everything that was visible up to here has come.
    position: u64,
    /// The log was looked at up to here.
    seen: u64,
    /// When the log was looked at.
    as_of: Option<Instant>,
    /// Whether nothing else was visible at `as_of`.
    complete: bool,
    /// Whether a gap holds the rest back.
    is_held: bool,
    /// Transactions that have events behind a gap that is held.
    held: HashSet<u64>,
}

/// The waiting events of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingTransaction {
    /// The first waiting event.
    pub first: u64,
    /// The last waiting event.
    pub last: u64,
    /// When all of these events were visible. An earlier look may have missed other events of the
    /// transaction.
    pub visible_by: Instant,
    /// When the last of these events was added.
    pub came: Instant,
}

impl Bundles {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The sequence of the first waiting event.
    pub fn first(&self) -> Option<u64> {
        self.waiting.first().map(|waiting| waiting.sequence)
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many events wait before this sequence.
    pub fn before(&self, sequence: u64) -> usize {
        self.waiting.partition_point(|waiting| waiting.sequence < sequence)
    }

    /// The bytes of all waiting events.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// When all waiting events were visible.
    pub fn visible_by(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.visible_by).max()
    }

    /// The keys of all waiting events.
    pub fn keys(&self) -> HashSet<String> {
        self.waiting.iter().map(|waiting| waiting.key.clone()).collect()
    }

    /// The gaps without the events that wait here: a look into the gaps need not search for those.
    pub fn without_waiting(&self, gaps: &Gaps) -> Gaps {
        let mut waiting = self.waiting.iter().map(|waiting| waiting.sequence).peekable();
        let rest = gaps.iter().flat_map(|(first, last)| {
            while waiting.next_if(|sequence| *sequence < first).is_some() {}
            let within: Vec<u64> = std::iter::from_fn(|| waiting.next_if(|sequence| *sequence <= last)).collect();
            missing_runs(first - 1, last, within)
        });
        rest.collect()
    }

    /// Adds an event with its key, unless it waits already. Everything that was visible together
    /// with the event was visible at `visible_by`; `now` is the present time.
    pub fn add(&mut self, event: &Arc<RecordedEvent>, key: String, bytes: usize, visible_by: Instant, now: Instant) {
        let sequence = event.sequence().get();
        let at = self.before(sequence);
        if self.waiting.get(at).is_some_and(|waiting| waiting.sequence == sequence) {
            return;
        }
        let (transaction, event) = (event.transaction_id, event.clone());
        self.bytes += bytes;
        let waiting = Waiting { sequence, transaction, visible_by, came: now, bytes, key, event, taken: false };
        self.waiting.insert(at, waiting);
    }

    /// Notes what a segment says about the log after the events taken from it. `held`: a gap after
    /// `position` holds back the last events of the segment.
    pub fn note_end(&mut self, segment: &Segment, position: u64, held: bool) {
        let behind = segment.events.partition_point(|event| event.sequence() <= position);
        let behind = if held { &segment.events[behind..] } else { &[] };
        self.end = End {
            position,
            seen: segment.seen.max(position),
            as_of: segment.as_of,
            complete: segment.complete,
            is_held: held,
            held: behind.iter().filter_map(|event| event.transaction_id).collect(),
        };
    }

    /// Notes which transactions are long.
    pub fn note_spans(&mut self, spans: Arc<Spans>) {
        self.spans = Some(spans);
    }

    /// Takes the next batch of about `limit` events, or more. `None`: nothing can go yet. The batch
    /// starts with no event after `barrier`.
    pub fn next_batch(&mut self, by: Bundle, limit: usize, barrier: Option<u64>) -> Option<BundleBatch> {
        let barrier = barrier.unwrap_or(u64::MAX);
        let open = self.open();
        let patient = !self.end.is_held && self.waiting.len() < PATIENT_EVENTS && self.bytes < PATIENT_BYTES;
        let first = self.waiting.iter().take(limit).take_while(|waiting| waiting.sequence <= barrier);
        let goes_on = |waiting: &Waiting| waiting.transaction.is_some_and(|id| open.contains(&id));
        if !(patient && first.into_iter().any(goes_on)) {
            self.choose(&open, limit, barrier);
        }
        let bundles = self.take(by, barrier);
        (!bundles.is_empty()).then_some(BundleBatch { bundles })
    }

    /// Makes room: keeps the first keys, up to `bytes` in total, and drops the events of the other
    /// keys. Those come back when the log is read again. Returns `false` and drops nothing if all
    /// waiting events have the same key.
    pub fn narrow(&mut self, bytes: usize) -> bool {
        let mut sizes: HashMap<&str, usize> = HashMap::new();
        self.waiting.iter().for_each(|waiting| *sizes.entry(&waiting.key).or_default() += waiting.bytes);
        if sizes.len() <= 1 {
            return false;
        }
        let (mut kept, mut left): (HashSet<String>, usize) = (HashSet::new(), bytes);
        for waiting in &self.waiting {
            if kept.contains(&waiting.key) {
                continue;
            }
            let size = sizes[waiting.key.as_str()];
            // Keep at least one key, and drop at least one: otherwise nothing is gained.
            if !kept.is_empty() && (size > left || kept.len() + 1 == sizes.len()) {
                break;
            }
            left = left.saturating_sub(size);
            kept.insert(waiting.key.clone());
        }
        self.waiting.retain(|waiting| kept.contains(&waiting.key));
        self.note_left();
        true
    }

    /// Whether a later look at the log would tell where transactions end.
    pub fn needs_look(&self) -> bool {
        self.needs_look
    }

    /// The transaction that needs [`Spans`], if the end of the log will not tell where it ends.
    pub fn needs_spans(&self, limit: usize) -> Option<WaitingTransaction> {
        let far = |first: u64| self.waiting.len() >= limit || self.end.seen >= first.saturating_add(LONG_SPAN);
        self.unknown.filter(|part| !self.end.complete && far(part.first))
    }

    /// Drops the events that wait after a barrier.
    pub fn end_at(&mut self, barrier: u64) {
        self.waiting.truncate(self.before(barrier.saturating_add(1)));
        self.note_left();
    }

    /// The transactions that may have more events than have come so far.
    fn open(&mut self) -> HashSet<u64> {
        let mut parts: HashMap<u64, WaitingTransaction> = HashMap::new();
        for waiting in &self.waiting {
            let Waiting { sequence, visible_by, came, .. } = *waiting;
            let Some(transaction) = waiting.transaction else { continue };
            let part = parts.entry(transaction).or_insert(WaitingTransaction {
                first: sequence,
                last: sequence,
                visible_by,
                came,
            });
            (part.last, part.visible_by, part.came) = (sequence, part.visible_by.max(visible_by), part.came.max(came));
        }
        (self.unknown, self.needs_look) = (None, false);
        let mut open = HashSet::new();
        for (transaction, part) in parts {
            if let Some(spans) = self.spans.as_ref().filter(|spans| spans.cover(&part)) {
                let long = spans.last.get(&transaction).map(|last| Bound { last: *last, is_there: true });
                let short = Bound { last: part.first + LONG_SPAN - 1, is_there: false };
                self.ends.entry(transaction).or_insert(long.unwrap_or(short));
            }
            let end = self.ends.get(&transaction).copied();
            let (held, seen) = (self.end.held.contains(&transaction), self.end.as_of >= Some(part.visible_by));
            let beyond = |end: Bound| end.last > self.end.seen;
            let ended = end.is_some_and(|end| end.last <= self.end.position)
                || seen && !held && (self.end.complete || !end.is_none_or(beyond));
            if ended {
                continue;
            }
            open.insert(transaction);
            if seen && held {
                continue;
            }
            self.needs_look = true;
            if end.is_none() && self.unknown.is_none_or(|other| part.first < other.first) {
                self.unknown = Some(part);
            }
        }
        // If the log goes on, it is read without a look at its end, unless a gap holds the rest
        // back.
        self.needs_look &= self.end.is_held || !self.ends.values().any(|end| end.is_there && end.last > self.end.seen);
        open
    }

    /// Marks the events of the next batch.
    fn choose(&mut self, open: &HashSet<u64>, limit: usize, barrier: u64) {
        let waiting = &self.waiting;
        let mut keys: HashMap<&str, Vec<usize>> = HashMap::new();
        waiting.iter().enumerate().for_each(|(at, event)| keys.entry(&event.key).or_default().push(at));
        // For each key: how many events can go, and how many go.
        let mut lines: HashMap<&str, (usize, usize)> = HashMap::new();
        let mut parts: HashMap<u64, Vec<usize>> = HashMap::new();
        for (key, line) in &keys {
            let free = self.free(line, open);
            lines.insert(key, (free, 0));
            for at in &line[..free] {
                waiting[*at].transaction.into_iter().for_each(|id| parts.entry(id).or_default().push(*at));
            }
        }
        let mut choose = |at: usize, next: &mut Vec<usize>| {
            let key = waiting[at].key.as_str();
            let (line, (free, go)) = (&keys[key], lines.get_mut(key).expect("each key has a line"));
            let place = line.partition_point(|other| *other < at);
            if place < *free && place >= *go {
                next.extend_from_slice(&line[*go..=place]);
                *go = place + 1;
            }
        };
        let (mut chosen, mut next) = (Vec::new(), Vec::new());
        for (at, event) in waiting.iter().enumerate() {
            if chosen.len() >= limit || event.sequence > barrier {
                break;
            }
            choose(at, &mut next);
            // Also take the other events of the transactions that were chosen.
            while let Some(at) = next.pop() {
                chosen.push(at);
                let part = waiting[at].transaction.and_then(|id| parts.remove(&id));
                part.into_iter().flatten().for_each(|at| choose(at, &mut next));
            }
        }
        chosen.into_iter().for_each(|at| self.waiting[at].taken = true);
    }

    /// How many events at the front of `line` can go. `line` has all events of one key. The events
    /// before the first open transaction can go, unless their transactions have events further
    /// back.
    fn free(&self, line: &[usize], open: &HashSet<u64>) -> usize {
        let transaction = |at: &usize| self.waiting[*at].transaction;
        let is_open = |at: &usize| transaction(at).is_some_and(|id| open.contains(&id));
        let mut free = line.iter().position(is_open).unwrap_or(line.len());
        while free < line.len() {
            let behind: HashSet<u64> = line[free..].iter().filter_map(transaction).collect();
            match line[..free].iter().position(|at| transaction(at).is_some_and(|id| behind.contains(&id))) {
                Some(place) => free = place,
                None => break,
            }
        }
        free
    }

    fn take(&mut self, by: Bundle, barrier: u64) -> Vec<Vec<Arc<RecordedEvent>>> {
        let mut keys: HashMap<String, usize> = HashMap::new();
        let mut bundles: Vec<Vec<Arc<RecordedEvent>>> = Vec::new();
        for Waiting { key, event, .. } in self.waiting.extract_if(.., |waiting| waiting.taken) {
            let bundle = *keys.entry(key).or_insert_with(|| {
                bundles.push(Vec::new());
                bundles.len() - 1
            });
            bundles[bundle].push(event);
        }
        // An event after the barrier keeps waiting only if its key has events before the barrier.
        let place = self.before(barrier.saturating_add(1));
        if place < self.waiting.len() {
            let before: HashSet<String> = self.waiting[..place].iter().map(|waiting| waiting.key.clone()).collect();
            self.waiting.retain(|waiting| waiting.sequence <= barrier || before.contains(&waiting.key));
        }
        self.note_left();
        if by == Bundle::KeyAndActor {
            bundles = bundles.into_iter().flat_map(by_actor).collect();
            bundles.sort_by_key(|bundle| bundle[0].sequence());
        }
        bundles
    }

    fn note_left(&mut self) {
        self.bytes = self.waiting.iter().map(|waiting| waiting.bytes).sum();
        let left: HashSet<u64> = self.waiting.iter().filter_map(|waiting| waiting.transaction).collect();
        self.ends.retain(|transaction, _| left.contains(transaction));
    }
}

/// Splits the events of a key where the actor changes, unless a transaction has more events of the
/// same actor further back.
fn by_actor(events: Vec<Arc<RecordedEvent>>) -> Vec<Vec<Arc<RecordedEvent>>> {
    let mut last: HashMap<(Option<u64>, Option<String>), usize> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        last.insert((event.transaction_id, event.actor_id.clone()), at);
    }
    let mut bundles: Vec<Vec<Arc<RecordedEvent>>> = Vec::new();
    let mut together = 0;
    for (at, event) in events.into_iter().enumerate() {
        let goes_on = last[&(event.transaction_id, event.actor_id.clone())];
        let same = |bundle: &&mut Vec<Arc<RecordedEvent>>| {
            at <= together || bundle.last().is_some_and(|previous| previous.actor_id == event.actor_id)
        };
        match bundles.last_mut().filter(same) {
            Some(bundle) => bundle.push(event),
            None => bundles.push(vec![event]),
        }
        together = together.max(goes_on);
    }
    bundles
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Event;

    /// Sequence, transaction, key, actor.
    type Row = (u64, u64, &'static str, &'static str);

    fn event((sequence, transaction, key, actor): Row) -> Arc<RecordedEvent> {
        let event = Event {
            global_sequence: Some(sequence),
            transaction_id: Some(transaction),
            key: Some(key.into()),
            actor_id: (!actor.is_empty()).then(|| actor.into()),
            recorded_at: Some(chrono::Utc::now()),
            ..Event::raw("E", serde_json::json!({}))
        };
        Arc::new(RecordedEvent::new(event).unwrap())
    }

    fn add(bundles: &mut Bundles, rows: &[Row], visible_by: Instant) {
        for row in rows {
            bundles.add(&event(*row), row.2.into(), 100, visible_by, visible_by);
        }
    }

    fn filled(rows: &[Row], now: Instant) -> Bundles {
        let mut bundles = Bundles::default();
        add(&mut bundles, rows, now);
        bundles
    }

    /// Notes that the log ends here, as seen at `as_of`.
    fn ends(bundles: &mut Bundles, as_of: Instant) {
        let end = Segment { complete: true, as_of: Some(as_of), ..Segment::default() };
        bundles.note_end(&end, 0, false);
    }

    fn next(bundles: &mut Bundles, by: Bundle, limit: usize) -> Option<Vec<Vec<u64>>> {
        bundles.next_batch(by, limit, None).map(|batch| sequences(&batch))
    }

    fn sequences(batch: &BundleBatch) -> Vec<Vec<u64>> {
        let of = |bundle: &Vec<Arc<RecordedEvent>>| bundle.iter().map(|event| event.sequence().get()).collect();
        batch.bundles.iter().map(of).collect()
    }

    /// Adds events that each have their own key and transaction.
    fn others(bundles: &mut Bundles, sequences: impl IntoIterator<Item = u64>, now: Instant) {
        for sequence in sequences {
            bundles.add(&event((sequence, sequence, "", "")), sequence.to_string(), 100, now, now);
        }
    }

    /// Notes that the log was read up to `position` and goes on.
    fn reads_to(bundles: &mut Bundles, position: u64) {
        bundles.note_end(&Segment { seen: position, ..Segment::default() }, position, false);
    }

    /// Notes that these transactions are long and where they end. Covers everything that came by
    /// `begun`.
    fn long(bundles: &mut Bundles, last: &[(u64, u64)], begun: Instant) {
        let last = last.iter().copied().collect();
        bundles.note_spans(Arc::new(Spans { up_to: u64::MAX, begun: Some(begun), last, ..Spans::default() }));
    }

    #[test]
    fn events_of_a_key_are_a_bundle_in_order_of_their_first() {
        let now = Instant::now();
        let mut bundles = filled(&[(1, 1, "a", ""), (2, 2, "b", ""), (3, 3, "a", ""), (4, 4, "c", "")], now);
        assert_eq!(next(&mut bundles, Bundle::Key, 10), None, "the end is not known");
        ends(&mut bundles, now);
        assert_eq!(next(&mut bundles, Bundle::Key, 10), Some(vec![vec![1, 3], vec![2], vec![4]]));
        assert!(bundles.is_empty());
        assert_eq!((next(&mut bundles, Bundle::Key, 10), bundles.bytes()), (None, 0));
    }

    #[test]
    fn an_actors_events_are_a_bundle_as_long_as_no_other_comes_between() {
        let now = Instant::now();
        let rows =
            [(1, 1, "k", "x"), (2, 2, "k", "x"), (3, 3, "k", "y"), (4, 4, "k", "x"), (5, 5, "j", "y"), (6, 6, "k", "")];
        let mut bundles = filled(&rows, now);
        ends(&mut bundles, now);
        let order = vec![vec![1, 2], vec![3], vec![4], vec![5], vec![6]];
        assert_eq!(next(&mut bundles, Bundle::KeyAndActor, 10), Some(order));
    }

    #[test]
    fn what_a_transaction_appended_stays_together_with_what_came_between() {
        let now = Instant::now();
        let rows = [
            (1, 1, "k", "x"),
            (2, 2, "k", "y"),
            (3, 1, "k", "x"),
            (4, 2, "k", "y"),
            (5, 5, "k", "x"),
            (6, 6, "k", "y"),
        ];
        let mut bundles = filled(&rows, now);
        ends(&mut bundles, now);
        assert_eq!(next(&mut bundles, Bundle::KeyAndActor, 10), Some(vec![vec![1, 2, 3, 4], vec![5], vec![6]]));
    }

    #[test]
    fn a_batch_goes_on_to_the_end_of_its_transactions() {
        let now = Instant::now();
        let mut bundles = Bundles::default();
        (1..=5_000).for_each(|sequence| add(&mut bundles, &[(sequence, 7, "k", "")], now));
        others(&mut bundles, 5_001..=6_200, now);
        reads_to(&mut bundles, 6_200);
        assert_eq!(next(&mut bundles, Bundle::Key, 100), None);
        let whole = WaitingTransaction { first: 1, last: 5_000, visible_by: now, came: now };
        assert_eq!(bundles.needs_spans(100), Some(whole));
        long(&mut bundles, &[(7, 5_000)], now);
        let batch = next(&mut bundles, Bundle::Key, 100).expect("its end is known");
        assert_eq!((batch.len(), batch[0].len()), (1, 5_000));
        let batch = next(&mut bundles, Bundle::Key, 201).expect("those that are short have ended");
        assert!(batch.concat().into_iter().eq(5_001..=5_201));
        assert_eq!((next(&mut bundles, Bundle::Key, 1), bundles.needs_spans(1)), (None, None), "more has to be read");
        ends(&mut bundles, now);
        assert_eq!(next(&mut bundles, Bundle::Key, 2_000).map(|batch| batch.len()), Some(999));
    }

    #[test]
    fn a_short_transaction_may_have_ended_before_as_much_follows_as_it_may_be_long() {
        let now = Instant::now();
        let mut bundles = filled(&[(1, 1, "a", ""), (2, 2, "b", "")], now);
        reads_to(&mut bundles, 2);
        long(&mut bundles, &[], now);
        assert_eq!(next(&mut bundles, Bundle::Key, 1), None, "nobody has seen the end of the log");
        assert!(bundles.needs_look());
        ends(&mut bundles, now);
        assert_eq!(next(&mut bundles, Bundle::Key, 1), Some(vec![vec![1]]));
    }

    #[test]
    fn however_much_lies_between_a_transaction_is_not_split_and_others_do_not_wait() {
        let now = Instant::now();
        let mut bundles = filled(&[(1, 20_001, "k", ""), (2, 20_002, "k", ""), (3, 3, "j", "")], now);
        others(&mut bundles, 4..=9_000, now);
        reads_to(&mut bundles, 9_000);
        long(&mut bundles, &[(20_001, 15_000)], now);
        assert_eq!((next(&mut bundles, Bundle::Key, 100), bundles.needs_look()), (None, false), "its end may be near");
        others(&mut bundles, 9_001..=10_001, now);
        reads_to(&mut bundles, 10_001);
        let batch = next(&mut bundles, Bundle::Key, 10_000).expect("those of other keys");
        assert!(batch.concat().into_iter().eq(3..=9_002));
        others(&mut bundles, 10_002..=14_999, now);
        add(&mut bundles, &[(15_000, 20_001, "k", "")], now);
        reads_to(&mut bundles, 15_000);
        let batch = next(&mut bundles, Bundle::Key, 1).expect("all has come");
        assert_eq!(batch, [[1, 2, 15_000]]);
    }

    #[test]
    fn what_is_known_of_long_transactions_counts_for_what_was_there_then() {
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let mut bundles = filled(&[(10, 1, "a", "")], later);
        reads_to(&mut bundles, 5_000);
        long(&mut bundles, &[], now);
        assert_eq!(next(&mut bundles, Bundle::Key, 10), None, "it came later");
        let spans = Spans { after: 10, up_to: u64::MAX, settled: 5_000, ..Spans::default() };
        bundles.note_spans(Arc::new(spans.clone()));
        assert_eq!(next(&mut bundles, Bundle::Key, 10), None, "it lies before");
        bundles.note_spans(Arc::new(Spans { after: 9, up_to: 9, ..spans.clone() }));
        assert_eq!(next(&mut bundles, Bundle::Key, 10), None, "there were too many");
        bundles.note_spans(Arc::new(Spans { after: 9, settled: 9, ..spans.clone() }));
        assert_eq!(next(&mut bundles, Bundle::Key, 10), None, "it was not settled");
        bundles.note_spans(Arc::new(Spans { after: 9, ..spans }));
        assert_eq!(next(&mut bundles, Bundle::Key, 10), Some(vec![vec![10]]));
    }

    #[test]
    fn finished_events_wait_for_those_of_their_transaction_behind_one_that_is_not() {
        let now = Instant::now();
        let rows = [(1, 1, "k", ""), (2, 2, "k", ""), (3, 3, "k", ""), (4, 2, "k", ""), (5, 2, "j", "")];
        let mut bundles = filled(&rows, now);
        bundles.note_end(&Segment { seen: 4_000, ..Segment::default() }, 3_000, true);
        long(&mut bundles, &[(3, 9_000)], now);
        assert_eq!(next(&mut bundles, Bundle::Key, 10), Some(vec![vec![1], vec![5]]));
        assert_eq!(next(&mut bundles, Bundle::Key, 10), None);
        reads_to(&mut bundles, 9_000);
        assert_eq!(next(&mut bundles, Bundle::Key, 10), Some(vec![vec![2, 3, 4]]));
    }

    #[test]
    fn behind_a_barrier_only_what_is_in_one_with_what_lies_before_goes() {
        let now = Instant::now();
        let rows =
            [(1, 1, "a", ""), (2, 2, "b", ""), (3, 3, "a", ""), (4, 1, "a", ""), (5, 5, "a", ""), (6, 6, "b", "")];
        let mut bundles = filled(&rows, now);
        ends(&mut bundles, now);
        let batch = bundles.next_batch(Bundle::Key, 1, Some(2)).expect("one");
        assert_eq!(sequences(&batch), [[1, 3, 4]]);
        assert_eq!(bundles.len(), 2, "nothing of the first key waits");
        let batch = bundles.next_batch(Bundle::Key, 10, Some(2)).expect("the other");
        assert_eq!((sequences(&batch), bundles.is_empty()), (vec![vec![2]], true));
    }

    #[test]
    fn what_lies_behind_a_barrier_is_asked_for_where_it_holds_up_what_lies_before() {
        let now = Instant::now();
        let mut bundles = filled(&[(1, 1, "a", ""), (3, 3, "a", ""), (5, 1, "a", "")], now);
        reads_to(&mut bundles, 5);
        long(&mut bundles, &[(1, 5)], now);
        assert!(bundles.next_batch(Bundle::Key, 10, Some(2)).is_none(), "the third may go on");
        assert!(bundles.needs_look());
        ends(&mut bundles, now);
        let batch = bundles.next_batch(Bundle::Key, 10, Some(2)).expect("all have ended");
        assert_eq!(sequences(&batch), [[1, 3, 5]]);
    }

    #[test]
    fn what_lies_between_is_left_unless_its_key_follows() {
        let now = Instant::now();
        let rows = [
            (1, 1, "a", ""),
            (2, 2, "b", ""),
            (3, 3, "a", ""),
            (4, 4, "c", ""),
            (5, 1, "a", ""),
            (6, 3, "d", ""),
            (7, 7, "a", ""),
        ];
        let mut bundles = filled(&rows, now);
        ends(&mut bundles, now);
        assert_eq!(next(&mut bundles, Bundle::Key, 1), Some(vec![vec![1, 3, 5], vec![6]]));
        assert_eq!(next(&mut bundles, Bundle::Key, 1), Some(vec![vec![2]]));
        assert_eq!(next(&mut bundles, Bundle::Key, 2), Some(vec![vec![4], vec![7]]));
    }

    #[test]
    fn the_end_counts_if_it_was_seen_after_what_waits() {
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let mut bundles = filled(&[(5, 1, "a", "")], now);
        add(&mut bundles, &[(3, 1, "a", "")], later);
        ends(&mut bundles, now);
        assert_eq!(
            next(&mut bundles, Bundle::Key, 10),
            None,
            "its transaction may have more that nobody looked for since"
        );
        assert!(bundles.needs_look());
        ends(&mut bundles, later);
        assert_eq!(next(&mut bundles, Bundle::Key, 10), Some(vec![vec![3, 5]]));
    }

    #[test]
    fn a_key_waits_while_its_transaction_goes_on_behind_a_held_gap() {
        let now = Instant::now();
        let mut bundles = filled(&[(1, 1, "a", ""), (2, 2, "b", ""), (3, 3, "a", "")], now);
        let behind = |sequence| Segment {
            events: vec![event((2, 2, "b", "")), event((sequence, 1, "z", ""))],
            complete: true,
            as_of: Some(now),
            ..Segment::default()
        };
        bundles.note_end(&behind(5), 3, true);
        assert_eq!(next(&mut bundles, Bundle::Key, 10), Some(vec![vec![2]]));
        assert_eq!(next(&mut bundles, Bundle::Key, 10), None);
        assert!(!bundles.needs_look(), "a look tells nothing new");
        bundles.note_end(&behind(5), 5, false);
        assert_eq!(next(&mut bundles, Bundle::Key, 10), Some(vec![vec![1, 3]]));
    }

    #[test]
    fn without_room_the_first_keys_are_kept_whole() {
        let now = Instant::now();
        let rows = [(1, 1, "a", ""), (2, 1, "b", ""), (3, 1, "a", ""), (4, 1, "c", ""), (5, 1, "b", "")];
        let mut bundles = filled(&rows, now);
        assert_eq!(bundles.bytes(), 500);
        assert!(bundles.narrow(300));
        assert_eq!((bundles.bytes(), bundles.keys()), (200, HashSet::from(["a".to_owned()])));
        assert!(!bundles.narrow(100), "one key is not taken apart");
        ends(&mut bundles, now);
        assert_eq!(next(&mut bundles, Bundle::Key, 10), Some(vec![vec![1, 3]]));
        let mut bundles = filled(&rows, now);
        assert!(bundles.narrow(10));
        assert_eq!(bundles.keys(), HashSet::from(["a".to_owned()]), "at least one");
        let mut bundles = filled(&rows, now);
        assert!(bundles.narrow(10_000));
        assert_eq!(bundles.len(), 4, "at least one goes");
    }

    #[test]
    fn what_waits_is_not_looked_for() {
        let now = Instant::now();
        let bundles = filled(&[(3, 1, "a", ""), (4, 1, "a", ""), (9, 1, "a", ""), (12, 1, "a", "")], now);
        let gaps: Gaps = [(2, 5), (8, 8), (9, 9), (11, 14)].into_iter().collect();
        assert_eq!(bundles.without_waiting(&gaps).ranges(), [(2, 2), (5, 5), (8, 8), (11, 11), (13, 14)]);
        assert_eq!(Bundles::default().without_waiting(&gaps), gaps);
    }

    #[test]
    fn an_event_waits_once() {
        let now = Instant::now();
        let mut bundles = filled(&[(1, 1, "a", ""), (1, 1, "a", "")], now);
        ends(&mut bundles, now);
        assert_eq!(next(&mut bundles, Bundle::Key, 10), Some(vec![vec![1]]));
    }
}
