//! The runner: one partition of a subscriber on a node, from standing by to handling events and
//! back.
//!
//! Who has authority: the partition's row in the database. The keeper tells the runner, through
//! [`Control`], whether this instance owns the partition, and in which term. Every write carries
//! that term, so that an owner which does not know yet that it was replaced changes nothing. Every
//! write also carries the history in which the term was given and the events were read: a server
//! that lost the end of its log refuses what belongs to that end. No clock of this process decides
//! anything but when to try again.
//!
//! States: standing by, paused, and owning. An [`Owner`] takes a [`Turn`], in which segments of the
//! log go through the gate to the handler. What failing calls do:
//! - a handler that fails: tried again with growing pauses, then given up as the subscriber's
//!   configuration says;
//! - a dead letter or checkpoint that cannot be written: tried again until it is, or until the
//!   partition is another instance's; nothing is skipped meanwhile;
//! - a transaction that fails outside of the handler: its outcome may be unknown, so the turn ends,
//!   and the next one begins from the checkpoint as it is in the database;
//! - an event that ends its process: the owner that follows one which died writes down which events
//!   it begins, one at a time, until some are handled; an event that was begun too often is given
//!   up, as after as many failures;
//! - a write that is fenced: the turn ends, and what was not written is another owner's to deliver;
//! - a server with another history: the turn ends, the tail forgets what it has read, and the next
//!   turn begins from the checkpoint as that server has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headwater_core::{Backoff, Checkpoint, Fence, Instance, RunnerState, SubscriberError, SubscriberStore};
use headwater_postgres::{PgSubscribers, StateGuard};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::node::delivery::owner::Owner;
use crate::node::delivery::plan::SubscriptionPlan;
use crate::node::delivery::status::Status;
use crate::node::delivery::turn::Turn;
use crate::node::reading::tail::Tail;

/// How long to wait for news from the keeper before looking again.
const WORD: Duration = Duration::from_secs(1);

/// The report of a runner whose subscriber was removed.
pub(in crate::node) const REMOVED: &str =
    "the subscriber was removed: nothing is delivered until it is registered again, as a restart of this node does";

/// What the keeper tells a runner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::node) struct Control {
    /// The proof that this instance owns the partition. `None`: it does not.
    pub(in crate::node) fence: Option<Fence>,
    pub(in crate::node) paused: bool,
    /// The partition is to be given up: the runner ends its turn, and says so in
    /// [`Status::yielded`].
    pub(in crate::node) giving_up: bool,
    /// The subscriber was removed: there is nothing to own.
    pub(in crate::node) removed: bool,
    /// Changes when dead letters wait to be delivered again.
    pub(in crate::node) redrives: u64,
    pub(in crate::node) stopping: bool,
}

/// Why a turn ended.
#[derive(Debug)]
pub(in crate::node) enum Stop {
    /// The keeper said something else: see [`Control`].
    Control,
    /// The partition is another instance's.
    Fenced,
    /// The subscriber was paused by this runner.
    Paused,
    /// What this process knew of the log is no longer true.
    Anew,
    /// The next turn handles the events that this one left out.
    Again,
    /// The database failed.
    Failed(SubscriberError),
}

impl From<SubscriberError> for Stop {
    fn from(error: SubscriberError) -> Self {
        match error {
            SubscriberError::Fenced(_) | SubscriberError::NotFound(_) => Stop::Fenced,
            error if error.is_other_history() => Stop::Anew,
            error => Stop::Failed(error),
        }
    }
}

pub(in crate::node) struct Runner {
    pub(in crate::node) subscription: Arc<SubscriptionPlan>,
    pub(in crate::node) partition: u32,
    pub(in crate::node) tail: Arc<Tail>,
    pub(in crate::node) store: Arc<dyn SubscriberStore>,
    /// The subscribers in PostgreSQL, for transactional handlers and for states. `None`: the log is
    /// not in PostgreSQL.
    pub(in crate::node) postgres: Option<PgSubscribers>,
    /// Whether there may be notes of events that have changed states.
    pub(in crate::node) notes: Arc<AtomicBool>,
    pub(in crate::node) instance: Instance,
    pub(in crate::node) control: watch::Receiver<Control>,
    pub(in crate::node) status: Arc<Status>,
    /// Whether a turn of this process has ended without the database knowing it for sure.
    pub(in crate::node) left_open: AtomicBool,
}

impl Runner {
    pub(in crate::node) async fn run(self: Arc<Self>) {
        let mut control = self.control.clone();
        let mut pauses = Backoff::for_database();
        loop {
            let told = control.borrow_and_update().clone();
            if told.stopping {
                return;
            }
            if told.giving_up {
                self.status.yielded.store(true, Ordering::Release);
            }
            let Some(fence) = told.fence.filter(|_| !told.paused && !told.giving_up) else {
                let state = if told.paused { RunnerState::Paused } else { RunnerState::StandingBy };
                self.status.set(state, told.removed.then(|| REMOVED.to_owned()));
                if control.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let stop = self.own(&fence).await;
            self.status.reached.send_replace(None);
            match stop {
                Stop::Control | Stop::Again => pauses.reset(),
                Stop::Anew => {
                    pauses.reset();
                    self.tail.doubt();
                }
                Stop::Fenced | Stop::Paused => {
                    let state =
                        if matches!(stop, Stop::Paused) { RunnerState::Paused } else { RunnerState::StandingBy };
                    self.status.set(state, control.borrow().removed.then(|| REMOVED.to_owned()));
                    _ = timeout(WORD, control.changed()).await;
                }
                Stop::Failed(error) => {
                    tracing::warn!(subscriber_id = self.id(), %error, "delivery failed, trying again");
                    self.status.set(RunnerState::Disconnected, Some(error.to_string()));
                    _ = timeout(pauses.jittered(rand::random()), control.changed()).await;
                }
            }
        }
    }

    async fn own(self: &Arc<Self>, fence: &Fence) -> Stop {
        let owner = Arc::new(Owner::new(self, fence));
        let generation = match self.generation(&owner).await {
            Some(generation) => generation,
            None => return Stop::Control,
        };
        let mut turn = match self.begin(&owner, generation).await {
            Ok(turn) => turn,
            Err(stop) => return stop,
        };
        let stop = turn.run().await;
        turn.end().await;
        if matches!(stop, Stop::Fenced | Stop::Anew) {
            return stop;
        }
        if let Err(Stop::Failed(error)) = turn.write_last().await {
            tracing::warn!(subscriber_id = self.id(), %error, "failed to write the last checkpoint: its events will come again");
        }
        if self.store.end_turn(fence).await.is_ok() {
            self.left_open.store(false, Ordering::Release);
        }
        stop
    }

    /// The tail's generation, if the tail reads the history of the fence. Otherwise waits a little.
    async fn generation(&self, owner: &Owner) -> Option<u64> {
        let mut generations = self.tail.generations();
        let (history, generation) = self.tail.reading();
        if history.is_some() && history == owner.fence.history {
            return Some(generation);
        }
        // Either the tail has not begun, or it or the keeper is behind, or a server that was
        // replaced still answers.
        if history.is_some() {
            self.status.set(RunnerState::Disconnected, Some("the server has another history".into()));
            self.tail.doubt();
        }
        _ = owner.unless_stopped(timeout(WORD, generations.changed())).await;
        None
    }

    /// Begins a turn at the position that the database has for the partition.
    async fn begin(&self, owner: &Arc<Owner>, generation: u64) -> Result<Turn, Stop> {
        let fence = &owner.fence;
        let loaded: Checkpoint = self.store.load(fence).await?;
        if loaded.paused {
            return Err(Stop::Paused);
        }
        let last = self.store.begin_turn(fence, self.left_open.load(Ordering::Acquire)).await?;
        self.left_open.store(true, Ordering::Release);
        self.tail.forget_before(loaded.repairs).await;
        let (position, partition) = (loaded.position, self.partition);
        tracing::info!(subscriber_id = self.id(), partition, position, term = fence.term, "delivery begins");
        Ok(Turn::new(owner, loaded, last, generation))
    }

    pub(in crate::node) fn id(&self) -> &str {
        &self.subscription.subscriber_id
    }

    /// The right by which handlers write states as the owner.
    pub(in crate::node) fn guard(&self, fence: &Fence) -> Option<StateGuard> {
        self.postgres.as_ref().map(|postgres| postgres.delivery(fence, &self.notes))
    }
}
