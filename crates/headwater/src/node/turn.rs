//! A turn: what an owner does from taking over until it stops.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headwater_core::{
    Admitted, DeadLetterState, Event, Fault, Fence, Gaps, Gate, Groups, Hold, LastTurn, Loaded, MAX_PASSED, Progress,
    RunnerState, SubscriberError, order_key, partition_of,
};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

use super::care::CAREFUL_EVENTS;
use super::groups::FIRST_LOOK_DELAY;
use super::handler::{Batch, Each, TransactionScope, Work, guarded};
use super::late::LATE_AT_REST;
use super::limiter::Limiter;
use super::places::{Place, Places};
use super::ring::{Compared, MAX_HOLES, sequence, weight};
use super::runner::{GivenUp, Runner, Stop};
use super::tail::FAR_BEHIND;

/// Between deletions of notes of events that have changed states.
const FORGET_EVERY: Duration = Duration::from_secs(1);
/// Segments taken while the events of others are under way, in batches.
const WINDOW: usize = 10;
/// Bytes of events under way, beyond which no more are taken.
const WINDOW_BYTES: usize = 32 * 1024 * 1024;
/// Dead letters that are delivered again before events have their turn.
const REDRIVES: u32 = 100;
/// A subscriber that is further behind is catching up.
const LIVE_WITHIN: u64 = 1_000;

pub(super) struct Turn<'r> {
    pub(super) runner: &'r Arc<Runner>,
    pub(super) fence: &'r Fence,
    gate: Gate,
    /// From here on, the index by type is asked again.
    pass_types_from: u64,
    /// How many partitions the subscriber has.
    partitions: u32,
    /// The partition ends here, but for groups that go on.
    pub(super) barrier: Option<u64>,
    /// Here it ends for this turn: what waits is of some keys only, since there is no room for all.
    pub(super) narrow: Option<u64>,
    /// What is behind it, as far as these groups go.
    pub(super) beyond: Option<Gate>,
    /// Up to here, groups were settled ahead before the turn began.
    pub(super) noted_to: Option<u64>,
    pub(super) progress: Progress,
    parked: HashSet<String>,
    /// Events ahead of the checkpoint that have a dead letter already.
    pub(super) buried: HashSet<(u64, Option<Uuid>)>,
    /// Events that are still to be begun with care, after an owner that died.
    pub(super) careful: u32,
    /// The event that it had begun, and how often that was.
    pub(super) begun: Option<(Uuid, u32)>,
    /// The tail's, when the turn began.
    generation: u64,
    /// Up to what passed gaps were compared with the tail's holes.
    pub(super) compared: Option<Compared>,
    /// Parts of passed gaps in which events have come, or none will: they are looked into next.
    pub(super) resolved: Gaps,
    /// Events of the ledger that are handled at present.
    pub(super) late_in_hand: HashSet<u64>,
    /// Handled since the last checkpoint.
    pub(super) unwritten: u64,
    pub(super) unwritten_since: Option<Instant>,
    redrives_seen: u64,
    pub(super) late_at: Option<Instant>,
    /// Whether what progress notes is written already is unknown, or depends on a transaction: then it is written again as it is, or not at
    /// all.
    pub(super) in_doubt: bool,
    /// A checkpoint that is being written while events are handled. It tells how long that took.
    pub(super) writing: Option<JoinHandle<Result<Duration, Stop>>>,
    /// How long the last one took.
    pub(super) write_took: Duration,
    /// When events were last begun to be counted for the next.
    pub(super) counting_since: Instant,
    pub(super) keyed: Keyed,
    pub(super) groups: Groups,
    /// Groups are settled ahead of the checkpoint at present.
    pub(super) ahead: bool,
    /// No group can go before more events come.
    pub(super) starved: bool,
    /// What was last seen of the log is older than groups that wait.
    pub(super) stale: bool,
    /// When notes of events that have changed states may be deleted again.
    pub(super) forget_at: Instant,
    /// When to ask for another look at the log, for groups.
    pub(super) look_at: Option<Instant>,
    /// How long after that for the next.
    pub(super) look_delay: Duration,
}

/// Events under way, when those of different keys are handled at once. Their handlers are tasks: they go on while the turn waits for the
/// database, of which they may hold all connections.
#[derive(Default)]
pub(super) struct Keyed {
    running: JoinSet<Done>,
    /// What has no place yet, in order.
    placeless: VecDeque<Arc<Event>>,
    /// What waits for the event of its key that is running.
    waiting: HashMap<String, VecDeque<Placed>>,
    /// Keys whose first event waits for room.
    ready: VecDeque<String>,
    /// Bytes of all of these.
    bytes: usize,
}

impl Keyed {
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.placeless.is_empty() && self.waiting.is_empty()
    }
}

/// An event that may be handled, with its place, if there are only so many.
type Placed = (Arc<Event>, Option<Place>);

struct Done {
    key: String,
    event: Arc<Event>,
    outcome: Result<Option<GivenUp>, Stop>,
}

impl<'r> Turn<'r> {
    pub(super) fn new(
        runner: &'r Arc<Runner>,
        fence: &'r Fence,
        loaded: Loaded,
        last: LastTurn,
        generation: u64,
    ) -> Self {
        let hold_for = runner.subscription.config.hold_for;
        Turn {
            runner,
            fence,
            gate: Gate::new(loaded.position, hold_for),
            pass_types_from: 0,
            partitions: loaded.partitions,
            barrier: loaded.barrier,
            narrow: None,
            beyond: None,
            noted_to: loaded.buried.iter().map(|(sequence, _)| *sequence).max(),
            late_at: (!loaded.pending_gaps.is_empty()).then(Instant::now),
            progress: Progress::new(loaded.position, loaded.pending_gaps),
            parked: loaded.parked_keys.into_iter().collect(),
            buried: loaded.buried.into_iter().collect(),
            careful: if last.died { CAREFUL_EVENTS } else { 0 },
            begun: last.begun,
            generation,
            compared: None,
            resolved: Gaps::new(),
            late_in_hand: HashSet::new(),
            unwritten: 0,
            unwritten_since: None,
            redrives_seen: 0,
            in_doubt: false,
            writing: None,
            write_took: Duration::ZERO,
            counting_since: Instant::now(),
            keyed: Keyed::default(),
            groups: Groups::default(),
            ahead: false,
            starved: true,
            stale: false,
            forget_at: Instant::now(),
            look_at: None,
            look_delay: FIRST_LOOK_DELAY,
        }
    }

    pub(super) async fn run(&mut self) -> Stop {
        let mut changes = self.runner.tail.changes();
        self.publish();
        loop {
            if let Err(stop) = self.step(&mut changes).await {
                return stop;
            }
        }
    }

    async fn step(&mut self, changes: &mut watch::Receiver<u64>) -> Result<(), Stop> {
        self.runner.may_go_on(self.fence)?;
        if self.runner.tail.generation() != self.generation {
            return Err(Stop::Anew);
        }
        self.redrive_if_asked().await?;
        if self.late_at.is_some_and(|at| at <= Instant::now()) {
            self.compared = None;
        }
        if self.narrow.is_some() {
            // What comes late may be of other keys, and goes before what follows it.
            self.compare_passed();
            if self.groups.is_empty() || !self.resolved.is_empty() {
                return Err(Stop::Again);
            }
        } else if self.late_at.is_some() {
            self.deliver_late(u64::MAX).await?;
        }
        changes.borrow_and_update();
        let before = self.reached();
        let had_groups = self.has_groups();
        let hold = match self.has_room() && !had_groups {
            true if self.goes_beyond() => self.take_beyond().await?,
            true => self.take().await?,
            false => None,
        };
        let moved = self.reached() > before;
        let finished = self.collect_done()? | self.handle_groups().await?;
        self.publish();
        self.write_if_due().await?;
        self.forget_notes().await?;
        self.forget_applied().await;
        if moved || finished || had_groups && self.starved {
            self.look_delay = FIRST_LOOK_DELAY;
            tokio::task::consume_budget().await;
            return Ok(());
        }
        self.note_state(hold.as_ref());
        self.finish_writing().await?;
        self.ask_for_look();
        self.wait(changes, hold).await
    }

    pub(super) fn has_room(&self) -> bool {
        if self.group_by().is_some() {
            return self.has_room_for_groups();
        }
        self.progress.under_way() <= WINDOW * self.runner.subscription.config.catch_up_batch_size as usize
            && self.keyed.bytes <= WINDOW_BYTES
    }

    /// Takes the next segment through the gate to the handler.
    async fn take(&mut self) -> Result<Option<Hold>, Stop> {
        if self.pass_types().await? {
            return Ok(None);
        }
        let segment = self.runner.tail.segment(self.gate.position(), self.segment_size()).await;
        let mut segment = segment.map_err(|error| Stop::from(SubscriberError::Read(error)))?;
        if let Some(barrier) = self.barrier {
            segment.end_at(barrier);
        }
        let now = Instant::now().into_std();
        let (admitted, hold) = self.gate.admit(&segment, self.progress.ledger(), now);
        admitted.iter().for_each(|event| self.progress.admit(event));
        if !admitted.is_empty() {
            let state = if self.is_live() { RunnerState::Live } else { RunnerState::CatchingUp };
            self.runner.status.set(state, None);
        }
        if self.late_at.is_none() && self.progress.has_passed() {
            self.late_at = Some(Instant::now() + LATE_AT_REST);
        }
        // What the streams of these events had before may have come in a gap that was passed: it goes first.
        if self.group_by().is_some() {
            if !admitted.is_empty() {
                self.deliver_late(u64::MAX).await?;
            }
            self.gather(admitted, &segment);
            self.groups.note_end(&segment, self.gate.position(), hold.is_some());
        } else {
            self.handle_in_order(admitted).await?;
        }
        if hold.is_none() {
            self.progress.reach(self.gate.position());
            self.note_unwritten();
        }
        Ok(hold)
    }

    /// Passes events of types that the subscriber did not ask for, where it is far behind and the log has an index by type: they are counted, and not read.
    async fn pass_types(&mut self) -> Result<bool, Stop> {
        let position = self.gate.position();
        let types = self.runner.subscription.filter.types();
        let is_free = self.progress.under_way() == 0 && self.barrier.is_none() && self.group_by().is_none();
        if types.is_empty() || !is_free || position < self.pass_types_from {
            return Ok(false);
        }
        let passed = self.runner.tail.pass_types(position, types).await;
        let Some(passed) = passed.map_err(|error| Stop::from(SubscriberError::Read(error)))? else {
            // There is no index, or one of its types is near.
            self.pass_types_from = position.saturating_add(FAR_BEHIND);
            return Ok(false);
        };
        self.gate.pass_over(passed.up_to);
        self.progress.pass_over(&passed);
        self.note_unwritten();
        self.runner.status.set(RunnerState::CatchingUp, None);
        Ok(true)
    }

    /// Whether the subscriber is where the log ends, as far as is known here.
    fn is_live(&self) -> bool {
        let tail = &self.runner.tail;
        tail.is_at_end() && tail.seen().saturating_sub(self.gate.position()) <= LIVE_WITHIN
    }

    /// Handles events. What has come in a gap meanwhile goes before those behind it, and after those before it, where they are handled one after the other.
    ///
    /// Before each, passed gaps are compared with what the tail knows, which has looked into all of them after it has seen these events. That costs nothing while
    /// no hole has changed.
    async fn handle_in_order(&mut self, mut admitted: Vec<Admitted>) -> Result<(), Stop> {
        let one_by_one = match &self.runner.subscription.work {
            Work::Each(_) => self.runner.subscription.config.concurrency <= 1,
            Work::Batch(_) => false,
            Work::Transaction(_, scope) => *scope == TransactionScope::Event,
        };
        while let Some(first) = admitted.first().map(|admitted| sequence(&admitted.event)) {
            self.deliver_late(first).await?;
            let behind_gap = admitted.iter().skip(1).position(|admitted| admitted.passed.is_some());
            let rest = behind_gap.filter(|_| one_by_one).map_or(admitted.len(), |at| at + 1);
            let behind = admitted.split_off(rest);
            self.handle(admitted).await?;
            admitted = behind;
        }
        Ok(())
    }

    pub(super) async fn handle(&mut self, admitted: Vec<Admitted>) -> Result<(), Stop> {
        let hashes = (self.partitions > 1).then(|| self.runner.subscription.hashes.of(&admitted));
        let mut events = Vec::new();
        for (at, Admitted { event, .. }) in admitted.into_iter().enumerate() {
            let is_ours = hashes.as_ref().is_none_or(|hashes| hashes[at] % self.partitions == self.runner.partition);
            if !is_ours || !self.runner.subscription.filter.wants(&event) {
                self.progress.done(sequence(&event));
                self.note_unwritten();
            } else if self.is_buried(&event) {
                self.done(&event);
            } else {
                events.push(event);
            }
        }
        if events.is_empty() {
            return Ok(());
        }
        if self.careful > 0 {
            return self.handle_with_care(events).await;
        }
        match &self.runner.subscription.work {
            Work::Each(handler) if self.runner.subscription.config.concurrency > 1 => {
                self.keyed.bytes += events.iter().map(|event| weight(event)).sum::<usize>();
                self.keyed.placeless.extend(events);
                self.start(&handler.clone());
                Ok(())
            }
            Work::Each(handler) => self.handle_one_by_one(&**handler, events).await,
            Work::Batch(handler) => self.handle_batch(&**handler, events).await,
            Work::Transaction(handler, scope) => self.handle_in_transactions(&**handler, *scope, events).await,
        }
    }

    /// How far the log was read.
    pub(super) fn reached(&self) -> u64 {
        self.beyond.as_ref().unwrap_or(&self.gate).position()
    }

    /// Where the partition ends, or where this turn does.
    pub(super) fn bound(&self) -> Option<u64> {
        self.narrow.or(self.barrier)
    }

    pub(super) fn is_at_barrier(&self) -> bool {
        self.bound().is_some_and(|bound| self.gate.position() >= bound)
    }

    /// Whether an event is the subscriber's, and of this partition.
    pub(super) fn wants(&self, event: &Event) -> bool {
        self.runner.subscription.filter.wants(event)
            && (self.partitions <= 1 || partition_of(&order_key(event), self.partitions) == self.runner.partition)
    }

    /// Whether an event ahead of the checkpoint was settled before the turn began. Another that has its sequence was not.
    pub(super) fn is_buried(&self, event: &Event) -> bool {
        let sequence = sequence(event);
        !self.buried.is_empty()
            && (self.buried.contains(&(sequence, Some(event.id))) || self.buried.contains(&(sequence, None)))
    }

    async fn handle_one_by_one(&mut self, handler: &dyn Each, events: Vec<Arc<Event>>) -> Result<(), Stop> {
        for event in events {
            if !self.park_behind(&event).await? {
                let place = self.place().await?;
                self.granted(|limiter| limiter.take(1)).await?;
                let (runner, fence) = (self.runner, self.fence);
                let given_up =
                    self.writing_meanwhile(runner.deliver_granted(handler, fence, &event, Vec::new())).await?;
                self.settle_placed(given_up, place);
                self.done(&event);
            }
            self.write_if_due().await?;
            self.runner.may_go_on(self.fence)?;
        }
        Ok(())
    }

    /// Waits until there is a place for another event, if there are only so many.
    pub(super) async fn place(&mut self) -> Result<Option<Place>, Stop> {
        let Some(places) = self.runner.subscription.places.clone() else { return Ok(None) };
        if let Some(place) = places.take() {
            return Ok(Some(place));
        }
        self.write().await?;
        self.runner.unless_stopped(self.fence, places.next()).await.map(Some)
    }

    /// The place of an event that was given up is the next one's.
    pub(super) fn settle_placed(&mut self, given_up: Option<GivenUp>, place: Option<Place>) {
        match given_up {
            Some(GivenUp(parks)) => self.park(parks),
            None => place.into_iter().for_each(Place::use_up),
        }
    }

    /// Waits until the rate limit allows what is asked of it. Progress is written meanwhile, when it is time.
    pub(super) async fn granted(&mut self, ask: impl Fn(&Limiter) -> Result<usize, Instant>) -> Result<usize, Stop> {
        loop {
            let at = match ask(&self.runner.subscription.limiter) {
                Ok(events) => return Ok(events),
                Err(at) => at,
            };
            let until = self.write_deadline().map_or(at, |deadline| at.min(deadline));
            self.runner.rest(self.fence, until.saturating_duration_since(Instant::now())).await?;
            if self.is_write_due() {
                self.write().await?;
            }
        }
    }

    async fn handle_batch(&mut self, handler: &dyn Batch, mut events: Vec<Arc<Event>>) -> Result<(), Stop> {
        while !events.is_empty() {
            let first = self.place().await?;
            let fit = self.runner.subscription.fit_together(events.iter().map(|event| weight(event)));
            let places = self.runner.subscription.places_for(fit, first);
            let most = if self.runner.subscription.places.is_some() { places.len() } else { fit };
            let granted = self.granted(|limiter| limiter.take(most)).await?;
            let rest = events.split_off(granted);
            self.handle_granted_batch(handler, events, places).await?;
            self.runner.may_go_on(self.fence)?;
            events = rest;
        }
        Ok(())
    }

    /// A batch that fails is tried again one by one, so that only the events that fail are given up.
    async fn handle_granted_batch(
        &mut self,
        handler: &dyn Batch,
        events: Vec<Arc<Event>>,
        mut places: Vec<Place>,
    ) -> Result<(), Stop> {
        places.truncate(events.len());
        if !events.iter().any(|event| self.is_parked(event)) {
            let limit = self.runner.subscription.config.handler_timeout;
            let handling = self.runner.delivering(self.fence, handler.handle(&events, &[]));
            match self.writing_meanwhile(async { Ok(guarded(handling, limit).await) }).await? {
                Ok(()) => {
                    places.into_iter().for_each(Place::use_up);
                    events.iter().for_each(|event| self.done(event));
                    return self.write_if_due().await;
                }
                Err(error) if error.is_not_handled() => {}
                Err(error) => {
                    tracing::warn!(subscriber_id = self.runner.id(), %error, "failed to handle a batch: trying its events one by one");
                }
            }
        }
        drop(places);
        self.handle_one_by_one(&OneByOne(handler), events).await
    }

    pub(super) fn is_parked(&self, event: &Event) -> bool {
        !self.parked.is_empty() && self.parked.contains(&order_key(event))
    }

    /// Puts the event behind a dead letter of its key, if there is one. Returns whether there was.
    pub(super) async fn park_behind(&mut self, event: &Arc<Event>) -> Result<bool, Stop> {
        if !self.is_parked(event) {
            return Ok(false);
        }
        self.runner.bury(self.fence, event, DeadLetterState::Parked, false, Vec::new()).await?;
        self.done(event);
        Ok(true)
    }

    /// Later events of this key wait.
    pub(super) fn park(&mut self, key: Option<String>) {
        self.parked.extend(key);
    }

    /// Notes that an event is settled.
    pub(super) fn done(&mut self, event: &Event) {
        self.progress.done(sequence(event));
        self.note_handled();
    }

    pub(super) fn note_handled(&mut self) {
        self.unwritten += 1;
        self.note_unwritten();
        self.runner.status.count(1);
    }

    pub(super) fn note_unwritten(&mut self) {
        self.unwritten_since.get_or_insert_with(Instant::now);
    }

    /// Gives events their places, in order, and starts them.
    fn start(&mut self, handler: &Arc<dyn Each>) {
        let places = self.runner.subscription.places.clone();
        while !self.keyed.placeless.is_empty() {
            let place = places.as_ref().and_then(Places::take);
            if places.is_some() && place.is_none() {
                break;
            }
            let Some(event) = self.keyed.placeless.pop_front() else { break };
            let key = order_key(&event);
            match self.keyed.waiting.get_mut(&key) {
                Some(waiting) => waiting.push_back((event, place)),
                None => {
                    self.keyed.waiting.insert(key.clone(), VecDeque::from([(event, place)]));
                    self.keyed.ready.push_back(key);
                }
            }
        }
        self.fill(handler);
    }

    /// Starts events of ready keys while there is room.
    fn fill(&mut self, handler: &Arc<dyn Each>) {
        while self.keyed.running.len() < self.runner.subscription.config.concurrency as usize {
            let Some(key) = self.keyed.ready.pop_front() else { return };
            let next = self.keyed.waiting.get_mut(&key).and_then(VecDeque::pop_front);
            let Some((event, place)) = next else { continue };
            let (runner, fence, handler) = (self.runner.clone(), self.fence.clone(), handler.clone());
            let parked = self.parked.contains(&key);
            self.keyed.running.spawn(async move {
                let outcome = if parked {
                    let buried = runner.bury(&fence, &event, DeadLetterState::Parked, false, Vec::new()).await;
                    buried.map(|()| Some(GivenUp(None)))
                } else {
                    runner.deliver(&*handler, &fence, &event).await
                };
                if matches!(outcome, Ok(None)) {
                    place.into_iter().for_each(Place::use_up);
                }
                Done { key, event, outcome }
            });
        }
    }

    /// Notes what is done by now, without waiting. Returns whether anything was.
    fn collect_done(&mut self) -> Result<bool, Stop> {
        let mut any = false;
        while let Some(done) = self.keyed.running.try_join_next() {
            self.settle_keyed(done)?;
            any = true;
        }
        Ok(any)
    }

    fn settle_keyed(&mut self, done: Result<Done, JoinError>) -> Result<(), Stop> {
        let Done { key, event, outcome } = done.map_err(ended)?;
        self.park(outcome?.and_then(|given_up| given_up.0));
        self.done(&event);
        self.late_in_hand.remove(&sequence(&event));
        self.keyed.bytes -= weight(&event);
        match self.keyed.waiting.get(&key).map(VecDeque::is_empty) {
            Some(true) => _ = self.keyed.waiting.remove(&key),
            Some(false) => self.keyed.ready.push_back(key),
            None => {}
        }
        if let Work::Each(handler) = &self.runner.subscription.work {
            self.start(&handler.clone());
        }
        Ok(())
    }

    /// Waits for the events under way to be settled: what comes next may be of their keys.
    async fn end_running(&mut self) -> Result<(), Stop> {
        while let Some(done) = self.keyed.running.join_next().await {
            self.settle_keyed(done)?;
            self.runner.may_go_on(self.fence)?;
        }
        Ok(())
    }

    /// When the turn has ended: lets the events at hand end, and begins no others.
    pub(super) async fn end(&mut self) {
        self.keyed.ready.clear();
        while let Some(done) = self.keyed.running.join_next().await {
            if let Ok(Done { event, outcome: Ok(_), .. }) = done {
                self.done(&event);
            }
        }
        // What it returns shows in whether the last checkpoint is in doubt.
        _ = self.finish_writing().await;
    }

    async fn redrive_if_asked(&mut self) -> Result<(), Stop> {
        let asked = self.runner.control.borrow().redrives;
        if asked == self.redrives_seen {
            return Ok(());
        }
        self.redrives_seen = asked;
        loop {
            let letters = self.runner.insist(self.fence, || self.runner.store.redrives(self.fence, REDRIVES)).await?;
            if letters.is_empty() {
                return Ok(());
            }
            self.end_running().await?;
            let mut failed: HashSet<String> = HashSet::new();
            let mut keys: HashSet<String> = HashSet::new();
            for letter in letters {
                if letter.parks_key || letter.state == DeadLetterState::Parked {
                    keys.insert(letter.order_key.clone());
                }
                if failed.contains(&letter.order_key) {
                    continue;
                }
                if !self.redrive(&letter).await? {
                    failed.insert(letter.order_key);
                }
                self.runner.may_go_on(self.fence)?;
            }
            for key in keys {
                if !self.runner.insist(self.fence, || self.runner.store.is_parked(self.fence, &key)).await? {
                    self.parked.remove(&key);
                }
            }
            // What waited behind those is free now, and more may have come.
            if !failed.is_empty() {
                return Ok(());
            }
        }
    }

    pub(super) fn publish(&self) {
        let reached = (self.progress.position(), self.progress.ledger());
        self.runner.status.reached.send_if_modified(|present| {
            let news = present.as_ref().is_none_or(|(position, ledger)| (*position, ledger) != reached);
            if news {
                *present = Some((reached.0, reached.1.clone()));
            }
            news
        });
    }

    /// Deletes notes of events that have changed states, once the checkpoint has passed them. Notes that are left do no harm.
    async fn forget_applied(&mut self) {
        let Some(postgres) = &self.runner.postgres else { return };
        if self.forget_at > Instant::now() || !self.runner.notes.swap(false, Ordering::AcqRel) {
            return;
        }
        self.forget_at = Instant::now() + FORGET_EVERY;
        if let Err(error) = postgres.forget_applied(self.runner.id()).await {
            self.runner.notes.store(true, Ordering::Release);
            tracing::warn!(subscriber_id = self.runner.id(), %error, "failed to delete notes of events that have changed states");
        }
    }

    fn note_state(&self, hold: Option<&Hold>) {
        let status = &self.runner.status;
        match hold {
            Some(Hold { first, last, ledger_is_full: true, .. }) => status.set(
                RunnerState::Held,
                Some(format!(
                    "global_sequence {first} to {last} is missing, and {MAX_PASSED} gaps were passed already: waits until one of {} ends",
                    self.names_of(u64::MAX)
                )),
            ),
            Some(Hold { first, last, .. }) => {
                let by = self.names_of(*last);
                status.set(
                    RunnerState::Held,
                    Some(format!("global_sequence {first} to {last} may still be committed by {by}")),
                );
            }
            None if !self.runner.tail.is_connected() => status.set(RunnerState::Disconnected, None),
            None if self.runner.tail.is_full() => status.set(
                RunnerState::Held,
                Some(format!(
                    "more than {MAX_HOLES} events may still be committed: the log is read on when one of {} ends",
                    self.names_of(u64::MAX)
                )),
            ),
            None if !self.keyed.running.is_empty() => {}
            None if self.is_live() => status.set(RunnerState::Live, None),
            None => status.set(RunnerState::CatchingUp, None),
        }
    }

    /// Who may still commit something below a sequence.
    fn names_of(&self, below: u64) -> String {
        let writers = self.runner.tail.writers();
        let names: Vec<_> = writers.iter().filter(|writer| writer.above_sequence < below).map(name_of).collect();
        if names.is_empty() { "a transaction that has just ended".into() } else { names.join(", ") }
    }

    async fn wait(&mut self, changes: &mut watch::Receiver<u64>, hold: Option<Hold>) -> Result<(), Stop> {
        let mut control = self.runner.control.clone();
        control.mark_unchanged();
        // What the keeper said between the last look and now must not be slept through.
        self.runner.may_go_on(self.fence)?;
        if control.borrow().redrives != self.redrives_seen {
            return Ok(());
        }
        let mut hold_until = hold.and_then(|hold| hold.until).map(Instant::from_std);
        if hold_until.is_some_and(|until| until <= Instant::now()) {
            // Nobody has looked since: the gap may have been filled by now.
            self.runner.tail.nudge();
            hold_until = None;
        }
        let unwritten = self.unwritten_since.and(self.write_deadline());
        let until = [hold_until, unwritten, self.late_at, self.look_at].into_iter().flatten().min();
        let alarm = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let has_room = self.has_room();
        let mut places = self.runner.subscription.places.as_ref().map(|places| places.changes());
        let a_place = async {
            match &mut places {
                Some(places) => _ = places.wait_for(|left| *left > 0).await,
                None => std::future::pending().await,
            }
        };
        let placeless = !self.keyed.placeless.is_empty();
        let done = tokio::select! {
            Some(done) = self.keyed.running.join_next() => Some(done),
            _ = changes.changed(), if has_room => None,
            _ = control.changed() => None,
            () = alarm => None,
            () = a_place, if placeless => {
                if let Work::Each(handler) = &self.runner.subscription.work {
                    self.start(&handler.clone());
                }
                None
            }
        };
        done.map_or(Ok(()), |done| self.settle_keyed(done))
    }
}

/// A task that did not end by itself: the runtime is shutting down.
pub(super) fn ended(error: JoinError) -> Stop {
    let fault = Fault { message: format!("a task of the subscriber ended: {error}"), retryable: true, source: None };
    Stop::Failed(SubscriberError::Unavailable(fault))
}

/// A batch handler, given its events one by one.
pub(super) struct OneByOne<'h>(pub(super) &'h dyn Batch);

#[async_trait::async_trait]
impl Each for OneByOne<'_> {
    async fn handle(&self, event: &Arc<Event>, redeliveries: u32) -> Result<(), headwater_core::HandlerError> {
        self.0.handle(std::slice::from_ref(event), &[redeliveries]).await
    }
}

fn name_of(writer: &headwater_core::Writer) -> String {
    let who = writer.application_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("unknown");
    // Not its age, which would be that of the last look at a quiet log.
    let since = writer.started_at.map(|at| format!(", since {}", at.format("%F %T UTC"))).unwrap_or_default();
    match writer.pid {
        Some(pid) => format!("pid {pid} ({who}{since})"),
        None => format!("{who}{since}"),
    }
}
