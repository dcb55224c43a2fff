//! Runs of the log that the partitions of a subscriber on this node share.
//!
//! Each partition takes the same segments and keeps its own events. So the first partition that
//! takes a segment splits it for all. The other partitions touch only their own events, and pass
//! the events between them as spans. Only segments that are complete for ever are shared: within a
//! generation of the tail, they never change.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use headwater_core::{RecordedEvent, Segment, order_hash};

use crate::node::reading::ring::weight;

/// The most runs that are kept. Few are enough, since the partitions are about equally far.
const RUNS: usize = 16;
/// The most bytes of events in these runs. The newest run is kept even if it is larger.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The runs that were taken last.
#[derive(Debug, Default)]
pub(in crate::node) struct SharedSegments {
    kept: Mutex<VecDeque<Arc<SharedSegment>>>,
}

/// What identifies a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::node) struct SegmentKey {
    /// The tail's generation.
    pub(in crate::node) generation: u64,
    /// The sequence that the run begins after.
    pub(in crate::node) after: u64,
    /// The most events of the run.
    pub(in crate::node) limit: usize,
    pub(in crate::node) partitions: u32,
}

/// A settled segment, split by partitions.
#[derive(Debug)]
pub(in crate::node) struct SharedSegment {
    key: SegmentKey,
    pub(in crate::node) segment: Segment,
    /// For each partition, the indexes of its events in the segment.
    own: Vec<Vec<u32>>,
    /// The sums of the sequences of all events before each event, and of all events.
    sums: Vec<u64>,
    bytes: usize,
}

/// Events between two of a partition's own.
#[derive(Debug)]
pub(in crate::node) struct Others<'a> {
    pub(in crate::node) events: u64,
    pub(in crate::node) sequence_sum: u64,
    pub(in crate::node) last: &'a RecordedEvent,
}

impl SharedSegments {
    pub(in crate::node) fn get(&self, key: SegmentKey) -> Option<Arc<SharedSegment>> {
        self.kept.lock().expect("no holder of this lock panics").iter().find(|run| run.key == key).cloned()
    }

    pub(in crate::node) fn keep(&self, run: &Arc<SharedSegment>) {
        let mut kept = self.kept.lock().expect("no holder of this lock panics");
        kept.retain(|other| other.key != run.key && other.key.generation == run.key.generation);
        kept.push_front(run.clone());
        kept.truncate(RUNS);
        let mut bytes = 0;
        let fit = kept.iter().take_while(|run| {
            bytes += run.bytes;
            bytes <= MAX_BYTES
        });
        let fit = fit.count().max(1);
        kept.truncate(fit);
    }
}

impl SharedSegment {
    pub(in crate::node) fn new(key: SegmentKey, segment: Segment) -> Self {
        let mut own = vec![Vec::new(); key.partitions as usize];
        let mut sums = Vec::with_capacity(segment.events.len() + 1);
        let (mut sum, mut bytes) = (0, 0);
        for (at, event) in (0..).zip(&segment.events) {
            own[(order_hash(event) % key.partitions) as usize].push(at);
            sums.push(sum);
            sum += event.sequence().get();
            bytes += weight(event);
        }
        sums.push(sum);
        SharedSegment { key, segment, own, sums, bytes }
    }

    /// Walks over a part of the run: reports a partition's own events, and the others between them.
    pub(in crate::node) fn walk(&self, partition: u32, part: Range<usize>, mut tell: impl FnMut(Walked<'_>)) {
        let own = &self.own[partition as usize];
        let mut from = part.start;
        for at in own[own.partition_point(|at| (*at as usize) < part.start)..].iter().map(|at| *at as usize) {
            if let Some(others) = self.others(from..at) {
                tell(Walked::Others(others));
            }
            tell(Walked::Own(&self.segment.events[at]));
            from = at + 1;
        }
        if let Some(others) = self.others(from..part.end) {
            tell(Walked::Others(others));
        }
    }

    fn others(&self, part: Range<usize>) -> Option<Others<'_>> {
        let last = self.segment.events.get(part.end.checked_sub(1)?).filter(|_| !part.is_empty())?;
        let sequence_sum = self.sums[part.end] - self.sums[part.start];
        Some(Others { events: part.len() as u64, sequence_sum, last })
    }
}

/// What a partition meets in a run.
#[derive(Debug)]
pub(in crate::node) enum Walked<'a> {
    Own(&'a Arc<RecordedEvent>),
    Others(Others<'a>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::delivery::test_events::keyed;

    const KEY: SegmentKey = SegmentKey { generation: 1, after: 0, limit: 100, partitions: 4 };

    fn segment(events: u64) -> Segment {
        let event = |sequence: u64| keyed(sequence * 3, &format!("key-{}", sequence % 7));
        Segment { events: (1..=events).map(event).collect(), ..Segment::default() }
    }

    #[test]
    fn each_event_is_one_partitions_own_and_counted_by_the_others() {
        let segment = segment(50);
        let run = SharedSegment::new(KEY, segment.clone());
        for part in [0..50, 13..50, 49..50, 50..50] {
            let mut all_own = Vec::new();
            for partition in 0..KEY.partitions {
                let (mut events, mut sum, mut last) = (0, 0, 0);
                run.walk(partition, part.clone(), |walked| match walked {
                    Walked::Own(event) => {
                        assert_eq!(order_hash(event) % KEY.partitions, partition);
                        all_own.push(event.sequence().get());
                        (events, sum, last) = (events + 1, sum + event.sequence().get(), event.sequence().get());
                    }
                    Walked::Others(others) => {
                        (events, sum) = (events + others.events, sum + others.sequence_sum);
                        assert!(others.last.sequence().get() > last);
                        last = others.last.sequence().get();
                    }
                });
                let all: Vec<u64> = segment.events[part.clone()].iter().map(|event| event.sequence().get()).collect();
                assert_eq!((events, sum), (all.len() as u64, all.iter().sum()));
                assert_eq!(last, all.last().copied().unwrap_or_default());
            }
            all_own.sort_unstable();
            assert!(all_own.into_iter().eq(segment.events[part].iter().map(|event| event.sequence().get())));
        }
    }

    #[test]
    fn runs_are_kept_for_the_partitions_behind() {
        let runs = SharedSegments::default();
        let run = |after, generation| Arc::new(SharedSegment::new(SegmentKey { after, generation, ..KEY }, segment(3)));
        let first = run(0, 1);
        runs.keep(&first);
        assert!(runs.get(KEY).is_some_and(|kept| Arc::ptr_eq(&kept, &first)));
        assert!(runs.get(SegmentKey { limit: 7, ..KEY }).is_none());
        (1..40).for_each(|after| runs.keep(&run(after, 1)));
        assert_eq!(runs.kept.lock().unwrap().len(), RUNS);
        assert!(runs.get(KEY).is_none() && runs.get(SegmentKey { after: 39, ..KEY }).is_some());
        runs.keep(&run(0, 2));
        assert_eq!(runs.kept.lock().unwrap().len(), 1, "what another generation read counts no more");
    }
}
