//! The crew: the runners of a node, one for each partition that it may own. More are hired when a group gets more partitions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use headwater_core::{
    Fence, History, Instance, InstanceMode, PartitionId, Registration, SubscriberConfig, SubscriberError,
    SubscriberMode, SubscriberStore,
};
use headwater_postgres::{PgQueue, PgSubscribers};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::heartbeat::Heartbeat;
use super::runner::{Control, Runner};
use super::shared::{Calls, Shared};
use super::status::Status;
use super::subscription::Subscription;
use super::tail::Tail;

pub(super) struct Crew {
    pub(super) tail: Arc<Tail>,
    pub(super) store: Arc<dyn SubscriberStore>,
    /// For transactional handlers.
    pub(super) postgres: Option<PgSubscribers>,
    pub(super) instance: Instance,
    /// On PostgreSQL: as what the process is registered.
    heartbeat: Option<Arc<Heartbeat>>,
    seats: Mutex<Vec<Arc<Seat>>>,
    tasks: Mutex<JoinSet<()>>,
    dismissed: AtomicBool,
    /// Whether leases were asked for, with an answer, since the node started: whoever is active is known as such from then on.
    pub(super) kept: watch::Sender<bool>,
    /// The subscriber by which the node hears broadcasts, once it does.
    pub(super) hearing: OnceLock<SubscriberConfig>,
}

/// By what right events of a seat are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tenure {
    /// A lease of its partition.
    Lease,
    /// Nobody else is there, as the user sees to.
    Alone,
    /// Claims of events.
    Claims,
}

/// A partition that the node may own, and its runner.
pub(super) struct Seat {
    pub(super) id: PartitionId,
    pub(super) tenure: Tenure,
    /// It is one of several.
    pub(super) partitioned: bool,
    pub(super) control: watch::Sender<Control>,
    pub(super) status: Arc<Status>,
    /// Events handled when the rate was last noted.
    counted: AtomicU64,
}

impl Crew {
    pub(super) fn new(
        tail: Arc<Tail>,
        store: Arc<dyn SubscriberStore>,
        postgres: Option<PgSubscribers>,
        instance: Instance,
        heartbeat: Option<Arc<Heartbeat>>,
    ) -> Self {
        Crew {
            tail,
            store,
            postgres,
            instance,
            heartbeat,
            seats: Mutex::default(),
            tasks: Mutex::default(),
            dismissed: AtomicBool::new(false),
            kept: watch::Sender::new(false),
            hearing: OnceLock::new(),
        }
    }

    /// The seat of a partition, with a runner that begins when it is told to.
    pub(super) fn seat(&self, subscription: &Arc<Subscription>, partition: u32) -> Arc<Seat> {
        let id = PartitionId { subscriber_id: subscription.subscriber_id.clone(), partition };
        let mut seats = self.seats.lock().expect("no holder of this lock panics");
        if let Some(seat) = seats.iter().find(|seat| seat.id == id) {
            return seat.clone();
        }
        let tenure = match subscription.config.instance_mode {
            InstanceMode::Coordinated => Tenure::Lease,
            InstanceMode::SingleInstance => Tenure::Alone,
        };
        let (seat, told) = self.new_seat(subscription, partition, tenure);
        seats.push(seat.clone());
        self.tail.read();
        let runner = Runner {
            subscription: subscription.clone(),
            partition,
            tail: self.tail.clone(),
            store: self.store.clone(),
            postgres: self.postgres.clone(),
            notes: Arc::default(),
            delivery: Mutex::default(),
            instance: self.instance.clone(),
            control: told,
            status: seat.status.clone(),
            left_open: AtomicBool::new(false),
        };
        self.tasks.lock().expect("no holder of this lock panics").spawn(Arc::new(runner).run());
        seat
    }

    /// Lets a worker claim events of a shared subscriber.
    pub(super) fn share(&self, subscription: &Arc<Subscription>) {
        // The builder refuses shared subscribers elsewhere.
        let Some(postgres) = &self.postgres else { return };
        let (seat, told) = self.new_seat(subscription, 0, Tenure::Claims);
        self.seats.lock().expect("no holder of this lock panics").push(seat.clone());
        let (database, info) = (postgres.database().clone(), postgres.info().clone());
        let worker = Shared {
            subscription: subscription.clone(),
            queue: PgQueue::new(database, info, &subscription.subscriber_id),
            postgres: postgres.clone(),
            tail: self.tail.clone(),
            worker: self.instance.node.clone(),
            control: told,
            status: seat.status.clone(),
            calls: Calls::default(),
        };
        self.tasks.lock().expect("no holder of this lock panics").spawn(Arc::new(worker).run());
    }

    fn new_seat(
        &self,
        subscription: &Subscription,
        partition: u32,
        tenure: Tenure,
    ) -> (Arc<Seat>, watch::Receiver<Control>) {
        let (control, told) = watch::channel(Control { stopping: self.is_dismissed(), ..Control::default() });
        let seat = Seat {
            id: PartitionId { subscriber_id: subscription.subscriber_id.clone(), partition },
            tenure,
            partitioned: matches!(subscription.mode, SubscriberMode::Partitioned { .. }),
            control,
            status: Arc::new(Status::new(subscription.is_transactional())),
            counted: AtomicU64::new(0),
        };
        (Arc::new(seat), told)
    }

    pub(super) fn seats(&self) -> Vec<Arc<Seat>> {
        self.seats.lock().expect("no holder of this lock panics").clone()
    }

    /// Whether this is still the node of its id. Who was replaced must not go on in the term of its successor, so this is asked after the term.
    pub(super) async fn is_node(&self) -> Result<bool, SubscriberError> {
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

    /// Whether the node ends: it takes nothing more.
    pub(super) fn is_dismissed(&self) -> bool {
        self.dismissed.load(Ordering::Acquire)
    }

    /// Tells all runners to end. Returns them.
    pub(super) fn dismiss(&self) -> JoinSet<()> {
        self.dismissed.store(true, Ordering::Release);
        self.seats().iter().for_each(|seat| seat.control.send_modify(|control| control.stopping = true));
        std::mem::take(&mut *self.tasks.lock().expect("no holder of this lock panics"))
    }
}

impl Seat {
    /// The term in which this instance owns the partition.
    pub(super) fn term(&self) -> Option<u64> {
        self.control.borrow().fence.as_ref().and_then(|fence| fence.term)
    }

    /// What proves that this instance owns the partition, in a history.
    pub(super) fn fence(&self, term: u64, history: Option<History>) -> Fence {
        let PartitionId { subscriber_id, partition } = self.id.clone();
        Fence { subscriber_id, partition, term: Some(term), history }
    }

    /// Events handled since this was last asked.
    pub(super) fn count(&self) -> u64 {
        let handled = self.status.handled();
        handled.saturating_sub(self.counted.swap(handled, Ordering::Relaxed))
    }
}
