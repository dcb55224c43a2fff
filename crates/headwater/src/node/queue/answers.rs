//! How a worker's loop handles the results of its tasks: events that are done, and answers of the
//! database.

use std::sync::Arc;

use headwater_core::{RunnerState, SubscriberError, jittered};
use tokio::task::{Id, JoinError};
use tokio::time::Instant;
use uuid::Uuid;

use super::calls::Answer;
use super::in_flight::InFlight;
use super::work::{ClaimedOutcome, Done};
use super::{NextClaim, POLL, Worker};

impl Worker {
    /// Settles events whose handling has ended.
    pub(super) fn take_done(
        self: &Arc<Self>,
        in_flight: &mut InFlight,
        next_claim: &mut NextClaim,
        task: Id,
        done: Done,
    ) {
        in_flight.ended(task);
        // Events whose worker was lost come one at a time: the next one is there as soon as this
        // one is acked.
        if done.events.iter().any(|(job, _)| job.redelivery_count > 0) {
            next_claim.at = None;
        }
        in_flight.pace.handled(done.events.len(), done.took);
        for (job, became) in done.events {
            if !in_flight.claims.contains_key(&job.claim_id) {
                continue;
            }
            match became {
                ClaimedOutcome::Handled => {
                    self.status.count(1);
                    in_flight.handled(&job);
                }
                ClaimedOutcome::Committed => {
                    self.status.count(1);
                    in_flight.settled(job.claim_id, 1);
                }
                ClaimedOutcome::Failed(error) => self.hand_back(in_flight, job, error),
                ClaimedOutcome::Lost => in_flight.drop_claim(job.claim_id),
            }
        }
    }

    pub(super) fn take_answer(&self, in_flight: &mut InFlight, next_claim: &mut NextClaim, answer: Answer) {
        match answer {
            Answer::Claimed { begun, asked, urgent, claims, unacked } => {
                // After a call that panicked, more answers come than are counted.
                in_flight.claiming = in_flight.claiming.saturating_sub(1);
                in_flight.asked = in_flight.asked.saturating_sub(asked);
                in_flight.acks.extend(unacked);
                let extend_at = begun + self.subscription.claims.visibility / 2;
                let urgent = in_flight.take(urgent, extend_at, true);
                match claims {
                    Ok(claims) => {
                        let claimed = urgent + in_flight.take(claims, extend_at, false);
                        in_flight.backlog = 4 * claimed >= 3 * asked;
                        self.claimed(next_claim, claimed);
                    }
                    Err(error) => self.failed_to_claim(next_claim, &error),
                }
            }
            Answer::Acked { unacked } => {
                in_flight.acking = false;
                in_flight.acks.extend(unacked);
            }
            Answer::HandedBack { claim_id, events, due_in } => {
                in_flight.retries.push(Instant::now() + due_in);
                in_flight.settled(claim_id, events);
            }
            Answer::NotHandedBack { claim_id } => in_flight.drop_claim(claim_id),
            Answer::PartAcked { claim_id, unacked } => in_flight.part_acked(claim_id, unacked),
            Answer::Extended { claim_id, next } => {
                if let Some(claim) = in_flight.claims.get_mut(&claim_id) {
                    claim.extend_at = Some(next);
                }
            }
            Answer::Lost { claim_id, error } => self.lost(in_flight, claim_id, &error),
        }
    }

    /// Notes that events were claimed. If there were none, the next look is the poll's.
    fn claimed(&self, next_claim: &mut NextClaim, events: usize) {
        next_claim.pauses.reset();
        self.status.set(RunnerState::Live, None);
        next_claim.at = (events == 0).then(|| Instant::now() + jittered(POLL, 0.2, rand::random()));
    }

    fn failed_to_claim(&self, next_claim: &mut NextClaim, error: &SubscriberError) {
        tracing::warn!(subscriber_id = self.id(), %error, "failed to claim events, trying again");
        // The status then shows that the subscriber was removed.
        let state = match error {
            SubscriberError::NotFound(_) => RunnerState::StandingBy,
            _ => RunnerState::Disconnected,
        };
        self.status.set(state, Some(error.to_string()));
        next_claim.at = Some(Instant::now() + next_claim.pauses.jittered(rand::random()));
    }

    /// A call panicked. It is unknown which one, so others may be made. Events that it was to
    /// settle come again.
    pub(super) fn call_ended(&self, in_flight: &mut InFlight, next_claim: &mut NextClaim, error: &JoinError) {
        tracing::error!(subscriber_id = self.id(), %error, "a call to the database ended without an answer");
        (in_flight.claiming, in_flight.asked, in_flight.acking) = (0, 0, false);
        next_claim.at = Some(Instant::now() + POLL);
    }

    /// A claim could not be extended. In a transaction, the ack shows whether the claim was lost or
    /// is done.
    fn lost(&self, in_flight: &mut InFlight, claim_id: Uuid, error: &SubscriberError) {
        let Some(claim) = in_flight.claims.get(&claim_id) else { return };
        if self.subscription.is_transactional() && !claim.tasks.is_empty() {
            return;
        }
        tracing::warn!(subscriber_id = self.id(), %error, "lost a claim: its events come again");
        in_flight.drop_claim(claim_id);
    }
}
