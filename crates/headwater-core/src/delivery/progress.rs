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
    event_id: Option<Uuid>,
    passed: Option<(u64, u64)>,
    done: bool,
}

impl Progress {
    /// Goes on from a checkpoint.
    pub fn new(position: u64, pending_gaps: Gaps) -> Self {
        Progress { advance: Advance { position, pending_gaps, ..Advance::default() }, ..Progress::default() }
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
        self.under_way.push_back(Step {
            sequence: admitted.event.global_sequence.unwrap_or_default(),
            event_id: Some(admitted.event.id),
            passed: admitted.passed,
            done: false,
        });
    }

    /// Up to here there is nothing more than what was admitted.
    pub fn reach(&mut self, position: u64) {
        if self.under_way.back().map_or(self.advance.position, |step| step.sequence) < position {
            self.under_way.push_back(Step { sequence: position, event_id: None, passed: None, done: true });
            self.settle();
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
            self.advance.position = step.sequence;
            if let Some(event_id) = step.event_id {
                self.advance.last_event_id = Some(event_id);
                self.advance.events += 1;
                self.advance.sequence_sum += step.sequence;
            }
            if let Some((first, last)) = step.passed {
                self.advance.pending_gaps.insert(first, last);
            }
        }
    }

    /// An event of the ledger was handled.
    pub fn late_done(&mut self, sequence: u64) {
        if self.advance.pending_gaps.contains(sequence) {
            self.advance.pending_gaps.remove(sequence, sequence);
            self.advance.late_events += 1;
            self.advance.late_sequence_sum += sequence;
            self.changed = true;
        }
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
    }
}
