//! Claims: first events that are due again, then events left behind, then new events.

use headwater_core::{Claim, ClaimRequest, matches_pattern};
use uuid::Uuid;

use super::super::Result;
use super::{Deliveries, HeldClaim, QueueCall};
use crate::clock::later;

/// The events for one claim.
struct Taken {
    sequences: Vec<u64>,
    past: Deliveries,
}

fn is_wanted(request: &ClaimRequest, event_type: &str) -> bool {
    request.event_types.is_empty() || request.event_types.iter().any(|pattern| matches_pattern(event_type, pattern))
}

impl QueueCall<'_> {
    pub(in crate::subscribers) fn claim(&mut self, request: &ClaimRequest, is_paused: bool) -> Result<Vec<Claim>> {
        self.queue.takes.check(self.subscriber_id, &request.event_types)?;
        self.ack_all(&request.acks)?;
        if is_paused {
            return Ok(Vec::new());
        }
        self.take_back_expired();
        self.queue_letters();
        self.find_what_came();
        let taken = match self.take_suspect(request) {
            Some(suspect) => vec![suspect],
            None => self.take(request),
        };
        Ok(self.hold(taken, request))
    }

    /// Takes back the events that expired claims still have. They are delivered again.
    fn take_back_expired(&mut self) {
        let expired = self.queue.claims.iter().filter(|(_, claim)| claim.visible_at <= self.now);
        let mut expired: Vec<_> = expired.map(|(id, claim)| (claim.visible_at, claim.number, *id)).collect();
        expired.sort_unstable();
        for (_, _, claim_id) in expired {
            if let Some(claim) = self.queue.claims.remove(&claim_id) {
                self.expire(claim);
            }
        }
    }

    /// Makes retries for letters that were redriven since the last call. They are due at once.
    fn queue_letters(&mut self) {
        for letter in self.letters.redriving() {
            let sequence = letter.global_sequence();
            if !self.queue.has_letter(sequence) {
                let past =
                    Deliveries { attempts: letter.attempts.len() as u32, is_letter: true, ..Deliveries::default() };
                self.queue.retry(self.now, vec![sequence], past);
            }
        }
    }

    /// Moves events that have come by now to the events that were left behind.
    fn find_what_came(&mut self) {
        let came: Vec<_> = self.queue.to_come.within(1, self.log.head()).collect();
        for (first, last) in came {
            self.queue.to_come.remove(first, last);
            for sequence in first..=last {
                if self.log.at(sequence).is_some_and(|event| self.queue.takes.includes(&event.event_type)) {
                    self.queue.left_behind.insert(sequence, sequence);
                }
            }
        }
    }

    /// The numbers of the retries that are due, in the order of their delivery.
    fn due(&self, are_suspect: bool) -> Vec<u64> {
        let retries = self.queue.retries.iter();
        let due = retries.filter(|(_, retry)| retry.due_at <= self.now && retry.past.is_suspect == are_suspect);
        let mut due: Vec<_> = due.map(|(number, retry)| (retry.due_at, *number)).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, number)| number).collect()
    }

    /// Takes one event whose worker was lost. It is handed out alone: if this worker is lost too,
    /// the event was begun. A worker has only one such event at a time.
    fn take_suspect(&mut self, request: &ClaimRequest) -> Option<Taken> {
        let has_one = |claim: &HeldClaim| claim.past.is_suspect && claim.worker == request.worker;
        if !request.worker.is_empty() && self.queue.claims.values().any(has_one) {
            return None;
        }
        self.due(true).into_iter().find_map(|number| self.take_retry(number, 1, request))
    }

    /// Takes up to `max_events` events, in claims of at most `per_claim` events.
    fn take(&mut self, request: &ClaimRequest) -> Vec<Taken> {
        let per_claim = request.per_claim.unwrap_or(request.max_events) as usize;
        let mut room = request.max_events as usize;
        let mut taken = Vec::new();
        for number in self.due(false) {
            if room == 0 {
                break;
            }
            if let Some(Taken { sequences, past }) = self.take_retry(number, room, request) {
                room -= sequences.len();
                let claims = sequences.chunks(per_claim);
                taken.extend(claims.map(|sequences| Taken { sequences: sequences.to_vec(), past: past.clone() }));
            }
        }
        let left_behind = self.take_left_behind(room, request);
        let new = self.take_new(room - left_behind.len(), request);
        let claims = left_behind.chunks(per_claim).chain(new.chunks(per_claim));
        let first = Deliveries { attempts: 1, ..Deliveries::default() };
        taken.extend(claims.map(|sequences| Taken { sequences: sequences.to_vec(), past: first.clone() }));
        taken
    }

    /// Takes the wanted events of a retry. The others stay in it.
    fn take_retry(&mut self, number: u64, room: usize, request: &ClaimRequest) -> Option<Taken> {
        let retry = self.queue.retries.get_mut(&number)?;
        let is_wanted = |sequence: &u64| self.log.at(*sequence).is_some_and(|it| is_wanted(request, &it.event_type));
        let sequences: Vec<u64> = retry.sequences.iter().copied().filter(is_wanted).take(room).collect();
        // A letter that was discarded, or that failed in another claim, in the meantime is dropped.
        if retry.past.is_letter && sequences.iter().any(|sequence| !self.letters.is_redriving(*sequence)) {
            self.queue.retries.remove(&number);
            return None;
        }
        retry.sequences.retain(|sequence| !sequences.contains(sequence));
        let past = Deliveries { attempts: retry.past.attempts + 1, ..retry.past.clone() };
        if retry.sequences.is_empty() {
            self.queue.retries.remove(&number);
        }
        Some(Taken { sequences, past }).filter(|taken| !taken.sequences.is_empty())
    }

    fn take_left_behind(&mut self, room: usize, request: &ClaimRequest) -> Vec<u64> {
        let sequences = self.queue.left_behind.iter().flat_map(|(first, last)| first..=last);
        let is_wanted = |sequence: &u64| self.log.at(*sequence).is_some_and(|it| is_wanted(request, &it.event_type));
        let taken: Vec<u64> = sequences.filter(is_wanted).take(room).collect();
        taken.iter().for_each(|sequence| _ = self.queue.left_behind.remove(*sequence, *sequence));
        taken
    }

    /// Takes new events, and moves the frontier. Those that only other claims want are left behind.
    /// Those that the queue does not take are settled.
    fn take_new(&mut self, room: usize, request: &ClaimRequest) -> Vec<u64> {
        let mut taken = Vec::new();
        while taken.len() < room
            && let Some(event) = self.log.at(self.queue.frontier + 1)
        {
            self.queue.frontier += 1;
            if !self.queue.takes.includes(&event.event_type) {
                continue;
            }
            match is_wanted(request, &event.event_type) {
                true => taken.push(self.queue.frontier),
                false => self.queue.left_behind.insert(self.queue.frontier, self.queue.frontier),
            }
        }
        taken
    }

    fn hold(&mut self, taken: Vec<Taken>, request: &ClaimRequest) -> Vec<Claim> {
        let is_single = matches!(&taken[..], [only] if only.sequences.len() == 1);
        let visible_at = later(self.now, request.visibility);
        let mut claims = Vec::with_capacity(taken.len());
        for Taken { sequences, past } in taken {
            let claim_id = Uuid::now_v7();
            let events = sequences.iter().filter_map(|sequence| self.log.at(*sequence)).cloned().collect();
            claims.push(Claim { claim_id, redelivery_count: past.attempts - 1 + past.uncounted, events });
            let held = HeldClaim {
                number: self.queue.next_number(),
                worker: request.worker.clone(),
                visible_at,
                range: (sequences[0], sequences[sequences.len() - 1]),
                sequences,
                is_single,
                max_attempts: request.max_attempts,
                past,
            };
            self.queue.claims.insert(claim_id, held);
        }
        claims
    }
}
