//! One partition of a subscriber: its owner and its checkpoint.

use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::{Advance, Gaps, Instance, LastTurn, PartitionInfo, Report, RunnerState};
use uuid::Uuid;

use crate::clock::later;
use crate::state::State;

#[derive(Debug, Clone)]
pub(super) struct Owner {
    pub(super) instance: Instance,
    pub(super) lease_until: DateTime<Utc>,
    /// The length of a lease.
    pub(super) lease: Duration,
}

#[derive(Debug, Clone)]
pub(super) struct Partition {
    pub(super) position: u64,
    pub(super) ledger: Gaps,
    pub(super) last_event_id: Option<Uuid>,
    pub(super) counts: Counts,
    pub(super) owner: Option<Owner>,
    pub(super) term: u64,
    pub(super) report: Option<Report>,
    pub(super) paused: bool,
    pub(super) pause_reason: Option<String>,
    /// `Some`: an owner handles events, or ended without notice. Inside: the event that the owner
    /// noted as begun, and how often it was begun.
    pub(super) turn: Option<Option<(Uuid, u32)>>,
    pub(super) updated_at: DateTime<Utc>,
}

/// The counts that an audit compares with the log.
#[derive(Debug, Clone)]
pub(super) struct Counts {
    /// The position where the counts begin.
    pub(super) after: u64,
    /// The ledger where the counts begin. Its events count too when they come late.
    pub(super) ledger: Gaps,
    /// Events settled since `after`, in order and late.
    pub(super) settled: u64,
    /// The sum of the sequences of `settled`.
    pub(super) settled_sum: u64,
}

impl Counts {
    pub(super) fn from(after: u64, ledger: Gaps) -> Self {
        Counts { after, ledger, settled: 0, settled_sum: 0 }
    }
}

/// Whether a ledger has the whole range.
fn holds(ledger: &Gaps, (first, last): (u64, u64)) -> bool {
    ledger.within(first, last).eq([(first, last)])
}

impl Partition {
    pub(super) fn new(position: u64, ledger: Gaps, term: u64, now: DateTime<Utc>) -> Self {
        Partition {
            position,
            ledger: ledger.clone(),
            last_event_id: None,
            counts: Counts::from(position, ledger),
            owner: None,
            term,
            report: None,
            paused: false,
            pause_reason: None,
            turn: None,
            updated_at: now,
        }
    }

    pub(super) fn is_owned_by(&self, instance: &Instance) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.instance == *instance)
    }

    /// Whether the partition has an owner whose lease is not over.
    pub(super) fn has_owner(&self, now: DateTime<Utc>) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.lease_until > now)
    }

    /// Ends the owner's term.
    pub(super) fn begin_term(&mut self, term: u64) {
        self.term = term;
        (self.owner, self.report) = (None, None);
    }

    /// Shows the report of a node that handles the events without owning the partition.
    pub(super) fn attend_alone(&mut self, report: &Report) {
        if self.owner.is_none() {
            self.report = Some(report.clone());
        }
    }

    pub(super) fn begin_turn(&mut self, still_running: bool) -> LastTurn {
        let last = self.turn.filter(|_| !still_running);
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

    /// Moves the checkpoint. Returns whether that was possible: a checkpoint does not move back,
    /// and where it stays its ledger only shrinks.
    pub(super) fn advance(&mut self, advance: &Advance, now: DateTime<Utc>) -> bool {
        let grows = || !advance.pending_gaps.iter().all(|range| holds(&self.ledger, range));
        if advance.position < self.position || (advance.position == self.position && grows()) {
            return false;
        }
        // The same move may come again if its answer was lost. No other move ends at the same
        // position with the same ledger.
        let is_new = (self.position, &self.ledger) != (advance.position, &advance.pending_gaps);
        if is_new {
            self.counts.settled += advance.events + advance.late_events;
            self.counts.settled_sum += advance.sequence_sum + advance.late_sequence_sum;
        }
        self.position = advance.position;
        self.ledger = advance.pending_gaps.clone();
        // A runner that has settled nothing since its start does not know the last event.
        self.last_event_id = advance.last_event_id.or(self.last_event_id);
        self.updated_at = now;
        true
    }

    /// An owner that makes progress is alive.
    pub(super) fn renew_lease(&mut self, now: DateTime<Utc>) {
        if let Some(owner) = &mut self.owner {
            owner.lease_until = owner.lease_until.max(later(now, owner.lease));
        }
    }

    /// The part of the ledger up to the position stays: its events may still come.
    pub(super) fn reset(&mut self, position: u64, to_come: &Gaps, term: u64, now: DateTime<Utc>) {
        self.begin_term(term);
        self.position = position;
        self.ledger.remove(position.saturating_add(1), u64::MAX);
        to_come.iter().for_each(|(first, last)| self.ledger.insert(first, last));
        self.last_event_id = None;
        self.counts = Counts::from(position, self.ledger.clone());
        self.updated_at = now;
    }

    pub(super) fn pause(&mut self, reason: &str) {
        self.paused = true;
        self.pause_reason = Some(reason.to_owned());
        let detail = Some(reason.to_owned());
        self.report = Some(Report { state: RunnerState::Paused, detail, ..Report::default() });
    }

    /// Everything at or below this sequence is settled.
    pub(super) fn settled_below(&self) -> u64 {
        self.ledger.first().map_or(self.position, |first| self.position.min(first - 1))
    }

    /// How long the owner's lease lasts.
    pub(super) fn lease_left(&self, now: DateTime<Utc>) -> Option<Duration> {
        let left = (self.owner.as_ref()?.lease_until - now).to_std().ok()?;
        Some(left).filter(|left| !left.is_zero())
    }

    pub(super) fn info(&self, partition: u32, log: &State, now: DateTime<Utc>) -> PartitionInfo {
        PartitionInfo {
            partition,
            position: self.position,
            pending_gaps: self.ledger.ranges(),
            owner: self.owner.as_ref().map(|owner| owner.instance.clone()),
            term: self.term,
            lease_left: self.lease_left(now),
            report: self.report.clone(),
            lag_events: log.head().saturating_sub(self.position),
        }
    }
}
