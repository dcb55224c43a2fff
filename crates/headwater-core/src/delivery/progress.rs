//! What a subscriber has settled, and what of it is not written yet.

use std::collections::VecDeque;

use uuid::Uuid;

use super::{Admitted, Gaps};

/// A move of a subscriber's checkpoint, to be written in one statement. The counts are those since the last one: they let an audit
/// compare what was delivered with what the log holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advance {
    /// Everything at or below is settled, but for `pending_gaps`.
    pub position: u64,
    /// The last event.
    pub last_event_id: Option<Uuid>,
    /// Gaps that were passed and are not closed.
    pub pending_gaps: Gaps,
    /// Events settled in order.
    pub events: u64,
    /// The sum of their global sequences.
    pub sequence_sum: u64,
    /// Events of passed gaps, settled late.
    pub late_events: u64,
    /// The sum of their global sequences.
    pub late_sequence_sum: u64,
    /// Where the checkpoint is now, as far as its writer knows: a transaction with effects moves it from there, or not at all.
    pub from_position: u64,
    /// The ledger there.
    pub from_gaps: Gaps,
}

/// What a subscriber has settled: events may be done out of order, the checkpoint moves in order.
#[derive(Debug, Default)]
pub struct Progress {
    advance: Advance,
    /// Admitted and not settled in order yet.
    under_way: VecDeque<Step>,
    changed: bool,
}

#[derive(Debug)]
struct Step {
    sequence: u64,
    event_id: Uuid,
    passed: Option<(u64, u64)>,
    /// Up to here there is nothing after it.
    reach: u64,
    done: bool,
}

impl Advance {
    fn settle(&mut self, step: &Step) {
        self.position = step.reach;
        self.last_event_id = Some(step.event_id);
        self.events += 1;
        self.sequence_sum += step.sequence;
        if let Some((first, last)) = step.passed {
            self.pending_gaps.insert(first, last);
        }
    }

    fn settle_late(&mut self, sequence: u64) -> bool {
        let there = self.pending_gaps.contains(sequence);
        if there {
            self.pending_gaps.remove(sequence, sequence);
            self.late_events += 1;
            self.late_sequence_sum += sequence;
        }
        there
    }
}

impl Progress {
    /// Goes on from a checkpoint.
    pub fn new(position: u64, pending_gaps: Gaps) -> Self {
        let from_gaps = pending_gaps.clone();
        let advance = Advance { position, pending_gaps, from_position: position, from_gaps, ..Advance::default() };
        Progress { advance, ..Progress::default() }
    }

    /// Everything at or below is settled, but for the ledger.
    pub fn position(&self) -> u64 {
        self.advance.position
    }

    /// Gaps that were passed and are not closed.
    pub fn ledger(&self) -> &Gaps {
        &self.advance.pending_gaps
    }

    /// Events that were admitted and are not settled in order.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Events that are settled and not written.
    pub fn unwritten(&self) -> u64 {
        self.advance.events + self.advance.late_events
    }

    /// An event was admitted: the checkpoint will not move past it before it is [`done`](Progress::done).
    pub fn admit(&mut self, admitted: &Admitted) {
        let sequence = admitted.event.global_sequence.unwrap_or_default();
        let Admitted { event, passed } = admitted;
        self.under_way.push_back(Step { sequence, event_id: event.id, passed: *passed, reach: sequence, done: false });
    }

    /// Up to here there is nothing more than what was admitted.
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

    /// An admitted event was handled, dead-lettered, or is none of the subscriber's.
    pub fn done(&mut self, sequence: u64) {
        let at = self.under_way.partition_point(|step| step.sequence < sequence);
        if let Some(step) = self.under_way.get_mut(at).filter(|step| step.sequence == sequence) {
            step.done = true;
            self.settle();
        }
    }

    fn settle(&mut self) {
        while let Some(step) = self.under_way.pop_front_if(|step| step.done) {
            self.changed = true;
            self.advance.settle(&step);
        }
    }

    /// What there would be to write, were these events (in order) done: for a transaction that may still fail.
    pub fn advance_with(&self, done: &[u64]) -> Advance {
        let mut advance = self.advance.clone();
        let settled = |step: &&Step| step.done || done.binary_search(&step.sequence).is_ok();
        self.under_way.iter().take_while(settled).for_each(|step| advance.settle(step));
        advance
    }

    /// The same for an event of the ledger.
    pub fn advance_with_late(&self, sequence: u64) -> Advance {
        let mut advance = self.advance.clone();
        advance.settle_late(sequence);
        advance
    }

    /// An event of the ledger was handled.
    pub fn late_done(&mut self, sequence: u64) {
        self.changed |= self.advance.settle_late(sequence);
    }

    /// Nothing will come in this part of the ledger.
    pub fn closed(&mut self, first: u64, last: u64) {
        self.advance.pending_gaps.remove(first, last);
        self.changed = true;
    }

    /// What is to be written; `None`: nothing has changed.
    pub fn unwritten_advance(&self) -> Option<&Advance> {
        self.changed.then_some(&self.advance)
    }

    /// What [`unwritten_advance`](Progress::unwritten_advance) said is written.
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
        let event = Event { global_sequence: Some(sequence), ..Event::raw("E", serde_json::json!({})) };
        Admitted { event: Arc::new(event), passed }
    }

    /// At 10, with these under way.
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
}
