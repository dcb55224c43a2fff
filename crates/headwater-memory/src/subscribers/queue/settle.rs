//! How claims end: acked, handed back or expired; and how they are extended.

use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::{Attempt, DeadLetter, DeadLetterState, SubscriberError, order_key};
use uuid::Uuid;

use super::super::Result;
use super::{Deliveries, HeldClaim, QueueCall};
use crate::clock::later;

/// Why events are handed back.
#[derive(Debug, Clone, Copy)]
pub(in crate::subscribers) enum HandedBack<'e> {
    /// The events failed and are tried again after a delay.
    Failed { delay: Duration, error: &'e str },
    /// The events will never succeed.
    Hopeless { error: &'e str },
    /// The events were not tried.
    Untouched,
}

pub(in crate::subscribers) fn claim_lost(subscriber_id: &str, claim_id: Uuid) -> SubscriberError {
    SubscriberError::ClaimLost(format!(
        "claim {claim_id} of subscriber {subscriber_id:?} is not yours any more: it was acked or handed back before, or it \
         expired and its events are delivered again"
    ))
}

impl QueueCall<'_> {
    /// Returns a claim that is held and had all of these events.
    fn held(&mut self, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<&mut HeldClaim> {
        let claim = self.queue.claims.get_mut(&claim_id).ok_or_else(|| claim_lost(self.subscriber_id, claim_id))?;
        let (first, last) = claim.range;
        match sequences.unwrap_or_default().iter().find(|sequence| !(first..=last).contains(*sequence)) {
            Some(outside) => Err(SubscriberError::InvalidInput(format!(
                "event {outside} is not of claim {claim_id}: name events that were delivered with it"
            ))),
            None => Ok(claim),
        }
    }

    pub(in crate::subscribers) fn ack(&mut self, claim_id: Uuid, sequences: Option<&[u64]>) -> Result<()> {
        let claim = self.held(claim_id, sequences)?;
        claim.sequences.retain(|sequence| sequences.is_some_and(|done| !done.contains(sequence)));
        if claim.sequences.is_empty() {
            self.end(claim_id);
        }
        Ok(())
    }

    /// Acks all of these claims, or none.
    pub(super) fn ack_all(&mut self, claim_ids: &[Uuid]) -> Result<()> {
        claim_ids.iter().try_for_each(|claim_id| self.held(*claim_id, None).map(drop))?;
        claim_ids.iter().for_each(|claim_id| self.end(*claim_id));
        Ok(())
    }

    /// Notes that everything in a claim is settled.
    fn end(&mut self, claim_id: Uuid) {
        let Some(claim) = self.queue.claims.remove(&claim_id) else { return };
        if claim.past.is_letter {
            // The claim of a dead letter has one event.
            self.letters.redelivered(claim.range.0, None, self.term, self.now);
        }
    }

    pub(in crate::subscribers) fn hand_back(
        &mut self,
        claim_id: Uuid,
        sequences: Option<&[u64]>,
        why: HandedBack<'_>,
    ) -> Result<()> {
        let claim = self.held(claim_id, sequences)?;
        let is_handed_back = |sequence: &u64| sequences.is_none_or(|these| these.contains(sequence));
        let (back, rest) = claim.sequences.iter().partition(|sequence| is_handed_back(sequence));
        claim.sequences = rest;
        let mut failed = HeldClaim { sequences: back, ..claim.clone() };
        if claim.sequences.is_empty() {
            self.queue.claims.remove(&claim_id);
        }
        match why {
            HandedBack::Failed { delay, error } => {
                // The worker survived the event.
                failed.past.is_suspect = false;
                self.fail(failed, later(self.now, delay), error);
            }
            HandedBack::Hopeless { error } => {
                failed.past.is_suspect = false;
                failed.max_attempts = failed.past.attempts;
                self.fail(failed, self.now, error);
            }
            HandedBack::Untouched => {
                failed.past.attempts -= 1;
                match failed.past.is_letter {
                    true => self.requeue_letter(failed),
                    false => self.fail(failed, self.now, "handed back untouched"),
                }
            }
        }
        Ok(())
    }

    /// Delivers the rest of a claim again. Only an event that was handed out alone is known to have
    /// been begun, so only that counts as an attempt.
    pub(super) fn expire(&mut self, mut claim: HeldClaim) {
        let error = format!("claim expired: worker '{}' neither finished nor extended it in time", claim.worker);
        claim.past.is_suspect = true;
        if claim.is_single {
            return self.fail(claim, self.now, &error);
        }
        claim.past.attempts -= 1;
        claim.past.uncounted += 1;
        if claim.past.is_letter {
            return self.requeue_letter(claim);
        }
        claim.max_attempts = claim.past.attempts + 1;
        self.fail(claim, self.now, &format!("{error}; with other events, so it does not count"));
    }

    /// Puts the redriven letter of a claim back, unless it was discarded, or failed in another claim,
    /// in the meantime.
    fn requeue_letter(&mut self, claim: HeldClaim) {
        if claim.sequences.iter().all(|sequence| self.letters.is_redriving(*sequence)) {
            self.queue.retry(self.now, claim.sequences, claim.past);
        }
    }

    /// Handles the failure of a claim's events: they are delivered again, or become dead letters if
    /// that was the last attempt.
    fn fail(&mut self, claim: HeldClaim, due_at: DateTime<Utc>, error: &str) {
        let HeldClaim { worker, sequences, max_attempts, past, .. } = claim;
        let failure = Attempt { at: self.now, node: worker, errors: vec![error.to_owned()] };
        if past.is_letter {
            for sequence in sequences {
                self.letters.redelivered(sequence, Some(failure.clone()), self.term, self.now);
            }
            return;
        }
        let failures: Vec<Attempt> = past.failures.into_iter().chain([failure]).collect();
        if past.attempts < max_attempts {
            return self.queue.retry(due_at, sequences, Deliveries { failures, ..past });
        }
        for event in sequences.iter().filter_map(|sequence| self.log.at(*sequence)) {
            let letter = DeadLetter {
                subscriber_id: self.subscriber_id.to_owned(),
                event: event.clone(),
                order_key: order_key(event),
                state: DeadLetterState::Dead,
                parks_key: false,
                attempts: failures.clone(),
                created_at: self.now,
                updated_at: self.now,
                reason: None,
            };
            self.letters.bury(self.subscriber_id, &letter, self.term, self.now);
        }
    }

    /// Makes dead letters of events that are not delivered any more.
    pub(super) fn give_up(&mut self, sequences: Vec<u64>, past: Deliveries, error: &str) {
        let range = (sequences.first().copied().unwrap_or(0), sequences.last().copied().unwrap_or(0));
        let claim = HeldClaim {
            number: 0,
            worker: String::new(),
            visible_at: self.now,
            range,
            sequences,
            is_single: false,
            max_attempts: past.attempts,
            past,
        };
        self.fail(claim, self.now, error);
    }

    pub(in crate::subscribers) fn extend(&mut self, claim_id: Uuid, visibility: Duration) -> Result<DateTime<Utc>> {
        let until = later(self.now, visibility);
        let claim = self.held(claim_id, None)?;
        claim.visible_at = claim.visible_at.max(until);
        Ok(claim.visible_at)
    }
}
