//! How a subscription's events are handled: one by one, several keys at once, in batches, or in
//! transactions.
//!
//! Events that go together and fail are handled one by one, by the executor's
//! [`split`](crate::node::delivery::executor::split).

use std::sync::Arc;

use headwater_core::{HandlerError, RecordedEvent};
use tokio::time::Instant;

use super::Turn;
use super::care::Begun;
use super::settle::TransactionTries;
use crate::node::delivery::allowance::Permit;
use crate::node::delivery::executor::Run;
use crate::node::delivery::executor::split::{Together, Tried, together_or_alone};
use crate::node::delivery::handler::{TransactionScope, Work};
use crate::node::delivery::limiter::Limiter;
use crate::node::delivery::owner::{FailedTry, died};
use crate::node::delivery::runner::Stop;
use crate::node::reading::ring::weight;

impl Turn {
    /// Hands events to the handler in the way that the subscription sets.
    pub(super) async fn handle_by_strategy(&mut self, events: Vec<Arc<RecordedEvent>>) -> Result<(), Stop> {
        if self.care.is_needed() {
            return self.handle_with_care(events).await;
        }
        let owner = self.owner.clone();
        match &owner.plan().work {
            Work::Each(_) if owner.plan().concurrency > 1 => {
                self.keyed.add(events);
                self.start();
                Ok(())
            }
            Work::Each(_) | Work::Transaction { per: TransactionScope::Event, .. } => {
                for event in &events {
                    self.handle_next(event).await?;
                }
                Ok(())
            }
            Work::Batch(_) => self.handle_in_batches(events).await,
            Work::Transaction { .. } => self.handle_in_transactions(events).await,
        }
    }

    /// Handles one event, and writes a checkpoint if it is due.
    async fn handle_next(&mut self, event: &Arc<RecordedEvent>) -> Result<(), Stop> {
        self.handle_alone(event).await?;
        self.checkpoints.write_if_due().await?;
        self.owner.may_go_on()
    }

    /// Handles one event until it is settled: handled, given up, or parked behind a dead letter of
    /// its key.
    pub(super) async fn handle_alone(&mut self, event: &Arc<RecordedEvent>) -> Result<(), Stop> {
        if self.park_behind(event).await? {
            return Ok(());
        }
        if self.owner.plan().is_transactional() {
            return match self.begin(event).await? {
                Begun::Tried(failed) => self.handle_in_its_transaction(event, failed).await,
                Begun::DiedTooOften(failed) => self.give_up(std::slice::from_ref(event), &died(), &failed).await,
            };
        }
        let permit = self.permit().await?;
        self.granted(|limiter| limiter.take(1)).await?;
        self.handle_granted(event, permit).await
    }

    /// Handles one event by a plain handler. It has its permit, and the rate limit allows it.
    async fn handle_granted(&mut self, event: &Arc<RecordedEvent>, permit: Option<Permit>) -> Result<(), Stop> {
        let failed = match self.begin(event).await? {
            Begun::Tried(failed) => failed,
            Begun::DiedTooOften(failed) => return self.give_up(std::slice::from_ref(event), &died(), &failed).await,
        };
        let owner = &self.owner;
        let (Work::Each(handler) | Work::Batch(handler)) = &owner.plan().work else { return Ok(()) };
        match self.checkpoints.writing_meanwhile(owner.deliver(&**handler, event, failed)).await? {
            // The permit is dropped, and the next event gets it.
            Some(given_up) => self.park_key(given_up),
            None => permit.into_iter().for_each(Permit::use_up),
        }
        self.checkpoints.done(event);
        Ok(())
    }

    /// Handles one event in a transaction of its own, until it is settled. `failed` are the tries
    /// before.
    pub(super) async fn handle_in_its_transaction(
        &mut self,
        event: &Arc<RecordedEvent>,
        failed: Vec<FailedTry>,
    ) -> Result<(), Stop> {
        let (owner, events) = (self.owner.clone(), std::slice::from_ref(event));
        let mut tries = TransactionTries { turn: self, events };
        if let Some((last, failed)) = owner.until_settled(events, &mut tries, failed).await? {
            self.give_up(events, &last, &failed).await?;
        }
        Ok(())
    }

    /// Gives up events that were handled together.
    pub(super) async fn give_up(
        &mut self,
        events: &[Arc<RecordedEvent>],
        last: &HandlerError,
        failed: &[FailedTry],
    ) -> Result<(), Stop> {
        let given_up = self.owner.give_up(events, last, failed).await?;
        self.park_key(given_up);
        events.iter().for_each(|event| self.checkpoints.done(event));
        Ok(())
    }

    /// Hands events to a batch handler: as many at once as fit together, have permits, and stay
    /// within the rate limit.
    async fn handle_in_batches(&mut self, mut events: Vec<Arc<RecordedEvent>>) -> Result<(), Stop> {
        let owner = self.owner.clone();
        let plan = owner.plan();
        while !events.is_empty() {
            let first = self.permit().await?;
            let fit = plan.fit_together(events.iter().map(|event| weight(event)));
            let mut permits = plan.permits_for(fit, first);
            let most = if plan.allowance.is_some() { permits.len() } else { fit };
            let granted = self.granted(|limiter| limiter.take(most)).await?;
            permits.truncate(granted);
            let rest = events.split_off(granted);
            together_or_alone(&mut PlainBatch { turn: self, granted: Some(permits) }, events).await?;
            self.checkpoints.write_if_due().await?;
            owner.may_go_on()?;
            events = rest;
        }
        Ok(())
    }

    /// Handles events in transactions. Each holds as many events as the rate limit allows at once.
    async fn handle_in_transactions(&mut self, events: Vec<Arc<RecordedEvent>>) -> Result<(), Stop> {
        let most = self.owner.plan().limiter.burst().unwrap_or(events.len()).max(1);
        for events in events.chunks(most) {
            together_or_alone(&mut TransactionBatch { turn: self }, events.to_vec()).await?;
            self.owner.may_go_on()?;
        }
        Ok(())
    }

    /// Waits until another event may be handled, if the number of events is limited.
    async fn permit(&mut self) -> Result<Option<Permit>, Stop> {
        let Some(permits) = self.owner.plan().allowance.clone() else { return Ok(None) };
        if let Some(permit) = permits.take() {
            return Ok(Some(permit));
        }
        self.checkpoints.write().await?;
        self.owner.unless_stopped(permits.next()).await.map(Some)
    }

    /// Waits until the rate limit grants what `ask` asks for. Meanwhile, progress is written when
    /// it is due.
    pub(super) async fn granted(&mut self, ask: impl Fn(&Limiter) -> Result<usize, Instant>) -> Result<usize, Stop> {
        loop {
            let at = match ask(&self.owner.plan().limiter) {
                Ok(events) => return Ok(events),
                Err(at) => at,
            };
            let until = self.checkpoints.write_deadline().map_or(at, |deadline| at.min(deadline));
            self.owner.rest(until.saturating_duration_since(Instant::now())).await?;
            if self.checkpoints.is_write_due() {
                self.checkpoints.write().await?;
            }
        }
    }
}

/// Events that a batch handler is given together.
struct PlainBatch<'a> {
    turn: &'a mut Turn,
    /// The permits of events that the rate limit has granted. `None`: each event has to ask by
    /// itself.
    granted: Option<Vec<Permit>>,
}

impl Together for PlainBatch<'_> {
    type Event = Arc<RecordedEvent>;
    type Stop = Stop;

    fn subscriber_id(&self) -> &str {
        self.turn.owner.id()
    }

    async fn together(&mut self, events: Vec<Arc<RecordedEvent>>) -> Result<Tried<Arc<RecordedEvent>>, Stop> {
        let permits = self.granted.take();
        if events.iter().any(|event| self.turn.is_parked(event)) {
            return Ok(Tried::OneByOne(events, None));
        }
        let Turn { owner, checkpoints, .. } = &mut *self.turn;
        let Work::Batch(handler) = &owner.plan().work else { return Ok(Tried::OneByOne(events, None)) };
        let run = Run { events: &events, redeliveries: &[] };
        let handling = async { Ok(owner.executor().plain(&**handler, run).await) };
        if let Err(error) = checkpoints.writing_meanwhile(handling).await? {
            return Ok(Tried::OneByOne(events, Some(error)));
        }
        permits.into_iter().flatten().for_each(Permit::use_up);
        events.iter().for_each(|event| checkpoints.done(event));
        Ok(Tried::Settled)
    }

    async fn alone(&mut self, event: Arc<RecordedEvent>) -> Result<(), Stop> {
        match self.granted.take() {
            // It is the only one.
            Some(mut permits) if !self.turn.is_parked(&event) => self.turn.handle_granted(&event, permits.pop()).await,
            _ => self.turn.handle_next(&event).await,
        }
    }
}

/// Events that one transaction holds.
struct TransactionBatch<'a> {
    turn: &'a mut Turn,
}

impl Together for TransactionBatch<'_> {
    type Event = Arc<RecordedEvent>;
    type Stop = Stop;

    fn subscriber_id(&self) -> &str {
        self.turn.owner.id()
    }

    async fn together(&mut self, events: Vec<Arc<RecordedEvent>>) -> Result<Tried<Arc<RecordedEvent>>, Stop> {
        if events.iter().any(|event| self.turn.is_parked(event)) {
            return Ok(Tried::OneByOne(events, None));
        }
        Ok(match self.turn.try_in_transaction(&events, 0).await? {
            Ok(()) => Tried::Settled,
            Err(failure) => Tried::OneByOne(events, Some(failure.error)),
        })
    }

    async fn alone(&mut self, event: Arc<RecordedEvent>) -> Result<(), Stop> {
        self.turn.handle_next(&event).await
    }
}
