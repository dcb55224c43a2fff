//! Groups: members, their shares, and changes of the number of partitions.
//!
//! A change of the number has two steps, and order per key holds in both. First the owners give up
//! their partitions, and the barrier is set to the position of the furthest partition. Then the
//! partitions are owned again and go on to the barrier, but not past it. When all have reached it,
//! the new partitions replace them, in a new term. Members take these steps whenever they renew
//! their membership.

use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::{GroupInfo, GroupView, Instance, LeaseRequest, SubscriberError, SubscriberMode};

use super::Result;
use super::partition::{Counts, Partition};
use super::registry::Terms;
use super::subscriber::Subscriber;
use crate::clock::later;
use crate::state::State;

const MOST_PARTITIONS: u32 = 1024;

/// An instance that shares a subscriber's partitions.
#[derive(Debug)]
pub(super) struct Member {
    node: String,
    until: DateTime<Utc>,
}

/// A change of the number of partitions.
#[derive(Debug)]
pub(super) struct Resize {
    /// The new number of partitions.
    to: u32,
    /// Where the present partitions end, once they all have stopped.
    pub(super) barrier: Option<u64>,
}

pub(super) fn check_partitions(partitions: u32) -> Result<()> {
    match (1..=MOST_PARTITIONS).contains(&partitions) {
        true => Ok(()),
        false => Err(SubscriberError::InvalidInput(format!(
            "invalid partitions {partitions}: a group has 1 to {MOST_PARTITIONS} partitions"
        ))),
    }
}

impl Subscriber {
    /// Whether an instance may take a free partition: within its share, and not while the group
    /// waits for all owners to give up.
    pub(super) fn may_take(&self, instance: &Instance, request: &LeaseRequest, now: DateTime<Utc>) -> bool {
        let others = self.partitions.iter().enumerate().filter(|(place, _)| *place != request.partition as usize);
        let owned = others.filter(|(_, other)| other.is_owned_by(instance) && other.has_owner(now)).count();
        let halted = self.resize.as_ref().is_some_and(|resize| resize.barrier.is_none());
        !halted && request.share.is_none_or(|share| (share as usize) > owned)
    }

    pub(super) fn join(
        &mut self,
        subscriber_id: &str,
        instance: &Instance,
        lease: Duration,
        terms: &mut Terms,
        now: DateTime<Utc>,
    ) -> GroupView {
        let member = Member { node: instance.node.clone(), until: later(now, lease) };
        self.members.insert(instance.incarnation, member);
        self.members.retain(|_, member| member.until > now);
        let waits_for_owners = self.take_next_step(terms, now);
        let halted = self.resize.as_ref().is_some_and(|resize| resize.barrier.is_none() || waits_for_owners);
        GroupView {
            subscriber_id: subscriber_id.to_owned(),
            partitions: self.mode().partitions(),
            members: self.members.keys().copied().collect(),
            halted,
        }
    }

    pub(super) fn resize(
        &mut self,
        subscriber_id: &str,
        partitions: u32,
        terms: &mut Terms,
        now: DateTime<Utc>,
    ) -> Result<()> {
        let mode = self.mode();
        let SubscriberMode::Partitioned { partitions: present } = mode else {
            return Err(SubscriberError::InUse(format!(
                "subscriber {subscriber_id:?} is {}, not partitioned: only a partitioned subscriber has partitions to \
                 change",
                mode.name()
            )));
        };
        match &self.resize {
            None if present == partitions => return Ok(()),
            None => self.resize = Some(Resize { to: partitions, barrier: None }),
            Some(resize) if resize.to == partitions => {}
            Some(Resize { to, .. }) => {
                return Err(SubscriberError::InUse(format!(
                    "subscriber {subscriber_id:?} is being changed to {to} partitions already: wait until that is \
                     done, its instances must run for it to go on"
                )));
            }
        }
        self.take_next_step(terms, now);
        Ok(())
    }

    /// Takes the next step of a change. Returns whether the owners must give up their partitions
    /// for it.
    fn take_next_step(&mut self, terms: &mut Terms, now: DateTime<Utc>) -> bool {
        let Some(resize) = &mut self.resize else { return false };
        let is_owned = self.partitions.iter().any(|partition| partition.has_owner(now));
        let barrier = match resize.barrier {
            Some(barrier) => barrier,
            None if is_owned => return true,
            None => {
                let furthest = self.partitions.iter().map(|partition| partition.position).max().unwrap_or_default();
                self.partitions.iter_mut().for_each(|partition| partition.begin_term(terms.next()));
                *resize.barrier.insert(furthest)
            }
        };
        let ledger = &self.partitions[0].ledger;
        let stands_even = |partition: &Partition| partition.position >= barrier && partition.ledger == *ledger;
        if !self.partitions.iter().all(stands_even) {
            return false;
        }
        // An owner may be handling an event of the ledger.
        let is_owned = self.partitions.iter().any(|partition| partition.has_owner(now));
        if is_owned && !ledger.is_empty() {
            return true;
        }
        let partitions = resize.to as usize;
        self.resize = None;
        self.repartition(partitions, terms.next(), now);
        false
    }

    /// Replaces the present partitions with new ones. All present partitions stand at the same
    /// position with the same ledger.
    fn repartition(&mut self, partitions: usize, term: u64, now: DateTime<Utc>) {
        let added = Partition { turn: None, ..self.partitions[0].clone() };
        self.partitions.resize(partitions, added);
        for partition in &mut self.partitions {
            partition.begin_term(term);
            partition.counts = Counts::from(partition.position, partition.ledger.clone());
            partition.updated_at = now;
        }
    }

    pub(super) fn group(&self, subscriber_id: &str, log: &State, now: DateTime<Utc>) -> GroupInfo {
        let alive = self.members.iter().filter(|(_, member)| member.until > now);
        let mut members: Vec<Instance> = alive
            .map(|(incarnation, member)| Instance { node: member.node.clone(), incarnation: *incarnation })
            .collect();
        members.sort_by(|one, other| (&one.node, one.incarnation).cmp(&(&other.node, other.incarnation)));
        GroupInfo {
            subscriber_id: subscriber_id.to_owned(),
            members,
            partitions: (0..)
                .zip(&self.partitions)
                .map(|(number, partition)| partition.info(number, log, now))
                .collect(),
            resize_to: self.resize.as_ref().map(|resize| resize.to),
            barrier: self.barrier(),
        }
    }
}
