//! The runners of a node, one per partition that the node may own. When a group gets more
//! partitions, the node starts more runners.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use headwater_core::{
    Fence, History, Instance, InstanceMode, PartitionId, Registration, SubscriberConfig, SubscriberError,
    SubscriberMode, SubscriberStore,
};
use headwater_postgres::PgSubscribers;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::node::delivery::plan::SubscriptionPlan;
use crate::node::delivery::runner::{Control, Runner};
use crate::node::delivery::status::Status;
use crate::node::ownership::heartbeat::Heartbeat;
use crate::node::queue::{Calls, Refused, Transactions, Worker};
use crate::node::reading::tail::Tail;

pub(in crate::node) struct Runners {
    pub(in crate::node) tail: Arc<Tail>,
    pub(in crate::node) store: Arc<dyn SubscriberStore>,
    /// The subscribers in PostgreSQL, for transactional handlers. `None`: the log is not in
    /// PostgreSQL.
    pub(in crate::node) postgres: Option<PgSubscribers>,
    pub(in crate::node) instance: Instance,
    /// The heartbeat, on PostgreSQL. It knows what the process is registered as.
    heartbeat: Option<Arc<Heartbeat>>,
    /// The subscriptions that the node runs at present.
    subscriptions: Mutex<Vec<Arc<SubscriptionPlan>>>,
    /// Subscribers whose runners are ending. They get no new runners.
    ending: Mutex<HashSet<String>>,
    /// Held while leases are renewed or released for good.
    pub(in crate::node) keeping: tokio::sync::Mutex<()>,
    /// Notified when a subscription was added to the running node: the keeper need not wait for its
    /// next tick.
    pub(in crate::node) added: Notify,
    slots: Mutex<Vec<Arc<RunnerSlot>>>,
    /// The runners, which end when this is dropped.
    tasks: Mutex<JoinSet<()>>,
    dismissed: AtomicBool,
    /// Whether the database has answered a lease request since the node started. From then on, it
    /// knows which subscribers are active.
    pub(in crate::node) kept: watch::Sender<bool>,
    /// The subscriber through which the node gets broadcasts, once it has one.
    pub(in crate::node) hearing: OnceLock<SubscriberConfig>,
}

/// What entitles a slot's runner to handle events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::node) enum OwnedBy {
    /// A lease on the slot's partition.
    Lease,
    /// Nothing: the user makes sure that no other instance handles these events.
    Alone,
    /// Claims on events.
    Claims,
}

/// A partition that the node may own, and its runner.
pub(in crate::node) struct RunnerSlot {
    pub(in crate::node) id: PartitionId,
    pub(in crate::node) owned_by: OwnedBy,
    /// Whether the subscriber has several partitions.
    pub(in crate::node) partitioned: bool,
    pub(in crate::node) control: watch::Sender<Control>,
    pub(in crate::node) status: Arc<Status>,
    /// Events handled when the rate was last noted.
    counted: AtomicU64,
    /// Whether its runner has ended.
    ended: watch::Sender<bool>,
    /// Stops its runner in the middle of an event.
    task: OnceLock<AbortHandle>,
}

/// Marks a runner as ended, in whichever way it ends.
struct Ends(Arc<RunnerSlot>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.ended.send_replace(true);
    }
}

impl Runners {
    pub(in crate::node) fn new(
        tail: Arc<Tail>,
        store: Arc<dyn SubscriberStore>,
        postgres: Option<PgSubscribers>,
        instance: Instance,
        heartbeat: Option<Arc<Heartbeat>>,
    ) -> Self {
        Runners {
            tail,
            store,
            postgres,
            instance,
            heartbeat,
            subscriptions: Mutex::default(),
            ending: Mutex::default(),
            keeping: tokio::sync::Mutex::default(),
            added: Notify::new(),
            slots: Mutex::default(),
            tasks: Mutex::default(),
            dismissed: AtomicBool::new(false),
            kept: watch::Sender::new(false),
            hearing: OnceLock::new(),
        }
    }

    /// Returns the slot of a partition. Its runner begins when it is told to.
    pub(in crate::node) fn slot(&self, subscription: &Arc<SubscriptionPlan>, partition: u32) -> Arc<RunnerSlot> {
        let id = PartitionId { subscriber_id: subscription.subscriber_id.clone(), partition };
        let mut slots = self.slots.lock().expect("no holder of this lock panics");
        if let Some(slot) = slots.iter().find(|slot| slot.id == id) {
            return slot.clone();
        }
        let owned_by = match subscription.config.instance_mode {
            InstanceMode::Coordinated => OwnedBy::Lease,
            InstanceMode::SingleInstance => OwnedBy::Alone,
        };
        let (slot, told) = self.new_slot(subscription, partition, owned_by);
        slots.push(slot.clone());
        self.tail.read();
        let runner = Runner {
            subscription: subscription.clone(),
            partition,
            tail: self.tail.clone(),
            store: self.store.clone(),
            postgres: self.postgres.clone(),
            notes: Arc::default(),
            instance: self.instance.clone(),
            control: told,
            status: slot.status.clone(),
            left_open: AtomicBool::new(false),
        };
        self.spawn(&slot, Arc::new(runner).run());
        slot
    }

    fn spawn(&self, slot: &Arc<RunnerSlot>, run: impl Future<Output = ()> + Send + 'static) {
        let ends = Ends(slot.clone());
        let mut tasks = self.tasks.lock().expect("no holder of this lock panics");
        // Those that have ended are not needed any more.
        while tasks.try_join_next().is_some() {}
        let task = tasks.spawn(async move {
            let _ends = ends;
            run.await;
        });
        _ = slot.task.set(task);
    }

    /// Starts the runners of registered subscriptions.
    pub(in crate::node) fn begin(&self, subscriptions: impl IntoIterator<Item = SubscriptionPlan>) {
        let new: Vec<_> = subscriptions.into_iter().map(Arc::new).collect();
        self.change_subscriptions(|subscriptions| subscriptions.extend(new.iter().cloned()));
        for subscription in &new {
            match (subscription.mode, &subscription.assigned) {
                (SubscriberMode::Shared, _) => self.start_worker(subscription),
                (_, Some(assigned)) => {
                    assigned.iter().for_each(|partition| _ = self.slot(subscription, *partition));
                }
                (_, None) => _ = self.slot(subscription, 0),
            }
        }
    }

    /// Changes what the node runs, and advertises that.
    fn change_subscriptions(&self, change: impl FnOnce(&mut Vec<Arc<SubscriptionPlan>>)) {
        let mut subscriptions = self.subscriptions.lock().expect("no holder of this lock panics");
        change(&mut subscriptions);
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.advertise(subscriptions.iter().map(|plan| &**plan));
        }
    }

    /// The subscriptions that the node runs at present.
    pub(in crate::node) fn subscriptions(&self) -> Vec<Arc<SubscriptionPlan>> {
        self.subscriptions.lock().expect("no holder of this lock panics").clone()
    }

    /// Ends a subscription: tells its runners to end, waits for them, and gives up its leases.
    /// Returns whether the node ran it.
    pub(in crate::node) async fn end(&self, subscriber_id: &str, limit: Duration) -> Result<bool, SubscriberError> {
        let is_it = |plan: &Arc<SubscriptionPlan>| plan.subscriber_id == subscriber_id;
        let Some(subscription) = self.subscriptions().into_iter().find(is_it) else { return Ok(false) };
        self.ending.lock().expect("no holder of this lock panics").insert(subscriber_id.to_owned());
        let mut slots = self.slots();
        slots.retain(|slot| slot.id.subscriber_id == subscriber_id);
        slots.iter().for_each(|slot| slot.stop());
        if !until_ended(&slots, limit).await {
            tracing::warn!(subscriber_id, ?limit, "stopped in the middle of events: they will come again");
        }
        // The keeper renews no lease meanwhile, and finds none to renew afterwards.
        let _keeping = self.keeping.lock().await;
        self.forget(subscriber_id);
        let is_group =
            matches!(subscription.mode, SubscriberMode::Partitioned { .. }) && subscription.assigned.is_none();
        let left = match is_group {
            true => self.store.leave(&self.instance, &[subscriber_id.to_owned()]).await,
            false => Ok(()),
        };
        slots.retain(|slot| slot.owned_by == OwnedBy::Lease);
        if !slots.is_empty() {
            let ids: Vec<PartitionId> = slots.iter().map(|slot| slot.id.clone()).collect();
            self.store.release(&self.instance, &ids).await?;
        }
        left.and(Ok(true))
    }

    /// Forgets a subscriber whose runners have ended.
    fn forget(&self, subscriber_id: &str) {
        self.change_subscriptions(|subscriptions| subscriptions.retain(|plan| plan.subscriber_id != subscriber_id));
        let mut slots = self.slots.lock().expect("no holder of this lock panics");
        slots.retain(|slot| slot.id.subscriber_id != subscriber_id);
        self.ending.lock().expect("no holder of this lock panics").remove(subscriber_id);
    }

    fn is_ending(&self, subscriber_id: &str) -> bool {
        self.ending.lock().expect("no holder of this lock panics").contains(subscriber_id)
    }

    /// Starts a worker that claims events of a shared subscriber.
    pub(in crate::node) fn start_worker(&self, subscription: &Arc<SubscriptionPlan>) {
        let mut slots = self.slots.lock().expect("no holder of this lock panics");
        let (slot, told) = self.new_slot(subscription, 0, OwnedBy::Claims);
        slots.push(slot.clone());
        let transactions = self.postgres.as_ref().map(|postgres| Transactions::new(postgres, subscription));
        let worker = Worker {
            subscription: subscription.clone(),
            queue: self.store.queue(&subscription.subscriber_id),
            store: self.store.clone(),
            transactions,
            tail: self.tail.clone(),
            worker: self.instance.node.clone(),
            control: told,
            status: slot.status.clone(),
            calls: Calls::default(),
            refused: Refused::default(),
        };
        self.spawn(&slot, Arc::new(worker).run());
    }

    fn new_slot(
        &self,
        subscription: &SubscriptionPlan,
        partition: u32,
        owned_by: OwnedBy,
    ) -> (Arc<RunnerSlot>, watch::Receiver<Control>) {
        let stopping = self.is_dismissed() || self.is_ending(&subscription.subscriber_id);
        let (control, told) = watch::channel(Control { stopping, ..Control::default() });
        let slot = RunnerSlot {
            id: PartitionId { subscriber_id: subscription.subscriber_id.clone(), partition },
            owned_by,
            partitioned: matches!(subscription.mode, SubscriberMode::Partitioned { .. }),
            control,
            status: Arc::new(Status::new(subscription.is_transactional())),
            counted: AtomicU64::new(0),
            ended: watch::Sender::new(false),
            task: OnceLock::new(),
        };
        (Arc::new(slot), told)
    }

    pub(in crate::node) fn slots(&self) -> Vec<Arc<RunnerSlot>> {
        self.slots.lock().expect("no holder of this lock panics").clone()
    }

    /// Whether this process is still the node of its id. A process that was replaced must not go on
    /// in the term of its successor, so this is asked after the term is known.
    pub(in crate::node) async fn is_node(&self) -> Result<bool, SubscriberError> {
        match (&self.postgres, &self.heartbeat) {
            (Some(postgres), Some(heartbeat)) => {
                let Registration { node_id, instance_id, .. } = heartbeat.registration();
                let is_node = postgres.is_node(&Instance { node: node_id, incarnation: instance_id }).await?;
                if !is_node {
                    heartbeat.doubt();
                }
                Ok(is_node)
            }
            _ => Ok(true),
        }
    }

    /// Whether the node is ending. It then takes nothing more.
    pub(in crate::node) fn is_dismissed(&self) -> bool {
        self.dismissed.load(Ordering::Acquire)
    }

    /// Tells all runners to end. Runners that begin later end at once.
    pub(in crate::node) fn dismiss(&self) -> Vec<Arc<RunnerSlot>> {
        self.dismissed.store(true, Ordering::Release);
        let slots = self.slots();
        slots.iter().for_each(|slot| slot.stop());
        slots
    }
}

/// Waits until these runners have ended. At the limit, it stops them in the middle of events, and
/// waits until they have let go of their events. Returns whether they ended by themselves.
pub(in crate::node) async fn until_ended(slots: &[Arc<RunnerSlot>], limit: Duration) -> bool {
    let ended = || async {
        for slot in slots {
            slot.until_ended().await;
        }
    };
    if timeout(limit, ended()).await.is_ok() {
        return true;
    }
    slots.iter().filter_map(|slot| slot.task.get()).for_each(AbortHandle::abort);
    ended().await;
    slots.iter().for_each(|slot| _ = slot.status.reached.send_replace(None));
    false
}

impl RunnerSlot {
    /// Tells its runner to end.
    fn stop(&self) {
        self.control.send_modify(|control| control.stopping = true);
    }

    /// Whether its runner was told to end. It then needs no lease that it does not have.
    pub(in crate::node) fn is_stopping(&self) -> bool {
        self.control.borrow().stopping
    }

    /// Waits until its runner has ended.
    async fn until_ended(&self) {
        // The sender is part of this value.
        _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// The term in which this instance owns the partition.
    pub(in crate::node) fn term(&self) -> Option<u64> {
        self.control.borrow().fence.as_ref().and_then(|fence| fence.term)
    }

    /// The proof that this instance owns the partition, in a history.
    pub(in crate::node) fn fence(&self, term: u64, history: Option<History>) -> Fence {
        let PartitionId { subscriber_id, partition } = self.id.clone();
        Fence { subscriber_id, partition, term: Some(term), history }
    }

    /// Events handled since the last call.
    pub(in crate::node) fn count(&self) -> u64 {
        let handled = self.status.handled();
        handled.saturating_sub(self.counted.swap(handled, Ordering::Relaxed))
    }
}
