//! The end of the log in memory, shared by all subscribers of a node.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_core::{Event, Gaps, LookAhead, Segment, missing_runs};

/// Most events that are kept.
const MAX_EVENTS: usize = 16_384;
/// Most bytes of payload that are kept.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Between notes of what was seen when.
const SIGHT_EVERY: Duration = Duration::from_millis(10);

/// Most of these notes: beyond, every second is dropped.
const MAX_SIGHTINGS: usize = 4_096;
/// Most holes: beyond, nothing further is looked at until some are closed.
pub(super) const MAX_HOLES: usize = 10_000;

/// Everything that is visible in `start..=seen`, `start` excluded, and how far it is settled. When it is full, it forgets its oldest
/// events: who still needs them reads them from the log.
#[derive(Debug, Default)]
pub(super) struct Ring {
    start: u64,
    seen: u64,
    settled: u64,
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// What is missing and may still come.
    holes: Gaps,
    /// What was seen, and when first, as far as there are holes: tells how old they are.
    sightings: VecDeque<(u64, Instant)>,
    /// When the last look began.
    looked_at: Option<Instant>,
    /// Whether it saw all there was.
    saw_all: bool,
    /// When events were last found in holes: what else was visible by then may be missing.
    filled_at: Option<Instant>,
}

/// What a look at the log changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Whether there is anything new for subscribers.
    pub(super) news: bool,
    /// What was missing and will never come.
    pub(super) permanent: Vec<(u64, u64)>,
}

impl Ring {
    /// An empty ring behind which everything is settled.
    pub(super) fn starting_at(settled: u64) -> Self {
        Ring { start: settled, seen: settled, settled, ..Ring::default() }
    }

    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    pub(super) fn holes(&self) -> &Gaps {
        &self.holes
    }

    /// Takes over what a look after [`seen`](Ring::seen) and into [`holes`](Ring::holes) showed.
    pub(super) fn take(&mut self, look: LookAhead, begun: Instant, now: Instant) -> Change {
        self.looked_at = Some(begun);
        self.saw_all = !look.more && self.holes.ranges().len() < MAX_HOLES;
        let before = (self.seen, self.settled);
        let filled = !look.filled.is_empty();
        if filled {
            self.filled_at = Some(now);
        }
        for event in look.filled {
            let sequence = sequence(&event);
            self.holes.remove(sequence, sequence);
            if sequence > self.start {
                let at = self.events.partition_point(|other| super::ring::sequence(other) < sequence);
                self.bytes += weight(&event);
                self.events.insert(at, Arc::new(event));
            }
        }
        let present = look.events.iter().map(sequence);
        for (first, last) in missing_runs(self.seen, look.seen, present) {
            self.holes.insert(first, last);
        }
        for event in look.events {
            self.bytes += weight(&event);
            self.events.push_back(Arc::new(event));
        }
        self.seen = self.seen.max(look.seen);
        self.settled = self.settled.max(look.settled);
        let ended = self.holes.ranges().iter().take_while(|(first, _)| *first <= self.settled);
        let permanent: Vec<_> = ended.map(|(first, last)| (*first, *last.min(&self.settled))).collect();
        permanent.iter().for_each(|(first, last)| self.holes.remove(*first, *last));
        self.note_sighting(now);
        self.forget();
        Change { news: filled || before != (self.seen, self.settled), permanent }
    }

    fn note_sighting(&mut self, now: Instant) {
        let first_hole = self.holes.ranges().first().map_or(u64::MAX, |(first, _)| *first);
        while self.sightings.pop_front_if(|(seen, _)| *seen < first_hole).is_some() {}
        // Holes seen in between count as seen at the next sighting: younger than they are, never older.
        let last = self.sightings.back();
        let due = last.is_none_or(|(seen, at)| *seen < self.seen && now.duration_since(*at) >= SIGHT_EVERY);
        if !self.holes.is_empty() && due {
            self.sightings.push_back((self.seen, now));
        }
        if self.sightings.len() > MAX_SIGHTINGS {
            // Of each two, the later: holes between them become younger.
            let mut keep = true;
            self.sightings.retain(|_| {
                keep = !keep;
                keep
            });
        }
    }

    /// The holes in `after..=seen`, with the time when each was first seen.
    fn gaps_seen(&self, after: u64, seen: u64) -> Vec<(u64, u64, Instant)> {
        let holes = self.holes.ranges();
        let from = holes.partition_point(|(_, last)| *last <= after);
        let within = holes[from..].iter().take_while(|(first, _)| *first <= seen);
        let dated = |(first, last): &(u64, u64)| {
            let at = self.sightings.partition_point(|(seen, _)| seen < last);
            self.sightings.get(at).map(|(_, at)| (*first, *last, *at))
        };
        within.filter_map(dated).collect()
    }

    fn forget(&mut self) {
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES && self.events.len() > 1 {
            let Some(event) = self.events.pop_front() else { return };
            self.bytes -= weight(&event);
            self.start = sequence(&event);
        }
    }

    /// What comes after `after`, at most `limit` events; `None`: the ring begins later.
    pub(super) fn segment(&self, after: u64, limit: usize) -> Option<Segment> {
        if after < self.start {
            return None;
        }
        let from = self.events.partition_point(|event| sequence(event) <= after);
        let events: Vec<_> = self.events.range(from..).take(limit).cloned().collect();
        let cut = from + events.len() < self.events.len();
        let seen = events.last().filter(|_| cut).map_or(self.seen, |event| sequence(event));
        let gaps_seen = if self.holes.is_empty() { Vec::new() } else { self.gaps_seen(after, seen) };
        Some(Segment {
            after,
            events,
            seen,
            settled: self.settled,
            gaps_seen,
            as_of: self.looked_at,
            complete: self.saw_all && !cut,
            visible_by: self.looked_at.max(self.filled_at),
        })
    }
}

pub(super) fn sequence(event: &Event) -> u64 {
    event.global_sequence.unwrap_or_default()
}

/// What an event takes in memory, roughly.
pub(super) fn weight(event: &Event) -> usize {
    512 + event.data.as_ref().map_or(0, |data| data.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(sequence: u64) -> Event {
        let mut event = Event::raw("tested", serde_json::json!({}));
        event.global_sequence = Some(sequence);
        event
    }

    fn look(events: &[u64], filled: &[u64], settled: u64) -> LookAhead {
        LookAhead {
            events: events.iter().copied().map(event).collect(),
            filled: filled.iter().copied().map(event).collect(),
            seen: events.last().copied().unwrap_or_default(),
            settled,
            ..LookAhead::default()
        }
    }

    fn take(ring: &mut Ring, look: LookAhead, now: Instant) -> Change {
        ring.take(look, now, now)
    }

    fn sequences(ring: &Ring, after: u64) -> Vec<u64> {
        ring.segment(after, 100).expect("within the ring").events.iter().map(|event| sequence(event)).collect()
    }

    #[test]
    fn what_fills_a_hole_stands_in_its_place() {
        let mut ring = Ring::starting_at(2);
        assert_eq!(take(&mut ring, look(&[3, 5, 8], &[], 3), Instant::now()), Change { news: true, permanent: vec![] });
        assert_eq!(ring.holes().ranges(), [(4, 4), (6, 7)]);
        assert_eq!(take(&mut ring, look(&[], &[4, 7], 5), Instant::now()), Change { news: true, permanent: vec![] });
        assert_eq!(sequences(&ring, 2), [3, 4, 5, 7, 8]);
        assert_eq!(ring.holes().ranges(), [(6, 6)]);
        assert_eq!(take(&mut ring, look(&[], &[], 8), Instant::now()), Change { news: true, permanent: vec![(6, 6)] });
        assert_eq!(take(&mut ring, look(&[], &[], 8), Instant::now()), Change::default());
    }

    #[test]
    fn a_hole_is_as_old_as_the_first_sight_of_it() {
        let (start, step) = (Instant::now(), Duration::from_secs(1));
        let mut ring = Ring::starting_at(0);
        take(&mut ring, look(&[2, 3], &[], 0), start);
        take(&mut ring, look(&[5], &[], 0), start + step);
        take(&mut ring, look(&[6], &[], 0), start + step * 2);
        assert_eq!(ring.segment(0, 10).unwrap().gaps_seen, [(1, 1, start), (4, 4, start + step)]);
        take(&mut ring, look(&[7], &[1], 3), start + step * 3);
        assert_eq!(ring.segment(0, 10).unwrap().gaps_seen, [(4, 4, start + step)]);
    }

    #[test]
    fn a_segment_says_how_far_it_reaches() {
        let mut ring = Ring::starting_at(0);
        take(&mut ring, look(&[1, 2, 4], &[], 2), Instant::now());
        let cut = ring.segment(0, 2).unwrap();
        assert_eq!((cut.seen, cut.settled, cut.events.len()), (2, 2, 2));
        let whole = ring.segment(0, 3).unwrap();
        assert_eq!((whole.seen, whole.settled), (4, 2));
        assert_eq!(ring.segment(4, 3).unwrap().events.len(), 0);
    }

    #[test]
    fn a_segment_says_whether_it_has_all_that_was_visible() {
        let (start, step) = (Instant::now(), Duration::from_secs(1));
        let mut ring = Ring::starting_at(0);
        assert!(!ring.segment(0, 10).unwrap().complete, "nobody has looked");
        ring.take(LookAhead { more: true, ..look(&[1, 3], &[], 1) }, start, start + step / 2);
        assert!(!ring.segment(0, 10).unwrap().complete);
        ring.take(look(&[4], &[], 1), start + step, start + step);
        let whole = ring.segment(0, 10).unwrap();
        assert_eq!((whole.complete, whole.visible_by), (true, Some(start + step)));
        assert!(!ring.segment(0, 2).unwrap().complete);
        ring.take(look(&[], &[2], 4), start + step * 2, start + step * 3);
        let filled = ring.segment(0, 10).unwrap();
        assert_eq!((filled.as_of, filled.visible_by), (Some(start + step * 2), Some(start + step * 3)));
        ring.take(look(&[], &[], 4), start + step * 4, start + step * 4);
        assert_eq!(ring.segment(0, 10).unwrap().visible_by, Some(start + step * 4));
    }

    #[test]
    fn a_full_ring_forgets_its_oldest_events() {
        let mut ring = Ring::starting_at(0);
        let all: Vec<u64> = (1..=MAX_EVENTS as u64 + 5).collect();
        take(&mut ring, look(&all, &[], all.len() as u64), Instant::now());
        assert!(ring.segment(4, 1).is_none());
        assert_eq!(ring.segment(5, 1).unwrap().events[0].global_sequence, Some(6));
    }
}
