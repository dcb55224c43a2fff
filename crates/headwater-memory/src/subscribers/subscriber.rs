//! One subscriber: its owner and its checkpoint.

use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::{
    Advance, Gaps, History, Instance, LastTurn, Loaded, Report, RunnerState, SubscriberInfo, SubscriberMode,
};
use tokio::time::Instant;
use uuid::Uuid;

use super::dead_letters::DeadLetters;
use crate::state::State;

#[derive(Debug)]
pub(super) struct Owner {
    pub(super) instance: Instance,
    pub(super) lease_until: Instant,
    /// How long the lease is.
    pub(super) lease: Duration,
}

#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) position: u64,
    pub(super) ledger: Gaps,
    last_event_id: Option<Uuid>,
    /// Where the counts begin, and the ledger there: what comes late of it is counted too.
    pub(super) counted_after: u64,
    pub(super) counted_ledger: Gaps,
    /// Events settled since, in order and late, and the sum of their sequences.
    pub(super) settled: u64,
    pub(super) settled_sum: u64,
    pub(super) owner: Option<Owner>,
    pub(super) term: u64,
    /// That of its registration, or of its last reset.
    began_in_term: u64,
    pub(super) report: Option<Report>,
    pub(super) paused: bool,
    pub(super) pause_reason: Option<String>,
    pub(super) letters: DeadLetters,
    /// An owner handles events, or ended without saying so; and which it has begun how often, if it wrote that down.
    pub(super) turn: Option<Option<(Uuid, u32)>>,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

/// Whether a ledger has all of a range.
fn holds(ledger: &Gaps, (first, last): (u64, u64)) -> bool {
    ledger.within(first, last).eq([(first, last)])
}

impl Subscriber {
    pub(super) fn new(position: u64, ledger: Gaps, term: u64, now: DateTime<Utc>) -> Self {
        Subscriber {
            position,
            ledger: ledger.clone(),
            last_event_id: None,
            counted_after: position,
            counted_ledger: ledger,
            settled: 0,
            settled_sum: 0,
            owner: None,
            term,
            began_in_term: term,
            report: None,
            paused: false,
            pause_reason: None,
            letters: DeadLetters::default(),
            turn: None,
            created_at: now,
            updated_at: now,
        }
    }

    pub(super) fn begin_turn(&mut self, lives: bool) -> LastTurn {
        let last = self.turn.filter(|_| !lives);
        self.turn = Some(last.flatten());
        LastTurn { died: last.is_some(), begun: last.flatten() }
    }

    pub(super) fn begin_event(&mut self, event_id: Uuid) -> u32 {
        let times = match self.turn.flatten() {
            Some((begun, times)) if begun == event_id => times + 1,
            _ => 1,
        };
        self.turn = Some(Some((event_id, times)));
        times
    }

    /// Whether it could: a checkpoint does not move back, and where it stays its ledger only shrinks.
    pub(super) fn advance(&mut self, advance: &Advance, now: DateTime<Utc>) -> bool {
        let grows = || !advance.pending_gaps.iter().all(|range| holds(&self.ledger, range));
        if advance.position < self.position || (advance.position == self.position && grows()) {
            return false;
        }
        // The same move may come again, when its answer was lost. No other ends at the same place with the same ledger.
        let is_new = (self.position, &self.ledger) != (advance.position, &advance.pending_gaps);
        if is_new {
            self.settled += advance.events + advance.late_events;
            self.settled_sum += advance.sequence_sum + advance.late_sequence_sum;
        }
        self.position = advance.position;
        self.ledger = advance.pending_gaps.clone();
        // A runner that has settled nothing since its start does not know the last event.
        self.last_event_id = advance.last_event_id.or(self.last_event_id);
        self.updated_at = now;
        true
    }

    /// An owner that gets on is alive.
    pub(super) fn renew_lease(&mut self, now: Instant) {
        if let Some(owner) = &mut self.owner {
            owner.lease_until = owner.lease_until.max(now + owner.lease);
        }
    }

    /// What the ledger has up to the position stays there: it may still come.
    pub(super) fn reset(&mut self, position: u64, to_come: Gaps, term: u64, now: DateTime<Utc>) {
        (self.term, self.began_in_term) = (term, term);
        (self.owner, self.report) = (None, None);
        self.position = position;
        self.ledger.remove(position.saturating_add(1), u64::MAX);
        to_come.iter().for_each(|(first, last)| self.ledger.insert(first, last));
        self.last_event_id = None;
        (self.counted_after, self.settled, self.settled_sum) = (position, 0, 0);
        self.counted_ledger = self.ledger.clone();
        self.updated_at = now;
    }

    pub(super) fn pause(&mut self, reason: &str) {
        self.paused = true;
        self.pause_reason = Some(reason.to_owned());
        let detail = Some(reason.to_owned());
        self.report = Some(Report { state: RunnerState::Paused, detail, ..Report::default() });
    }

    pub(super) fn loaded(&self) -> Loaded {
        let is_ahead = |sequence: u64| sequence > self.position || self.ledger.contains(sequence);
        Loaded {
            parked_keys: self.letters.parked_keys().into_iter().map(str::to_owned).collect(),
            buried: self.letters.since(self.began_in_term).filter(|(sequence, _)| is_ahead(*sequence)).collect(),
            ..self.checkpoint()
        }
    }

    pub(super) fn checkpoint(&self) -> Loaded {
        Loaded {
            position: self.position,
            pending_gaps: self.ledger.clone(),
            paused: self.paused,
            term: self.term,
            history: Some(History::default()),
            partitions: 1,
            ..Loaded::default()
        }
    }

    pub(super) fn info(&self, subscriber_id: &str, log: &State, now: DateTime<Utc>) -> SubscriberInfo {
        let left = self.owner.as_ref().map(|owner| owner.lease_until.saturating_duration_since(Instant::now()));
        let oldest_ahead = log.after(self.position).next().and_then(|event| event.recorded_at);
        SubscriberInfo {
            subscriber_id: subscriber_id.to_owned(),
            mode: SubscriberMode::Exclusive,
            position: self.position,
            last_event_id: self.last_event_id,
            pending_gaps: self.ledger.ranges(),
            owner: self.owner.as_ref().map(|owner| owner.instance.clone()),
            term: self.term,
            lease_left: left.filter(|left| !left.is_zero()),
            report: self.report.clone(),
            paused: self.paused,
            pause_reason: self.pause_reason.clone(),
            lag_events: log.head().saturating_sub(self.position),
            lag: oldest_ahead.map(|at| (now - at).to_std().unwrap_or_default()).unwrap_or_default(),
            dead_letters: self.letters.unfinished(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}
