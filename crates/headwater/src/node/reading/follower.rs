//! One follower: gives the events of the log in order, and says why it waits.
//!
//! Who has authority: the log. The follower keeps one number, its position, and gives only events
//! below the first place that may still be filled. So an event that commits late never comes behind
//! one that was given. A read that fails is repeated with growing pauses; the shared tail reports
//! it in the program's log.
//!
//! When the server has another history, a position alone proves nothing: other events may have the
//! same sequences there. So the follower remembers the last event at or below its position. If the
//! new history has that very event at its place, the server has handed out all sequences up to
//! there, and the follower has given every event that the server still has of them. It goes on
//! behind that event. If another event is there, or none, the follower ends with
//! [`FollowError::OtherHistory`]; if retention has dropped that part of the log, nobody can tell,
//! and it ends with [`FollowError::Trimmed`].
//!
//! States: beginning (nobody knows yet whether the position is in the log), reading, stalled (an
//! open transaction holds the log), and at the end. Memory: at most [`BATCH`] events or
//! [`BATCH_BYTES`], and followers that read the same events share them. A follower that is not
//! polled reads nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::stream::{self, StreamExt};
use headwater_core::{GapState, LogQuery, ReadError, RecordedEvent, Sequence, Writer, jittered};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::followers::{Anchor, Followers, LookedUp, Reader};
use super::ring::weight;
use super::tail::UnbrokenEnd;
use crate::follow::{FollowError, FollowQuery, Followed, Follower};

/// The most events that a follower takes at once.
const BATCH: usize = 256;
/// The most bytes that a follower takes at once. A single event may be larger.
const BATCH_BYTES: usize = 256 * 1024;
/// Sequences that a follower passes without an event before it says where it is.
const POSITION_EVERY: u64 = 1_000;
/// How long a follower at the end waits before it says where it is, if it has passed sequences
/// without an event.
const POSITION_AFTER: Duration = Duration::from_secs(1);
/// Pause between looks at who holds the log, until the follower has named somebody; then it is
/// [`LOOK_AT_WRITERS`]. A look asks the server nothing.
const LOOK_FOR_WRITERS: Duration = Duration::from_millis(20);
const LOOK_AT_WRITERS: Duration = Duration::from_secs(1);
/// How long a follower waits for the name of a writer before it says without one that the log is
/// held.
const SAY_ANYWAY: Duration = Duration::from_secs(1);
/// The first pause after a read that failed. Each further failure doubles it, up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub(in crate::node) struct Following {
    reader: Arc<Reader>,
    /// Keeps the followers alive, so that they can be closed as long as there is a follower.
    _followers: Followers,
    query: FollowQuery,
    closed: watch::Receiver<bool>,
    changes: watch::Receiver<u64>,
    /// What the user sees as the position.
    shown: Arc<AtomicU64>,
    position: u64,
    /// The last event at or below the position.
    anchor: Option<Anchor>,
    place: Option<Place>,
    /// Events that were read and are not given yet.
    batch: Batch,
    /// The position of the last item, and when it was given.
    told: (u64, Instant),
    stall: Option<Stall>,
    pause: Duration,
}

/// The history that the position belongs to, and the tail's generation in which that was checked.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    history: headwater_core::History,
    generation: u64,
}

/// Events that were read.
#[derive(Default)]
struct Batch {
    events: VecDeque<Arc<RecordedEvent>>,
    /// The position when all of them are given, and the last event at or below it.
    end: Option<(u64, Option<Anchor>)>,
}

/// What holds the log in front of the follower.
struct Stall {
    /// The first sequence that is missing.
    from: u64,
    since: Instant,
    /// The writers that were named. `None`: the follower has not said yet that it waits.
    said: Option<Vec<(Option<i32>, Option<String>)>>,
}

/// What the follower does next.
enum Step {
    Give(Followed),
    GoOn,
    /// Wait for something new, at most this long.
    Wait(Option<Duration>),
}

impl Following {
    pub(in crate::node) fn begin(followers: Followers, query: FollowQuery) -> Follower {
        let position = query.log.after;
        let shown = Arc::new(AtomicU64::new(position));
        let shows = shown.clone();
        let items = stream::once(async move {
            // Only here is there a runtime for sure.
            let reader = followers.reader();
            let (changes, closed) = (reader.tail.changes(), followers.closed());
            let following = Following {
                reader,
                _followers: followers,
                query,
                closed,
                changes,
                shown: shows,
                position,
                anchor: None,
                place: None,
                batch: Batch::default(),
                told: (position, Instant::now()),
                stall: None,
                pause: FIRST_PAUSE,
            };
            stream::unfold(Some(following), |following| async move {
                let mut following = following?;
                match following.next().await {
                    Ok(Some(item)) => Some((Ok(item), Some(following))),
                    Ok(None) => None,
                    Err(error) => Some((Err(error), None)),
                }
            })
        });
        Follower::new(items.flatten().boxed(), shown)
    }

    async fn next(&mut self) -> Result<Option<Followed>, FollowError> {
        self.query.log.validate().map_err(FollowError::Read)?;
        loop {
            if *self.closed.borrow() {
                return Ok(None);
            }
            // This comes before any look: a change from here on wakes us.
            self.changes.borrow_and_update();
            match self.step().await {
                Ok(Step::Give(item)) => {
                    self.shown.store(self.position, Ordering::Release);
                    self.told = (self.position, Instant::now());
                    return Ok(Some(item));
                }
                Ok(Step::GoOn) => {}
                Ok(Step::Wait(most)) => self.wait(most).await,
                Err(FollowError::Read(error)) if may_pass(&error) => {
                    if error.is_other_history() {
                        self.reader.tail.doubt();
                    }
                    let pause = jittered(self.pause, 0.5, rand::random());
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                    self.wait_quietly(pause).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn wait(&mut self, most: Option<Duration>) {
        let longest = async {
            match most {
                Some(most) => sleep(most).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.changes.changed() => {}
            _ = self.closed.wait_for(|closed| *closed) => {}
            () = longest => {}
        }
    }

    async fn wait_quietly(&mut self, pause: Duration) {
        tokio::select! {
            _ = self.closed.wait_for(|closed| *closed) => {}
            () = sleep(pause) => {}
        }
    }

    async fn step(&mut self) -> Result<Step, FollowError> {
        if let Some(refusal) = self.reader.tail.refusal() {
            return Err(refusal.into());
        }
        if !self.is_in_place().await? {
            return Ok(Step::Wait(None));
        }
        if let Some(event) = self.batch.events.pop_front() {
            (self.position, self.anchor) = (event.sequence().get(), Some(anchor(&event)));
            return Ok(Step::Give(Followed::Event(event)));
        }
        if let Some((end, last)) = self.batch.end.take() {
            self.position = end.max(self.position);
            self.anchor = last.or(self.anchor);
        }
        if self.position >= self.told.0 + POSITION_EVERY {
            return Ok(Step::Give(Followed::Position(as_sequence(self.position))));
        }
        let Some(unbroken_end) = self.reader.tail.unbroken_end(self.position) else { return Ok(Step::Wait(None)) };
        if unbroken_end.unbroken_to <= self.position {
            return Ok(self.at_unbroken_end(unbroken_end));
        }
        if self.stall.take().is_some_and(|stall| stall.said.is_some()) {
            return Ok(Step::Give(Followed::Resumed(as_sequence(self.position))));
        }
        self.read(unbroken_end).await
    }

    /// Nothing can be given now. Says who holds the log, or where the follower is, if it is time
    /// for that.
    fn at_unbroken_end(&mut self, unbroken_end: UnbrokenEnd) -> Step {
        let now = Instant::now();
        let mut wait = None;
        match unbroken_end.missing {
            Some((from, to)) => {
                let stall = match self.stall.take() {
                    Some(stall) if stall.said.is_some() && stall.from != from => {
                        self.stall = Some(Stall { from, since: now, said: None });
                        return Step::Give(Followed::Resumed(as_sequence(self.position)));
                    }
                    Some(stall) if stall.from == from => stall,
                    _ => Stall { from, since: now, said: None },
                };
                let stall = self.stall.insert(stall);
                let mut writers = self.reader.tail.writers();
                writers.retain(|writer| writer.above_sequence < to);
                if stall.is_due(&writers, now, self.query.stall_after) {
                    stall.said = Some(writers.iter().map(name).collect());
                    return Step::Give(Followed::Stalled { from: as_sequence(from), to: as_sequence(to), writers });
                }
                let due = self.query.stall_after.saturating_sub(now.duration_since(stall.since));
                let longest = if stall.said.is_some() { LOOK_AT_WRITERS } else { due.max(LOOK_FOR_WRITERS) };
                wait = Some(longest.min(LOOK_AT_WRITERS));
            }
            None => {
                if self.stall.take().is_some_and(|stall| stall.said.is_some()) {
                    return Step::Give(Followed::Resumed(as_sequence(self.position)));
                }
            }
        }
        if self.position > self.told.0 {
            let due = self.told.1 + POSITION_AFTER;
            if due <= now {
                return Step::Give(Followed::Position(as_sequence(self.position)));
            }
            wait = Some(wait.unwrap_or(POSITION_AFTER).min(due - now));
        }
        Step::Wait(wait)
    }

    /// Reads on, up to the unbroken end.
    async fn read(&mut self, unbroken_end: UnbrokenEnd) -> Result<Step, FollowError> {
        let (mut segment, trimmed_to) = self.reader.tail.read_on(self.position, BATCH).await?;
        if self.reader.tail.generation() != unbroken_end.generation {
            // The segment may be of another history.
            return Ok(Step::GoOn);
        }
        self.pause = FIRST_PAUSE;
        if let Some(trimmed_to) = trimmed_to
            && self.position > 0
        {
            let (position, resume_after) = (as_sequence(self.position), as_sequence(trimmed_to));
            return Err(FollowError::Trimmed { position, resume_after });
        }
        segment.end_at(unbroken_end.unbroken_to);
        if segment.seen <= self.position {
            return Ok(Step::Wait(Some(FIRST_PAUSE)));
        }
        let (mut end, mut last, mut bytes) = (segment.seen, None, 0);
        for event in segment.events {
            if bytes >= BATCH_BYTES {
                end = last.map_or(end, |last: Anchor| last.sequence);
                break;
            }
            last = Some(anchor(&event));
            if self.query.log.matches(&event) {
                bytes += weight(&event);
                self.batch.events.push_back(event);
            }
        }
        self.batch.end = Some((end, last));
        Ok(Step::GoOn)
    }

    /// Checks that the position is in the log as it is now. False: the history is not known yet.
    async fn is_in_place(&mut self) -> Result<bool, FollowError> {
        let (history, generation) = self.reader.tail.reading();
        let Some(history) = history else { return Ok(false) };
        let place = Place { history, generation };
        if self.place == Some(place) {
            return Ok(true);
        }
        // These events were read before, and may be of another history. Only events that were given
        // count.
        self.batch = Batch::default();
        match self.place {
            Some(before) if before.history == history => {}
            Some(_) => self.find_again().await?,
            None => {
                if !self.find_beginning(generation).await? {
                    return Ok(false);
                }
            }
        }
        self.place = Some(place);
        Ok(true)
    }

    /// Checks the position of a follower that begins. False: nothing was read yet.
    async fn find_beginning(&mut self, generation: u64) -> Result<bool, FollowError> {
        if self.position == 0 {
            return Ok(true);
        }
        if self.reader.tail.unbroken_end(self.position).is_none() {
            return Ok(false);
        }
        let log = self.reader.tail.log();
        if self.position > self.reader.tail.seen() {
            let head = log.horizon().await?.head;
            if self.position > head {
                return Err(self.lost(format!("the log ends at {head}")));
            }
        }
        self.anchor = match self.query.after_event {
            Some(id) => {
                let (asked, settled) = (Anchor { sequence: self.position, id }, self.reader.tail.settled());
                self.find(self.position, Some(asked), settled, &format!("event {id} is not at its place")).await?;
                Some(asked)
            }
            None => self.look_up(generation).await?,
        };
        Ok(true)
    }

    /// The server has another history. Finds the position in it, or fails.
    async fn find_again(&mut self) -> Result<(), FollowError> {
        if self.position == 0 {
            return Ok(());
        }
        let reason = "the server has another history, in which the last event at or below it is not at its place";
        let horizon = self.reader.tail.log().horizon().await?.horizon;
        let place = self.anchor.map_or(self.position, |anchor| anchor.sequence);
        self.find(place, self.anchor, horizon, reason).await?;
        // A prepared transaction outlives a server. The events that it may still commit could lie
        // before the position.
        if horizon < place {
            return Err(self.lost("the server has another history, in which events before it may still come".into()));
        }
        // In the old history, no event lay between this event and the position. In the new one,
        // there may be some.
        self.position = place;
        self.shown.store(self.position, Ordering::Release);
        self.told.0 = self.told.0.min(self.position);
        Ok(())
    }

    /// The last event at or below the position.
    async fn look_up(&self, generation: u64) -> Result<Option<Anchor>, FollowError> {
        if let Some(event) = self.reader.tail.last_event(self.position) {
            return Ok(Some(anchor(&event)));
        }
        let mut looked_up = self.reader.looked_up.lock().await;
        if let Some(known) = *looked_up
            && (known.generation, known.up_to) == (generation, self.position)
        {
            return Ok(known.anchor);
        }
        let query = LogQuery::after(0).up_to(self.position).backwards().page_size(1);
        let anchor = self.reader.tail.log().log_page(&query).await?.events.first().map(anchor);
        *looked_up = Some(LookedUp { generation, up_to: self.position, anchor });
        Ok(anchor)
    }

    /// Checks that the event that was at a place is still there, in a log that is settled up to
    /// `settled`. `expected`: that event; `None`: it is not known, so nothing can be found. Fails
    /// with `reason` if it is not there, or because the place is trimmed.
    async fn find(&self, place: u64, expected: Option<Anchor>, settled: u64, reason: &str) -> Result<(), FollowError> {
        let page = self.reader.tail.log().settled_page(place - 1, settled.max(place), 1).await?;
        if page.events.first().map(anchor).is_some_and(|there| Some(there) == expected) {
            return Ok(());
        }
        // The page begins at the place. So does what is trimmed of it, since retention drops the
        // beginning of the log.
        let trimmed = page.gaps.iter().find(|gap| gap.state == GapState::Trimmed);
        Err(match trimmed {
            Some(gap) => FollowError::Trimmed { position: as_sequence(place), resume_after: as_sequence(gap.last) },
            None => self.lost(reason.into()),
        })
    }

    fn lost(&self, reason: String) -> FollowError {
        FollowError::OtherHistory { position: as_sequence(self.position), reason }
    }
}

impl Stall {
    /// Whether it is time to say who holds the log: they have held it for long enough, and were not
    /// named yet.
    fn is_due(&self, writers: &[Writer], now: Instant, stall_after: Duration) -> bool {
        let lasting = now.duration_since(self.since);
        let known = !writers.is_empty() || lasting >= stall_after.saturating_add(SAY_ANYWAY);
        let others = |said: &Vec<_>| !writers.is_empty() && !writers.iter().map(name).eq(said.iter().cloned());
        let is_news = self.said.as_ref().is_none_or(others);
        lasting >= stall_after && known && is_news
    }
}

fn name(writer: &Writer) -> (Option<i32>, Option<String>) {
    (writer.pid, writer.transaction.clone())
}

/// Whether a read may succeed later although nobody does anything about it.
fn may_pass(error: &ReadError) -> bool {
    !matches!(error, ReadError::NamespaceNotFound(_) | ReadError::NotGranted(_) | ReadError::InvalidInput(_))
}

fn anchor(event: &RecordedEvent) -> Anchor {
    Anchor { sequence: event.sequence().get(), id: event.id }
}

fn as_sequence(sequence: u64) -> Sequence {
    Sequence::saturating(sequence)
}
