//! All subscribers of a namespace, and who owns them.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::{
    Fence, Gaps, GroupView, History, Instance, LeaseReply, LeaseRequest, PartitionId, StartFrom, SubscriberConfig,
    SubscriberError, SubscriberMode,
};

use super::group::check_partitions;
use super::partition::Owner;
use super::queue::Takes;
use super::subscriber::Subscriber;
use super::{Result, check_history};
use crate::clock::later;
use crate::state::State;

#[derive(Debug, Default)]
pub(super) struct Registry {
    pub(super) subscribers: BTreeMap<String, Subscriber>,
    pub(super) permanent_gaps: Gaps,
    terms: Terms,
}

/// Gives out terms. No term is given twice, not even to a subscriber that was removed and
/// registered again.
#[derive(Debug, Default)]
pub(super) struct Terms(u64);

impl Terms {
    pub(super) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// The sequences up to a position that the log does not have yet. The log in memory has no holes.
fn to_come(log: &State, position: u64) -> Gaps {
    Gaps::from_iter([(log.head() + 1, position)])
}

/// The position before the first event that was recorded at or after a time.
pub(super) fn position_at(log: &State, time: DateTime<Utc>) -> u64 {
    log.events.partition_point(|event| event.recorded_at < Some(time)) as u64
}

fn not_found(subscriber_id: &str) -> SubscriberError {
    SubscriberError::NotFound(subscriber_id.to_owned())
}

impl Registry {
    pub(super) fn register(&mut self, config: &SubscriberConfig, log: &State, now: DateTime<Utc>) -> Result<()> {
        let (subscriber_id, mode) = (&config.subscriber_id, config.mode);
        if let Some(subscriber) = self.subscribers.get_mut(subscriber_id) {
            let there = subscriber.mode().name();
            return match there == mode.name() {
                true => {
                    subscriber.queue.widen(&config.event_types);
                    Ok(())
                }
                false => Err(SubscriberError::InUse(format!(
                    "subscriber {subscriber_id:?} is {there}, not {}: use it as what it is, choose another \
                     subscriber_id, or remove it first",
                    mode.name()
                ))),
            };
        }
        let position = match config.start_from {
            StartFrom::Beginning => 0,
            StartFrom::Now => log.head(),
            StartFrom::After(sequence) => sequence,
            StartFrom::Time(time) => position_at(log, time),
        };
        let mut subscriber = Subscriber::new(mode, position, to_come(log, position), self.terms.next(), now);
        subscriber.queue.takes = Takes::new(&config.event_types);
        self.subscribers.insert(subscriber_id.clone(), subscriber);
        Ok(())
    }

    pub(super) fn reset(&mut self, subscriber_id: &str, position: u64, log: &State, now: DateTime<Utc>) -> Result<()> {
        let subscriber = self.subscribers.get_mut(subscriber_id).ok_or_else(|| not_found(subscriber_id))?;
        subscriber.reset(position, &to_come(log, position), self.terms.next(), now);
        Ok(())
    }

    pub(super) fn named(&mut self, subscriber_id: &str) -> Result<&mut Subscriber> {
        self.subscribers.get_mut(subscriber_id).ok_or_else(|| not_found(subscriber_id))
    }

    /// Returns the subscriber if it is shared.
    pub(super) fn shared(&mut self, subscriber_id: &str) -> Result<&mut Subscriber> {
        let subscriber = self.named(subscriber_id)?;
        match subscriber.mode() {
            SubscriberMode::Shared => Ok(subscriber),
            other => Err(SubscriberError::InUse(format!(
                "subscriber {subscriber_id:?} is {}, not shared: only the events of a shared subscriber are claimed",
                other.name()
            ))),
        }
    }

    /// Returns the subscriber and its partition if the fence has the partition's present term.
    pub(super) fn owned(&mut self, fence: &Fence) -> Result<(&mut Subscriber, usize)> {
        check_history(fence.history)?;
        let found = self.subscribers.get_mut(&fence.subscriber_id);
        let found = found.filter(|subscriber| fence.partition < subscriber.mode().partitions());
        let partition = fence.partition as usize;
        match found {
            Some(subscriber) if fence.term.is_none_or(|term| term == subscriber.partitions[partition].term) => {
                Ok((subscriber, partition))
            }
            None if fence.term.is_none() => Err(not_found(&fence.subscriber_id)),
            // The caller's term may be over because the subscriber was removed.
            _ => Err(SubscriberError::Fenced(fence.subscriber_id.clone())),
        }
    }

    pub(super) fn keep(
        &mut self,
        instance: &Instance,
        request: &LeaseRequest,
        lease: Duration,
        now: DateTime<Utc>,
    ) -> LeaseReply {
        let mut reply = LeaseReply {
            subscriber_id: request.subscriber_id.clone(),
            partition: request.partition,
            term: None,
            history: Some(History::default()),
            paused: false,
            redrives: false,
        };
        let Some(subscriber) = self.subscribers.get_mut(&request.subscriber_id) else { return reply };
        let may_take = request.term.is_none() && subscriber.may_take(instance, request, now);
        let Some(partition) = subscriber.partitions.get_mut(request.partition as usize) else { return reply };
        let is_renewed = partition.is_owned_by(instance) && request.term == Some(partition.term);
        // An instance whose term is over must learn that first. It may then ask again.
        let is_taken = may_take && (partition.is_owned_by(instance) || !partition.has_owner(now));
        if is_taken {
            partition.term = self.terms.next();
        }
        if is_renewed || is_taken {
            partition.owner = Some(Owner { instance: instance.clone(), lease_until: later(now, lease), lease });
            partition.report = is_renewed.then(|| request.report.clone());
            reply.term = Some(partition.term);
        }
        reply.paused = partition.paused;
        reply.redrives = subscriber.redrives(request.partition as usize).next().is_some();
        reply
    }

    pub(super) fn release(&mut self, instance: &Instance, id: &PartitionId) {
        let Some(subscriber) = self.subscribers.get_mut(&id.subscriber_id) else { return };
        if let Some(partition) = subscriber.partitions.get_mut(id.partition as usize)
            && partition.is_owned_by(instance)
        {
            (partition.owner, partition.report) = (None, None);
        }
    }

    pub(super) fn join(
        &mut self,
        instance: &Instance,
        subscriber_id: &str,
        lease: Duration,
        now: DateTime<Utc>,
    ) -> Option<GroupView> {
        let subscriber = self.subscribers.get_mut(subscriber_id)?;
        Some(subscriber.join(subscriber_id, instance, lease, &mut self.terms, now))
    }

    pub(super) fn resize(&mut self, subscriber_id: &str, partitions: u32, now: DateTime<Utc>) -> Result<()> {
        check_partitions(partitions)?;
        let subscriber = self.subscribers.get_mut(subscriber_id).ok_or_else(|| not_found(subscriber_id))?;
        subscriber.resize(subscriber_id, partitions, &mut self.terms, now)
    }

    pub(super) fn remove(&mut self, subscriber_id: &str, force: bool, now: DateTime<Utc>) -> Result<()> {
        let subscriber = self.named(subscriber_id)?;
        let owner = subscriber.partitions.iter().filter(|it| it.has_owner(now)).find_map(|it| it.owner.as_ref());
        if let Some(owner) = owner.filter(|_| !force) {
            let node = &owner.instance.node;
            return Err(SubscriberError::InUse(format!(
                "subscriber {subscriber_id:?} is owned by node {node:?}: stop it first, or force"
            )));
        }
        self.subscribers.remove(subscriber_id);
        Ok(())
    }
}
