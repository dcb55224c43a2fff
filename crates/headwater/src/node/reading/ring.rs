//! The end of the log in memory, shared by all subscribers of a node.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_core::{Gaps, Look, LookAhead, RecordedEvent, Segment, Writer, missing_runs};

use crate::node::reading::pages::PageSource;

/// The most events that the ring keeps.
const MAX_EVENTS: usize = 16_384;
/// The most bytes of payload that the ring keeps.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The shortest time between two notes of what was seen when.
const SIGHT_EVERY: Duration = Duration::from_millis(10);

/// The most of these notes. Beyond that, every second note is dropped.
const MAX_SIGHTINGS: usize = 4_096;
/// The most holes (16 MB). Beyond that, the ring looks no further until some are closed, and
/// subscribers that wait for that say so.
pub(in crate::node) const MAX_HOLES: usize = 1_000_000;
/// The most changes of holes that are remembered. A reader that missed more changes compares all
/// holes with its own gaps.
const MAX_CHANGES: usize = 1_024;

/// Everything that is visible in `start..=seen`, without `start`, and how far it is settled. When
/// the ring is full, it forgets its oldest events. Readers that still need them read them from the
/// log.
#[derive(Debug, Default)]
pub(in crate::node) struct Ring {
    start: u64,
    seen: u64,
    settled: u64,
    events: VecDeque<Arc<RecordedEvent>>,
    bytes: usize,
    /// Places that are missing and may still be filled.
    holes: Gaps,
    /// What was seen, and when first, while there are holes. This tells how old the holes are.
    sightings: VecDeque<(u64, Instant)>,
    /// When the last look began.
    looked_at: Option<Instant>,
    /// Whether the last look saw everything there was.
    saw_all: bool,
    /// Whether the last event seen is the log's end, as far as its source knows.
    at_end: bool,
    /// When events were last found in holes. Other events that were visible by then may be missing.
    filled_at: Option<Instant>,
    /// Holes at or below this sequence were looked into. Their events have not come, unless one of
    /// the writers has ended since.
    looked_to: u64,
    /// The writers that could still commit when the last look began or when it ended.
    writers: Vec<Writer>,
    /// Changes when events appeared in holes, or holes were closed.
    version: u64,
    /// The changes: each has a version, and the first and last sequence between which holes
    /// changed.
    changes: VecDeque<(u64, u64, u64)>,
}

/// What a reader has compared with the holes: at which version, and up to where they were known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::node) struct Compared {
    version: u64,
    seen: u64,
}

/// The parts of a [`Look`] that the ring asks for.
pub(in crate::node) struct NextLook {
    after: u64,
    limit: u32,
    holes: Gaps,
    looked_to: u64,
    writers: Vec<Writer>,
    kept_after: u64,
}

impl NextLook {
    pub(in crate::node) fn look(&self) -> Look<'_> {
        let NextLook { after, limit, looked_to, kept_after, .. } = *self;
        Look { after, limit, gaps: &self.holes, looked_to, writers: &self.writers, kept_after }
    }
}

/// What a look at the log changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::node) struct Change {
    /// Whether there is anything new for subscribers.
    pub(in crate::node) news: bool,
    /// Places that were missing and will never be filled.
    pub(in crate::node) permanent: Vec<(u64, u64)>,
}

impl Ring {
    /// An empty ring. Everything behind its start is settled.
    pub(in crate::node) fn starting_at(settled: u64) -> Self {
        Ring { start: settled, seen: settled, settled, ..Ring::default() }
    }

    pub(in crate::node) fn seen(&self) -> u64 {
        self.seen
    }

    pub(in crate::node) fn settled(&self) -> u64 {
        self.settled
    }

    pub(in crate::node) fn holes(&self) -> &Gaps {
        &self.holes
    }

    pub(in crate::node) fn version(&self) -> u64 {
        self.version
    }

    /// Whether the last event seen is the log's end, as far as is known.
    pub(in crate::node) fn is_at_end(&self) -> bool {
        self.at_end
    }

    /// Notes whether a source that brings events without a look has more of them.
    pub(in crate::node) fn has_more(&mut self, more: bool) {
        self.at_end = !more;
    }

    /// Whether there are too many holes to look further.
    pub(in crate::node) fn is_full(&self) -> bool {
        self.holes.len() >= MAX_HOLES
    }

    /// Whether to read more for a reader that has everything up to `after`. A ring that is half
    /// full can wait until the reader has come to the ring's second half. Otherwise the ring might
    /// forget events that the reader needs, and they would be read again.
    pub(in crate::node) fn is_wanted(&self, after: u64) -> bool {
        if self.events.len() < MAX_EVENTS / 2 && self.bytes < MAX_BYTES / 2 {
            return true;
        }
        let ahead = self.events.len() - self.events.partition_point(|event| event.sequence() <= after);
        ahead < self.events.len().div_ceil(2)
    }

    /// The question for the next look. With too many holes, the look covers only these.
    pub(in crate::node) fn next_look(&self, limit: u32) -> NextLook {
        NextLook {
            after: self.seen,
            limit: if self.is_full() { 0 } else { limit },
            holes: self.holes.clone(),
            looked_to: self.looked_to,
            writers: self.writers.clone(),
            kept_after: self.start,
        }
    }

    /// Up to where a reader has compared its gaps, if it does so now.
    pub(in crate::node) fn compared(&self) -> Compared {
        Compared { version: self.version, seen: self.seen }
    }

    /// Takes over the result of a look after [`seen`](Ring::seen) and into [`holes`](Ring::holes).
    pub(in crate::node) fn take(&mut self, look: LookAhead, begun: Instant, now: Instant) -> Change {
        self.looked_at = Some(begun);
        self.saw_all = !look.more && !self.is_full();
        self.at_end = self.saw_all;
        self.looked_to = look.looked_to;
        self.writers = look.writers;
        self.writers.extend(look.ended);
        let before = (self.seen, self.settled);
        let filled = !look.filled.is_empty();
        if filled {
            self.filled_at = Some(now);
        }
        let mut changed = look
            .filled
            .first()
            .zip(look.filled.last())
            .map(|(one, other)| (one.sequence().get(), other.sequence().get()));
        for event in &look.filled {
            self.holes.remove(event.sequence().get(), event.sequence().get());
        }
        self.put_in(look.filled);
        let present = look.events.iter().map(|event| event.sequence().get());
        for (first, last) in missing_runs(self.seen, look.seen, present) {
            self.holes.insert(first, last);
        }
        for event in look.events {
            self.bytes += weight(&event);
            self.events.push_back(Arc::new(event));
        }
        self.seen = self.seen.max(look.seen);
        self.settled = self.settled.max(look.settled);
        let closed: Vec<_> = self.holes.within(0, self.settled).collect();
        self.holes.remove(0, self.settled);
        if let Some(((first, _), (_, last))) = closed.first().zip(closed.last()) {
            let (low, high) = changed.unwrap_or((*first, *last));
            changed = Some((low.min(*first), high.max(*last)));
        }
        if let Some((first, last)) = changed {
            self.version += 1;
            self.changes.push_back((self.version, first, last));
            if self.changes.len() > MAX_CHANGES {
                self.changes.pop_front();
            }
        }
        // The look did not cover places behind the ring. A reader there finds out what they are.
        let start = self.start;
        let known = closed.into_iter().filter(|(_, last)| *last > start);
        let permanent = known.map(|(first, last)| (first.max(start + 1), last)).collect();
        self.note_sighting(now);
        self.forget();
        Change { news: filled || before != (self.seen, self.settled), permanent }
    }

    /// Takes over events that came from the WAL, or were found in some of the holes. Nobody has
    /// looked into the other holes. So while there are any, the ring is no newer than its last
    /// look.
    pub(in crate::node) fn take_partly(&mut self, look: LookAhead, now: Instant) -> Change {
        let (looked_at, settled, at_end) = (self.looked_at, self.settled, self.at_end);
        let (seen, looked_to, writers) = (look.seen.max(self.seen), self.looked_to, std::mem::take(&mut self.writers));
        // The next look still covers the holes that the last look left to it.
        let mut change = self.take(LookAhead { seen, more: true, looked_to, writers, ..look }, now, now);
        self.at_end = at_end;
        // Before the first hole, nothing is missing.
        self.settled = self.holes.first().map_or(self.seen, |first| first - 1).max(self.settled);
        change.news |= self.settled != settled;
        if !self.holes.is_empty() {
            (self.looked_at, self.filled_at) = (looked_at, Some(now));
        }
        change
    }

    /// Puts events that appeared in holes in their places.
    fn put_in(&mut self, filled: Vec<RecordedEvent>) {
        let mut filled = filled.into_iter().filter(|event| event.sequence() > self.start).map(Arc::new).peekable();
        let Some(first) = filled.peek().map(|event| event.sequence().get()) else { return };
        let at = self.events.partition_point(|event| event.sequence() < first);
        let mut behind = self.events.split_off(at).into_iter().peekable();
        for event in filled {
            self.bytes += weight(&event);
            while let Some(before) = behind.next_if(|other| other.sequence() < event.sequence()) {
                self.events.push_back(before);
            }
            self.events.push_back(event);
        }
        self.events.extend(behind);
    }

    /// Returns, of the gaps that a reader has passed, those that are no longer holes: events have
    /// come there, or none will. `open` returns the reader's gaps between two sequences. It looks
    /// only where holes have changed since the last comparison.
    pub(in crate::node) fn resolved(
        &self,
        compared: Option<Compared>,
        open: impl Fn(u64, u64) -> Gaps,
    ) -> (Gaps, Compared) {
        let mut resolved = Gaps::new();
        let mut compare = |first: u64, last: u64| {
            let mut gaps = open(first, last.min(self.seen));
            self.holes.within(first, last.min(self.seen)).for_each(|(first, last)| _ = gaps.remove(first, last));
            gaps.iter().for_each(|(first, last)| resolved.insert(first, last));
        };
        match compared.and_then(|compared| Some((compared.seen, self.changes_since(compared.version)?))) {
            Some((seen, changes)) => {
                changes.for_each(|(first, last)| compare(first, last));
                compare(seen + 1, self.seen);
            }
            None => compare(1, self.seen),
        }
        (resolved, self.compared())
    }

    /// The ranges in which holes have changed since a version. `None`: the ring has forgotten that.
    pub(in crate::node) fn changes_since(&self, version: u64) -> Option<impl Iterator<Item = (u64, u64)> + '_> {
        let known = self.changes.front().is_none_or(|(first, ..)| *first <= version + 1);
        let from = self.changes.partition_point(|(change, ..)| *change <= version);
        known.then(|| self.changes.range(from..).map(|(_, first, last)| (*first, *last)))
    }

    fn note_sighting(&mut self, now: Instant) {
        let first_hole = self.holes.first().unwrap_or(u64::MAX);
        while self.sightings.pop_front_if(|(seen, _)| *seen < first_hole).is_some() {}
        // Holes seen in between count as seen at the next sighting: they seem younger than they
        // are, never older.
        let last = self.sightings.back();
        let due = last.is_none_or(|(seen, at)| *seen < self.seen && now.duration_since(*at) >= SIGHT_EVERY);
        if !self.holes.is_empty() && due {
            self.sightings.push_back((self.seen, now));
        }
        if self.sightings.len() > MAX_SIGHTINGS {
            // Of each two notes, the later one stays: holes between them seem younger.
            let mut keep = true;
            self.sightings.retain(|_| {
                keep = !keep;
                keep
            });
        }
    }

    /// The holes in `after..=seen`, with the time when each was first seen.
    pub(in crate::node) fn gaps_seen(&self, after: u64, seen: u64) -> Vec<(u64, u64, Instant)> {
        let dated = |(first, last): (u64, u64)| {
            let at = self.sightings.partition_point(|(seen, _)| *seen < last);
            self.sightings.get(at).map(|(_, at)| (first, last, *at))
        };
        self.holes.within(after.saturating_add(1), seen).filter_map(dated).collect()
    }

    fn forget(&mut self) {
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES && self.events.len() > 1 {
            let Some(event) = self.events.pop_front() else { return };
            self.bytes -= weight(&event);
            self.start = event.sequence().get();
        }
    }

    /// Returns what comes after `after`, at most `limit` events. `None`: the ring begins later.
    pub(in crate::node) fn segment(&self, after: u64, limit: usize) -> Option<Segment> {
        if after < self.start {
            return None;
        }
        let from = self.events.partition_point(|event| event.sequence() <= after);
        let events: Vec<_> = self.events.range(from..).take(limit).cloned().collect();
        let cut = from + events.len() < self.events.len();
        let seen = events.last().filter(|_| cut).map_or(self.seen, |event| event.sequence().get());
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

    /// The first run of places behind a sequence that are missing and may still be filled: its
    /// first and its last sequence.
    pub(in crate::node) fn first_hole_after(&self, after: u64) -> Option<(u64, u64)> {
        self.holes.within(after.saturating_add(1), u64::MAX).next()
    }

    /// The last event at or below a sequence, if the ring has one.
    pub(in crate::node) fn last_event(&self, up_to: u64) -> Option<&Arc<RecordedEvent>> {
        let end = self.events.partition_point(|event| event.sequence().get() <= up_to);
        self.events.get(end.checked_sub(1)?)
    }

    /// What is known about the unsettled part behind the ring: a segment without events, and the
    /// source to read its events from.
    pub(in crate::node) fn behind(&self, after: u64) -> (Segment, PageSource) {
        let (settled, as_of, visible_by) = (self.settled, self.looked_at, self.looked_at.max(self.filled_at));
        let source = PageSource::Visible { seen: self.seen, holes: self.holes.clone(), version: self.version };
        (Segment { after, seen: after, settled, as_of, visible_by, ..Segment::default() }, source)
    }
}

/// Roughly the memory that an event takes.
pub(in crate::node) fn weight(event: &RecordedEvent) -> usize {
    512 + event.data.as_ref().map_or(0, |data| data.len())
}

#[cfg(test)]
mod tests {
    use headwater_core::Event;

    use super::*;

    fn event(sequence: u64) -> RecordedEvent {
        recorded(sequence, Event::raw("tested", serde_json::json!({})))
    }

    fn recorded(sequence: u64, event: Event) -> RecordedEvent {
        let place = (Some(sequence), Some(chrono::Utc::now()));
        let event = Event { global_sequence: place.0, recorded_at: place.1, ..event };
        RecordedEvent::new(event).unwrap()
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
        ring.segment(after, 100).expect("within the ring").events.iter().map(|event| event.sequence().get()).collect()
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
    fn strict_order_ends_at_the_first_hole_behind_a_place() {
        let mut ring = Ring::starting_at(0);
        take(&mut ring, look(&[1, 2, 5, 6, 9], &[], 1), Instant::now());
        assert_eq!(
            [0, 2, 3, 4, 8].map(|after| ring.first_hole_after(after)),
            [Some((3, 4)), Some((3, 4)), Some((4, 4)), Some((7, 8)), None]
        );
        assert_eq!(ring.last_event(4).map(|event| event.sequence().get()), Some(2));
        assert_eq!(ring.last_event(0).map(|event| event.sequence().get()), None);
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
    fn what_comes_partly_is_settled_up_to_the_first_hole_and_makes_nothing_newer_while_there_are_any() {
        let (start, step) = (Instant::now(), Duration::from_secs(1));
        let mut ring = Ring::starting_at(2);
        ring.take(look(&[3], &[], 3), start, start);
        let change = ring.take_partly(look(&[4, 6, 7, 9], &[], 0), start + step);
        assert_eq!((change, ring.settled(), ring.seen()), (Change { news: true, permanent: vec![] }, 4, 9));
        assert_eq!(ring.holes().ranges(), [(5, 5), (8, 8)]);
        let segment = ring.segment(2, 10).unwrap();
        assert_eq!((segment.as_of, segment.visible_by, segment.complete), (Some(start), Some(start + step), false));
        assert_eq!(segment.gaps_seen, [(5, 5, start + step), (8, 8, start + step)]);
        ring.take_partly(look(&[], &[5], 0), start + step * 2);
        assert_eq!((ring.settled(), sequences(&ring, 2)), (7, vec![3, 4, 5, 6, 7, 9]));
        let change = ring.take_partly(LookAhead { settled: 8, ..LookAhead::default() }, start + step * 3);
        assert_eq!((change, ring.settled()), (Change { news: true, permanent: vec![(8, 8)] }, 9));
        assert_eq!(ring.segment(2, 10).unwrap().as_of, Some(start + step * 3));
    }

    #[test]
    fn a_full_ring_forgets_its_oldest_events() {
        let mut ring = Ring::starting_at(0);
        let all: Vec<u64> = (1..=MAX_EVENTS as u64 + 5).collect();
        take(&mut ring, look(&all, &[], all.len() as u64), Instant::now());
        assert!(ring.segment(4, 1).is_none());
        assert_eq!(ring.segment(5, 1).unwrap().events[0].sequence(), 6);
    }

    #[test]
    fn a_ring_that_is_half_full_waits_for_its_reader() {
        let mut ring = Ring::starting_at(0);
        assert!(ring.is_wanted(0));
        let half = MAX_EVENTS as u64 / 2;
        take(&mut ring, look(&(1..half).collect::<Vec<_>>(), &[], half - 1), Instant::now());
        assert!(ring.is_wanted(0), "there is room");
        take(&mut ring, look(&(half..=half + 999).collect::<Vec<_>>(), &[], half + 999), Instant::now());
        let middle = (half + 999) / 2;
        assert!(!ring.is_wanted(0) && !ring.is_wanted(middle - 1));
        assert!(ring.is_wanted(middle + 1) && ring.is_wanted(half + 999));
        assert!(ring.segment(0, 1).is_some(), "nothing is forgotten");
    }

    #[test]
    fn a_ring_of_large_events_waits_too() {
        let mut ring = Ring::starting_at(0);
        let large =
            |sequence: u64| recorded(sequence, Event::raw("tested", serde_json::json!("x".repeat(MAX_BYTES / 8))));
        let look = |first: u64| LookAhead {
            events: vec![large(first), large(first + 1)],
            seen: first + 1,
            ..LookAhead::default()
        };
        take(&mut ring, look(1), Instant::now());
        assert!(ring.is_wanted(0));
        take(&mut ring, look(3), Instant::now());
        assert!(!ring.is_wanted(0) && !ring.is_wanted(1));
        assert!(ring.is_wanted(3));
    }

    #[test]
    fn many_holes_are_filled_at_once() {
        let mut ring = Ring::starting_at(0);
        take(&mut ring, look(&(1..=1_000).map(|place| place * 2).collect::<Vec<_>>(), &[], 0), Instant::now());
        assert_eq!(ring.holes().len(), 1_000);
        take(&mut ring, look(&[], &(1..=900).map(|place| place * 2 - 1).collect::<Vec<_>>(), 0), Instant::now());
        assert_eq!(ring.holes().first(), Some(1_801));
        let segment = ring.segment(0, 5_000).unwrap();
        assert!(segment.events.windows(2).all(|pair| pair[0].sequence() < pair[1].sequence()));
        assert_eq!(segment.events.len(), 1_900);
    }

    /// Passed gaps are compared only where holes have changed, however many gaps there are.
    #[test]
    fn gaps_are_compared_where_holes_have_changed() {
        let mut ring = Ring::starting_at(0);
        let seen: Vec<u64> = (1..=10_000).map(|place| place * 2).collect();
        take(&mut ring, look(&seen, &[], 0), Instant::now());
        let passed: Gaps = seen.iter().map(|sequence| (sequence - 1, sequence - 1)).collect();
        let asked = std::cell::Cell::new(0);
        let open = |first, last| {
            let part: Gaps = passed.within(first, last).collect();
            asked.set(asked.get() + part.len());
            part
        };
        let (resolved, compared) = ring.resolved(None, open);
        assert_eq!((resolved.is_empty(), asked.take()), (true, 10_000));
        assert_eq!(ring.resolved(Some(compared), open), (Gaps::new(), compared));
        take(&mut ring, look(&[20_001], &[], 0), Instant::now());
        take(&mut ring, look(&[], &[101, 105], 0), Instant::now());
        let (resolved, compared) = ring.resolved(Some(compared), open);
        assert_eq!((resolved.ranges(), asked.take()), (vec![(101, 101), (105, 105)], 3), "and one between them");
        take(&mut ring, look(&[], &[], 10), Instant::now());
        let (resolved, _) = ring.resolved(Some(compared), open);
        assert_eq!((resolved.len(), asked.take()), (5, 5));
    }

    #[test]
    fn whoever_has_missed_too_many_changes_compares_all() {
        let mut ring = Ring::starting_at(0);
        take(&mut ring, look(&(1..=3_000).map(|place| place * 2).collect::<Vec<_>>(), &[], 0), Instant::now());
        let (_, compared) = ring.resolved(None, |_, _| Gaps::new());
        for hole in 0..=MAX_CHANGES as u64 {
            take(&mut ring, look(&[], &[hole * 2 + 1], 0), Instant::now());
        }
        let (resolved, _) =
            ring.resolved(Some(compared), |first, last| [(first.max(1), last.min(9))].into_iter().collect());
        assert_eq!(resolved.ranges(), [(1, 9)]);
    }
}
