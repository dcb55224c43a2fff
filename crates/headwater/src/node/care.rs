//! With care: what an owner does that follows one which died.
//!
//! An event may end the process of its handler: by an abort, by more memory than there is. In the normal case nothing is written when an event begins, so whoever
//! comes next does not know which it was. It begins events one at a time, each written down before, and its checkpoint after. An event that was begun before and not
//! settled ended a process, most likely: that counts as a failed attempt. After enough events without a death, the turn goes on as any other; should the one that kills come
//! later, the checkpoint has moved, and it is met sooner the next time.

use std::sync::Arc;

use headwater_core::{Attempt, DeadLetterState, Event, HandlerError, order_key};

use super::handler::{Each, Work};
use super::runner::Stop;
use super::turn::{OneByOne, Turn};

/// So many events are begun with care.
pub(super) const CAREFUL_EVENTS: u32 = 100;

impl Turn<'_> {
    /// Handles events one at a time.
    pub(super) async fn handle_with_care(&mut self, events: Vec<Arc<Event>>) -> Result<(), Stop> {
        for event in events {
            match self.runner.subscription.work.clone() {
                Work::Each(handler) => self.handle_carefully(&*handler, &event).await?,
                Work::Batch(handler) => self.handle_carefully(&OneByOne(&*handler), &event).await?,
                Work::Transaction(handler, _) => {
                    if let Some(attempts) = self.begin_with_care(&event).await? {
                        self.handle_in_its_transaction(&*handler, &event, attempts).await?;
                    }
                }
            }
            self.write().await?;
            self.runner.may_go_on(self.fence)?;
        }
        Ok(())
    }

    async fn handle_carefully(&mut self, handler: &dyn Each, event: &Arc<Event>) -> Result<(), Stop> {
        if self.park_behind(event).await? {
            return Ok(());
        }
        let place = self.place().await?;
        self.granted(|limiter| limiter.take(1)).await?;
        let Some(attempts) = self.begin_with_care(event).await? else { return Ok(()) };
        let (runner, fence) = (self.runner, self.fence);
        let delivery = runner.deliver_granted(handler, fence, event, attempts);
        let given_up = self.writing_meanwhile(delivery).await?;
        self.settle_placed(given_up, place);
        self.done(event);
        Ok(())
    }

    /// Writes down that an event is begun, if the turn is careful. Answers with the attempts before this one; `None`: there were too many, and it is given up.
    pub(super) async fn begin_with_care(&mut self, event: &Arc<Event>) -> Result<Option<Vec<Attempt>>, Stop> {
        let Some(attempts) = self.attempts_before(event) else { return Ok(Some(Vec::new())) };
        if attempts.len() > self.runner.subscription.config.max_retries as usize {
            let parks = self.runner.give_up(self.fence, event, &died(), attempts.len()).await?;
            self.runner.bury(self.fence, event, DeadLetterState::Dead, parks, attempts).await?;
            self.park(parks.then(|| order_key(event)));
            self.done(event);
            return Ok(None);
        }
        self.note_begun(event).await?;
        Ok(Some(attempts))
    }

    /// The attempts in which a process died, of an event that is to be begun with care; `None`: no care is needed.
    pub(super) fn attempts_before(&self, event: &Event) -> Option<Vec<Attempt>> {
        let deaths = match self.begun {
            _ if self.careful == 0 => return None,
            Some((begun, times)) if begun == event.id => times,
            _ => 0,
        };
        Some((0..deaths).map(|_| self.runner.attempt(&died())).collect())
    }

    pub(super) async fn note_begun(&mut self, event: &Event) -> Result<(), Stop> {
        let (runner, fence) = (self.runner, self.fence);
        runner.insist(fence, || runner.store.begin_event(fence, event.id)).await?;
        self.careful -= 1;
        Ok(())
    }
}

pub(super) fn died() -> HandlerError {
    HandlerError::message("the process that handled it ended before it was done")
}
