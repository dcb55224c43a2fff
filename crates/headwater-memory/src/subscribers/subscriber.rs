//! One subscriber: its partitions, dead letters and members, and its queue if it is shared.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use headwater_core::{Checkpoint, DeadLetter, Gaps, History, SubscriberInfo, SubscriberMode, partition_of};
use uuid::Uuid;

use super::dead_letters::DeadLetters;
use super::group::{Member, Resize};
use super::partition::Partition;
use super::queue::Queue;
use crate::state::State;

#[derive(Debug)]
pub(super) struct Subscriber {
    mode: SubscriberMode,
    pub(super) partitions: Vec<Partition>,
    /// The instances that share the partitions.
    pub(super) members: BTreeMap<Uuid, Member>,
    /// A change of the number of partitions, if one is under way.
    pub(super) resize: Option<Resize>,
    /// Used only if the subscriber is shared.
    pub(super) queue: Queue,
    pub(super) letters: DeadLetters,
    /// The term of the subscriber's registration or of its last reset.
    began_in_term: u64,
    created_at: DateTime<Utc>,
}

impl Subscriber {
    pub(super) fn new(mode: SubscriberMode, position: u64, ledger: Gaps, term: u64, now: DateTime<Utc>) -> Self {
        let partition = Partition::new(position, ledger.clone(), term, now);
        Subscriber {
            mode,
            partitions: vec![partition; mode.partitions() as usize],
            members: BTreeMap::new(),
            resize: None,
            queue: Queue::new(position, ledger),
            letters: DeadLetters::default(),
            began_in_term: term,
            created_at: now,
        }
    }

    /// The subscriber's mode with the present number of partitions.
    pub(super) fn mode(&self) -> SubscriberMode {
        match self.mode {
            SubscriberMode::Partitioned { .. } => {
                SubscriberMode::Partitioned { partitions: self.partitions.len() as u32 }
            }
            other => other,
        }
    }

    /// Where the present partitions end.
    pub(super) fn barrier(&self) -> Option<u64> {
        self.resize.as_ref().and_then(|resize| resize.barrier)
    }

    pub(super) fn reset(&mut self, position: u64, to_come: &Gaps, term: u64, now: DateTime<Utc>) {
        self.began_in_term = term;
        self.resize = None;
        self.partitions.iter_mut().for_each(|partition| partition.reset(position, to_come, term, now));
        self.queue.reset(position, to_come);
    }

    /// The letters of a partition to deliver again, in order.
    pub(super) fn redrives(&self, partition: usize) -> impl Iterator<Item = &DeadLetter> {
        let partitions = self.partitions.len() as u32;
        self.letters.redrives().filter(move |letter| partition_of(&letter.order_key, partitions) as usize == partition)
    }

    /// Where a partition stands, for its owner.
    pub(super) fn loaded(&self, partition: usize) -> Checkpoint {
        let here = &self.partitions[partition];
        let is_ahead = |sequence: u64| sequence > here.position || here.ledger.contains(sequence);
        Checkpoint {
            parked_keys: self.letters.parked_keys().into_iter().map(str::to_owned).collect(),
            buried: self.letters.since(self.began_in_term).filter(|(sequence, _)| is_ahead(*sequence)).collect(),
            ..self.checkpoint(here)
        }
    }

    fn checkpoint(&self, partition: &Partition) -> Checkpoint {
        Checkpoint {
            position: partition.position,
            pending_gaps: partition.ledger.clone(),
            paused: partition.paused,
            term: partition.term,
            history: Some(History::default()),
            partitions: self.partitions.len() as u32,
            barrier: self.barrier(),
            ..Checkpoint::default()
        }
    }

    /// Where the whole subscriber stands.
    pub(super) fn position(&self) -> Checkpoint {
        let mut whole = self.checkpoint(&self.partitions[0]);
        if let SubscriberMode::Shared = self.mode {
            (whole.position, whole.pending_gaps) = (self.queue.position(), self.queue.to_come.clone());
        }
        for other in &self.partitions[1..] {
            whole.position = whole.position.min(other.position);
            other.ledger.iter().for_each(|(first, last)| whole.pending_gaps.insert(first, last));
        }
        whole
    }

    pub(super) fn info(&self, subscriber_id: &str, log: &State, now: DateTime<Utc>) -> SubscriberInfo {
        let furthest_behind =
            self.partitions.iter().min_by_key(|partition| (partition.settled_below(), partition.position));
        let partition = furthest_behind.unwrap_or(&self.partitions[0]);
        // The lag of a queue is what nobody has claimed yet.
        let (position, ledger, seen) = match self.mode {
            SubscriberMode::Shared => (self.queue.position(), &self.queue.to_come, self.queue.frontier),
            _ => (partition.position, &partition.ledger, partition.position),
        };
        let oldest_ahead = log.after(seen).next().and_then(|event| event.recorded_at);
        SubscriberInfo {
            subscriber_id: subscriber_id.to_owned(),
            mode: self.mode(),
            position,
            last_event_id: partition.last_event_id,
            pending_gaps: ledger.ranges(),
            owner: partition.owner.as_ref().map(|owner| owner.instance.clone()),
            term: partition.term,
            lease_left: partition.lease_left(now),
            report: partition.report.clone(),
            paused: partition.paused,
            pause_reason: partition.pause_reason.clone(),
            lag_events: log.head().saturating_sub(seen),
            lag: oldest_ahead.map(|at| (now - at).to_std().unwrap_or_default()).unwrap_or_default(),
            dead_letters: self.letters.unfinished(),
            created_at: self.created_at,
            updated_at: partition.updated_at,
        }
    }
}
