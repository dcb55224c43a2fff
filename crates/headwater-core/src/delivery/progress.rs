//! What a subscriber has settled, and what of that is not written yet.

use std::collections::VecDeque;

use uuid::Uuid;

use super::{Admitted, Gaps};
use crate::RecordedEvent;

/// A move of a subscriber's checkpoint, to be written in one statement. The counts start at the
/// last write. An audit uses them to compare what was delivered with what the log holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advance {
    /// Everything at or below this sequence is settled, except for `pending_gaps`.
    pub position: u64,
    /// The last event that was settled in order.
    pub last_event_id: Option<Uuid>,
    /// Gaps that were passed and are still open.
    pub pending_gaps: Gaps,
    /// Events settled in order.
    pub events: u64,
    /// The sum of the global sequences of `events`.
    pub sequence_sum: u64,
    /// Events in passed gaps that were settled late.
    pub late_events: u64,
    /// The sum of the global sequences of `late_events`.
    pub late_sequence_sum: u64,
    /// Where the writer believes the checkpoint is now. A transaction with effects moves the
    /// checkpoint from exactly there, or fails.
    pub from_position: u64,
    /// The ledger at `from_position`.
    pub from_gaps: Gaps,
}

/// What a subscriber has settled. Events may be done out of order, but the checkpoint moves in
/// order.
///
/// Events that were done in a transaction are the exception: they are written with that
/// transaction, in order or not. The checkpoint then passes earlier events that are still under
/// way, and those stay in the ledger until they are done.
#[derive(Debug, Default)]
pub struct Progress {
    advance: Advance,
    /// Events that were admitted and are not settled in order yet.
    under_way: VecDeque<Step>,
    changed: bool,
}

/// An event, or a span of events that are not for the subscriber and therefore done.
#[derive(Debug)]
struct Step {
    /// The sequence of the event, or of the last event of a span.
    sequence: u64,
    event_id: Uuid,
    /// The gap before the event that was passed.
    passed: Option<(u64, u64)>,
    /// There is nothing else after the event up to this sequence.
    reach: u64,
    done: bool,
    /// The number of events in this step.
    events: u64,
    /// The sum of the global sequences of `events`.
    sequence_sum: u64,
}

impl Step {
    fn of(event: &RecordedEvent, passed: Option<(u64, u64)>) -> Self {
        let sequence = event.sequence().get();
        let (reach, done, events) = (sequence, false, 1);
        Step { sequence, event_id: event.id, passed, reach, done, events, sequence_sum: sequence }
    }
}

/// Events that a subscriber did not ask for. They were counted and not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassedOver {
    /// The last sequence that is passed over.
    pub up_to: u64,
    /// How many events there are.
    pub events: u64,
    /// The sum of the global sequences of `events`.
    pub sequence_sum: u64,
}

impl Advance {
    fn settle(&mut self, step: &Step) {
        self.position = step.reach;
        self.last_event_id = Some(step.event_id);
        self.events += step.events;
        self.sequence_sum += step.sequence_sum;
        if let Some((first, last)) = step.passed {
            self.pending_gaps.insert(first, last);
        }
    }

    /// Passes an event that is not done. It waits in the ledger.
    fn pass(&mut self, step: &Step) {
        self.position = step.reach;
        self.pending_gaps.insert(step.passed.map_or(step.sequence, |(first, _)| first), step.sequence);
    }

    /// Settles these events (in order), whether they are under way or in the ledger. Returns how
    /// many steps at the front of `under_way` are finished.
    fn settle_all(&mut self, under_way: &VecDeque<Step>, done: &[u64]) -> usize {
        done.iter().for_each(|sequence| _ = self.settle_late(*sequence));
        let place = |sequence: &u64| under_way.binary_search_by_key(sequence, |step| step.sequence).ok();
        let mut left = done.iter().rev().find_map(place).map_or(0, |last| last + 1);
        for step in under_way.range(..left) {
            match step.done || done.binary_search(&step.sequence).is_ok() {
                true => self.settle(step),
                false => self.pass(step),
            }
        }
        for step in under_way.range(left..).take_while(|step| step.done) {
            self.settle(step);
            left += 1;
        }
        left
    }

    fn settle_late(&mut self, sequence: u64) -> bool {
        let there = self.pending_gaps.remove(sequence, sequence);
        if there {
            self.late_events += 1;
            self.late_sequence_sum += sequence;
        }
        there
    }
}

impl Progress {
    /// Continues from a checkpoint.
    pub fn new(position: u64, pending_gaps: Gaps) -> Self {
        let from_gaps = pending_gaps.clone();
        let advance = Advance { position, pending_gaps, from_position: position, from_gaps, ..Advance::default() };
        Progress { advance, ..Progress::default() }
    }

    /// Everything at or below this sequence is settled, except for the ledger.
    pub fn position(&self) -> u64 {
        self.advance.position
    }

    /// The checkpoint's position and ledger as they were last written.
    pub fn last_written(&self) -> (u64, &Gaps) {
        (self.advance.from_position, &self.advance.from_gaps)
    }

    /// Gaps that were passed and are still open.
    pub fn ledger(&self) -> &Gaps {
        &self.advance.pending_gaps
    }

    /// How many steps were admitted and are not settled in order.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// How many settled events are not written.
    pub fn unwritten(&self) -> u64 {
        self.advance.events + self.advance.late_events
    }

    /// Adds an event that was admitted. The checkpoint will not move past the event before it is
    /// [`done`](Progress::done).
    pub fn admit(&mut self, admitted: &Admitted) {
        self.under_way.push_back(Step::of(&admitted.event, admitted.passed));
    }

    /// Passes a span of events that are not for the subscriber. No gap between them may still be
    /// open. `last` is the last of the events, and `sequence_sum` is the sum of their global
    /// sequences.
    pub fn skip(&mut self, events: u64, sequence_sum: u64, last: &RecordedEvent) {
        if events == 0 {
            return;
        }
        self.under_way.push_back(Step { done: true, events, sequence_sum, ..Step::of(last, None) });
        self.settle();
    }

    /// Notes that up to `position` there is nothing except the events that were admitted.
    pub fn reach(&mut self, position: u64) {
        let reach = match self.under_way.back_mut() {
            Some(last) => &mut last.reach,
            None => &mut self.advance.position,
        };
        if *reach < position {
            *reach = position;
            self.changed |= self.under_way.is_empty();
        }
    }

    /// Passes events that the subscriber did not ask for. Call it only while no event is under way.
    pub fn pass_over(&mut self, passed: &PassedOver) {
        debug_assert!(self.under_way.is_empty(), "what is under way is settled first");
        self.advance.position = self.advance.position.max(passed.up_to);
        self.advance.events += passed.events;
        self.advance.sequence_sum += passed.sequence_sum;
        self.changed = true;
    }

    /// Adds an event of a passed gap that came before the checkpoint passed the gap. The event is
    /// then under way like its neighbours.
    pub fn admit_late(&mut self, event: &RecordedEvent) {
        let sequence = event.sequence().get();
        let at = self.under_way.partition_point(|step| step.sequence < sequence);
        let Some(behind) = self.under_way.get_mut(at) else { return };
        let Some((first, last)) = behind.passed.filter(|gap| (gap.0..=gap.1).contains(&sequence)) else { return };
        behind.passed = (sequence < last).then_some((sequence + 1, last));
        let passed = (first < sequence).then(|| (first, sequence - 1));
        self.under_way.insert(at, Step::of(event, passed));
    }

    /// Gaps that were passed and are still open: the ledger, and the gaps that will be in it once
    /// the checkpoint gets there.
    pub fn passed(&self) -> Gaps {
        let mut gaps = self.advance.pending_gaps.clone();
        self.under_way.iter().filter_map(|step| step.passed).for_each(|(first, last)| gaps.insert(first, last));
        gaps
    }

    /// Whether there are gaps that were passed and are still open.
    pub fn has_passed(&self) -> bool {
        !self.advance.pending_gaps.is_empty() || self.under_way.iter().any(|step| step.passed.is_some())
    }

    /// The part of [`passed`](Progress::passed) in `first..=last`. The cost depends on that part
    /// and not on the size of the ledger.
    pub fn passed_within(&self, first: u64, last: u64) -> Gaps {
        let mut gaps: Gaps = self.advance.pending_gaps.within(first, last).collect();
        // Each gap lies just before its event.
        let from = self.under_way.partition_point(|step| step.sequence <= first);
        for (start, end) in self.under_way.range(from..).filter_map(|step| step.passed) {
            if start > last {
                break;
            }
            gaps.insert(start.max(first), end.min(last));
        }
        gaps
    }

    /// Notes that an event is done: it was handled or dead-lettered, or is not for the subscriber.
    /// The event is under way or in the ledger.
    pub fn done(&mut self, sequence: u64) {
        let at = self.under_way.partition_point(|step| step.sequence < sequence);
        match self.under_way.get_mut(at).filter(|step| step.sequence == sequence) {
            Some(step) => {
                step.done = true;
                self.settle();
            }
            None => self.late_done(sequence),
        }
    }

    fn settle(&mut self) {
        while let Some(step) = self.under_way.pop_front_if(|step| step.done) {
            self.changed = true;
            self.advance.settle(&step);
        }
    }

    /// Returns what to write if these events (in order) become done: for a transaction that may
    /// still fail. Earlier events that are under way and not done go into the ledger.
    pub fn advance_with(&self, done: &[u64]) -> Advance {
        let mut advance = self.advance.clone();
        advance.settle_all(&self.under_way, done);
        advance
    }

    /// Notes that these events (in order) are done, in a transaction that wrote
    /// [`advance_with`](Progress::advance_with).
    pub fn done_with(&mut self, done: &[u64]) {
        let left = self.advance.settle_all(&self.under_way, done);
        self.under_way.drain(..left);
        self.changed = true;
    }

    /// Notes that an event in the ledger was handled.
    pub fn late_done(&mut self, sequence: u64) {
        self.changed |= self.advance.settle_late(sequence);
    }

    /// Notes that no event will come in this part of the passed gaps.
    pub fn closed(&mut self, first: u64, last: u64) {
        self.changed |= self.advance.pending_gaps.remove(first, last);
        let from = self.under_way.partition_point(|step| step.sequence <= first);
        for step in self.under_way.range_mut(from..) {
            let passed = &mut step.passed;
            if passed.is_some_and(|(start, _)| start > last) {
                break;
            }
            *passed =
                passed.and_then(|(start, end)| match (first <= start && start <= last, first <= end && end <= last) {
                    (true, true) => None,
                    (true, false) => Some((last + 1, end)),
                    (false, true) => Some((start, first - 1)),
                    // A hole in the middle of a gap is closed later, when the gap is in the ledger.
                    (false, false) => Some((start, end)),
                });
        }
    }

    /// What to write. `None`: nothing has changed.
    pub fn unwritten_advance(&self) -> Option<&Advance> {
        self.changed.then_some(&self.advance)
    }

    /// Notes that [`unwritten_advance`](Progress::unwritten_advance) is written.
    pub fn written(&mut self) {
        self.changed = false;
        let advance = &mut self.advance;
        (advance.events, advance.sequence_sum, advance.late_events, advance.late_sequence_sum) = (0, 0, 0, 0);
        (advance.from_position, advance.from_gaps) = (advance.position, advance.pending_gaps.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Event;

    fn admitted(sequence: u64, passed: Option<(u64, u64)>) -> Admitted {
        let event = Event {
            global_sequence: Some(sequence),
            recorded_at: Some(chrono::Utc::now()),
            ..Event::raw("E", serde_json::json!({}))
        };
        Admitted { event: Arc::new(RecordedEvent::new(event).unwrap()), passed }
    }

    /// A progress at 10, with these events under way.
    fn under_way<const N: usize>(sequences: [u64; N]) -> Progress {
        let mut progress = Progress::new(10, Gaps::new());
        sequences.iter().for_each(|sequence| progress.admit(&admitted(*sequence, None)));
        progress
    }

    fn counts(progress: &Progress) -> (u64, u64, u64, u64) {
        let advance = progress.unwritten_advance().expect("something has changed");
        (advance.events, advance.sequence_sum, advance.late_events, advance.late_sequence_sum)
    }

    #[test]
    fn what_is_passed_over_is_counted() {
        let mut progress = Progress::new(10, Gaps::new());
        progress.admit(&admitted(11, None));
        progress.done(11);
        progress.pass_over(&PassedOver { up_to: 500, events: 400, sequence_sum: 100_000 });
        let advance = progress.advance_with(&[]);
        assert_eq!((advance.position, advance.events, advance.sequence_sum), (500, 401, 100_011));
        assert_eq!(advance.from_position, 10);
    }

    #[test]
    fn nothing_done_is_nothing_to_write() {
        let progress = under_way([11, 12]);
        assert_eq!((progress.position(), progress.under_way(), progress.unwritten()), (10, 2, 0));
        assert_eq!(progress.unwritten_advance(), None);
    }

    #[test]
    fn done_out_of_order_moves_in_order() {
        let mut progress = under_way([11, 12, 14]);
        progress.done(12);
        progress.done(14);
        assert_eq!((progress.position(), progress.under_way()), (10, 3));
        assert_eq!(progress.unwritten_advance(), None);
        progress.done(11);
        assert_eq!((progress.position(), progress.under_way(), progress.unwritten()), (14, 0, 3));
        assert_eq!(counts(&progress), (3, 37, 0, 0));
    }

    #[test]
    fn the_last_event_is_the_last_in_order() {
        let mut progress = under_way([]);
        let (first, second) = (admitted(11, None), admitted(12, None));
        progress.admit(&first);
        progress.admit(&second);
        progress.done(12);
        progress.done(11);
        progress.reach(20);
        assert_eq!(progress.unwritten_advance().unwrap().last_event_id, Some(second.event.id));
    }

    #[test]
    fn what_is_not_under_way_is_not_done() {
        let mut progress = under_way([11, 13]);
        [9, 10, 12, 14].into_iter().for_each(|sequence| progress.done(sequence));
        progress.done(11);
        progress.done(11);
        assert_eq!((progress.position(), progress.unwritten()), (11, 1));
    }

    #[test]
    fn reach_moves_over_what_holds_nothing() {
        let mut progress = under_way([]);
        progress.reach(15);
        assert_eq!((progress.position(), progress.unwritten()), (15, 0));
        assert_eq!(counts(&progress), (0, 0, 0, 0));
        progress.written();
        progress.reach(15);
        progress.reach(12);
        assert_eq!((progress.position(), progress.unwritten_advance()), (15, None));
    }

    #[test]
    fn reach_waits_for_what_is_under_way() {
        let mut progress = under_way([11]);
        progress.reach(15);
        progress.reach(17);
        progress.reach(16);
        progress.admit(&admitted(20, None));
        progress.reach(22);
        assert_eq!((progress.position(), progress.under_way()), (10, 2), "only events are under way");
        assert_eq!(progress.unwritten_advance(), None);
        progress.done(11);
        assert_eq!(progress.position(), 17);
        progress.done(20);
        assert_eq!(progress.position(), 22);
        assert_eq!(counts(&progress), (2, 31, 0, 0));
    }

    #[test]
    fn a_passed_gap_is_in_the_ledger_once_its_event_is_done() {
        let mut progress = under_way([11]);
        progress.admit(&admitted(15, Some((12, 14))));
        progress.done(15);
        assert!(progress.ledger().is_empty());
        progress.done(11);
        assert_eq!(progress.ledger().ranges(), [(12, 14)]);
        assert_eq!(progress.unwritten_advance().unwrap().pending_gaps.ranges(), [(12, 14)]);
    }

    #[test]
    fn late_events_leave_the_ledger_one_by_one() {
        let mut progress = Progress::new(10, [(3, 5), (8, 8)].into_iter().collect());
        progress.late_done(4);
        progress.late_done(4);
        progress.late_done(7);
        assert_eq!(progress.ledger().ranges(), [(3, 3), (5, 5), (8, 8)]);
        assert_eq!(counts(&progress), (0, 0, 1, 4));
        assert_eq!((progress.position(), progress.unwritten()), (10, 1));
    }

    #[test]
    fn what_will_not_come_leaves_the_ledger_without_a_count() {
        let mut progress = Progress::new(10, [(3, 5), (8, 8)].into_iter().collect());
        progress.closed(4, 8);
        assert_eq!(progress.ledger().ranges(), [(3, 3)]);
        assert_eq!(counts(&progress), (0, 0, 0, 0));
    }

    #[test]
    fn written_begins_new_counts_and_keeps_the_rest() {
        let mut progress = Progress::new(10, [(3, 5)].into_iter().collect());
        let event = admitted(11, None);
        progress.admit(&event);
        progress.done(11);
        progress.late_done(3);
        assert_eq!(counts(&progress), (1, 11, 1, 3));
        progress.written();
        assert_eq!((progress.unwritten_advance(), progress.unwritten(), progress.position()), (None, 0, 11));
        progress.late_done(5);
        let advance = progress.unwritten_advance().unwrap();
        assert_eq!((advance.position, advance.last_event_id), (11, Some(event.event.id)));
        assert_eq!(advance.pending_gaps.ranges(), [(4, 4)]);
        assert_eq!(counts(&progress), (0, 0, 1, 5));
    }

    /// The position, the ledger and the counts.
    type Written = (u64, Vec<(u64, u64)>, (u64, u64, u64, u64));

    /// Finishes a bundle, checks that it writes what it announced, and returns what it wrote.
    fn bundle(progress: &mut Progress, done: &[u64]) -> Written {
        let advance = progress.advance_with(done);
        progress.done_with(done);
        assert_eq!(progress.unwritten_advance(), Some(&advance), "what was written is what is known");
        let counted = counts(progress);
        progress.written();
        (advance.position, advance.pending_gaps.ranges().to_vec(), counted)
    }

    #[test]
    fn bundles_leave_what_they_pass_in_the_ledger_until_it_is_done() {
        let mut progress = under_way([11, 12, 13, 15, 16]);
        assert_eq!(bundle(&mut progress, &[12, 15]), (15, vec![(11, 11), (13, 13)], (2, 27, 0, 0)));
        assert_eq!(progress.under_way(), 1);
        assert_eq!(bundle(&mut progress, &[11, 16]), (16, vec![(13, 13)], (1, 16, 1, 11)));
        assert_eq!(bundle(&mut progress, &[13]), (16, vec![], (0, 0, 1, 13)));
        assert_eq!((progress.under_way(), progress.unwritten()), (0, 0));
    }

    #[test]
    fn a_bundle_in_order_leaves_nothing_in_the_ledger() {
        let mut progress = under_way([11, 12, 14]);
        progress.reach(20);
        assert_eq!(bundle(&mut progress, &[11]), (11, vec![], (1, 11, 0, 0)));
        assert_eq!(bundle(&mut progress, &[12, 14]), (20, vec![], (2, 26, 0, 0)));
    }

    #[test]
    fn a_bundle_takes_along_what_was_done_before_and_just_behind_it() {
        let mut progress = under_way([11, 12, 13, 14, 15]);
        progress.done(12);
        progress.done(14);
        assert_eq!(bundle(&mut progress, &[13]), (14, vec![(11, 11)], (3, 39, 0, 0)));
        progress.done(11);
        assert_eq!(counts(&progress), (0, 0, 1, 11), "what the ledger has is done like any other");
        assert_eq!(bundle(&mut progress, &[15]), (15, vec![], (1, 15, 1, 11)));
    }

    #[test]
    fn a_bundle_that_passes_gaps_keeps_them() {
        let mut progress = under_way([11]);
        progress.admit(&admitted(15, Some((13, 14))));
        progress.admit(&admitted(18, Some((17, 17))));
        assert_eq!(progress.passed().ranges(), [(13, 14), (17, 17)]);
        assert_eq!(bundle(&mut progress, &[18]), (18, vec![(11, 11), (13, 15), (17, 17)], (1, 18, 0, 0)));
        assert_eq!(progress.passed(), *progress.ledger());
        progress.closed(13, 14);
        assert_eq!(bundle(&mut progress, &[11, 15, 17]), (18, vec![], (0, 0, 3, 43)));
    }

    #[test]
    fn the_last_event_of_a_bundle_is_the_last() {
        let mut progress = under_way([11]);
        let last = admitted(12, None);
        progress.admit(&last);
        assert_eq!(progress.advance_with(&[12]).last_event_id, Some(last.event.id));
        progress.done_with(&[12]);
        assert_eq!(progress.advance_with(&[11]).last_event_id, Some(last.event.id));
    }

    #[test]
    fn what_comes_in_a_gap_that_the_checkpoint_has_not_passed_is_under_way() {
        let mut progress = under_way([11]);
        progress.admit(&admitted(20, Some((13, 19))));
        for late in [15, 13, 19, 12, 21, 15] {
            progress.admit_late(&admitted(late, None).event);
        }
        assert_eq!(progress.under_way(), 5);
        assert_eq!(progress.passed().ranges(), [(14, 14), (16, 18)]);
        assert_eq!(bundle(&mut progress, &[15]), (15, vec![(11, 11), (13, 14)], (1, 15, 0, 0)));
        assert_eq!(bundle(&mut progress, &[11, 13, 19, 20]), (20, vec![(14, 14), (16, 18)], (2, 39, 2, 24)));
    }

    #[test]
    fn what_will_not_come_is_not_passed() {
        let mut progress = under_way([11]);
        progress.admit(&admitted(15, Some((12, 14))));
        progress.admit(&admitted(20, Some((16, 19))));
        progress.closed(14, 16);
        assert_eq!(progress.passed().ranges(), [(12, 13), (17, 19)]);
        progress.closed(12, 13);
        progress.closed(18, 18);
        assert_eq!(progress.passed().ranges(), [(17, 19)], "a part in the middle is closed once it is in the ledger");
        assert_eq!(progress.unwritten_advance(), None);
        assert_eq!(bundle(&mut progress, &[11, 15, 20]), (20, vec![(17, 19)], (3, 46, 0, 0)));
        progress.closed(18, 18);
        assert_eq!(progress.ledger().ranges(), [(17, 17), (19, 19)]);
    }

    /// How many ranges a store has to write for the unwritten changes.
    fn ranges_to_write(progress: &mut Progress) -> usize {
        let advance = progress.unwritten_advance().expect("something has changed");
        let changed = advance.pending_gaps.changed_chunks(&advance.from_gaps, true);
        let end = advance.pending_gaps.chunks().last().map_or(0, |chunk| chunk.ranges.len());
        let ranges = end + changed.written.iter().map(|chunk| chunk.ranges.len()).sum::<usize>();
        progress.written();
        ranges
    }

    /// A long transaction left a hole before each event of others: 50,000 holes, in batches of 100.
    #[test]
    fn a_checkpoint_writes_what_has_changed_however_long_the_ledger_is() {
        let mut progress = Progress::new(0, Gaps::new());
        for batch in 0..500 {
            for sequence in (1..=100).map(|place| (batch * 100 + place) * 2) {
                progress.admit(&admitted(sequence, Some((sequence - 1, sequence - 1))));
                progress.done(sequence);
            }
            assert!(ranges_to_write(&mut progress) <= 600);
        }
        assert_eq!((progress.ledger().len(), progress.ledger().size()), (50_000, 50_000));
        for batch in 0..500 {
            (1..=100).for_each(|place| progress.late_done((batch * 100 + place) * 2 - 1));
            assert!(ranges_to_write(&mut progress) <= 600);
        }
        assert!(progress.ledger().is_empty());
    }

    #[test]
    fn what_was_passed_is_told_for_a_part_of_the_log() {
        let mut progress = Progress::new(20, [(3, 5), (8, 8), (12, 20)].into_iter().collect());
        progress.admit(&admitted(24, Some((22, 23))));
        progress.admit(&admitted(30, Some((26, 29))));
        for (first, last) in [(1, 40), (4, 12), (8, 8), (21, 23), (23, 27), (30, 40), (9, 11)] {
            let whole: Gaps = progress.passed().within(first, last).collect();
            assert_eq!(progress.passed_within(first, last), whole, "{first} to {last}");
        }
        assert!(progress.has_passed());
    }

    #[test]
    fn a_span_of_others_is_passed_at_once() {
        let mut progress = under_way([]);
        progress.skip(3, 11 + 12 + 14, &admitted(14, None).event);
        assert_eq!((progress.position(), counts(&progress)), (14, (3, 37, 0, 0)));
        progress.admit(&admitted(15, None));
        progress.skip(2, 16 + 17, &admitted(17, None).event);
        progress.reach(18);
        assert_eq!((progress.position(), progress.under_way()), (14, 2));
        progress.done(15);
        assert_eq!((progress.position(), progress.under_way(), counts(&progress)), (18, 0, (6, 85, 0, 0)));
        progress.skip(0, 0, &admitted(19, None).event);
        assert_eq!(progress.position(), 18);
    }

    #[test]
    fn a_span_behind_a_transaction_goes_with_it() {
        let mut progress = under_way([11, 12]);
        progress.skip(2, 13 + 14, &admitted(14, None).event);
        progress.admit(&admitted(15, None));
        let advance = progress.advance_with(&[12]);
        assert_eq!((advance.position, advance.events, advance.sequence_sum), (14, 3, 12 + 13 + 14));
        assert_eq!(advance.pending_gaps, [(11, 11)].into_iter().collect());
        progress.done_with(&[12]);
        assert_eq!((progress.position(), progress.under_way()), (14, 1));
    }

    proptest::proptest! {
        /// For any bundles in any order: each event is counted once, and the ledger has the events
        /// that are not done.
        #[test]
        fn every_event_is_counted_once(
            bundles in proptest::collection::vec(0usize..5, 1..40),
            order in proptest::sample::subsequence(vec![0usize, 1, 2, 3, 4], 0..=5),
            dead in proptest::collection::vec(proptest::bool::ANY, 40),
        ) {
            let sequences = |bundle: usize| -> Vec<u64> {
                let of = bundles.iter().zip(11..).filter(|(other, _)| **other == bundle);
                of.map(|(_, sequence)| sequence).collect()
            };
            let mut progress = Progress::new(10, Gaps::new());
            (11..).zip(&bundles).for_each(|(sequence, _)| progress.admit(&admitted(sequence, None)));
            let (mut settled, mut done) = ((0, 0), std::collections::BTreeSet::new());
            for bundle in order.into_iter().rev() {
                let events = sequences(bundle);
                if dead[bundle] {
                    events.iter().for_each(|sequence| progress.done(*sequence));
                } else {
                    progress.done_with(&events);
                }
                done.extend(events);
                let advance = progress.advance_with(&[]);
                settled.0 += advance.events + advance.late_events;
                settled.1 += advance.sequence_sum + advance.late_sequence_sum;
                progress.written();
                let reached: Vec<u64> = done.iter().copied().filter(|sequence| *sequence <= progress.position()).collect();
                proptest::prop_assert_eq!(settled, (reached.len() as u64, reached.iter().sum()));
                let ledger = (11..=progress.position()).filter(|sequence| progress.ledger().contains(*sequence));
                let undone = (11..=progress.position()).filter(|sequence| !done.contains(sequence));
                proptest::prop_assert!(ledger.eq(undone));
            }
        }
    }
}
