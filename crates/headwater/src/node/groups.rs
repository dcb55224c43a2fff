//! A transaction per key: the events of a batch in groups, each with its effects and its progress in one transaction.
//!
//! Groups commit one after the other, in the order of their first events, so the checkpoint moves past events of groups that have not
//! committed. Those are in the ledger meanwhile: whoever takes over finds them there, delivers them late, and in groups as well. What
//! waits to be grouped is in memory alone; it is ahead of the checkpoint, or in the ledger. The ledger is rewritten with each group, so where it would be long, a
//! group is noted in a row of its own instead, and the checkpoint moves in order: whoever takes over skips what was noted.
//!
//! What one transaction appended of a key is handled at once, however long it is and however much lies between, up to a bound of memory. A transaction that does not fit as a whole is read several times, for some keys each. Where transactions
//! end is seen at the end of the log, by whoever is there; whoever is behind asks which of those before it are long.
//!
//! A group that fails is tried again with growing pauses, and the groups behind it wait; then it is given up as a group, or event by event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_core::{
    Admitted, Attempt, DeadLetter, DeadLetterState, Event, GroupBatch, GroupBy, LONG_SPAN, OnGroupFailure, Segment,
    SubscriberError, order_key,
};

use super::care::died;
use super::handler::{InTransaction, Work};
use super::ring::{sequence, weight};
use super::runner::Stop;
use super::transaction::Failure;
use super::turn::Turn;

/// Bytes of events that wait, each counted with 512 bytes more than its payload has. What one transaction appended of one key has to fit.
const ROOM: usize = 64 * 1024 * 1024;
/// Events of a batch whose ledger is cheap enough to be rewritten for each of its groups.
const LEDGER_ROOM: usize = 250;
/// Between checkpoints while groups are settled ahead of them.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Between looks at the log that were asked for, doubling from the one to the other while they tell nothing.
pub(super) const FIRST_LOOK_DELAY: Duration = Duration::from_millis(5);
const LONGEST_LOOK_DELAY: Duration = Duration::from_secs(1);

impl Turn<'_> {
    pub(super) fn group_by(&self) -> Option<GroupBy> {
        match &self.runner.subscription.work {
            Work::Transaction(_, scope) => scope.group_by(),
            Work::Each(_) | Work::Batch(_) => None,
        }
    }

    /// Events of a segment: grouped ones are looked at beyond a batch, to see where their transactions end.
    pub(super) fn segment_size(&self) -> usize {
        let batch = self.runner.subscription.config.catch_up_batch_size as usize;
        if self.group_by().is_some() { batch + LONG_SPAN as usize } else { batch }
    }

    /// Whether groups are to be handled before more events are taken.
    pub(super) fn has_groups(&self) -> bool {
        !self.starved && self.groups.len() >= 2 * self.segment_size()
    }

    pub(super) fn has_room_for_groups(&self) -> bool {
        self.groups.bytes() < ROOM
    }

    /// Before a wait: asks for a look at the log, if one would tell where the transactions of a batch end.
    pub(super) fn ask_for_look(&mut self) {
        if !(self.groups.needs_look() || self.stale && self.goes_beyond()) {
            (self.look_at, self.look_delay) = (None, FIRST_LOOK_DELAY);
            return;
        }
        let now = tokio::time::Instant::now();
        if self.look_at.is_none_or(|at| at <= now) {
            self.runner.tail.nudge();
            self.look_at = Some(now + self.look_delay);
            self.look_delay = (self.look_delay * 2).min(LONGEST_LOOK_DELAY);
        }
    }

    /// Lets admitted events wait for the rest of their groups.
    pub(super) fn gather(&mut self, admitted: Vec<Admitted>, segment: &Segment) {
        let now = Instant::now();
        let visible_by = segment.visible_by.unwrap_or(now);
        for Admitted { event, .. } in admitted {
            let own = self.wants(&event);
            let buried = own && self.is_buried(&event);
            if buried {
                self.done(&event);
            } else if own {
                self.groups.add(&event, order_key(&event), weight(&event), visible_by, now);
            } else {
                self.progress.done(sequence(&event));
                self.note_unwritten();
            }
        }
    }

    /// The same for an event of a passed gap.
    pub(super) fn gather_late(&mut self, event: &Arc<Event>) {
        if self.wants(event) && !self.is_buried(event) {
            let now = Instant::now();
            self.groups.add(event, order_key(event), weight(event), now, now);
            self.look_beyond_again();
        } else {
            self.done(event);
        }
    }

    /// Handles the next batch of groups, if it is known where it ends. Returns whether it did.
    pub(super) async fn handle_groups(&mut self) -> Result<bool, Stop> {
        let Some(by) = self.group_by() else { return Ok(false) };
        let Work::Transaction(handler, _) = self.runner.subscription.work.clone() else { return Ok(false) };
        let batch = self.next_groups(by).await?;
        self.starved = batch.is_none();
        let Some(batch) = batch else { return Ok(false) };
        let long = batch.groups.len() > 1 && batch.groups.iter().map(Vec::len).sum::<usize>() > LEDGER_ROOM;
        if long || self.narrow.is_some() || self.ends_beyond(&batch.groups) || self.leaves_many(&batch.groups) {
            self.ahead = true;
            let handled = self.handle_ahead(&*handler, batch.groups).await;
            self.ahead = false;
            return handled.map(|()| true);
        }
        for group in batch.groups {
            self.handle_group(&*handler, &group).await?;
            self.write_if_due().await?;
            self.runner.may_go_on(self.fence)?;
        }
        Ok(true)
    }

    /// The next batch. Where it needs to be known which transactions are long, they are looked for.
    async fn next_groups(&mut self, by: GroupBy) -> Result<Option<GroupBatch>, Stop> {
        let limit = self.runner.subscription.config.catch_up_batch_size as usize;
        let full = !self.has_room_for_groups();
        loop {
            if let Some(batch) = self.groups.next_batch(by, limit, self.bound()) {
                return Ok(Some(batch));
            }
            let Some(part) = self.groups.needs_spans(if full { 0 } else { limit }) else { break };
            let spans = self.runner.unless_stopped(self.fence, self.runner.tail.spans(&part)).await?;
            self.groups.note_spans(spans.map_err(|error| Stop::from(SubscriberError::Read(error)))?);
        }
        if full {
            self.make_room().await?;
        }
        Ok(None)
    }

    /// A transaction has more events than there is room for: only those of some keys are read to its end and handled, noted as settled ahead. Then the turn begins again,
    /// and the next keys have theirs. So memory is bounded, and no group is split. What one transaction appended of one key has to fit: else the subscriber is
    /// paused, with the reason.
    async fn make_room(&mut self) -> Result<(), Stop> {
        let position = self.reached().min(self.bound().unwrap_or(u64::MAX));
        if self.groups.narrow(ROOM / 2) {
            self.narrow.get_or_insert(position);
            return Ok(());
        }
        let key = self.groups.keys().into_iter().next().unwrap_or_default();
        let reason = format!(
            "what one transaction appended of key {key:?} is more than {} MiB, the most that is handled at once: it begins at global_sequence {}",
            ROOM / 1024 / 1024,
            self.groups.first().unwrap_or_default()
        );
        tracing::error!(subscriber_id = self.runner.id(), reason, "paused");
        self.runner.insist(self.fence, || self.runner.store.pause_self(self.fence, &reason)).await?;
        Err(Stop::Paused)
    }

    /// Whether more would be in the ledger than it shall hold, once these are done: events before them that still wait.
    fn leaves_many(&self, groups: &[Vec<Arc<Event>>]) -> bool {
        let last = groups.iter().filter_map(|group| group.last()).map(|event| sequence(event)).max();
        self.groups.before(last.unwrap_or_default()) > LEDGER_ROOM
    }

    /// Deletes notes of groups that were settled ahead before the turn began, once they are passed.
    pub(super) async fn forget_notes(&mut self) -> Result<(), Stop> {
        let passed = self.noted_to.is_some_and(|to| self.progress.last_written().0 >= to);
        if passed && self.group_by().is_some() {
            self.runner.forget_ahead(self.fence).await?;
        }
        self.noted_to = self.noted_to.filter(|_| !passed);
        Ok(())
    }

    /// Handles groups whose events would fill the ledger: each is noted by itself, and the checkpoint moves now and then.
    async fn handle_ahead(&mut self, handler: &dyn InTransaction, groups: Vec<Vec<Arc<Event>>>) -> Result<(), Stop> {
        let mut written = Instant::now();
        for group in groups {
            self.handle_group(handler, &group).await?;
            if written.elapsed() >= WRITE_EVERY {
                self.write().await?;
                written = Instant::now();
            }
            self.runner.may_go_on(self.fence)?;
        }
        self.write().await?;
        self.runner.forget_ahead(self.fence).await
    }

    async fn handle_group(&mut self, handler: &dyn InTransaction, group: &[Arc<Event>]) -> Result<(), Stop> {
        if self.is_parked(&group[0]) {
            let parked = |event: &Arc<Event>| self.runner.letter(event, DeadLetterState::Parked, false, Vec::new());
            let letters: Vec<DeadLetter> = group.iter().map(parked).collect();
            return self.settle_with_letters(group, letters).await;
        }
        let max_retries = self.runner.subscription.config.max_retries as usize;
        let before = self.attempts_before(&group[0]);
        if before.as_ref().is_some_and(|before| before.len() <= max_retries) {
            self.note_begun(&group[0]).await?;
        }
        let mut attempts = before.unwrap_or_default();
        let mut failed_at = vec![None; attempts.len()];
        let error = loop {
            if attempts.len() > max_retries {
                break died();
            }
            let Err(Failure { at, error }) = self.try_in_transaction(handler, group).await? else { return Ok(()) };
            let failing = group.iter().find(|event| event.global_sequence == at).unwrap_or(&group[0]);
            let (runner, fence) = (self.runner, self.fence);
            let again = self.writing_meanwhile(runner.try_again(fence, failing, &error, &mut attempts)).await?;
            self.finish_writing().await?;
            failed_at.resize(attempts.len(), at);
            if !again {
                break error;
            }
        };
        let attempts: Vec<(Option<u64>, Attempt)> = failed_at.into_iter().zip(attempts).collect();
        if self.runner.subscription.config.on_group_failure == OnGroupFailure::EventByEvent && group.len() > 1 {
            return self.handle_event_by_event(handler, group, attempts).await;
        }
        let parks = self.runner.give_up(self.fence, &group[0], &error, attempts.len()).await?;
        let dead = |event: &Arc<Event>| {
            let attempts = attempts.iter().map(|(at, attempt)| as_seen_by(event, group.len(), *at, attempt)).collect();
            self.runner.letter(event, DeadLetterState::Dead, parks, attempts)
        };
        let letters: Vec<DeadLetter> = group.iter().map(dead).collect();
        self.settle_with_letters(group, letters).await?;
        self.park(parks.then(|| order_key(&group[0])));
        Ok(())
    }

    /// The tries of the group count for the events that failed in them.
    async fn handle_event_by_event(
        &mut self,
        handler: &dyn InTransaction,
        group: &[Arc<Event>],
        attempts: Vec<(Option<u64>, Attempt)>,
    ) -> Result<(), Stop> {
        let events = group.len();
        tracing::warn!(subscriber_id = self.runner.id(), events, "gave up on a group: trying its events one by one");
        for event in group {
            let own = attempts.iter().filter(|(at, _)| *at == event.global_sequence);
            let own = own.map(|(_, attempt)| attempt.clone()).collect();
            self.handle_in_its_transaction(handler, event, own).await?;
            self.write_if_due().await?;
            self.runner.may_go_on(self.fence)?;
        }
        Ok(())
    }

    async fn settle_with_letters(&mut self, group: &[Arc<Event>], letters: Vec<DeadLetter>) -> Result<(), Stop> {
        self.runner.bury_all(self.fence, &letters).await?;
        group.iter().for_each(|event| self.done(event));
        Ok(())
    }
}

/// A group's attempt, for one of its events: whether it failed itself, or was rolled back with another.
fn as_seen_by(event: &Event, group: usize, at: Option<u64>, attempt: &Attempt) -> Attempt {
    let mut attempt = attempt.clone();
    if group > 1 && at != event.global_sequence {
        let whose = at.map_or("the commit".to_owned(), |at| format!("event {at}"));
        let cause = attempt.errors.first().cloned().unwrap_or_default();
        attempt.errors.insert(0, format!("rolled back with its group of {group} events: {whose} failed: {cause}"));
    }
    attempt
}
