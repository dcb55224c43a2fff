//! The keeper: one task a node that holds its leases, with one statement a tick for all subscribers, and one for the groups.
//!
//! Who has authority: the database and its clock. A lease is this instance's as long as the database says so; the keeper passes that on to the
//! runners. While the database cannot be reached, runners go on, since whatever they write is fenced; when the lease must have ended by
//! now, they stop, so as not to do twice what another does.
//!
//! Of a group's partitions, every member takes its share and no more. Who has more than its share, since another joined, gives some up: their
//! runners end the events at hand and write their checkpoints first, and only then are they anybody's. Nobody decides for others: each
//! member knows who is alive, and all come to the same shares.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater_core::{
    Ask, Fault, GroupView, Held, InstanceMode, PartitionId, SubscriberError, SubscriberMode, jittered, share_of,
};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::crew::{Crew, Seat, Tenure};
use super::runner::REMOVED;
use super::subscription::Subscription;

/// Between ticks: how long a standby may take to notice that the owner is gone.
const TICK: Duration = Duration::from_secs(1);
/// Ticks between looks at subscribers without a lease.
const SINGLES_EVERY: u64 = 5;
/// How long a subscriber without a lease counts as active after a look.
const ATTENDED: Duration = Duration::from_secs(30);

pub(super) struct Keeper {
    pub(super) crew: Arc<Crew>,
    pub(super) subscriptions: Vec<Arc<Subscription>>,
    pub(super) lease: Duration,
    pub(super) counted_at: Instant,
    /// Subscribers of which a lease was lost: to another, or since they were removed.
    pub(super) lost: Mutex<BTreeSet<String>>,
}

/// What the instance wishes for a seat.
struct Wish {
    seat: Arc<Seat>,
    share: Option<u32>,
}

impl Keeper {
    /// Keeps leases until told to stop.
    pub(super) async fn run(&mut self, mut stop: watch::Receiver<bool>) {
        let mut renewed = Instant::now();
        let mut said = false;
        // In another history, others may own what this instance did.
        let mut histories = self.crew.tail.generations();
        let mut anew = false;
        for tick in 0.. {
            let begun = Instant::now();
            match timeout(self.lease / 2, self.keep()).await.unwrap_or_else(|_| Err(no_answer())) {
                Ok(()) => (renewed, said) = (begun, false),
                Err(error) => {
                    if !std::mem::replace(&mut said, true) {
                        tracing::warn!(node = self.crew.instance.node, %error, "failed to renew leases, trying again");
                    }
                    // The lease may have been renewed when a third of it had passed.
                    if renewed.elapsed() >= self.lease * 2 / 3 {
                        self.coordinated().iter().for_each(|seat| tell(seat, None, None));
                    }
                }
            }
            self.look_for_removed(tick).await;
            self.look_at_shared().await;
            if tick % SINGLES_EVERY == 0 || std::mem::take(&mut anew) {
                self.look_at_singles().await;
            }
            if !said {
                self.crew.kept.send_replace(true);
            }
            self.note_rates();
            tokio::select! {
                () = tokio::time::sleep(jittered(TICK, 0.2, rand::random())) => {}
                Ok(()) = histories.changed() => anew = true,
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
    }

    /// Gives up what this instance owns.
    pub(super) async fn release(&self) {
        self.attend_singles(Duration::ZERO).await;
        let owned: Vec<PartitionId> = self.coordinated().iter().map(|seat| seat.id.clone()).collect();
        let groups = self.groups();
        let store = &self.crew.store;
        if !groups.is_empty()
            && let Err(error) = store.leave(&self.crew.instance, &groups).await
        {
            tracing::warn!(node = self.crew.instance.node, %error, "failed to leave groups: its share stays free until the lease ends");
        }
        if !owned.is_empty()
            && let Err(error) = store.release(&self.crew.instance, &owned).await
        {
            tracing::warn!(node = self.crew.instance.node, %error, "failed to release leases: others take over when they end");
        }
    }

    fn coordinated(&self) -> Vec<Arc<Seat>> {
        let mut seats = self.crew.seats();
        seats.retain(|seat| seat.tenure == Tenure::Lease);
        seats
    }

    /// Groups of which this instance is a member.
    fn groups(&self) -> Vec<String> {
        let is_group = |subscription: &&Arc<Subscription>| {
            matches!(subscription.mode, SubscriberMode::Partitioned { .. }) && subscription.assigned.is_none()
        };
        self.subscriptions.iter().filter(is_group).map(|subscription| subscription.subscriber_id.clone()).collect()
    }

    async fn keep(&self) -> Result<(), SubscriberError> {
        let groups = self.groups();
        let views = match groups.is_empty() {
            true => Ok(Vec::new()),
            false => self.crew.store.join(&self.crew.instance, &groups, self.lease).await,
        };
        // What is owned is renewed all the same.
        let views = views.unwrap_or_else(|error| {
            tracing::warn!(node = self.crew.instance.node, %error, "failed to ask about groups, trying again");
            Vec::new()
        });
        let mut wishes = Vec::new();
        for subscription in &self.subscriptions {
            match (&subscription.assigned, subscription.mode, subscription.config.instance_mode) {
                (Some(assigned), ..) => {
                    wishes.extend(assigned.iter().map(|partition| self.wish(subscription, *partition, None)))
                }
                (None, SubscriberMode::Partitioned { .. }, _) => {
                    let view = views.iter().find(|view| view.subscriber_id == subscription.subscriber_id);
                    wishes.extend(match view {
                        Some(view) => self.wishes_of_group(subscription, view),
                        // It was removed, or nobody knows.
                        None => self.lost(subscription, 0),
                    });
                }
                (None, SubscriberMode::Shared, _) => {}
                (None, _, InstanceMode::Coordinated) => wishes.push(self.wish(subscription, 0, None)),
                (None, _, InstanceMode::SingleInstance) => {}
            }
        }
        wishes.retain(|wish| wish.seat.term().is_some() || !self.crew.is_dismissed());
        self.give_up_yielded().await?;
        let ask = |wish: &Wish| Ask {
            subscriber_id: wish.seat.id.subscriber_id.clone(),
            partition: wish.seat.id.partition,
            share: wish.share,
            term: wish.seat.term(),
            report: wish.seat.status.report(),
        };
        let asks: Vec<Ask> = wishes.iter().map(ask).collect();
        if !asks.is_empty() {
            let held = self.crew.store.keep(&self.crew.instance, &asks, self.lease).await?;
            for (wish, held) in wishes.iter().zip(&held) {
                if wish.seat.term().is_some() && held.term.is_none() {
                    self.lost.lock().expect("no holder of this lock panics").insert(wish.seat.id.subscriber_id.clone());
                }
                tell(&wish.seat, held.term, Some(held));
            }
        }
        Ok(())
    }

    fn wish(&self, subscription: &Arc<Subscription>, partition: u32, share: Option<u32>) -> Wish {
        Wish { seat: self.crew.seat(subscription, partition), share }
    }

    /// What this instance owned of a group from a partition on that is no more: it is answered without a term.
    fn lost(&self, subscription: &Subscription, partitions: u32) -> Vec<Wish> {
        let is_lost = |seat: &Arc<Seat>| {
            let id = &seat.id;
            id.subscriber_id == subscription.subscriber_id && id.partition >= partitions && seat.term().is_some()
        };
        let lost = self.coordinated().into_iter().filter(is_lost);
        lost.map(|seat| Wish { seat, share: Some(0) }).collect()
    }

    /// What it owns, and, if that is less than its share, all the others: the database lets it take no more than its share. They
    /// are asked for from a place on that is its own, so that members who ask at once rarely wish for the same.
    fn wishes_of_group(&self, subscription: &Arc<Subscription>, view: &GroupView) -> Vec<Wish> {
        let share = share_of(&view.members, self.crew.instance.incarnation, view.partitions);
        let all: Vec<_> =
            (0..view.partitions).map(|partition| self.wish(subscription, partition, Some(share))).collect();
        let (mut owned, mut others): (Vec<_>, Vec<_>) = all.into_iter().partition(|wish| wish.seat.term().is_some());
        let keep = if view.halted { 0 } else { share as usize };
        for surplus in owned.iter().skip(keep) {
            surplus.seat.control.send_if_modified(|control| {
                if !control.giving_up {
                    surplus.seat.status.yielded.store(false, Ordering::Release);
                }
                !std::mem::replace(&mut control.giving_up, true)
            });
        }
        if owned.len() < keep && !others.is_empty() {
            let place = (self.crew.instance.incarnation.as_u128() % others.len() as u128) as usize;
            others.rotate_left(place);
            owned.append(&mut others);
        }
        owned.append(&mut self.lost(subscription, view.partitions));
        owned
    }

    /// Releases partitions whose runners have come to rest.
    async fn give_up_yielded(&self) -> Result<(), SubscriberError> {
        let yielded = |seat: &Arc<Seat>| seat.control.borrow().giving_up && seat.status.yielded.load(Ordering::Acquire);
        let seats: Vec<_> = self.coordinated().into_iter().filter(yielded).collect();
        if seats.is_empty() {
            return Ok(());
        }
        let ids: Vec<PartitionId> = seats.iter().map(|seat| seat.id.clone()).collect();
        self.crew.store.release(&self.crew.instance, &ids).await?;
        for seat in seats {
            seat.status.yielded.store(false, Ordering::Release);
            seat.control.send_modify(|control| (control.fence, control.giving_up) = (None, false));
        }
        Ok(())
    }

    /// Says whether this instance handles the events of subscribers without a lease. It is only a note for others: who runs alone goes on without.
    async fn attend_singles(&self, lease: Duration) {
        let mut seats = self.crew.seats();
        seats.retain(|seat| seat.tenure == Tenure::Alone);
        let (Some(postgres), false) = (&self.crew.postgres, seats.is_empty()) else { return };
        let singles: Vec<_> = seats.iter().map(|seat| (seat.id.subscriber_id.clone(), seat.status.report())).collect();
        if let Ok(Err(error)) = timeout(self.lease / 2, postgres.attend_alone(&singles, lease)).await {
            tracing::debug!(node = self.crew.instance.node, %error, "failed to say which subscribers are handled alone");
        }
    }

    /// Whoever stands by for a subscriber that was removed would do so for ever, and in silence. Asked about are those of which a lease was just lost and, now and
    /// then, one of the others.
    async fn look_for_removed(&self, tick: u64) {
        let mut asked = std::mem::take(&mut *self.lost.lock().expect("no holder of this lock panics"));
        if tick.is_multiple_of(SINGLES_EVERY) {
            let seats = self.coordinated();
            let owned: BTreeSet<_> =
                seats.iter().filter(|seat| seat.term().is_some()).map(|seat| &seat.id.subscriber_id).collect();
            let waiting: BTreeSet<_> =
                seats.iter().map(|seat| &seat.id.subscriber_id).filter(|id| !owned.contains(id)).collect();
            let removed = seats.iter().filter(|seat| seat.control.borrow().removed);
            asked.extend(removed.map(|seat| seat.id.subscriber_id.clone()));
            let turn = (tick / SINGLES_EVERY) as usize % waiting.len().max(1);
            asked.extend(waiting.into_iter().nth(turn).cloned());
        }
        for id in asked {
            match timeout(self.lease / 2, self.crew.store.position(&id)).await {
                Ok(Ok(_)) => self.note_removed(&id, false),
                Ok(Err(SubscriberError::NotFound(_))) => self.note_removed(&id, true),
                // Nobody knows.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    fn note_removed(&self, subscriber_id: &str, removed: bool) {
        let mut changed = false;
        for seat in self.crew.seats().iter().filter(|seat| seat.id.subscriber_id == subscriber_id) {
            changed |=
                seat.control.send_if_modified(|control| std::mem::replace(&mut control.removed, removed) != removed);
        }
        match removed {
            true if changed => tracing::error!(node = self.crew.instance.node, subscriber_id, "{REMOVED}"),
            false if changed => {
                tracing::info!(node = self.crew.instance.node, subscriber_id, "the subscriber is there again");
            }
            _ => {}
        }
    }

    /// Subscribers without a lease are asked about one by one, less often.
    async fn look_at_singles(&self) {
        self.attend_singles(ATTENDED).await;
        for seat in self.crew.seats().iter().filter(|seat| seat.tenure == Tenure::Alone) {
            let found = self.crew.store.position(&seat.id.subscriber_id).await;
            match found {
                Ok(_) => self.note_removed(&seat.id.subscriber_id, false),
                Err(SubscriberError::NotFound(_)) => {
                    // Whoever handles nothing at present would not find out.
                    seat.control.send_if_modified(|control| control.fence.take().is_some());
                    self.note_removed(&seat.id.subscriber_id, true);
                    self.hear_again(&seat.id.subscriber_id).await;
                }
                Err(_) => {}
            }
            if let Ok(loaded) = found {
                let is_new = seat.term() != Some(loaded.term);
                if is_new && !matches!(self.crew.is_node().await, Ok(true)) {
                    continue;
                }
                let fence = seat.fence(loaded.term, loaded.history);
                seat.control.send_modify(|control| {
                    control.fence = Some(fence);
                    control.redrives += 1;
                    control.paused = loaded.paused;
                });
            }
        }
    }

    /// A node that was forgotten and is one again has no subscriber to hear broadcasts by, until it makes a new one.
    async fn hear_again(&self, subscriber_id: &str) {
        let Some(hearing) = self.crew.hearing.get().filter(|hearing| hearing.subscriber_id == subscriber_id) else {
            return;
        };
        // The next look finds it, or tries again.
        if matches!(self.crew.is_node().await, Ok(true))
            && let Err(error) = self.crew.store.register(hearing).await
        {
            tracing::warn!(node = self.crew.instance.node, %error, "failed to begin with broadcasts again, trying again");
        }
    }

    /// Workers of shared subscribers are told whether these are paused. While nobody knows, claims are answered as the database sees fit.
    async fn look_at_shared(&self) {
        let mut seats = self.crew.seats();
        seats.retain(|seat| seat.tenure == Tenure::Claims);
        let (Some(postgres), false) = (&self.crew.postgres, seats.is_empty()) else { return };
        let ids: Vec<String> = seats.iter().map(|seat| seat.id.subscriber_id.clone()).collect();
        let Ok(Ok(paused)) = timeout(self.lease / 2, postgres.paused(&ids)).await else { return };
        for seat in seats {
            let paused = paused.contains(&seat.id.subscriber_id);
            seat.control.send_if_modified(|control| std::mem::replace(&mut control.paused, paused) != paused);
        }
    }

    fn note_rates(&mut self) {
        let elapsed = std::mem::replace(&mut self.counted_at, Instant::now()).elapsed().as_secs_f64().max(0.001);
        self.crew.seats().iter().for_each(|seat| seat.status.set_rate(seat.count() as f64 / elapsed));
    }
}

fn tell(seat: &Seat, term: Option<u64>, held: Option<&Held>) {
    let fence = term.map(|term| seat.fence(term, held.and_then(|held| held.history)));
    seat.control.send_if_modified(|control| {
        let before = control.clone();
        if fence.is_none() {
            // What was to be given up is another's by now.
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
