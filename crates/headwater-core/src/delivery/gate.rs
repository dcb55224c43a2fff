//! The gate: which events may go to a subscriber now.
//!
//! This module is pure. Its input is what is visible, what is proved and the time. Its output is
//! the events that may be handled, in order.
//!
//! A hole in what is visible is permanent up to `settled`, and the gate steps over it. Above
//! `settled`, the hole's writer may still commit. The gate holds the events behind such a gap for
//! `hold_for` and then passes the gap. A passed gap goes into the subscriber's ledger together with
//! the checkpoint. Its events are delivered late if they commit.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Gaps;
use crate::{RecordedEvent, missing_runs};

/// The most ranges in a subscriber's ledger (4 MB in memory). When the ledger is full, gaps are
/// held without a time limit, and the subscriber reports that. Nothing is lost: delivery goes on as
/// soon as one of the writers behind the gaps has ended.
pub const MAX_PASSED: usize = 250_000;

/// A part of the log as it was seen: everything visible above `after` and up to `seen`.
#[derive(Debug, Clone, Default)]
pub struct Segment {
    /// Where the segment begins. This sequence is not part of it.
    pub after: u64,
    /// The visible events, in order.
    pub events: Vec<Arc<RecordedEvent>>,
    /// Where the segment ends. This sequence is part of it.
    pub seen: u64,
    /// An event that is missing at or below this sequence will never come.
    pub settled: u64,
    /// Gaps above `settled` (first, last) with the time when somebody first saw them, where that is
    /// known. A gap that others saw long ago is not held for the whole time again.
    pub gaps_seen: Vec<(u64, u64, Instant)>,
    /// When the log was looked at. `None`: now. Nothing is known about what happened since.
    pub as_of: Option<Instant>,
    /// Whether the segment has everything that was visible at that time.
    pub complete: bool,
    /// When everything in the segment was visible, if that is known. This is `as_of`, unless some
    /// of it was found later than the rest.
    pub visible_by: Option<Instant>,
}

impl Segment {
    /// Cuts off everything after `end`.
    pub fn end_at(&mut self, end: u64) {
        self.events.truncate(self.events.partition_point(|event| event.sequence() <= end));
        self.complete &= self.seen <= end;
        self.seen = self.seen.min(end.max(self.after));
        self.settled = self.settled.min(end.max(self.after));
    }
}

/// An event that may be handled.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The event.
    pub event: Arc<RecordedEvent>,
    /// The gap before the event that was passed.
    pub passed: Option<(u64, u64)>,
}

/// What holds events back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The first missing sequence.
    pub first: u64,
    /// The last missing sequence.
    pub last: u64,
    /// When the gap is passed. `None`: never.
    pub until: Option<Instant>,
    /// Whether the gap is held only because the ledger has [`MAX_PASSED`] ranges already.
    pub ledger_is_full: bool,
}

/// Decides for one subscriber which events may go out.
#[derive(Debug)]
pub struct Gate {
    position: u64,
    hold_for: Duration,
    /// Gaps that were pending at the last look, each with the time when it was first seen.
    pending: Vec<(u64, u64, Instant)>,
}

impl Gate {
    /// A gate that has passed everything up to `position`.
    pub fn new(position: u64, hold_for: Duration) -> Self {
        Gate { position, hold_for, pending: Vec::new() }
    }

    /// Everything at or below this sequence went out, is not an event, or was passed.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Passes a part of the log that is settled and holds nothing for the subscriber.
    pub fn pass_over(&mut self, up_to: u64) {
        self.position = self.position.max(up_to);
    }

    /// Lets out the events that may go. `ledger` has the gaps that were passed so far. A segment
    /// that begins above the position, or has nothing new, lets nothing out. The position also
    /// moves over sequences that are proved to hold nothing, and does not move back if a later
    /// segment proves less.
    ///
    /// A gap is passed only if a look at least `hold_for` after the first sight still finds it. A
    /// process that was stopped in between has to look again.
    pub fn admit(&mut self, segment: &Segment, ledger: &Gaps, now: Instant) -> (Vec<Admitted>, Option<Hold>) {
        if segment.after > self.position {
            return (Vec::new(), None);
        }
        // Events from the WAL are newer than the last look, and so are the gaps between them.
        self.note_pending(segment, segment.visible_by.or(segment.as_of).map_or(now, |seen| seen.min(now)));
        let now = segment.as_of.map_or(now, |as_of| as_of.min(now));
        let mut room = MAX_PASSED.saturating_sub(ledger.len());
        let start = segment.events.partition_point(|event| event.sequence() <= self.position);
        let mut admitted = Vec::with_capacity(segment.events.len() - start);
        for event in &segment.events[start..] {
            let next = event.sequence().get();
            let first = self.position.max(segment.settled).saturating_add(1);
            let passed = (first < next).then(|| (first, next - 1));
            if let Some((first, last)) = passed {
                let until = self.passes_at(first, now);
                if room == 0 || until.is_none_or(|until| until > now) {
                    self.position = first - 1;
                    let ledger_is_full = room == 0 && until.is_some_and(|until| until <= now);
                    let until = until.filter(|_| room > 0);
                    return (admitted, Some(Hold { first, last, until, ledger_is_full }));
                }
                room -= 1;
            }
            admitted.push(Admitted { event: event.clone(), passed });
            self.position = next;
        }
        self.position = self.position.max(segment.settled.min(segment.seen));
        (admitted, None)
    }

    /// Lets out a whole segment that is settled, and moves over it. Returns which of its events go
    /// out. `None`: more may still come into this segment, and only [`admit`](Gate::admit) can tell
    /// what may go.
    pub fn admit_settled(&mut self, segment: &Segment) -> Option<Range<usize>> {
        if segment.after > self.position || segment.settled < segment.seen || segment.seen < self.position {
            return None;
        }
        let start = segment.events.partition_point(|event| event.sequence() <= self.position);
        self.position = segment.seen;
        self.pending.retain(|gap| gap.1 > segment.settled);
        Some(start..segment.events.len())
    }

    /// Gaps only shrink, so the rest of a gap keeps the gap's age. A gap beyond the segment keeps
    /// its age too, because segments differ in length.
    fn note_pending(&mut self, segment: &Segment, now: Instant) {
        let start = self.position.max(segment.settled);
        let last = segment.events.last().map_or(start, |event| event.sequence().get().max(start));
        let present = segment.events.iter().map(|event| event.sequence().get()).filter(|sequence| *sequence > start);
        let runs = missing_runs(start, last, present);
        let known = std::mem::take(&mut self.pending);
        // All lists are in order, so each entry is looked at once.
        let (mut old, mut told) = (&known[..], &segment.gaps_seen[..]);
        let mut seen = Vec::with_capacity(runs.len());
        for (first, last) in runs {
            let since = [first_sight(&mut old, first, last), first_sight(&mut told, first, last)];
            seen.push((first, last, since.into_iter().flatten().min().unwrap_or(now)));
        }
        let beyond = known.iter().filter(|old| old.1 > last).map(|old| (old.0.max(last + 1), old.1, old.2));
        seen.extend(beyond);
        self.pending = seen;
    }

    fn passes_at(&self, first: u64, now: Instant) -> Option<Instant> {
        if self.hold_for.is_zero() {
            return Some(now);
        }
        let at = self.pending.partition_point(|gap| gap.1 < first);
        let since = self.pending.get(at).filter(|gap| gap.0 <= first).map_or(now, |gap| gap.2);
        since.checked_add(self.hold_for)
    }
}

/// When any part of `first..=last` was first seen. `gaps` is in order; gaps before `first` are
/// removed from it.
fn first_sight(gaps: &mut &[(u64, u64, Instant)], first: u64, last: u64) -> Option<Instant> {
    let before = gaps.iter().take_while(|gap| gap.1 < first).count();
    *gaps = &gaps[before..];
    gaps.iter().take_while(|gap| gap.0 <= last).map(|gap| gap.2).min()
}

/// What happened to gaps that were passed.
#[derive(Debug, Clone, Default)]
pub struct Late {
    /// Events that did commit, in order.
    pub events: Vec<Arc<RecordedEvent>>,
    /// Ranges in which no event will come.
    pub permanent: Vec<(u64, u64)>,
}

impl Late {
    /// Compares a ledger with the events that are visible in it (in order) and with how far the log
    /// is settled.
    pub fn of(ledger: &Gaps, visible: Vec<Arc<RecordedEvent>>, settled: u64) -> Late {
        let events: Vec<_> = visible.into_iter().filter(|event| ledger.contains(event.sequence().get())).collect();
        let mut permanent = Vec::new();
        let mut present = events.iter().map(|event| event.sequence().get()).peekable();
        for (first, last) in ledger.iter().take_while(|(first, _)| *first <= settled) {
            // Only up to `settled`: an event that is missing before a visible one above it may
            // still come.
            let end = last.min(settled);
            while present.next_if(|sequence| *sequence < first).is_some() {}
            let within: Vec<u64> = std::iter::from_fn(|| present.next_if(|sequence| *sequence <= end)).collect();
            permanent.extend(missing_runs(first - 1, end, within));
        }
        Late { permanent, events }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    const SECOND: Duration = Duration::from_secs(1);

    fn event(global_sequence: u64) -> Arc<RecordedEvent> {
        let event = Event {
            global_sequence: Some(global_sequence),
            recorded_at: Some(chrono::Utc::now()),
            ..Event::raw("E", serde_json::json!({}))
        };
        Arc::new(RecordedEvent::new(event).unwrap())
    }

    fn events(sequences: impl IntoIterator<Item = u64>) -> Vec<Arc<RecordedEvent>> {
        sequences.into_iter().map(event).collect()
    }

    /// Everything that is visible after `after`.
    fn segment(after: u64, visible: impl IntoIterator<Item = u64>, settled: u64) -> Segment {
        let events = events(visible);
        let seen = events.last().map_or(after, |event| event.sequence().get());
        Segment { after, events, seen, settled, ..Segment::default() }
    }

    /// The events that went out with the gaps passed before them, and the gap that holds the rest.
    type Out = (Vec<(u64, Option<(u64, u64)>)>, Option<(u64, u64)>);

    fn admit(gate: &mut Gate, segment: &Segment, now: Instant) -> Out {
        let (admitted, hold) = gate.admit(segment, &Gaps::new(), now);
        let out = admitted.iter().map(|admitted| (admitted.event.sequence().get(), admitted.passed)).collect();
        (out, hold.map(|hold| (hold.first, hold.last)))
    }

    fn plain<const N: usize>(sequences: [u64; N]) -> Vec<(u64, Option<(u64, u64)>)> {
        sequences.map(|sequence| (sequence, None)).into()
    }

    #[test]
    fn a_contiguous_run_goes_out() {
        let mut gate = Gate::new(0, SECOND);
        assert_eq!(admit(&mut gate, &segment(0, 1..=3, 0), Instant::now()), (plain([1, 2, 3]), None));
        assert_eq!(gate.position(), 3);
    }

    #[test]
    fn a_settled_segment_goes_out_as_a_whole() {
        let now = Instant::now();
        for (position, visible, settled) in
            [(0, vec![1, 4, 6], 6), (4, vec![1, 4, 6], 9), (6, vec![2, 6], 6), (2, vec![], 2)]
        {
            let segment = segment(0, visible.clone(), settled);
            let (mut whole, mut each) = (Gate::new(position, SECOND), Gate::new(position, SECOND));
            let Some(range) = whole.admit_settled(&segment) else {
                assert!(segment.seen < position, "{visible:?}");
                continue;
            };
            let (admitted, hold) = each.admit(&segment, &Gaps::new(), now);
            assert!(hold.is_none() && admitted.iter().all(|admitted| admitted.passed.is_none()));
            let out = admitted.iter().map(|admitted| admitted.event.sequence().get());
            assert!(segment.events[range].iter().map(|event| event.sequence().get()).eq(out), "{visible:?}");
            assert_eq!(whole.position(), each.position());
        }
    }

    #[test]
    fn a_segment_that_may_get_more_does_not_go_out_as_a_whole() {
        let mut gate = Gate::new(0, SECOND);
        assert_eq!(gate.admit_settled(&segment(0, [1, 3], 2)), None);
        assert_eq!(gate.admit_settled(&segment(1, [2, 3], 3)), None, "it begins beyond");
        assert_eq!(gate.position(), 0);
        // A gap that is held keeps its age.
        let (begun, later) = (Instant::now(), Instant::now() + SECOND);
        assert_eq!(admit(&mut gate, &segment(0, [5], 0), begun), (plain([]), Some((1, 4))));
        assert_eq!(gate.admit_settled(&segment(0, [1, 2], 2)), Some(0..2));
        assert_eq!(admit(&mut gate, &segment(2, [5], 2), later), (vec![(5, Some((3, 4)))], None));
    }

    #[test]
    fn what_went_out_does_not_go_out_again() {
        let (mut gate, now) = (Gate::new(2, SECOND), Instant::now());
        assert_eq!(admit(&mut gate, &segment(0, 1..=4, 0), now), (plain([3, 4]), None));
        assert_eq!(admit(&mut gate, &segment(0, 1..=4, 4), now), (plain([]), None));
        assert_eq!(admit(&mut gate, &segment(0, 1..=2, 2), now), (plain([]), None));
        assert_eq!(gate.position(), 4);
    }

    #[test]
    fn a_permanent_hole_is_stepped_over() {
        let mut gate = Gate::new(0, Duration::MAX);
        assert_eq!(admit(&mut gate, &segment(0, [1, 4, 6], 5), Instant::now()), (plain([1, 4, 6]), None));
    }

    #[test]
    fn a_hole_of_which_some_is_permanent_waits_for_the_rest() {
        let (mut gate, now) = (Gate::new(0, SECOND), Instant::now());
        assert_eq!(admit(&mut gate, &segment(0, [1, 9], 5), now), (plain([1]), Some((6, 8))));
        assert_eq!(gate.position(), 5, "what is proved is left behind");
        // A writer that entered with an old position proves less. What was proved stays proved.
        assert_eq!(admit(&mut gate, &segment(5, [9], 1), now), (plain([]), Some((6, 8))));
        assert_eq!(admit(&mut gate, &segment(5, [9], 1), now + SECOND), (vec![(9, Some((6, 8)))], None));
    }

    #[test]
    fn a_gap_that_the_tail_saw_long_ago_is_not_held_anew() {
        let start = Instant::now();
        let mut gate = Gate::new(0, Duration::from_secs(5));
        let mut seen = segment(0, [2], 0);
        seen.gaps_seen = vec![(1, 1, start)];
        let (admitted, hold) = gate.admit(&seen, &Gaps::new(), start + Duration::from_secs(5));
        assert_eq!((admitted.len(), hold), (1, None));
    }

    #[test]
    fn a_gap_is_not_passed_on_old_knowledge() {
        let start = Instant::now();
        let (hold_for, later) = (Duration::from_secs(5), start + Duration::from_secs(60));
        let mut gate = Gate::new(0, hold_for);
        let mut seen = segment(0, [2], 0);
        (seen.gaps_seen, seen.as_of) = (vec![(1, 1, start)], Some(start));
        let (admitted, hold) = gate.admit(&seen, &Gaps::new(), later);
        assert_eq!((admitted.len(), hold.unwrap().until), (0, Some(start + hold_for)));
        seen.as_of = Some(later);
        assert_eq!(gate.admit(&seen, &Gaps::new(), later).0.len(), 1);
    }

    /// The WAL brings events between two looks, which may be far apart.
    #[test]
    fn a_gap_in_what_came_after_the_last_look_is_not_as_old_as_that_look() {
        let looked_at = Instant::now();
        let came_at = looked_at + Duration::from_secs(60);
        let mut seen = segment(0, [2], 0);
        (seen.as_of, seen.visible_by) = (Some(looked_at), Some(came_at));
        let mut gate = Gate::new(0, SECOND);
        let (admitted, hold) = gate.admit(&seen, &Gaps::new(), came_at);
        assert_eq!((admitted.len(), hold.unwrap().until), (0, Some(came_at + SECOND)));
        for (later, passed) in [(SECOND / 2, 0), (SECOND, 1)] {
            seen.as_of = Some(came_at + later);
            assert_eq!(gate.admit(&seen, &Gaps::new(), came_at + later).0.len(), passed);
        }
        // A subscriber that never waits does not wait for a look either.
        (seen.as_of, seen.visible_by) = (Some(looked_at), Some(came_at));
        assert_eq!(Gate::new(0, Duration::ZERO).admit(&seen, &Gaps::new(), came_at).0.len(), 1);
    }

    #[test]
    fn a_pending_hole_is_held_then_passed_after_exactly_hold_for() {
        let (mut gate, now) = (Gate::new(0, SECOND), Instant::now());
        let segment = segment(0, [1, 3, 4], 1);
        let (admitted, hold) = gate.admit(&segment, &Gaps::new(), now);
        assert_eq!(admitted.len(), 1);
        assert_eq!(hold, Some(Hold { first: 2, last: 2, until: Some(now + SECOND), ledger_is_full: false }));
        let nearly = now + SECOND - Duration::from_nanos(1);
        assert_eq!(admit(&mut gate, &segment, nearly), (plain([]), Some((2, 2))));
        assert_eq!(admit(&mut gate, &segment, now + SECOND), (vec![(3, Some((2, 2))), (4, None)], None));
    }

    #[test]
    fn a_hole_that_is_filled_goes_out_in_order() {
        let (mut gate, now) = (Gate::new(0, SECOND), Instant::now());
        admit(&mut gate, &segment(0, [1, 3], 1), now);
        assert_eq!(admit(&mut gate, &segment(1, [2, 3], 3), now), (plain([2, 3]), None));
    }

    #[test]
    fn hold_for_zero_never_waits() {
        let mut gate = Gate::new(0, Duration::ZERO);
        let passed = vec![(3, Some((1, 2))), (5, Some((4, 4)))];
        assert_eq!(admit(&mut gate, &segment(0, [3, 5], 0), Instant::now()), (passed, None));
    }

    #[test]
    fn the_longest_hold_for_never_passes() {
        let (mut gate, now) = (Gate::new(0, Duration::MAX), Instant::now());
        let century = Duration::from_secs(100 * 365 * 86_400);
        for now in [now, now + century] {
            let (admitted, hold) = gate.admit(&segment(0, [2], 0), &Gaps::new(), now);
            assert!(admitted.is_empty());
            assert_eq!(hold, Some(Hold { first: 1, last: 1, until: None, ledger_is_full: false }));
        }
    }

    #[test]
    fn holes_that_were_seen_together_are_passed_together() {
        let (mut gate, now) = (Gate::new(0, SECOND), Instant::now());
        let segment = segment(0, (2..=200).step_by(2), 0);
        assert_eq!(admit(&mut gate, &segment, now).1, Some((1, 1)));
        let (out, hold) = admit(&mut gate, &segment, now + SECOND);
        assert_eq!((out.len(), hold), (100, None));
    }

    #[test]
    fn a_hole_that_is_seen_later_is_held_by_itself() {
        let (mut gate, now) = (Gate::new(0, SECOND), Instant::now());
        admit(&mut gate, &segment(0, [2], 0), now);
        let later = now + SECOND / 2;
        admit(&mut gate, &segment(0, [2, 4], 0), later);
        let longer = segment(0, [2, 4], 0);
        assert_eq!(admit(&mut gate, &longer, now + SECOND), (vec![(2, Some((1, 1)))], Some((3, 3))));
        assert_eq!(admit(&mut gate, &longer, later + SECOND), (vec![(4, Some((3, 3)))], None));
    }

    #[test]
    fn a_hole_that_shrinks_or_is_split_keeps_its_age() {
        let (mut gate, now) = (Gate::new(0, SECOND), Instant::now());
        admit(&mut gate, &segment(0, [10], 0), now);
        admit(&mut gate, &segment(0, [5, 10], 2), now + SECOND / 2);
        let out = vec![(5, Some((3, 4))), (10, Some((6, 9)))];
        assert_eq!(admit(&mut gate, &segment(0, [5, 10], 2), now + SECOND), (out, None));
    }

    #[test]
    fn a_shorter_segment_between_makes_no_hole_young_again() {
        let (mut gate, now) = (Gate::new(0, SECOND), Instant::now());
        admit(&mut gate, &segment(0, [2, 5, 9], 0), now);
        admit(&mut gate, &segment(0, [], 0), now + SECOND / 2);
        admit(&mut gate, &segment(0, [2], 0), now + SECOND / 2);
        admit(&mut gate, &segment(0, [2, 4], 0), now + SECOND / 2);
        let out = vec![(2, Some((1, 1))), (4, Some((3, 3))), (5, None), (9, Some((6, 8)))];
        assert_eq!(admit(&mut gate, &segment(0, [2, 4, 5, 9], 0), now + SECOND), (out, None));
    }

    #[test]
    fn a_full_ledger_holds_however_long() {
        let (mut gate, now) = (Gate::new(9_000, Duration::ZERO), Instant::now());
        let full: Gaps = (1..=MAX_PASSED as u64).map(|number| (number * 3, number * 3)).collect();
        let (admitted, hold) = gate.admit(&segment(9_000, [9_001, 9_003], 0), &full, now);
        assert_eq!(admitted.len(), 1);
        assert_eq!(hold, Some(Hold { first: 9_002, last: 9_002, until: None, ledger_is_full: true }));

        let mut roomy = full.clone();
        roomy.remove(3, 3);
        let (admitted, hold) = gate.admit(&segment(9_001, [9_003, 9_005], 0), &roomy, now);
        assert_eq!((admitted.len(), hold.map(|hold| hold.first)), (1, Some(9_004)), "there was room for one");
    }

    #[test]
    fn a_full_ledger_does_not_hold_what_is_proved() {
        let mut gate = Gate::new(9_000, Duration::ZERO);
        let full: Gaps = (1..=MAX_PASSED as u64).map(|number| (number * 3, number * 3)).collect();
        let (admitted, hold) = gate.admit(&segment(9_000, [9_003], 9_002), &full, Instant::now());
        assert_eq!((admitted.len(), hold), (1, None));
    }

    #[test]
    fn a_segment_that_begins_beyond_the_position_lets_nothing_out() {
        let mut gate = Gate::new(5, Duration::ZERO);
        assert_eq!(admit(&mut gate, &segment(6, [7, 8], 8), Instant::now()), (plain([]), None));
        assert_eq!(gate.position(), 5);
    }

    #[test]
    fn what_is_settled_at_the_end_moves_the_position() {
        let mut gate = Gate::new(0, SECOND);
        let trailing = Segment { seen: 9, ..segment(0, [1, 2], 7) };
        assert_eq!(admit(&mut gate, &trailing, Instant::now()), (plain([1, 2]), None));
        assert_eq!(gate.position(), 7);
        // `settled` is beyond what was seen, so there may be events.
        let cut = segment(0, [8], 20);
        assert_eq!(admit(&mut gate, &cut, Instant::now()), (plain([8]), None));
        assert_eq!(gate.position(), 8);
    }

    #[test]
    fn everything_settled_may_be_said_with_the_largest_number() {
        let mut gate = Gate::new(0, SECOND);
        assert_eq!(admit(&mut gate, &segment(0, [2, 5], u64::MAX), Instant::now()), (plain([2, 5]), None));
        assert_eq!(gate.position(), 5);
    }

    fn late(ledger: &[(u64, u64)], visible: &[u64], settled: u64) -> (Vec<u64>, Vec<(u64, u64)>) {
        let late = Late::of(&ledger.iter().copied().collect(), events(visible.iter().copied()), settled);
        (late.events.iter().map(|event| event.sequence().get()).collect(), late.permanent)
    }

    #[test]
    fn late_is_what_the_ledger_has_and_is_visible_by_now() {
        assert_eq!(late(&[(2, 4), (8, 9)], &[], 1), (vec![], vec![]));
        assert_eq!(late(&[(2, 4), (8, 9)], &[3, 5, 8, 10], 1), (vec![3, 8], vec![]));
    }

    #[test]
    fn what_is_missing_of_the_ledger_is_permanent_as_far_as_is_settled() {
        assert_eq!(late(&[(2, 4), (8, 9)], &[3], 20), (vec![3], vec![(2, 2), (4, 4), (8, 9)]));
        assert_eq!(late(&[(2, 4), (8, 9)], &[3], 3), (vec![3], vec![(2, 2)]));
        assert_eq!(late(&[(2, 4), (8, 9)], &[2, 3, 4], 8), (vec![2, 3, 4], vec![(8, 8)]));
    }

    #[test]
    fn what_is_missing_before_a_late_event_beyond_the_settled_is_not_permanent() {
        assert_eq!(late(&[(5, 9)], &[8], 6), (vec![8], vec![(5, 6)]));
        assert_eq!(late(&[(5, 9)], &[8], 4), (vec![8], vec![]));
    }
}
