//! Groups: which events share a transaction, when a transaction holds the events of a key.
//!
//! Pure: what was admitted comes in, and what is known of where transactions end; batches come out, each group of which is handled in a
//! transaction of its own. What one transaction appended of a key is never handled in two parts: its events wait until all of them are there. A batch
//! begins with the first events, up to a limit, and goes on to the end of the transactions that appended them. Where one of those ends behind much else, or behind
//! a gap that is held, its keys wait, and others go first. Events of a key stay in order, so what follows an event that waits, waits too.
//!
//! Transactions interleave in the log, and any number of events of others may lie between two of one. Where one ends is known from the end of
//! the log, if that was seen after its events were; or from [`Spans`]: all transactions that are spread over much of the log, in which those that it does not name
//! are known to end soon after they begin.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::{Gaps, Segment, Spans};
use crate::{Event, missing_runs};

/// A transaction whose last event is this far from its first, in sequences, is a long one.
pub const LONG_SPAN: u64 = 1_000;

/// Events that are read for the end of a transaction before others go first, and their bytes.
const PATIENT_EVENTS: usize = 10_000;
const PATIENT_BYTES: usize = 16 * 1024 * 1024;

/// What keeps the events of a group together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// Their key.
    Key,
    /// Their key and their actor. An actor's events that others of the same key come between are several groups, in order; but what one
    /// transaction appended stays together, together with what came between.
    KeyAndActor,
}

/// Events to be handled, each group in a transaction.
#[derive(Debug, Default)]
pub struct GroupBatch {
    /// In order of their first events.
    pub groups: Vec<Vec<Arc<Event>>>,
}

/// Events that were admitted and wait to be handled in groups.
#[derive(Debug, Default)]
pub struct Groups {
    /// In order.
    waiting: Vec<Waiting>,
    bytes: usize,
    end: End,
    spans: Option<Arc<Spans>>,
    /// No event of these transactions lies beyond.
    ends: HashMap<u64, Bound>,
    /// The first transaction of which it is not known where it ends.
    unknown: Option<Part>,
    /// The end of the log would tell of some whether they have ended.
    needs_look: bool,
}

/// Where a transaction ends at the latest.
#[derive(Debug, Clone, Copy)]
struct Bound {
    last: u64,
    /// There is its last event.
    is_there: bool,
}

#[derive(Debug)]
struct Waiting {
    sequence: u64,
    transaction: Option<u64>,
    visible_by: Instant,
    /// When it was added: by then it could be seen by others.
    came: Instant,
    bytes: usize,
    key: String,
    event: Arc<Event>,
    taken: bool,
}

/// What is known of the log after what waits.
#[derive(Debug, Default)]
struct End {
    /// Up to here, all that was visible has come.
    position: u64,
    /// Up to here, it was looked at.
    seen: u64,
    /// When it was looked at.
    as_of: Option<Instant>,
    /// Nothing else was visible then.
    complete: bool,
    /// A gap holds the rest.
    is_held: bool,
    /// Transactions with events behind a gap that is held.
    held: HashSet<u64>,
}

/// What waits of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The first event.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// When all of it was visible: what was looked at before may not show the rest.
    pub visible_by: Instant,
    /// When all of it had come.
    pub came: Instant,
}

impl Groups {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The first of them.
    pub fn first(&self) -> Option<u64> {
        self.waiting.first().map(|waiting| waiting.sequence)
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many of them lie before this sequence.
    pub fn before(&self, sequence: u64) -> usize {
        self.waiting.partition_point(|waiting| waiting.sequence < sequence)
    }

    /// Bytes of what waits.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// When all that waits was visible.
    pub fn visible_by(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.visible_by).max()
    }

    /// The keys of what waits.
    pub fn keys(&self) -> HashSet<String> {
        self.waiting.iter().map(|waiting| waiting.key.clone()).collect()
    }

    /// What a look into these gaps need not look for: it waits here.
    pub fn without_waiting(&self, gaps: &Gaps) -> Gaps {
        let mut waiting = self.waiting.iter().map(|waiting| waiting.sequence).peekable();
        let rest = gaps.iter().flat_map(|(first, last)| {
            while waiting.next_if(|sequence| *sequence < first).is_some() {}
            let within: Vec<u64> = std::iter::from_fn(|| waiting.next_if(|sequence| *sequence <= last)).collect();
            missing_runs(first - 1, last, within)
        });
        rest.collect()
    }

    /// An event waits, with its key. All of what was visible with it was visible at `visible_by`; it is now.
    pub fn add(&mut self, event: &Arc<Event>, key: String, bytes: usize, visible_by: Instant, now: Instant) {
        let sequence = event.global_sequence.unwrap_or_default();
        let at = self.before(sequence);
        if self.waiting.get(at).is_some_and(|waiting| waiting.sequence == sequence) {
            return;
        }
        let (transaction, event) = (event.transaction_id, event.clone());
        self.bytes += bytes;
        let waiting = Waiting { sequence, transaction, visible_by, came: now, bytes, key, event, taken: false };
        self.waiting.insert(at, waiting);
    }

    /// Notes what a segment that was taken says of the log after it, when a gap after `position` holds its last events, or nothing does.
    pub fn note_end(&mut self, segment: &Segment, position: u64, held: bool) {
        let behind = segment.events.partition_point(|event| event.global_sequence <= Some(position));
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

    /// The next batch of about `limit` events, or more; `None`: nothing can go yet. It begins with no event after `barrier`.
    pub fn next_batch(&mut self, by: GroupBy, limit: usize, barrier: Option<u64>) -> Option<GroupBatch> {
        let barrier = barrier.unwrap_or(u64::MAX);
        let open = self.open();
        let patient = !self.end.is_held && self.waiting.len() < PATIENT_EVENTS && self.bytes < PATIENT_BYTES;
        let first = self.waiting.iter().take(limit).take_while(|waiting| waiting.sequence <= barrier);
        let goes_on = |waiting: &Waiting| waiting.transaction.is_some_and(|id| open.contains(&id));
        if !(patient && first.into_iter().any(goes_on)) {
            self.choose(&open, limit, barrier);
        }
        let groups = self.take(by, barrier);
        (!groups.is_empty()).then_some(GroupBatch { groups })
    }

    /// Where there is no room for more, keeps the first keys, of at most so many bytes, and forgets what waits of the others: their turn comes when the log is read again. Answers
    /// `false`, and forgets nothing, if all that waits is of one key.
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
            // At least one, and never all: else nothing would be gained.
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

    /// What [`Spans`] are needed for, if the end of the log will not tell.
    pub fn needs_spans(&self, limit: usize) -> Option<Part> {
        let far = |first: u64| self.waiting.len() >= limit || self.end.seen >= first.saturating_add(LONG_SPAN);
        self.unknown.filter(|part| !self.end.complete && far(part.first))
    }

    /// Forgets what waits after a barrier.
    pub fn end_at(&mut self, barrier: u64) {
        self.waiting.truncate(self.before(barrier.saturating_add(1)));
        self.note_left();
    }

    /// The transactions that may have more events than have come.
    fn open(&mut self) -> HashSet<u64> {
        let mut parts: HashMap<u64, Part> = HashMap::new();
        for waiting in &self.waiting {
            let Waiting { sequence, visible_by, came, .. } = *waiting;
            let Some(transaction) = waiting.transaction else { continue };
            let part = parts.entry(transaction).or_insert(Part { first: sequence, last: sequence, visible_by, came });
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
        // Where there is more, it will be read, unless a gap holds it.
        self.needs_look &= self.end.is_held || !self.ends.values().any(|end| end.is_there && end.last > self.end.seen);
        open
    }

    /// Marks the events of the next batch.
    fn choose(&mut self, open: &HashSet<u64>, limit: usize, barrier: u64) {
        let waiting = &self.waiting;
        let mut keys: HashMap<&str, Vec<usize>> = HashMap::new();
        waiting.iter().enumerate().for_each(|(at, event)| keys.entry(&event.key).or_default().push(at));
        // Of each key, how many can go, and how many do.
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
            // With what its transactions have besides.
            while let Some(at) = next.pop() {
                chosen.push(at);
                let part = waiting[at].transaction.and_then(|id| parts.remove(&id));
                part.into_iter().flatten().for_each(|at| choose(at, &mut next));
            }
        }
        chosen.into_iter().for_each(|at| self.waiting[at].taken = true);
    }

    /// How many events of a key, of which all are given, can go: those before the first that waits, unless their transactions have others behind.
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

    fn take(&mut self, by: GroupBy, barrier: u64) -> Vec<Vec<Arc<Event>>> {
        let mut keys: HashMap<String, usize> = HashMap::new();
        let mut groups: Vec<Vec<Arc<Event>>> = Vec::new();
        for Waiting { key, event, .. } in self.waiting.extract_if(.., |waiting| waiting.taken) {
            let group = *keys.entry(key).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(event);
        }
        // What lies after the barrier waits only with what its key has before it.
        let place = self.before(barrier.saturating_add(1));
        if place < self.waiting.len() {
            let before: HashSet<String> = self.waiting[..place].iter().map(|waiting| waiting.key.clone()).collect();
            self.waiting.retain(|waiting| waiting.sequence <= barrier || before.contains(&waiting.key));
        }
        self.note_left();
        if by == GroupBy::KeyAndActor {
            groups = groups.into_iter().flat_map(by_actor).collect();
            groups.sort_by_key(|group| group[0].global_sequence);
        }
        groups
    }

    fn note_left(&mut self) {
        self.bytes = self.waiting.iter().map(|waiting| waiting.bytes).sum();
        let left: HashSet<u64> = self.waiting.iter().filter_map(|waiting| waiting.transaction).collect();
        self.ends.retain(|transaction, _| left.contains(transaction));
    }
}

/// Cuts the events of a key where the actor changes, unless a transaction of one actor goes on behind.
fn by_actor(events: Vec<Arc<Event>>) -> Vec<Vec<Arc<Event>>> {
    let mut last: HashMap<(Option<u64>, Option<String>), usize> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        last.insert((event.transaction_id, event.actor_id.clone()), at);
    }
    let mut groups: Vec<Vec<Arc<Event>>> = Vec::new();
    let mut together = 0;
    for (at, event) in events.into_iter().enumerate() {
        let goes_on = last[&(event.transaction_id, event.actor_id.clone())];
        let same = |group: &&mut Vec<Arc<Event>>| {
            at <= together || group.last().is_some_and(|previous| previous.actor_id == event.actor_id)
        };
        match groups.last_mut().filter(same) {
            Some(group) => group.push(event),
            None => groups.push(vec![event]),
        }
        together = together.max(goes_on);
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Sequence, transaction, key, actor.
    type Row = (u64, u64, &'static str, &'static str);

    fn event((sequence, transaction, key, actor): Row) -> Arc<Event> {
        Arc::new(Event {
            global_sequence: Some(sequence),
            transaction_id: Some(transaction),
            key: Some(key.into()),
            actor_id: (!actor.is_empty()).then(|| actor.into()),
            ..Event::raw("E", serde_json::json!({}))
        })
    }

    fn add(groups: &mut Groups, rows: &[Row], visible_by: Instant) {
        for row in rows {
            groups.add(&event(*row), row.2.into(), 100, visible_by, visible_by);
        }
    }

    fn filled(rows: &[Row], now: Instant) -> Groups {
        let mut groups = Groups::default();
        add(&mut groups, rows, now);
        groups
    }

    /// The log ends here, as was seen then.
    fn ends(groups: &mut Groups, as_of: Instant) {
        let end = Segment { complete: true, as_of: Some(as_of), ..Segment::default() };
        groups.note_end(&end, 0, false);
    }

    fn next(groups: &mut Groups, by: GroupBy, limit: usize) -> Option<Vec<Vec<u64>>> {
        groups.next_batch(by, limit, None).map(|batch| sequences(&batch))
    }

    fn sequences(batch: &GroupBatch) -> Vec<Vec<u64>> {
        let of = |group: &Vec<Arc<Event>>| group.iter().filter_map(|event| event.global_sequence).collect();
        batch.groups.iter().map(of).collect()
    }

    /// Events of others, each with a key and a transaction of its own.
    fn others(groups: &mut Groups, sequences: impl IntoIterator<Item = u64>, now: Instant) {
        for sequence in sequences {
            groups.add(&event((sequence, sequence, "", "")), sequence.to_string(), 100, now, now);
        }
    }

    /// The log was read up to here, and goes on.
    fn reads_to(groups: &mut Groups, position: u64) {
        groups.note_end(&Segment { seen: position, ..Segment::default() }, position, false);
    }

    /// These transactions are long, and end there; what came until now is known.
    fn long(groups: &mut Groups, last: &[(u64, u64)], begun: Instant) {
        let last = last.iter().copied().collect();
        groups.note_spans(Arc::new(Spans { up_to: u64::MAX, begun: Some(begun), last, ..Spans::default() }));
    }

    #[test]
    fn events_of_a_key_are_a_group_in_order_of_their_first() {
        let now = Instant::now();
        let mut groups = filled(&[(1, 1, "a", ""), (2, 2, "b", ""), (3, 3, "a", ""), (4, 4, "c", "")], now);
        assert_eq!(next(&mut groups, GroupBy::Key, 10), None, "the end is not known");
        ends(&mut groups, now);
        assert_eq!(next(&mut groups, GroupBy::Key, 10), Some(vec![vec![1, 3], vec![2], vec![4]]));
        assert!(groups.is_empty());
        assert_eq!((next(&mut groups, GroupBy::Key, 10), groups.bytes()), (None, 0));
    }

    #[test]
    fn an_actors_events_are_a_group_as_long_as_no_other_comes_between() {
        let now = Instant::now();
        let rows =
            [(1, 1, "k", "x"), (2, 2, "k", "x"), (3, 3, "k", "y"), (4, 4, "k", "x"), (5, 5, "j", "y"), (6, 6, "k", "")];
        let mut groups = filled(&rows, now);
        ends(&mut groups, now);
        let order = vec![vec![1, 2], vec![3], vec![4], vec![5], vec![6]];
        assert_eq!(next(&mut groups, GroupBy::KeyAndActor, 10), Some(order));
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
        let mut groups = filled(&rows, now);
        ends(&mut groups, now);
        assert_eq!(next(&mut groups, GroupBy::KeyAndActor, 10), Some(vec![vec![1, 2, 3, 4], vec![5], vec![6]]));
    }

    #[test]
    fn a_batch_goes_on_to_the_end_of_its_transactions() {
        let now = Instant::now();
        let mut groups = Groups::default();
        (1..=5_000).for_each(|sequence| add(&mut groups, &[(sequence, 7, "k", "")], now));
        others(&mut groups, 5_001..=6_200, now);
        reads_to(&mut groups, 6_200);
        assert_eq!(next(&mut groups, GroupBy::Key, 100), None);
        let whole = Part { first: 1, last: 5_000, visible_by: now, came: now };
        assert_eq!(groups.needs_spans(100), Some(whole));
        long(&mut groups, &[(7, 5_000)], now);
        let batch = next(&mut groups, GroupBy::Key, 100).expect("its end is known");
        assert_eq!((batch.len(), batch[0].len()), (1, 5_000));
        let batch = next(&mut groups, GroupBy::Key, 201).expect("those that are short have ended");
        assert!(batch.concat().into_iter().eq(5_001..=5_201));
        assert_eq!((next(&mut groups, GroupBy::Key, 1), groups.needs_spans(1)), (None, None), "more has to be read");
        ends(&mut groups, now);
        assert_eq!(next(&mut groups, GroupBy::Key, 2_000).map(|batch| batch.len()), Some(999));
    }

    #[test]
    fn a_short_transaction_may_have_ended_before_as_much_follows_as_it_may_be_long() {
        let now = Instant::now();
        let mut groups = filled(&[(1, 1, "a", ""), (2, 2, "b", "")], now);
        reads_to(&mut groups, 2);
        long(&mut groups, &[], now);
        assert_eq!(next(&mut groups, GroupBy::Key, 1), None, "nobody has seen the end of the log");
        assert!(groups.needs_look());
        ends(&mut groups, now);
        assert_eq!(next(&mut groups, GroupBy::Key, 1), Some(vec![vec![1]]));
    }

    #[test]
    fn however_much_lies_between_a_transaction_is_not_split_and_others_do_not_wait() {
        let now = Instant::now();
        let mut groups = filled(&[(1, 20_001, "k", ""), (2, 20_002, "k", ""), (3, 3, "j", "")], now);
        others(&mut groups, 4..=9_000, now);
        reads_to(&mut groups, 9_000);
        long(&mut groups, &[(20_001, 15_000)], now);
        assert_eq!((next(&mut groups, GroupBy::Key, 100), groups.needs_look()), (None, false), "its end may be near");
        others(&mut groups, 9_001..=10_001, now);
        reads_to(&mut groups, 10_001);
        let batch = next(&mut groups, GroupBy::Key, 10_000).expect("those of other keys");
        assert!(batch.concat().into_iter().eq(3..=9_002));
        others(&mut groups, 10_002..=14_999, now);
        add(&mut groups, &[(15_000, 20_001, "k", "")], now);
        reads_to(&mut groups, 15_000);
        let batch = next(&mut groups, GroupBy::Key, 1).expect("all has come");
        assert_eq!(batch, [[1, 2, 15_000]]);
    }

    #[test]
    fn what_is_known_of_long_transactions_counts_for_what_was_there_then() {
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let mut groups = filled(&[(10, 1, "a", "")], later);
        reads_to(&mut groups, 5_000);
        long(&mut groups, &[], now);
        assert_eq!(next(&mut groups, GroupBy::Key, 10), None, "it came later");
        let spans = Spans { after: 10, up_to: u64::MAX, settled: 5_000, ..Spans::default() };
        groups.note_spans(Arc::new(spans.clone()));
        assert_eq!(next(&mut groups, GroupBy::Key, 10), None, "it lies before");
        groups.note_spans(Arc::new(Spans { after: 9, up_to: 9, ..spans.clone() }));
        assert_eq!(next(&mut groups, GroupBy::Key, 10), None, "there were too many");
        groups.note_spans(Arc::new(Spans { after: 9, settled: 9, ..spans.clone() }));
        assert_eq!(next(&mut groups, GroupBy::Key, 10), None, "it was not settled");
        groups.note_spans(Arc::new(Spans { after: 9, ..spans }));
        assert_eq!(next(&mut groups, GroupBy::Key, 10), Some(vec![vec![10]]));
    }

    #[test]
    fn finished_events_wait_for_those_of_their_transaction_behind_one_that_is_not() {
        let now = Instant::now();
        let rows = [(1, 1, "k", ""), (2, 2, "k", ""), (3, 3, "k", ""), (4, 2, "k", ""), (5, 2, "j", "")];
        let mut groups = filled(&rows, now);
        groups.note_end(&Segment { seen: 4_000, ..Segment::default() }, 3_000, true);
        long(&mut groups, &[(3, 9_000)], now);
        assert_eq!(next(&mut groups, GroupBy::Key, 10), Some(vec![vec![1], vec![5]]));
        assert_eq!(next(&mut groups, GroupBy::Key, 10), None);
        reads_to(&mut groups, 9_000);
        assert_eq!(next(&mut groups, GroupBy::Key, 10), Some(vec![vec![2, 3, 4]]));
    }

    #[test]
    fn behind_a_barrier_only_what_is_in_one_with_what_lies_before_goes() {
        let now = Instant::now();
        let rows =
            [(1, 1, "a", ""), (2, 2, "b", ""), (3, 3, "a", ""), (4, 1, "a", ""), (5, 5, "a", ""), (6, 6, "b", "")];
        let mut groups = filled(&rows, now);
        ends(&mut groups, now);
        let batch = groups.next_batch(GroupBy::Key, 1, Some(2)).expect("one");
        assert_eq!(sequences(&batch), [[1, 3, 4]]);
        assert_eq!(groups.len(), 2, "nothing of the first key waits");
        let batch = groups.next_batch(GroupBy::Key, 10, Some(2)).expect("the other");
        assert_eq!((sequences(&batch), groups.is_empty()), (vec![vec![2]], true));
    }

    #[test]
    fn what_lies_behind_a_barrier_is_asked_for_where_it_holds_up_what_lies_before() {
        let now = Instant::now();
        let mut groups = filled(&[(1, 1, "a", ""), (3, 3, "a", ""), (5, 1, "a", "")], now);
        reads_to(&mut groups, 5);
        long(&mut groups, &[(1, 5)], now);
        assert!(groups.next_batch(GroupBy::Key, 10, Some(2)).is_none(), "the third may go on");
        assert!(groups.needs_look());
        ends(&mut groups, now);
        let batch = groups.next_batch(GroupBy::Key, 10, Some(2)).expect("all have ended");
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
        let mut groups = filled(&rows, now);
        ends(&mut groups, now);
        assert_eq!(next(&mut groups, GroupBy::Key, 1), Some(vec![vec![1, 3, 5], vec![6]]));
        assert_eq!(next(&mut groups, GroupBy::Key, 1), Some(vec![vec![2]]));
        assert_eq!(next(&mut groups, GroupBy::Key, 2), Some(vec![vec![4], vec![7]]));
    }

    #[test]
    fn the_end_counts_if_it_was_seen_after_what_waits() {
        let (now, later) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let mut groups = filled(&[(5, 1, "a", "")], now);
        add(&mut groups, &[(3, 1, "a", "")], later);
        ends(&mut groups, now);
        assert_eq!(
            next(&mut groups, GroupBy::Key, 10),
            None,
            "its transaction may have more that nobody looked for since"
        );
        assert!(groups.needs_look());
        ends(&mut groups, later);
        assert_eq!(next(&mut groups, GroupBy::Key, 10), Some(vec![vec![3, 5]]));
    }

    #[test]
    fn a_key_waits_while_its_transaction_goes_on_behind_a_held_gap() {
        let now = Instant::now();
        let mut groups = filled(&[(1, 1, "a", ""), (2, 2, "b", ""), (3, 3, "a", "")], now);
        let behind = |sequence| Segment {
            events: vec![event((2, 2, "b", "")), event((sequence, 1, "z", ""))],
            complete: true,
            as_of: Some(now),
            ..Segment::default()
        };
        groups.note_end(&behind(5), 3, true);
        assert_eq!(next(&mut groups, GroupBy::Key, 10), Some(vec![vec![2]]));
        assert_eq!(next(&mut groups, GroupBy::Key, 10), None);
        assert!(!groups.needs_look(), "a look tells nothing new");
        groups.note_end(&behind(5), 5, false);
        assert_eq!(next(&mut groups, GroupBy::Key, 10), Some(vec![vec![1, 3]]));
    }

    #[test]
    fn without_room_the_first_keys_are_kept_whole() {
        let now = Instant::now();
        let rows = [(1, 1, "a", ""), (2, 1, "b", ""), (3, 1, "a", ""), (4, 1, "c", ""), (5, 1, "b", "")];
        let mut groups = filled(&rows, now);
        assert_eq!(groups.bytes(), 500);
        assert!(groups.narrow(300));
        assert_eq!((groups.bytes(), groups.keys()), (200, HashSet::from(["a".to_owned()])));
        assert!(!groups.narrow(100), "one key is not taken apart");
        ends(&mut groups, now);
        assert_eq!(next(&mut groups, GroupBy::Key, 10), Some(vec![vec![1, 3]]));
        let mut groups = filled(&rows, now);
        assert!(groups.narrow(10));
        assert_eq!(groups.keys(), HashSet::from(["a".to_owned()]), "at least one");
        let mut groups = filled(&rows, now);
        assert!(groups.narrow(10_000));
        assert_eq!(groups.len(), 4, "at least one goes");
    }

    #[test]
    fn what_waits_is_not_looked_for() {
        let now = Instant::now();
        let groups = filled(&[(3, 1, "a", ""), (4, 1, "a", ""), (9, 1, "a", ""), (12, 1, "a", "")], now);
        let gaps: Gaps = [(2, 5), (8, 8), (9, 9), (11, 14)].into_iter().collect();
        assert_eq!(groups.without_waiting(&gaps).ranges(), [(2, 2), (5, 5), (8, 8), (11, 11), (13, 14)]);
        assert_eq!(Groups::default().without_waiting(&gaps), gaps);
    }

    #[test]
    fn an_event_waits_once() {
        let now = Instant::now();
        let mut groups = filled(&[(1, 1, "a", ""), (1, 1, "a", "")], now);
        ends(&mut groups, now);
        assert_eq!(next(&mut groups, GroupBy::Key, 10), Some(vec![vec![1]]));
    }
}
