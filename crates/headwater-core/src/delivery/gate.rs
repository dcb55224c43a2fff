//! The gate: which events may go to a subscriber now.
//!
//! Pure: what is visible and what is proved come in, and so does the time; what may be handled comes out, in order. A hole in what is
//! visible is permanent up to `settled`, and is stepped over. Beyond, its writer may still commit: the events behind it are held for
//! `hold_for`, then the gap is passed. A passed gap goes into the subscriber's ledger with the checkpoint, and its events
//! are delivered late, if they commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Gaps;
use crate::{Event, missing_runs};

/// Most ranges in a subscriber's ledger (4 MB in memory). Beyond, gaps are held, however long, and the subscriber says so: nothing is lost, and delivery goes
/// on as soon as one of the writers behind the gaps has ended.
pub const MAX_PASSED: usize = 250_000;

/// A piece of the log as it was seen: everything visible in `after..=seen`, `after` excluded.
#[derive(Debug, Clone, Default)]
pub struct Segment {
    /// Where it begins; not part of it.
    pub after: u64,
    /// What is visible, in order.
    pub events: Vec<Arc<Event>>,
    /// How far it reaches.
    pub seen: u64,
    /// At or below, what is missing will never come.
    pub settled: u64,
    /// Gaps beyond that (first, last), with the time when they were first seen, where that is known: a gap that others saw long ago is not held
    /// anew.
    pub gaps_seen: Vec<(u64, u64, Instant)>,
    /// When it was looked at, if not now: what happened since, nobody here knows.
    pub as_of: Option<Instant>,
    /// Whether it has all that was visible then.
    pub complete: bool,
    /// When all of it was visible, if that is known: `as_of`, unless some of it was found after the rest.
    pub visible_by: Option<Instant>,
}

impl Segment {
    /// Cuts off what lies beyond.
    pub fn end_at(&mut self, end: u64) {
        self.events.truncate(self.events.partition_point(|event| event.global_sequence.unwrap_or_default() <= end));
        self.complete &= self.seen <= end;
        self.seen = self.seen.min(end.max(self.after));
        self.settled = self.settled.min(end.max(self.after));
    }
}

/// An event that may be handled.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The event.
    pub event: Arc<Event>,
    /// The gap before it that was passed.
    pub passed: Option<(u64, u64)>,
}

/// What holds events back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The first missing sequence.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// When it is passed; `None`: never.
    pub until: Option<Instant>,
    /// It would be passed, but the ledger has [`MAX_PASSED`] ranges already.
    pub ledger_is_full: bool,
}

/// Decides which events may go out, for one subscriber.
#[derive(Debug)]
pub struct Gate {
    position: u64,
    hold_for: Duration,
    /// Gaps that were pending when last looked at, with the time when each was first seen.
    pending: Vec<(u64, u64, Instant)>,
}

impl Gate {
    /// A gate behind which everything up to `position` is.
    pub fn new(position: u64, hold_for: Duration) -> Self {
        Gate { position, hold_for, pending: Vec::new() }
    }

    /// Everything at or below went out, is no event, or was passed.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Passes a part of the log that is settled and holds nothing for the subscriber.
    pub fn pass_over(&mut self, up_to: u64) {
        self.position = self.position.max(up_to);
    }

    /// Lets out what may go. `ledger` has the gaps passed so far. A segment that begins beyond the position, or holds nothing
    /// new, lets nothing out. The position also moves over what is proved to hold nothing, and stays there if a later segment
    /// proves less.
    ///
    /// A gap is passed only if it was still there `hold_for` after it was first seen: a process that was stopped in between has to look
    /// again.
    pub fn admit(&mut self, segment: &Segment, ledger: &Gaps, now: Instant) -> (Vec<Admitted>, Option<Hold>) {
        if segment.after > self.position {
            return (Vec::new(), None);
        }
        // What came from the WAL is newer than the last look, and so is a gap in it.
        self.note_pending(segment, segment.visible_by.or(segment.as_of).map_or(now, |seen| seen.min(now)));
        let now = segment.as_of.map_or(now, |as_of| as_of.min(now));
        let mut room = MAX_PASSED.saturating_sub(ledger.len());
        let start = segment.events.partition_point(|event| sequence(event) <= self.position);
        let mut admitted = Vec::with_capacity(segment.events.len() - start);
        for event in &segment.events[start..] {
            let next = sequence(event);
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

    /// Gaps only shrink: what is left of one is as old as it was. So is one beyond the segment: segments differ in length.
    fn note_pending(&mut self, segment: &Segment, now: Instant) {
        let start = self.position.max(segment.settled);
        let last = segment.events.last().map_or(start, |event| sequence(event).max(start));
        let present = segment.events.iter().map(|event| sequence(event)).filter(|sequence| *sequence > start);
        let runs = missing_runs(start, last, present);
        let known = std::mem::take(&mut self.pending);
        // All are in order, so each is looked at once.
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

/// When a part of `first..=last` was first seen, in gaps that are in order. Leaves out those before it.
fn first_sight(gaps: &mut &[(u64, u64, Instant)], first: u64, last: u64) -> Option<Instant> {
    let before = gaps.iter().take_while(|gap| gap.1 < first).count();
    *gaps = &gaps[before..];
    gaps.iter().take_while(|gap| gap.0 <= last).map(|gap| gap.2).min()
}

/// What became of passed gaps.
#[derive(Debug, Clone, Default)]
pub struct Late {
    /// Events that committed after all, in order.
    pub events: Vec<Arc<Event>>,
    /// Ranges in which none will.
    pub permanent: Vec<(u64, u64)>,
}

impl Late {
    /// Compares a ledger with what is visible of it (in order) and with how far the log is settled.
    pub fn of(ledger: &Gaps, visible: Vec<Arc<Event>>, settled: u64) -> Late {
        let events: Vec<_> = visible.into_iter().filter(|event| ledger.contains(sequence(event))).collect();
        let mut permanent = Vec::new();
        let mut present = events.iter().map(|event| sequence(event)).peekable();
        for (first, last) in ledger.iter().take_while(|(first, _)| *first <= settled) {
            // Not one beyond: what is missing before it may still come, though it is visible itself.
            let end = last.min(settled);
            while present.next_if(|sequence| *sequence < first).is_some() {}
            let within: Vec<u64> = std::iter::from_fn(|| present.next_if(|sequence| *sequence <= end)).collect();
            permanent.extend(missing_runs(first - 1, end, within));
        }
        Late { permanent, events }
    }
}

fn sequence(event: &Event) -> u64 {
    event.global_sequence.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn event(global_sequence: u64) -> Arc<Event> {
        Arc::new(Event { global_sequence: Some(global_sequence), ..Event::raw("E", serde_json::json!({})) })
    }

    fn events(sequences: impl IntoIterator<Item = u64>) -> Vec<Arc<Event>> {
        sequences.into_iter().map(event).collect()
    }

    /// What is visible of all after `after`.
    fn segment(after: u64, visible: impl IntoIterator<Item = u64>, settled: u64) -> Segment {
        let events = events(visible);
        let seen = events.last().map_or(after, |event| sequence(event));
        Segment { after, events, seen, settled, ..Segment::default() }
    }

    /// What went out, with the gaps passed before it, and what holds the rest.
    type Out = (Vec<(u64, Option<(u64, u64)>)>, Option<(u64, u64)>);

    fn admit(gate: &mut Gate, segment: &Segment, now: Instant) -> Out {
        let (admitted, hold) = gate.admit(segment, &Gaps::new(), now);
        let out = admitted.iter().map(|admitted| (sequence(&admitted.event), admitted.passed)).collect();
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
        // A writer that entered with an old position proves less; what was proved stays so.
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
        // Whoever never waits does not wait for a look.
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
        // Settled beyond what was seen: there may be events.
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
        (late.events.iter().map(|event| sequence(event)).collect(), late.permanent)
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
