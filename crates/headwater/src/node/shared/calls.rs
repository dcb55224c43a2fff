//! Calls of a worker to the database: each a task, whose answer the worker's loop takes.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Claim, ClaimRequest, HandlerError, SubscriberError, SubscriberStore, jittered, retry_delay};
use tokio::time::Instant;
use uuid::Uuid;

use super::hand::{Hand, Job};
use super::{FIRST_PAUSE, LONGEST_PAUSE, Shared};

pub(super) enum Answer {
    Claimed {
        begun: Instant,
        /// Events.
        asked: usize,
        /// Of priority.
        urgent: Vec<Claim>,
        claims: Result<Vec<Claim>, SubscriberError>,
        /// Of the claims that were to be acked: to be tried again.
        unacked: Vec<Uuid>,
    },
    Acked {
        unacked: Vec<Uuid>,
    },
    HandedBack {
        claim_id: Uuid,
        events: usize,
        due_in: Duration,
    },
    /// The claim is lost, or expires.
    NotHandedBack {
        claim_id: Uuid,
    },
    PartAcked {
        claim_id: Uuid,
        unacked: Vec<u64>,
    },
    Extended {
        claim_id: Uuid,
        /// When to do so again.
        next: Instant,
    },
    Lost {
        claim_id: Uuid,
        error: SubscriberError,
    },
}

/// Why events are handed back.
enum Return {
    /// They were not begun.
    Untouched,
    Failed(HandlerError),
}

impl Shared {
    /// Claims events, those of priority first, and acks what is done.
    pub(super) fn begin_claim(self: &Arc<Self>, hand: &mut Hand, events: usize, urgent: usize) {
        let now = Instant::now();
        hand.retries.retain(|at| *at > now);
        hand.claiming += 1;
        hand.asked += events;
        let acks = std::mem::take(&mut hand.acks);
        hand.calls.spawn(self.clone().claim(events, urgent, acks));
    }

    async fn claim(self: Arc<Self>, events: usize, urgent: usize, acks: Vec<Uuid>) -> Answer {
        let begun = Instant::now();
        let mut request = ClaimRequest {
            visibility: self.subscription.claims.visibility,
            max_attempts: self.subscription.config.max_retries + 1,
            acks,
            per_claim: self.per_claim(),
            ..ClaimRequest::new(&self.worker)
        };
        let (mut unacked, mut first) = (Vec::new(), Vec::new());
        if urgent > 0 {
            request.max_events = urgent as u32;
            request.event_types = self.subscription.claims.priority.clone();
            match self.claim_and_ack(&mut request, &mut unacked).await {
                Ok(claims) => first = claims,
                error => return Answer::Claimed { begun, asked: events, urgent: first, claims: error, unacked },
            }
        }
        let left = events.saturating_sub(first.iter().map(|claim| claim.events.len()).sum());
        let mut claims = Ok(Vec::new());
        if left > 0 {
            request.max_events = left as u32;
            request.event_types = self.subscription.filter.event_types.clone();
            claims = self.claim_and_ack(&mut request, &mut unacked).await;
        }
        Answer::Claimed { begun, asked: events, urgent: first, claims, unacked }
    }

    /// Afterwards, nothing is left to ack in the request; `unacked` has what is to be tried again.
    async fn claim_and_ack(
        &self,
        request: &mut ClaimRequest,
        unacked: &mut Vec<Uuid>,
    ) -> Result<Vec<Claim>, SubscriberError> {
        let claims = self.ask(request).await;
        let acks = std::mem::take(&mut request.acks);
        match claims {
            Err(SubscriberError::ClaimLost(_)) => {
                // One of those that are done is another's by now: each alone, then.
                unacked.extend(self.ack_each(acks).await);
                self.ask(request).await
            }
            Err(error) => {
                unacked.extend(acks);
                Err(error)
            }
            claims => claims,
        }
    }

    /// Of handlers by event type, the subscriber is made when it is first needed.
    async fn ask(&self, request: &mut ClaimRequest) -> Result<Vec<Claim>, SubscriberError> {
        let Some(handlers) = &self.subscription.filter.handlers else { return self.queue.claim(request).await };
        request.event_types = handlers.patterns();
        if request.event_types.is_empty() {
            return Ok(Vec::new());
        }
        let mut made = false;
        loop {
            match self.queue.claim(request).await {
                Err(SubscriberError::NotFound(_)) if !std::mem::replace(&mut made, true) => {
                    self.postgres.register(&self.subscription.registered_as()).await?;
                }
                claims => return claims,
            }
        }
    }

    /// Acks what is done, if no claim takes it along.
    pub(super) fn begin_ack(self: &Arc<Self>, hand: &mut Hand) {
        if hand.acks.is_empty() || hand.acking {
            return;
        }
        hand.acking = true;
        let (worker, acks) = (self.clone(), std::mem::take(&mut hand.acks));
        hand.calls.spawn(async move { Answer::Acked { unacked: worker.ack_each(acks).await } });
    }

    /// Returns those that are to be tried again.
    async fn ack_each(&self, claims: Vec<Uuid>) -> Vec<Uuid> {
        let mut unacked = Vec::new();
        for claim_id in claims {
            match self.queue.ack(claim_id, None).await {
                Ok(()) => {}
                Err(error) if error.is_retryable() && !self.is_stopping() => unacked.push(claim_id),
                Err(error) => {
                    tracing::warn!(subscriber_id = self.id(), %error, "failed to ack: the events of a claim come again");
                }
            }
        }
        if !unacked.is_empty() {
            tokio::time::sleep(jittered(FIRST_PAUSE, 0.5, rand::random())).await;
        }
        unacked
    }

    /// Acks what is done of claims that take long.
    pub(super) fn ack_parts(self: &Arc<Self>, hand: &mut Hand, now: Instant) {
        for (claim_id, sequences) in hand.take_unacked(now) {
            hand.calls.spawn(self.clone().ack_part(claim_id, sequences));
        }
    }

    async fn ack_part(self: Arc<Self>, claim_id: Uuid, sequences: Vec<u64>) -> Answer {
        let _turn = self.calls.acks.acquire().await;
        match self.queue.ack(claim_id, Some(&sequences)).await {
            Ok(()) => Answer::PartAcked { claim_id, unacked: Vec::new() },
            Err(error) if error.is_retryable() && !self.is_stopping() => {
                Answer::PartAcked { claim_id, unacked: sequences }
            }
            Err(error) => Answer::Lost { claim_id, error },
        }
    }

    /// Hands an event back that failed.
    pub(super) fn hand_back(self: &Arc<Self>, hand: &mut Hand, job: Job, error: HandlerError) {
        let sequence = job.event.global_sequence.unwrap_or_default();
        if !error.is_not_handled() {
            let (subscriber_id, attempt) = (self.id(), job.redelivery_count + 1);
            tracing::warn!(subscriber_id, sequence, %error, attempt, "failed to handle an event");
        }
        let config = &self.subscription.config;
        let delay = jittered(retry_delay(config, job.redelivery_count), config.retry_jitter, rand::random());
        hand.calls.spawn(self.clone().give_back(job.claim_id, vec![sequence], delay, Return::Failed(error)));
    }

    /// Hands back what was claimed and is not begun, so that other workers need not wait for it.
    pub(super) fn hand_back_waiting(self: &Arc<Self>, hand: &mut Hand) -> Option<Instant> {
        for (claim_id, sequences) in hand.take_waiting(None) {
            hand.calls.spawn(self.clone().give_back(claim_id, sequences, Duration::ZERO, Return::Untouched));
        }
        None
    }

    async fn give_back(self: Arc<Self>, claim_id: Uuid, sequences: Vec<u64>, delay: Duration, why: Return) -> Answer {
        let (events, subscriber_id) = (Some(&sequences[..]), self.id());
        let mut pause = FIRST_PAUSE;
        loop {
            let settled = match &why {
                Return::Untouched => self.queue.release(claim_id, events).await,
                Return::Failed(error) if error.is_not_handled() => self.queue.release(claim_id, events).await,
                Return::Failed(error) => {
                    let text = error.chain().join(": ");
                    match error.is_permanent() {
                        true => self.queue.reject(claim_id, events, &text).await,
                        false => self.queue.nack(claim_id, events, delay, &text).await,
                    }
                }
            };
            match settled {
                Ok(()) => return Answer::HandedBack { claim_id, events: sequences.len(), due_in: delay },
                Err(error) if error.is_retryable() && !self.is_stopping() => {
                    tracing::warn!(subscriber_id, %error, "failed to hand events back, trying again");
                    tokio::time::sleep(jittered(pause, 0.5, rand::random())).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => {
                    tracing::warn!(subscriber_id, %error, "failed to hand events back: they come again when their claim expires");
                    return Answer::NotHandedBack { claim_id };
                }
            }
        }
    }

    /// Keeps the claims whose time has come.
    pub(super) fn extend_due(self: &Arc<Self>, hand: &mut Hand, now: Instant) {
        let mut due = Vec::new();
        for (claim_id, claim) in &mut hand.claims {
            if claim.extend_at.is_some_and(|at| at <= now) {
                claim.extend_at = None;
                due.push(*claim_id);
            }
        }
        for claim_id in due {
            if !self.give_up_waiting(hand, claim_id) {
                hand.calls.spawn(self.clone().extend(claim_id));
            }
        }
    }

    /// Of a claim that was made ahead, without being told to: hands back what was not begun in all the time. Returns whether that was all of it.
    fn give_up_waiting(self: &Arc<Self>, hand: &mut Hand, claim_id: Uuid) -> bool {
        if self.subscription.claims.prefetch.is_some() {
            return false;
        }
        let Some(sequences) = hand.take_waiting(Some(claim_id)).remove(&claim_id) else { return false };
        hand.pace.stuck(self.subscription.claims.visibility / 2);
        let all = hand.claims.get(&claim_id).is_some_and(|claim| claim.left == sequences.len());
        hand.calls.spawn(self.clone().give_back(claim_id, sequences, Duration::ZERO, Return::Untouched));
        all
    }

    async fn extend(self: Arc<Self>, claim_id: Uuid) -> Answer {
        let _turn = self.calls.extensions.acquire().await;
        let visibility = self.subscription.claims.visibility;
        let begun = Instant::now();
        match self.queue.extend(claim_id, visibility).await {
            Ok(_) => Answer::Extended { claim_id, next: begun + visibility / 2 },
            Err(error) if error.is_retryable() => {
                tracing::warn!(subscriber_id = self.id(), %error, "failed to extend a claim, trying again");
                Answer::Extended { claim_id, next: Instant::now() + (visibility / 8).max(FIRST_PAUSE) }
            }
            Err(error) => Answer::Lost { claim_id, error },
        }
    }
}
