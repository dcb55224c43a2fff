//! Groups: which events share a transaction, when a transaction holds the events of a key.
//!
//! Pure: what was admitted comes in, and what is known of the end of the log; batches come out, each group of which is handled in a
//! transaction of its own. A batch begins with the events that are there, up to a limit, and goes on to the end of the transactions that
//! appended them, so that none is handled in two parts. Transactions interleave in the log: one has ended where so many events in a row are of
//! others, or where the log ends. What lies in between is left for the next batch, unless an event of its key follows: events of a key
//! stay in order.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::{Gaps, Segment};
use crate::{Event, missing_runs};

/// Events in a row that are none of a transaction's: it has ended.
pub const FOREIGN_RUN: usize = 1_000;
/// What is kept of an event that is none of the subscriber's, in bytes.
const MARKER_BYTES: usize = 64;

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
    /// A transaction may go on after the batch: there was no room to find out.
    pub cut: bool,
}

/// Events that were admitted and wait to be handled in groups.
#[derive(Debug, Default)]
pub struct Groups {
    /// In order.
    waiting: Vec<Waiting>,
    bytes: usize,
    scan: Scan,
    end: End,
}

#[derive(Debug)]
struct Waiting {
    sequence: u64,
    transaction: Option<u64>,
    visible_by: Instant,
    bytes: usize,
    /// With its key; `None`: the event is none of the subscriber's, and only tells how far its transaction goes.
    event: Option<(String, Arc<Event>)>,
    taken: bool,
}

/// How far the next batch is put together.
#[derive(Debug, Default)]
struct Scan {
    next: usize,
    events: usize,
    transactions: HashSet<u64>,
    /// Events of each key that were left out so far.
    left: HashMap<String, Vec<usize>>,
    /// Events in a row that are of none of the transactions.
    foreign: usize,
    /// When all that was taken was visible.
    visible_by: Option<Instant>,
}

/// What is known of the log after what waits.
#[derive(Debug, Default)]
struct End {
    /// Nothing else was visible then.
    as_of: Option<Instant>,
    /// Transactions with events behind a gap that is held.
    held: HashSet<u64>,
}

impl Groups {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes of what waits.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What a look into these gaps need not look for: it waits here.
    pub fn without_waiting(&self, gaps: &Gaps) -> Gaps {
        let mut waiting = self.waiting.iter().map(|waiting| waiting.sequence).peekable();
        let rest = gaps.ranges().iter().flat_map(|(first, last)| {
            while waiting.next_if(|sequence| sequence < first).is_some() {}
            let within: Vec<u64> = std::iter::from_fn(|| waiting.next_if(|sequence| sequence <= last)).collect();
            missing_runs(first - 1, *last, within)
        });
        rest.collect()
    }

    /// An event waits, with its key; `None`: it is none of the subscriber's. All of what was visible with it was visible at `visible_by`.
    pub fn add(&mut self, event: &Arc<Event>, key: Option<String>, bytes: usize, visible_by: Instant) {
        let sequence = event.global_sequence.unwrap_or_default();
        if key.is_none() && self.waiting.is_empty() {
            return;
        }
        let at = self.waiting.partition_point(|waiting| waiting.sequence < sequence);
        if self.waiting.get(at).is_some_and(|waiting| waiting.sequence == sequence) {
            return;
        }
        if at < self.waiting.len() {
            self.begin_anew();
        }
        let bytes = if key.is_some() { bytes } else { MARKER_BYTES };
        let event_of = |key| (key, event.clone());
        let transaction = event.transaction_id;
        let waiting = Waiting { sequence, transaction, visible_by, bytes, event: key.map(event_of), taken: false };
        self.bytes += bytes;
        self.waiting.insert(at, waiting);
    }

    /// Notes what a segment that was taken says of the log after it, when a gap after `position` holds its last events, or nothing does.
    pub fn note_end(&mut self, segment: &Segment, position: u64, held: bool) {
        let behind = segment.events.partition_point(|event| event.global_sequence <= Some(position));
        let behind = if held { &segment.events[behind..] } else { &[] };
        let known = segment.complete || behind.len() >= FOREIGN_RUN;
        self.end.as_of = segment.as_of.filter(|_| known);
        self.end.held = behind.iter().filter_map(|event| event.transaction_id).collect();
    }

    /// The next batch of about `limit` events, or more; `None`: where its transactions end is not known yet. `full`: there is no
    /// room for more, so that they end where they must.
    pub fn next_batch(&mut self, by: GroupBy, limit: usize, full: bool) -> Option<GroupBatch> {
        let ended = self.scan_on(limit);
        let end_is_known = self.end.as_of.is_some_and(|as_of| Some(as_of) >= self.scan.visible_by);
        if self.scan.events == 0 || !(ended || end_is_known || full) {
            return None;
        }
        if !full {
            self.withhold();
        }
        let batch = GroupBatch { groups: self.take(by), cut: full && !ended && !end_is_known };
        (!batch.groups.is_empty()).then_some(batch)
    }

    /// Whether a later look at the log would tell where the transactions end.
    pub fn needs_look(&self) -> bool {
        self.scan.events > 0
    }

    /// Scans what was not scanned yet. Returns whether the transactions of the batch have ended.
    fn scan_on(&mut self, limit: usize) -> bool {
        let scan = &mut self.scan;
        while scan.next < self.waiting.len() && !(scan.events >= limit && scan.foreign >= FOREIGN_RUN) {
            let at = scan.next;
            scan.next += 1;
            let waiting = &self.waiting[at];
            let known = waiting.transaction.is_some_and(|transaction| scan.transactions.contains(&transaction));
            scan.foreign = if known { 0 } else { scan.foreign + 1 };
            let Some((key, _)) = &waiting.event else { continue };
            if !known && scan.events >= limit {
                scan.left.entry(key.clone()).or_default().push(at);
                continue;
            }
            scan.foreign = 0;
            for at in scan.left.remove(key).into_iter().flatten().chain([at]) {
                let waiting = &mut self.waiting[at];
                waiting.taken = true;
                scan.events += 1;
                scan.transactions.extend(waiting.transaction);
                scan.visible_by = scan.visible_by.max(Some(waiting.visible_by));
            }
        }
        scan.events >= limit && scan.foreign >= FOREIGN_RUN
    }

    /// Leaves out the keys of which a transaction goes on behind a gap that is held.
    fn withhold(&mut self) {
        if self.end.held.is_empty() {
            return;
        }
        let taken = self.waiting.iter().filter(|waiting| waiting.taken);
        let goes_on = taken.filter(|waiting| waiting.transaction.is_some_and(|id| self.end.held.contains(&id)));
        let keys: HashSet<String> = goes_on.filter_map(|waiting| Some(waiting.event.as_ref()?.0.clone())).collect();
        for waiting in &mut self.waiting {
            waiting.taken &= waiting.event.as_ref().is_some_and(|(key, _)| !keys.contains(key));
        }
    }

    fn take(&mut self, by: GroupBy) -> Vec<Vec<Arc<Event>>> {
        let mut keys: HashMap<String, usize> = HashMap::new();
        let mut groups: Vec<Vec<Arc<Event>>> = Vec::new();
        for (key, event) in self.waiting.extract_if(.., |waiting| waiting.taken).filter_map(|waiting| waiting.event) {
            let group = *keys.entry(key).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(event);
        }
        let first = self.waiting.iter().position(|waiting| waiting.event.is_some());
        self.waiting.drain(..first.unwrap_or(self.waiting.len()));
        self.bytes = self.waiting.iter().map(|waiting| waiting.bytes).sum();
        self.begin_anew();
        if by == GroupBy::KeyAndActor {
            groups = groups.into_iter().flat_map(by_actor).collect();
            groups.sort_by_key(|group| group[0].global_sequence);
        }
        groups
    }

    fn begin_anew(&mut self) {
        self.scan = Scan::default();
        self.waiting.iter_mut().for_each(|waiting| waiting.taken = false);
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
            groups.add(&event(*row), Some(row.2.into()), 100, visible_by);
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
        groups.next_batch(by, limit, false).map(|batch| {
            assert!(!batch.cut);
            sequences(&batch)
        })
    }

    fn sequences(batch: &GroupBatch) -> Vec<Vec<u64>> {
        let of = |group: &Vec<Arc<Event>>| group.iter().filter_map(|event| event.global_sequence).collect();
        batch.groups.iter().map(of).collect()
    }

    /// So many events of others, each with a key and a transaction of its own.
    fn others(groups: &mut Groups, from: u64, count: usize, now: Instant) {
        for sequence in (from..).take(count) {
            groups.add(&event((sequence, sequence, "", "")), Some(sequence.to_string()), 100, now);
        }
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
        others(&mut groups, 5_001, FOREIGN_RUN - 1, now);
        assert_eq!(next(&mut groups, GroupBy::Key, 100), None);
        others(&mut groups, 6_000, 1, now);
        let batch = next(&mut groups, GroupBy::Key, 100).expect("enough others");
        assert_eq!((batch.len(), batch[0].len()), (1, 5_000));
        ends(&mut groups, now);
        assert_eq!(next(&mut groups, GroupBy::Key, 2_000).map(|batch| batch.len()), Some(FOREIGN_RUN));
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
    fn events_of_nobody_tell_how_far_a_transaction_goes() {
        let now = Instant::now();
        let mut groups = Groups::default();
        groups.add(&event((1, 7, "k", "")), None, 100, now);
        assert!(groups.is_empty(), "nothing waits for them");
        add(&mut groups, &[(2, 7, "k", "")], now);
        (3..=2_000).for_each(|sequence| groups.add(&event((sequence, 7, "k", "")), None, 100, now));
        assert_eq!(next(&mut groups, GroupBy::Key, 1), None);
        (2_001..=3_000).for_each(|sequence| groups.add(&event((sequence, 8, "k", "")), None, 100, now));
        assert_eq!(next(&mut groups, GroupBy::Key, 1), Some(vec![vec![2]]));
        assert!(groups.is_empty());
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
    fn without_room_a_batch_is_cut_and_says_so() {
        let now = Instant::now();
        let mut groups = filled(&[(1, 1, "a", ""), (2, 1, "a", "")], now);
        assert_eq!(groups.bytes(), 200);
        let batch = groups.next_batch(GroupBy::Key, 1, true).expect("it must go on");
        assert_eq!((sequences(&batch), batch.cut), (vec![vec![1, 2]], true));
        add(&mut groups, &[(3, 3, "a", "")], now);
        ends(&mut groups, now);
        assert!(!groups.next_batch(GroupBy::Key, 1, true).expect("one").cut);
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
