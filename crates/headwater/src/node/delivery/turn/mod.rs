//! A turn: what an owner does from taking over until it stops.
//!
//! It takes segments of the log through the gate ([`Cursor`]). It hands events to the handler by
//! the subscription's strategy (`strategies.rs`: one by one, by keys at once, in batches, in
//! transactions, in bundles), and settles them in a checkpoint ([`Checkpoints`]). Events that
//! committed in passed gaps go before the events behind them ([`LateEvents`]). [`Turn::step`] is
//! the loop, from top to bottom.

mod bundling;
mod care;
mod checkpoints;
mod cursor;
mod keyed;
mod late;
mod past_barrier;
mod redrive;
mod settle;
mod state;
mod strategies;
mod take;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headwater_core::{Checkpoint, Fault, Hold, LastTurn, RecordedEvent, SubscriberError, order_key};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::Instant;
use uuid::Uuid;

use self::bundling::Bundling;
use self::care::Care;
use self::checkpoints::Checkpoints;
use self::cursor::Cursor;
use self::keyed::Keyed;
use self::late::LateEvents;
use crate::node::delivery::owner::{GivenUp, Owner};
use crate::node::delivery::runner::Stop;

/// The time between deletions of notes of events that have changed states.
const FORGET_EVERY: Duration = Duration::from_secs(1);

pub(in crate::node) struct Turn {
    owner: Arc<Owner>,
    /// Where the log is read.
    cursor: Cursor,
    /// Events that committed in passed gaps.
    late: LateEvents,
    /// Events that are handled at once, one of each key.
    keyed: Keyed,
    /// Events that wait for the rest of their bundles.
    bundling: Bundling,
    /// Which events are settled, and how that is written.
    checkpoints: Checkpoints,
    /// How carefully the turn begins its first events, after an owner that died.
    care: Care,
    /// Keys whose later events wait behind a dead letter.
    parked: HashSet<String>,
    /// Events ahead of the checkpoint that were settled before the turn began.
    settled_before: SettledBefore,
    redrives_seen: u64,
    /// When notes of events that have changed states may be deleted again.
    forget_at: Instant,
}

impl Turn {
    pub(in crate::node) fn new(owner: &Arc<Owner>, loaded: Checkpoint, last: LastTurn, generation: u64) -> Self {
        Turn {
            owner: owner.clone(),
            cursor: Cursor::new(&loaded, owner.plan().config.hold_for, generation),
            late: LateEvents::new(!loaded.pending_gaps.is_empty()),
            keyed: Keyed::default(),
            bundling: Bundling::new(&owner.plan().work, &loaded),
            checkpoints: Checkpoints::new(owner, loaded.position, loaded.pending_gaps),
            care: Care::after(&last),
            parked: loaded.parked_keys.into_iter().collect(),
            settled_before: SettledBefore(loaded.buried.into_iter().collect()),
            redrives_seen: 0,
            forget_at: Instant::now(),
        }
    }

    pub(in crate::node) async fn run(&mut self) -> Stop {
        let mut changes = self.owner.runner.tail.changes();
        self.checkpoints.publish();
        loop {
            if let Err(stop) = self.step(&mut changes).await {
                return stop;
            }
        }
    }

    /// One round of the loop. It waits at its end if there was nothing to do.
    async fn step(&mut self, changes: &mut watch::Receiver<u64>) -> Result<(), Stop> {
        self.owner.may_go_on()?;
        if self.owner.runner.tail.generation() != self.cursor.generation {
            return Err(Stop::Anew);
        }
        self.redrive_if_asked().await?;
        self.deliver_what_came_late().await?;
        changes.borrow_and_update();
        let before = self.cursor.reached();
        let had_bundles = self.has_bundles();
        let hold = match self.has_room() && !had_bundles {
            true if self.goes_past_barrier() => self.take_past_barrier().await?,
            true => self.take().await?,
            false => None,
        };
        let moved = self.cursor.reached() > before;
        let finished = self.collect_done()? | self.handle_bundles().await?;
        self.checkpoints.publish();
        self.checkpoints.write_if_due().await?;
        self.forget_notes().await;
        if moved || finished || had_bundles && self.bundling.starved {
            self.bundling.looks.reset();
            tokio::task::consume_budget().await;
            return Ok(());
        }
        self.note_state(hold.as_ref());
        self.checkpoints.finish_writing().await?;
        self.ask_for_look();
        self.wait(changes, hold).await
    }

    async fn deliver_what_came_late(&mut self) -> Result<(), Stop> {
        if self.late.is_due() {
            self.late.compare_all();
        }
        if self.cursor.narrow.is_some() {
            // Late events may be of other keys, and go before the events behind them.
            self.compare_passed();
            if self.bundling.waiting.is_empty() || !self.late.resolved.is_empty() {
                return Err(Stop::Again);
            }
        } else if self.late.due_at.is_some() {
            self.deliver_late(u64::MAX).await?;
        }
        Ok(())
    }

    async fn wait(&mut self, changes: &mut watch::Receiver<u64>, hold: Option<Hold>) -> Result<(), Stop> {
        let owner = self.owner.clone();
        let mut control = owner.runner.control.clone();
        control.mark_unchanged();
        // Do not sleep through what the keeper said between the last look and now.
        owner.may_go_on()?;
        if control.borrow().redrives != self.redrives_seen {
            return Ok(());
        }
        let mut hold_until = hold.and_then(|hold| hold.until).map(Instant::from_std);
        if hold_until.is_some_and(|until| until <= Instant::now()) {
            // Nobody has looked since then: the gap may be filled already.
            owner.runner.tail.nudge();
            hold_until = None;
        }
        let unwritten = self.checkpoints.write_deadline();
        let alarms = [hold_until, unwritten, self.late.due_at, self.bundling.look_at];
        let has_room = self.has_room();
        let waits_for_permit = self.keyed.waits_for_permit();
        let permits = owner.plan().allowance.as_ref();
        let done = tokio::select! {
            Some(done) = self.keyed.running.join_next() => Some(done),
            _ = changes.changed(), if has_room => None,
            _ = control.changed() => None,
            () = until(alarms.into_iter().flatten().min()) => None,
            () = keyed::permit_left(permits), if waits_for_permit => {
                self.start();
                None
            }
        };
        done.map_or(Ok(()), |done| self.settle_keyed(done))
    }

    /// At the end of the turn: lets the running events end, and begins no others.
    pub(in crate::node) async fn end(&mut self) {
        self.end_keyed().await;
        // Its result shows in whether the last checkpoint is in doubt.
        _ = self.checkpoints.finish_writing().await;
    }

    /// At the end of the turn, tries once to write the remaining progress.
    pub(in crate::node) async fn write_last(&mut self) -> Result<(), Stop> {
        self.checkpoints.write_last().await
    }

    /// Deletes notes that the checkpoint has passed. Notes that are left do no harm: the next time
    /// deletes them.
    async fn forget_notes(&mut self) {
        self.forget_settled_ahead().await;
        let runner = &self.owner.runner;
        let Some(postgres) = &runner.postgres else { return };
        if self.forget_at > Instant::now() || !runner.notes.swap(false, Ordering::AcqRel) {
            return;
        }
        self.forget_at = Instant::now() + FORGET_EVERY;
        if let Err(error) = postgres.forget_applied(runner.id()).await {
            runner.notes.store(true, Ordering::Release);
            tracing::warn!(subscriber_id = runner.id(), %error, "failed to delete notes of events that have changed states");
        }
    }

    fn is_parked(&self, event: &RecordedEvent) -> bool {
        !self.parked.is_empty() && self.parked.contains(&order_key(event))
    }

    /// Puts the event behind a dead letter of its key, if there is one. Returns whether there was.
    async fn park_behind(&mut self, event: &Arc<RecordedEvent>) -> Result<bool, Stop> {
        if !self.is_parked(event) {
            return Ok(false);
        }
        self.owner.park(std::slice::from_ref(event)).await?;
        self.checkpoints.done(event);
        Ok(true)
    }

    /// Makes later events of the key wait, if the event that was given up parks its key.
    fn park_key(&mut self, GivenUp(key): GivenUp) {
        self.parked.extend(key);
    }
}

/// A set of events: by sequence, and by id where the id is known.
struct SettledBefore(HashSet<(u64, Option<Uuid>)>);

impl SettledBefore {
    /// Whether an event is among them. Another event that has its sequence is not.
    fn has(&self, event: &RecordedEvent) -> bool {
        let SettledBefore(settled) = self;
        let sequence = event.sequence().get();
        !settled.is_empty() && (settled.contains(&(sequence, Some(event.id))) || settled.contains(&(sequence, None)))
    }
}

/// A task that did not end by itself: the runtime is shutting down.
fn ended(error: JoinError) -> Stop {
    let fault = Fault { message: format!("a task of the subscriber ended: {error}"), retryable: true, source: None };
    Stop::Failed(SubscriberError::Unavailable(fault))
}

async fn until(alarm: Option<Instant>) {
    match alarm {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
