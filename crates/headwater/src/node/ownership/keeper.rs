//! The keeper: one task per node that holds the node's leases. Each tick, it sends one statement
//! for all subscribers, and one for the groups.
//!
//! Who has authority: the database and its clock. This instance has a lease as long as the database
//! says so, and the keeper tells the runners. While the database cannot be reached, runners go on,
//! since everything they write is fenced. When the lease must have ended, they stop, so that they
//! do not repeat the work of another instance.
//!
//! Each member of a group takes its share of the group's partitions and no more. When another
//! member joins, a member may have more than its share. It then gives some partitions up: their
//! runners first finish the events that they are handling and write their checkpoints, and only
//! then are the partitions free. Nobody decides for others: each member knows who is alive, and all
//! compute the same shares.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater_core::{
    Fault, GroupView, InstanceMode, LeaseReply, LeaseRequest, PartitionId, SubscriberError, SubscriberMode, jittered,
    share_of,
};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::runners::{OwnedBy, RunnerSlot, Runners};
use crate::node::delivery::plan::SubscriptionPlan;
use crate::node::delivery::runner::REMOVED;

/// Pause between ticks. A standby may take this long to notice that the owner is gone.
const TICK: Duration = Duration::from_secs(1);
/// Ticks between looks at subscribers without a lease.
const SINGLES_EVERY: u64 = 5;
/// How long a subscriber without a lease counts as active after a look.
const ATTENDED: Duration = Duration::from_secs(30);

pub(in crate::node) struct Keeper {
    pub(in crate::node) runners: Arc<Runners>,
    pub(in crate::node) lease: Duration,
    pub(in crate::node) counted_at: Instant,
    /// Subscribers that lost a lease: to another instance, or because they were removed.
    pub(in crate::node) lost: Mutex<BTreeSet<String>>,
}

/// What the instance asks for in a slot.
struct Wish {
    slot: Arc<RunnerSlot>,
    share: Option<u32>,
}

impl Keeper {
    /// Keeps leases until it is told to stop.
    pub(in crate::node) async fn run(&mut self, mut stop: watch::Receiver<bool>) {
        let mut renewed = Instant::now();
        let mut said = false;
        // In another history, other instances may own what this one did.
        let mut histories = self.runners.tail.generations();
        // Whether to look at subscribers without a lease before their turn.
        let mut anew = false;
        for tick in 0.. {
            let begun = Instant::now();
            match timeout(self.lease / 2, self.keep()).await.unwrap_or_else(|_| Err(no_answer())) {
                Ok(()) => (renewed, said) = (begun, false),
                Err(error) => {
                    if !std::mem::replace(&mut said, true) {
                        tracing::warn!(node = self.runners.instance.node, %error, "failed to renew leases, trying again");
                    }
                    // The last renewal may have come when a third of the lease had passed.
                    if renewed.elapsed() >= self.lease * 2 / 3 {
                        self.coordinated().iter().for_each(|slot| tell(slot, None, None));
                    }
                }
            }
            self.look_for_removed(tick).await;
            self.look_at_shared().await;
            if tick % SINGLES_EVERY == 0 || std::mem::take(&mut anew) {
                self.look_at_singles().await;
            }
            if !said {
                self.runners.kept.send_replace(true);
            }
            self.note_rates();
            tokio::select! {
                () = tokio::time::sleep(jittered(TICK, 0.2, rand::random())) => {}
                () = self.runners.added.notified() => anew = true,
                Ok(()) = histories.changed() => anew = true,
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
    }

    /// Releases everything that this instance owns.
    pub(in crate::node) async fn release(&self) {
        self.attend_singles(Duration::ZERO).await;
        let owned: Vec<PartitionId> = self.coordinated().iter().map(|slot| slot.id.clone()).collect();
        let groups = self.groups();
        let store = &self.runners.store;
        if !groups.is_empty()
            && let Err(error) = store.leave(&self.runners.instance, &groups).await
        {
            tracing::warn!(node = self.runners.instance.node, %error, "failed to leave groups: its share stays free until the lease ends");
        }
        if !owned.is_empty()
            && let Err(error) = store.release(&self.runners.instance, &owned).await
        {
            tracing::warn!(node = self.runners.instance.node, %error, "failed to release leases: others take over when they end");
        }
    }

    fn coordinated(&self) -> Vec<Arc<RunnerSlot>> {
        let mut slots = self.runners.slots();
        slots.retain(|slot| slot.owned_by == OwnedBy::Lease);
        slots
    }

    /// Groups that this instance is a member of.
    fn groups(&self) -> Vec<String> {
        let is_group = |subscription: &&Arc<SubscriptionPlan>| {
            matches!(subscription.mode, SubscriberMode::Partitioned { .. }) && subscription.assigned.is_none()
        };
        let subscriptions = self.runners.subscriptions();
        subscriptions.iter().filter(is_group).map(|subscription| subscription.subscriber_id.clone()).collect()
    }

    pub(super) async fn keep(&self) -> Result<(), SubscriberError> {
        let _keeping = self.runners.keeping.lock().await;
        let groups = self.groups();
        let views = match groups.is_empty() {
            true => Ok(Vec::new()),
            false => self.runners.store.join(&self.runners.instance, &groups, self.lease).await,
        };
        // Owned partitions are renewed all the same.
        let views = views.unwrap_or_else(|error| {
            tracing::warn!(node = self.runners.instance.node, %error, "failed to ask about groups, trying again");
            Vec::new()
        });
        let mut wishes = Vec::new();
        for subscription in &self.runners.subscriptions() {
            match (&subscription.assigned, subscription.mode, subscription.config.instance_mode) {
                (Some(assigned), ..) => {
                    wishes.extend(assigned.iter().map(|partition| self.wish(subscription, *partition, None)))
                }
                (None, SubscriberMode::Partitioned { .. }, _) => {
                    let view = views.iter().find(|view| view.subscriber_id == subscription.subscriber_id);
                    wishes.extend(match view {
                        Some(view) => self.wishes_of_group(subscription, view),
                        // The subscriber was removed, or its state is unknown.
                        None => self.lost(subscription, 0),
                    });
                }
                (None, SubscriberMode::Shared, _) => {}
                (None, _, InstanceMode::Coordinated) => wishes.push(self.wish(subscription, 0, None)),
                (None, _, InstanceMode::SingleInstance) => {}
            }
        }
        wishes.retain(|wish| wish.slot.term().is_some() || !wish.slot.is_stopping());
        self.give_up_yielded().await?;
        let ask = |wish: &Wish| LeaseRequest {
            subscriber_id: wish.slot.id.subscriber_id.clone(),
            partition: wish.slot.id.partition,
            share: wish.share,
            term: wish.slot.term(),
            report: wish.slot.status.report(),
        };
        let asks: Vec<LeaseRequest> = wishes.iter().map(ask).collect();
        if !asks.is_empty() {
            let held = self.runners.store.keep(&self.runners.instance, &asks, self.lease).await?;
            for (wish, held) in wishes.iter().zip(&held) {
                if wish.slot.term().is_some() && held.term.is_none() {
                    self.lost.lock().expect("no holder of this lock panics").insert(wish.slot.id.subscriber_id.clone());
                }
                tell(&wish.slot, held.term, Some(held));
            }
        }
        Ok(())
    }

    fn wish(&self, subscription: &Arc<SubscriptionPlan>, partition: u32, share: Option<u32>) -> Wish {
        Wish { slot: self.runners.slot(subscription, partition), share }
    }

    /// Asks for the partitions that this instance owned and the group no longer has. The answer has
    /// no term for them.
    fn lost(&self, subscription: &SubscriptionPlan, partitions: u32) -> Vec<Wish> {
        let is_lost = |slot: &Arc<RunnerSlot>| {
            let id = &slot.id;
            id.subscriber_id == subscription.subscriber_id && id.partition >= partitions && slot.term().is_some()
        };
        let lost = self.coordinated().into_iter().filter(is_lost);
        lost.map(|slot| Wish { slot, share: Some(0) }).collect()
    }

    /// Asks for the partitions that the instance owns. If these are fewer than its share, it also
    /// asks for all others: the database gives it no more than its share. Each member starts its
    /// list of others at a different place, so that members that ask at the same time rarely want
    /// the same partitions.
    fn wishes_of_group(&self, subscription: &Arc<SubscriptionPlan>, view: &GroupView) -> Vec<Wish> {
        let share = share_of(&view.members, self.runners.instance.incarnation, view.partitions);
        let all: Vec<_> =
            (0..view.partitions).map(|partition| self.wish(subscription, partition, Some(share))).collect();
        let (mut owned, mut others): (Vec<_>, Vec<_>) = all.into_iter().partition(|wish| wish.slot.term().is_some());
        let keep = if view.halted { 0 } else { share as usize };
        for surplus in owned.iter().skip(keep) {
            surplus.slot.control.send_if_modified(|control| {
                if !control.giving_up {
                    surplus.slot.status.yielded.store(false, Ordering::Release);
                }
                !std::mem::replace(&mut control.giving_up, true)
            });
        }
        if owned.len() < keep && !others.is_empty() {
            let place = (self.runners.instance.incarnation.as_u128() % others.len() as u128) as usize;
            others.rotate_left(place);
            owned.append(&mut others);
        }
        owned.append(&mut self.lost(subscription, view.partitions));
        owned
    }

    /// Releases partitions whose runners have stopped.
    async fn give_up_yielded(&self) -> Result<(), SubscriberError> {
        let yielded =
            |slot: &Arc<RunnerSlot>| slot.control.borrow().giving_up && slot.status.yielded.load(Ordering::Acquire);
        let slots: Vec<_> = self.coordinated().into_iter().filter(yielded).collect();
        if slots.is_empty() {
            return Ok(());
        }
        let ids: Vec<PartitionId> = slots.iter().map(|slot| slot.id.clone()).collect();
        self.runners.store.release(&self.runners.instance, &ids).await?;
        for slot in slots {
            slot.status.yielded.store(false, Ordering::Release);
            slot.control.send_modify(|control| (control.fence, control.giving_up) = (None, false));
        }
        Ok(())
    }

    /// Notes whether this instance handles the events of subscribers without a lease. The note is
    /// only for others: the subscribers run without it.
    async fn attend_singles(&self, lease: Duration) {
        let mut slots = self.runners.slots();
        slots.retain(|slot| slot.owned_by == OwnedBy::Alone);
        if slots.is_empty() {
            return;
        }
        let singles: Vec<_> = slots.iter().map(|slot| (slot.id.subscriber_id.clone(), slot.status.report())).collect();
        if let Ok(Err(error)) = timeout(self.lease / 2, self.runners.store.attend_alone(&singles, lease)).await {
            tracing::debug!(node = self.runners.instance.node, %error, "failed to say which subscribers are handled alone");
        }
    }

    /// A standby of a subscriber that was removed would stand by for ever, and in silence. So the
    /// keeper asks about subscribers that just lost a lease and, now and then, about one of the
    /// others.
    async fn look_for_removed(&self, tick: u64) {
        let mut asked = std::mem::take(&mut *self.lost.lock().expect("no holder of this lock panics"));
        if tick.is_multiple_of(SINGLES_EVERY) {
            let slots = self.coordinated();
            let owned: BTreeSet<_> =
                slots.iter().filter(|slot| slot.term().is_some()).map(|slot| &slot.id.subscriber_id).collect();
            let waiting: BTreeSet<_> =
                slots.iter().map(|slot| &slot.id.subscriber_id).filter(|id| !owned.contains(id)).collect();
            let removed = slots.iter().filter(|slot| slot.control.borrow().removed);
            asked.extend(removed.map(|slot| slot.id.subscriber_id.clone()));
            let turn = (tick / SINGLES_EVERY) as usize % waiting.len().max(1);
            asked.extend(waiting.into_iter().nth(turn).cloned());
        }
        for id in asked {
            match timeout(self.lease / 2, self.runners.store.position(&id)).await {
                Ok(Ok(_)) => self.note_removed(&id, false),
                Ok(Err(SubscriberError::NotFound(_))) => self.note_removed(&id, true),
                // The answer is unknown: ask again later.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    fn note_removed(&self, subscriber_id: &str, removed: bool) {
        let mut changed = false;
        for slot in self.runners.slots().iter().filter(|slot| slot.id.subscriber_id == subscriber_id) {
            changed |=
                slot.control.send_if_modified(|control| std::mem::replace(&mut control.removed, removed) != removed);
        }
        match removed {
            true if changed => tracing::error!(node = self.runners.instance.node, subscriber_id, "{REMOVED}"),
            false if changed => {
                tracing::info!(node = self.runners.instance.node, subscriber_id, "the subscriber is there again");
            }
            _ => {}
        }
    }

    /// Asks about subscribers without a lease, one by one and less often.
    async fn look_at_singles(&self) {
        self.attend_singles(ATTENDED).await;
        for slot in self.runners.slots().iter().filter(|slot| slot.owned_by == OwnedBy::Alone) {
            let found = self.runners.store.position(&slot.id.subscriber_id).await;
            match found {
                Ok(_) => self.note_removed(&slot.id.subscriber_id, false),
                Err(SubscriberError::NotFound(_)) => {
                    // A runner that has no events at present would not find out.
                    slot.control.send_if_modified(|control| control.fence.take().is_some());
                    self.note_removed(&slot.id.subscriber_id, true);
                    self.hear_again(&slot.id.subscriber_id).await;
                }
                Err(_) => {}
            }
            if let Ok(loaded) = found {
                let is_new = slot.term() != Some(loaded.term);
                if is_new && !matches!(self.runners.is_node().await, Ok(true)) {
                    continue;
                }
                let fence = slot.fence(loaded.term, loaded.history);
                slot.control.send_modify(|control| {
                    control.fence = Some(fence);
                    control.redrives += 1;
                    control.paused = loaded.paused;
                });
            }
        }
    }

    /// A node that was forgotten and has come back has no subscriber for broadcasts until it
    /// registers a new one.
    async fn hear_again(&self, subscriber_id: &str) {
        let Some(hearing) = self.runners.hearing.get().filter(|hearing| hearing.subscriber_id == subscriber_id) else {
            return;
        };
        // The next look finds it, or tries again.
        if matches!(self.runners.is_node().await, Ok(true))
            && let Err(error) = self.runners.store.register(hearing).await
        {
            tracing::warn!(node = self.runners.instance.node, %error, "failed to begin with broadcasts again, trying again");
        }
    }

    /// Tells the database which queues this node works on, and tells the workers whether these are
    /// paused. As long as that is not known, the answers to claims decide.
    async fn look_at_shared(&self) {
        let mut slots = self.runners.slots();
        slots.retain(|slot| slot.owned_by == OwnedBy::Claims);
        if slots.is_empty() {
            return;
        }
        let rate = |slot: &Arc<RunnerSlot>| (slot.id.subscriber_id.clone(), slot.status.report().rate);
        let queues: Vec<(String, f64)> = slots.iter().map(rate).collect();
        let attended = self.runners.store.attend_queues(&self.runners.instance, &queues, self.lease);
        let Ok(Ok(paused)) = timeout(self.lease / 2, attended).await else { return };
        for slot in slots {
            let paused = paused.contains(&slot.id.subscriber_id);
            slot.control.send_if_modified(|control| std::mem::replace(&mut control.paused, paused) != paused);
        }
    }

    fn note_rates(&mut self) {
        let elapsed = std::mem::replace(&mut self.counted_at, Instant::now()).elapsed().as_secs_f64().max(0.001);
        self.runners.slots().iter().for_each(|slot| slot.status.set_rate(slot.count() as f64 / elapsed));
    }
}

fn tell(slot: &RunnerSlot, term: Option<u64>, held: Option<&LeaseReply>) {
    let fence = term.map(|term| slot.fence(term, held.and_then(|held| held.history)));
    slot.control.send_if_modified(|control| {
        let before = control.clone();
        if fence.is_none() {
            // Another instance has what was to be given up.
            control.giving_up = false;
        }
        control.fence = fence;
        if let Some(held) = held {
            control.paused = held.paused;
            control.redrives += u64::from(held.redrives && held.term.is_some());
        }
        *control != before
    });
}

fn no_answer() -> SubscriberError {
    let message = "failed to renew leases: no answer in time".into();
    SubscriberError::Unavailable(Fault { message, retryable: true, source: None })
}
