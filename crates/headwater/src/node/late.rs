//! Late events: what committed in gaps that a subscriber has passed.
//!
//! The tail has authority: it knows which holes have changed, and it has looked into all of them after it saw the events
//! that a turn is about to handle. A turn compares its passed gaps with the tail's holes before it handles anything, so that
//! an event never overtakes an earlier event of its stream. A read that fails ends the turn; the next one begins with
//! the ledger.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Admitted, Event, Gap, GapState, Gaps, Late, SubscriberError};
use tokio::time::Instant;

use super::ring::sequence;
use super::runner::Stop;
use super::turn::Turn;

/// Time between two comparisons of all passed gaps with what the tail knows. Changes are compared at once; this is a safety net.
pub(super) const LATE_AT_REST: Duration = Duration::from_secs(5);
/// The most sequences of passed gaps that one look reads.
const LATE_PAGE: u64 = 1_000;

impl Turn<'_> {
    /// Delivers events below a sequence that committed in passed gaps, and closes gaps in which none will come. Grouped
    /// events only join those that wait. They are looked for until there are no more, so that a group has all of them.
    pub(super) async fn deliver_late(&mut self, below: u64) -> Result<(), Stop> {
        self.compare_passed();
        while self.resolved.first().is_some_and(|first| first < below) && (self.group_by().is_none() || self.has_room())
        {
            self.look_for_late(below).await?;
            self.runner.may_go_on(self.fence)?;
        }
        Ok(())
    }

    /// Notes in which of the gaps that were passed something has changed.
    pub(super) fn compare_passed(&mut self) {
        let Some(late_at) = self.late_at else { return };
        let whole = self.compared.is_none();
        if whole {
            self.late_at = Some(late_at.max(Instant::now() + LATE_AT_REST));
        }
        if !self.runner.tail.may_be_resolved(self.compared) {
            return;
        }
        // What waits to be grouped has come.
        let open = |first, last| self.groups.without_waiting(&self.progress.passed_within(first, last));
        let Some((mut resolved, compared)) = self.runner.tail.resolved(self.compared, open) else { return };
        self.late_in_hand.iter().for_each(|sequence| _ = resolved.remove(*sequence, *sequence));
        resolved.iter().for_each(|(first, last)| self.resolved.insert(first, last));
        self.compared = Some(compared);
        self.late_at = self.late_at.filter(|_| !whole || self.progress.has_passed());
    }

    /// Looks into the first gaps in which something has changed.
    async fn look_for_late(&mut self, below: u64) -> Result<(), Stop> {
        let mut room = LATE_PAGE;
        let mut part = Gaps::new();
        for (first, last) in self.resolved.within(0, below - 1).take(LATE_PAGE as usize) {
            let last = last.min(first.saturating_add(room - 1));
            part.insert(first, last);
            room -= last - first + 1;
            if room == 0 {
                break;
            }
        }
        // Proved before the look, so that what it does not find up to there will not come.
        let settled = self.runner.tail.settled();
        let look = self.runner.tail.in_gaps(&part, LATE_PAGE as u32).await;
        let look = look.map_err(|error| Stop::from(SubscriberError::Read(error)))?;
        let part = part.below(look.seen.saturating_add(1));
        part.iter().for_each(|(first, last)| _ = self.resolved.remove(first, last));
        let late = Late::of(&part, look.filled.into_iter().map(Arc::new).collect(), settled);
        let permanent = late.permanent.iter();
        let gaps: Vec<_> =
            permanent.map(|(first, last)| Gap { first: *first, last: *last, state: GapState::Permanent }).collect();
        self.runner.tail.record(self.fence.history, &gaps).await;
        if !gaps.is_empty() {
            gaps.iter().for_each(|gap| self.progress.closed(gap.first, gap.last));
            self.note_unwritten();
        }
        self.handle_late(late.events).await
    }

    async fn handle_late(&mut self, events: Vec<Arc<Event>>) -> Result<(), Stop> {
        events.iter().for_each(|event| self.progress.admit_late(event));
        if self.group_by().is_some() {
            events.iter().for_each(|event| self.gather_late(event));
            return Ok(());
        }
        self.late_in_hand.extend(events.iter().map(|event| sequence(event)));
        self.handle(events.into_iter().map(|event| Admitted { event, passed: None }).collect()).await?;
        if self.keyed.is_idle() {
            self.late_in_hand.clear();
        }
        Ok(())
    }
}
