//! A worker's calls to the database. Each is a task, and the worker's loop takes its answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater_core::{Backoff, Claim, ClaimRequest, DeadLetterQuery, HandlerError, SubscriberError};
use tokio::time::Instant;
use uuid::Uuid;

use super::Worker;
use super::in_flight::{ClaimedEvent, InFlight};
use crate::node::delivery::executor::answered::until_answered;
use crate::node::delivery::executor::failure::{AfterFailure, after_failure, retry_pause};

/// How long claims leave out types that the queue refused.
const ASK_AGAIN: Duration = Duration::from_secs(30);

pub(super) enum Answer {
    Claimed {
        begun: Instant,
        /// How many events the claim asked for.
        asked: usize,
        /// Claims of events with priority.
        urgent: Vec<Claim>,
        claims: Result<Vec<Claim>, SubscriberError>,
        /// Claims whose acks are to be tried again.
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
    /// The claim is lost, or will expire.
    NotHandedBack {
        claim_id: Uuid,
    },
    PartAcked {
        claim_id: Uuid,
        unacked: Vec<u64>,
    },
    Extended {
        claim_id: Uuid,
        /// When to extend it again.
        next: Instant,
    },
    Lost {
        claim_id: Uuid,
        error: SubscriberError,
    },
}

/// Types that the queue does not take any more, although the worker handles them. Claims leave them
/// out, and ask for them again now and then.
#[derive(Default)]
pub(in crate::node) struct Refused(Mutex<Option<(Instant, Vec<String>)>>);

impl Refused {
    fn note(&self, event_types: Vec<String>) {
        *self.0.lock().expect("no holder of this lock panics") = Some((Instant::now(), event_types));
    }

    /// The types to ask for: all of them, if all were refused.
    fn left_of(&self, event_types: &[String]) -> Vec<String> {
        let refused = self.0.lock().expect("no holder of this lock panics");
        let Some((_, refused)) = refused.as_ref().filter(|(at, _)| at.elapsed() < ASK_AGAIN) else {
            return event_types.to_vec();
        };
        let left: Vec<_> = event_types.iter().filter(|event_type| !refused.contains(event_type)).cloned().collect();
        if left.is_empty() { event_types.to_vec() } else { left }
    }
}

/// How events are handed back.
enum Return {
    /// They were not tried: this delivery does not count.
    Untouched,
    /// They failed, and are delivered again after a pause.
    Again(Duration, String),
    /// They failed for good.
    GiveUp(String),
}

impl Worker {
    /// Claims events, those with priority first, and acks finished claims.
    pub(super) fn begin_claim(self: &Arc<Self>, in_flight: &mut InFlight, events: usize, urgent: usize) {
        let now = Instant::now();
        in_flight.retries.retain(|at| *at > now);
        in_flight.claiming += 1;
        in_flight.asked += events;
        let acks = std::mem::take(&mut in_flight.acks);
        in_flight.calls.spawn(self.clone().claim(events, urgent, acks));
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
                // The queue takes none of these types any more.
                Err(SubscriberError::InvalidInput(_)) => {}
                error => return Answer::Claimed { begun, asked: events, urgent: first, claims: error, unacked },
            }
        }
        let left = events.saturating_sub(first.iter().map(|claim| claim.events.len()).sum());
        let mut claims = Ok(Vec::new());
        if left > 0 {
            request.max_events = left as u32;
            request.event_types = self.refused.left_of(&self.subscription.filter.event_types);
            claims = self.claim_and_ack(&mut request, &mut unacked).await;
        }
        Answer::Claimed { begun, asked: events, urgent: first, claims, unacked }
    }

    /// Claims events and acks the request's claims. Afterwards, the request has no acks left, and
    /// `unacked` has the claims to try again.
    async fn claim_and_ack(
        &self,
        request: &mut ClaimRequest,
        unacked: &mut Vec<Uuid>,
    ) -> Result<Vec<Claim>, SubscriberError> {
        let claims = self.ask(request).await;
        let acks = std::mem::take(&mut request.acks);
        match claims {
            Err(SubscriberError::ClaimLost(_)) => {
                // One of the claims to ack is lost: ack each of them alone.
                unacked.extend(self.ack_each(acks).await);
                self.ask(request).await
            }
            // An operator took some of these types from the queue. The others are still claimed.
            Err(SubscriberError::InvalidInput(_)) if request.event_types.len() > 1 => {
                unacked.extend(self.ack_each(acks).await);
                self.claim_by_type(request).await
            }
            Err(error) => {
                unacked.extend(acks);
                Err(error)
            }
            claims => claims,
        }
    }

    /// Claims events of each type alone, and notes the types that the queue does not take: later
    /// claims leave them out for a while. If it takes none of them, the claim is refused.
    async fn claim_by_type(&self, request: &ClaimRequest) -> Result<Vec<Claim>, SubscriberError> {
        let (mut claims, mut left) = (Vec::new(), request.max_events);
        let mut outcome = Err(SubscriberError::InvalidInput(String::new()));
        let mut refused = Vec::new();
        for event_type in &request.event_types {
            let event_types = vec![event_type.clone()];
            // Each type is tried, also if there is no room left for its events.
            let max_events = left.max(1);
            match self.queue.claim(&ClaimRequest { max_events, event_types, ..request.clone() }).await {
                Ok(claimed) => {
                    left = left.saturating_sub(claimed.iter().map(|claim| claim.events.len() as u32).sum());
                    claims.extend(claimed);
                    outcome = Ok(());
                }
                Err(SubscriberError::InvalidInput(refusal)) => {
                    outcome = outcome.map_err(|_| SubscriberError::InvalidInput(refusal));
                    refused.push(event_type.clone());
                }
                // Events that are claimed already must not wait for their visibility to end.
                Err(_) if !claims.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        tracing::warn!(
            subscriber_id = self.id(),
            event_types = refused.join(", "),
            "the queue does not take these types, although this worker handles them: they are not claimed"
        );
        self.refused.note(refused);
        outcome.map(|()| claims)
    }

    /// Claims events. The subscriber of handlers by event type is created when it is first needed.
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
                    self.store.register(&self.subscription.registered_as()).await?;
                }
                claims => return claims,
            }
        }
    }

    /// Acks finished claims, if no claim call takes the acks along.
    pub(super) fn begin_ack(self: &Arc<Self>, in_flight: &mut InFlight) {
        if in_flight.acks.is_empty() || in_flight.acking {
            return;
        }
        in_flight.acking = true;
        let (worker, acks) = (self.clone(), std::mem::take(&mut in_flight.acks));
        in_flight.calls.spawn(async move { Answer::Acked { unacked: worker.ack_each(acks).await } });
    }

    /// Acks each claim alone. Returns the claims to try again.
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
            tokio::time::sleep(Backoff::for_database().jittered(rand::random())).await;
        }
        unacked
    }

    /// Acks the finished events of claims that take long.
    pub(super) fn ack_parts(self: &Arc<Self>, in_flight: &mut InFlight, now: Instant) {
        for (claim_id, sequences) in in_flight.take_unacked(now) {
            in_flight.calls.spawn(self.clone().ack_part(claim_id, sequences));
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

    /// Hands back an event that failed. Only the database knows how often an event was tried: after
    /// the last try, it keeps a dead letter. Deliveries whose worker was lost may not count, so a
    /// failure that looks like the last one here may not be it. It gets the pause of a retry too.
    pub(super) fn hand_back(self: &Arc<Self>, in_flight: &mut InFlight, job: ClaimedEvent, error: HandlerError) {
        let config = &self.subscription.config;
        let dice = rand::random();
        let after = after_failure(config, &error, job.redelivery_count, dice);
        let text = || error.chain().join(": ");
        let (due_in, how) = match after {
            AfterFailure::Untouched(pause) => (pause, Return::Untouched),
            AfterFailure::Again(pause) => (pause, Return::Again(pause, text())),
            AfterFailure::GiveUp if error.is_permanent() => (Duration::ZERO, Return::GiveUp(text())),
            AfterFailure::GiveUp => {
                let pause = retry_pause(config, job.redelivery_count, dice);
                (pause, Return::Again(pause, text()))
            }
        };
        let worker = self.clone();
        in_flight.calls.spawn(async move {
            let sequence = job.event.sequence().get();
            let answer = worker.clone().give_back(job.claim_id, vec![sequence], due_in, how).await;
            let became = match (after, &answer) {
                (AfterFailure::GiveUp, Answer::HandedBack { .. }) if worker.is_dead_letter(sequence).await => after,
                (AfterFailure::GiveUp, _) => AfterFailure::Again(due_in),
                _ => after,
            };
            became.log(worker.id(), &job.event, &error, job.redelivery_count + 1);
            answer
        });
    }

    /// Whether an event became a dead letter. Only the database knows: it does not count a delivery
    /// as an attempt if its worker was lost with several events. If the database cannot answer now,
    /// the event counts as a dead letter: an error in the log too many is better than one too few.
    async fn is_dead_letter(&self, sequence: u64) -> bool {
        let query = DeadLetterQuery {
            subscriber_id: Some(self.id().to_owned()),
            global_sequence: Some(sequence),
            limit: 1,
            ..DeadLetterQuery::default()
        };
        self.store.dead_letters(&query).await.map_or(true, |letters| !letters.is_empty())
    }

    /// Hands back claimed events that have not begun, so that other workers need not wait for them.
    pub(super) fn hand_back_waiting(self: &Arc<Self>, in_flight: &mut InFlight) {
        for (claim_id, sequences) in in_flight.take_waiting(None) {
            in_flight.calls.spawn(self.clone().give_back(claim_id, sequences, Duration::ZERO, Return::Untouched));
        }
    }

    async fn give_back(self: Arc<Self>, claim_id: Uuid, sequences: Vec<u64>, due_in: Duration, how: Return) -> Answer {
        let (worker, events) = (&*self, Some(&sequences[..]));
        let call = || async {
            match &how {
                Return::Untouched => worker.queue.release(claim_id, events).await,
                Return::Again(pause, text) => worker.queue.nack(claim_id, events, *pause, text).await,
                Return::GiveUp(text) => worker.queue.reject(claim_id, events, text).await,
            }
        };
        let answer = until_answered(call, |error, pause| async move {
            if worker.is_stopping() {
                return Err(error);
            }
            tracing::warn!(subscriber_id = worker.id(), %error, "failed to hand events back, trying again");
            tokio::time::sleep(pause).await;
            Ok(())
        });
        match answer.await {
            Ok(Ok(())) => Answer::HandedBack { claim_id, events: sequences.len(), due_in },
            Ok(Err(error)) | Err(error) => {
                tracing::warn!(subscriber_id = worker.id(), %error, "failed to hand events back: they come again when their claim expires");
                Answer::NotHandedBack { claim_id }
            }
        }
    }

    /// Keeps the claims whose time has come.
    pub(super) fn extend_due(self: &Arc<Self>, in_flight: &mut InFlight, now: Instant) {
        let mut due = Vec::new();
        for (claim_id, claim) in &mut in_flight.claims {
            if claim.extend_at.is_some_and(|at| at <= now) {
                claim.extend_at = None;
                due.push(*claim_id);
            }
        }
        for claim_id in due {
            if !self.give_up_waiting(in_flight, claim_id) {
                in_flight.calls.spawn(self.clone().extend(claim_id));
            }
        }
    }

    /// Hands back the events of a claim that have not begun after half of the visibility timeout,
    /// if the worker chose by itself to claim them ahead. Returns whether these were all events of
    /// the claim.
    fn give_up_waiting(self: &Arc<Self>, in_flight: &mut InFlight, claim_id: Uuid) -> bool {
        if self.subscription.claims.prefetch.is_some() {
            return false;
        }
        let Some(sequences) = in_flight.take_waiting(Some(claim_id)).remove(&claim_id) else { return false };
        in_flight.pace.stuck(self.subscription.claims.visibility / 2);
        let all = in_flight.claims.get(&claim_id).is_some_and(|claim| claim.left == sequences.len());
        in_flight.calls.spawn(self.clone().give_back(claim_id, sequences, Duration::ZERO, Return::Untouched));
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
                Answer::Extended {
                    claim_id,
                    next: Instant::now() + (visibility / 8).max(Backoff::for_database().next_pause()),
                }
            }
            Err(error) => Answer::Lost { claim_id, error },
        }
    }
}
