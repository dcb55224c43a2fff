//! Late events: events that committed in gaps that a subscriber has passed.
//!
//! The tail has authority: it knows which holes have changed, and it has looked into all of them
//! after it saw the events that a turn is about to handle. A turn compares its passed gaps with the
//! tail's holes before it handles anything, so that an event never overtakes an earlier event of
//! its stream. A read that fails ends the turn; the next one begins with the ledger.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Admitted, Gap, GapState, Gaps, Late, RecordedEvent, SubscriberError};
use tokio::time::Instant;

use super::Turn;
use crate::node::delivery::runner::Stop;
use crate::node::reading::ring::Compared;

/// The time between two comparisons of all passed gaps with the tail's holes. Changes are compared
/// at once; this is a safety net.
const AT_REST: Duration = Duration::from_secs(5);
/// The most sequences of passed gaps that one look reads.
const PAGE: u64 = 1_000;

/// A turn's knowledge about passed gaps.
pub(super) struct LateEvents {
    /// When all passed gaps are next compared with the tail's holes. `None`: no gaps were passed.
    pub(super) due_at: Option<Instant>,
    /// The state of the tail's holes that passed gaps were last compared with.
    compared: Option<Compared>,
    /// Parts of passed gaps in which events have come, or none will. They are looked into next.
    pub(super) resolved: Gaps,
    /// Events of the ledger that are being handled.
    in_hand: HashSet<u64>,
}

impl LateEvents {
    /// `passed` says whether gaps were passed before the turn began.
    pub(super) fn new(passed: bool) -> Self {
        LateEvents { due_at: passed.then(Instant::now), compared: None, resolved: Gaps::new(), in_hand: HashSet::new() }
    }

    /// Notes whether gaps were passed.
    pub(super) fn begin_if(&mut self, passed: bool) {
        if self.due_at.is_none() && passed {
            self.due_at = Some(Instant::now() + AT_REST);
        }
    }

    pub(super) fn is_due(&self) -> bool {
        self.due_at.is_some_and(|at| at <= Instant::now())
    }

    /// Makes the next comparison one of all passed gaps.
    pub(super) fn compare_all(&mut self) {
        self.compared = None;
    }

    /// Notes that an event is settled.
    pub(super) fn settled(&mut self, event: &RecordedEvent) {
        self.in_hand.remove(&event.sequence().get());
    }
}

impl Turn {
    /// Delivers events below a sequence that committed in passed gaps, and closes gaps in which
    /// none will come. Events that are bundled only join those that wait. In that case, it looks
    /// for them until it finds none, so that a bundle has all of them.
    pub(super) async fn deliver_late(&mut self, below: u64) -> Result<(), Stop> {
        self.compare_passed();
        let bundles = self.bundling.by.is_some();
        while self.late.resolved.first().is_some_and(|first| first < below) && (!bundles || self.has_room()) {
            self.look_for_late(below).await?;
            self.owner.may_go_on()?;
        }
        Ok(())
    }

    /// Notes the passed gaps in which something has changed.
    pub(super) fn compare_passed(&mut self) {
        let (late, tail, progress) = (&mut self.late, &self.owner.runner.tail, &self.checkpoints.progress);
        let Some(due_at) = late.due_at else { return };
        let whole = late.compared.is_none();
        if whole {
            late.due_at = Some(due_at.max(Instant::now() + AT_REST));
        }
        if !tail.may_be_resolved(late.compared) {
            return;
        }
        // Events that wait for their bundle have come already.
        let open = |first, last| self.bundling.waiting.without_waiting(&progress.passed_within(first, last));
        let Some((mut resolved, compared)) = tail.resolved(late.compared, open) else { return };
        late.in_hand.iter().for_each(|sequence| _ = resolved.remove(*sequence, *sequence));
        resolved.iter().for_each(|(first, last)| late.resolved.insert(first, last));
        late.compared = Some(compared);
        late.due_at = late.due_at.filter(|_| !whole || progress.has_passed());
    }

    /// Looks into the first gaps in which something has changed.
    async fn look_for_late(&mut self, below: u64) -> Result<(), Stop> {
        let part = first_part(&self.late.resolved, below);
        let tail = &self.owner.runner.tail;
        // This was proved before the look, so events that the look does not find up to there will
        // not come.
        let settled = tail.settled();
        let look = tail.in_gaps(&part, PAGE as u32).await;
        let look = look.map_err(|error| Stop::from(SubscriberError::Read(error)))?;
        let part = part.below(look.seen.saturating_add(1));
        part.iter().for_each(|(first, last)| _ = self.late.resolved.remove(first, last));
        let late = Late::of(&part, look.filled.into_iter().map(Arc::new).collect(), settled);
        let permanent = late.permanent.iter();
        let gaps: Vec<_> =
            permanent.map(|(first, last)| Gap { first: *first, last: *last, state: GapState::Permanent }).collect();
        tail.record(self.owner.fence.history, &gaps).await;
        self.checkpoints.closed(&gaps);
        self.handle_late(late.events).await
    }

    async fn handle_late(&mut self, events: Vec<Arc<RecordedEvent>>) -> Result<(), Stop> {
        events.iter().for_each(|event| self.checkpoints.progress.admit_late(event));
        if self.bundling.by.is_some() {
            events.iter().for_each(|event| self.gather_late(event));
            return Ok(());
        }
        self.late.in_hand.extend(events.iter().map(|event| event.sequence().get()));
        self.handle(events.into_iter().map(|event| Admitted { event, passed: None }).collect()).await?;
        if self.keyed.is_idle() {
            self.late.in_hand.clear();
        }
        Ok(())
    }
}

/// The first of these gaps below a sequence, of at most a page of sequences.
fn first_part(resolved: &Gaps, below: u64) -> Gaps {
    let mut room = PAGE;
    let mut part = Gaps::new();
    for (first, last) in resolved.within(0, below - 1).take(PAGE as usize) {
        let last = last.min(first.saturating_add(room - 1));
        part.insert(first, last);
        room -= last - first + 1;
        if room == 0 {
            break;
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_look_reads_a_page() {
        let gaps: Gaps = [(3, 5), (10, 10), (20, 5_000)].into_iter().collect();
        assert_eq!(first_part(&gaps, u64::MAX), [(3, 5), (10, 10), (20, 20 + PAGE - 5)].into_iter().collect());
        assert_eq!(first_part(&gaps, 12), [(3, 5), (10, 10)].into_iter().collect());
        assert_eq!(first_part(&gaps, 5), [(3, 4)].into_iter().collect());
    }
}
