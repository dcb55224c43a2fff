//! The loop that follows the log: it waits for wake-ups, reads or takes from the feed, and proves
//! holes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use headwater_cdc::{Reach, Rest, Taken};
use headwater_core::{Backoff, Gaps, LookAhead, MAX_PAGE_SIZE, ReadError, jittered};
use tokio::sync::watch;
use tokio::time::{sleep, timeout, timeout_at};

use super::wake_ups::{ASK_HISTORY, Idle, WakeUps, Woken, any};
use super::{Tail, WakeUp, timed};
use crate::node::reading::hole_proof::{HoleProof, ProofStep};
use crate::node::reading::pages::next_size;
use crate::node::reading::ring::{Change, Ring, weight};

/// The first pause between looks for missing events. Each doubles the one before, up to the poll's
/// interval.
const FIRST_LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Pauses between tries while the database cannot be reached.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));

/// How long events behind a missing one stay in the feed: the missing event may come a moment
/// later.
const HOLE_GRACE: Duration = Duration::from_millis(2);
/// The longest time between questions who may still fill a hole.
const LONGEST_DOUBT: Duration = Duration::from_millis(100);
/// The longest time between looks into holes while nobody needs more events.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// The tail's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Read the log.
    Read,
    /// Take from the feed.
    Take(Reach),
    /// Do what is due for the holes.
    Prove,
}

#[derive(Default)]
struct Looked {
    news: bool,
    more: bool,
    /// Whether events are missing that may still come.
    holes: bool,
    /// Whether nobody needs more events yet.
    rests: bool,
    /// Whether the feed had events that follow what was seen.
    ran: bool,
    /// Whether the feed has events, but not the next one.
    hole: bool,
}

impl Tail {
    /// Follows the log until this future is dropped. `complete` tells whether every append causes a
    /// hint at present.
    pub(in crate::node) async fn follow(&self, hints: Vec<WakeUp>, complete: Option<watch::Receiver<bool>>) {
        let live = self.live.as_ref().map(|feed| feed.changes());
        let mut wake_ups = WakeUps { hints, nudges: self.nudge.subscribe(), live };
        let mut idle = Idle::new(self.poll);
        let mut step = Step::Read;
        // When the log was last read, or something new was taken. A feed that brings only known
        // events, such as one with a backlog, does not delay the poll.
        let mut fresh = Instant::now();
        let mut poll = jittered(self.poll, 0.2, rand::random());
        let mut hole_until = None;
        let mut proof = HoleProof::new(self.poll.min(LONGEST_DOUBT));
        let mut generation = self.generation();
        let mut pauses = PAUSES;
        let mut look_again = Backoff::new(FIRST_LOOK_AGAIN, self.poll);
        let mut asked = None;
        loop {
            let repairs = self.repairs.load(Ordering::Acquire);
            if *self.forgotten.borrow() < repairs {
                tracing::info!(namespace = self.log.namespace(), "rows of the log were repaired: reading them again");
                self.begin_anew(self.reading().0);
                step = Step::Read;
                self.forgotten.send_replace(repairs);
            }
            if !self.is_read.load(Ordering::Acquire) {
                wake_ups.any(false).await;
                if let Some(feed) = &self.live {
                    // Nobody takes these events: a reader that begins reads them from the log.
                    feed.take(u64::MAX, &Gaps::new(), Reach::Holes, self.reading().0);
                }
                self.changed.send_modify(|version| *version += 1);
                continue;
            }
            let checked = self.check_history(&mut asked).await;
            if generation != self.generation() {
                // The proofs belong to what was forgotten.
                (generation, proof) = (self.generation(), HoleProof::new(self.poll.min(LONGEST_DOUBT)));
            }
            let looked = match (checked, step) {
                (Err(error), _) => Err(error),
                (Ok(()), Step::Read) => self.look().await,
                (Ok(()), Step::Prove) => self.prove(&mut proof).await,
                (Ok(()), Step::Take(reach)) => match self.take_live(reach) {
                    Some(looked) => Ok(looked),
                    None => {
                        // The stream may have begun again on a server that was restarted or
                        // replaced.
                        asked = None;
                        step = Step::Read;
                        continue;
                    }
                },
            };
            let looked = match looked {
                Ok(looked) => looked,
                Err(error) => {
                    if self.connected.swap(false, Ordering::AcqRel) {
                        tracing::warn!(namespace = self.log.namespace(), %error, "failed to read the log, trying again");
                    }
                    self.failed(error);
                    asked = None;
                    step = Step::Read;
                    sleep(pauses.jittered(rand::random())).await;
                    continue;
                }
            };
            if !self.connected.swap(true, Ordering::AcqRel) {
                tracing::info!(namespace = self.log.namespace(), "reading the log again");
                *self.failure() = None;
            }
            pauses.reset();
            if step == Step::Read || looked.news {
                (fresh, poll) = (Instant::now(), jittered(self.poll, 0.2, rand::random()));
            }
            if looked.more && looked.rests {
                // Every subscriber still has many events from earlier reads to take. Holes may
                // change meanwhile.
                let pause = if looked.holes { self.poll.min(LONGEST_REST) } else { poll };
                tokio::select! {
                    () = self.until_wanted() => {}
                    () = any(std::slice::from_mut(&mut wake_ups.nudges)) => {}
                    () = sleep(pause) => {}
                }
                continue;
            }
            if looked.more {
                continue;
            }
            if let Step::Take(_) = step {
                hole_until = hole_until.filter(|_| looked.hole && !looked.ran);
            }
            if !self.live.as_ref().is_some_and(|feed| feed.is_streaming()) {
                match looked.news {
                    true => look_again.reset(),
                    false => _ = look_again.pause(),
                }
                let hints_suffice = complete.as_ref().is_some_and(|complete| *complete.borrow());
                let wait = match looked.holes {
                    true => look_again.next_pause(),
                    false if hints_suffice && !looked.news => idle.pause(asked),
                    false => poll,
                };
                let woken = timeout(wait, wake_ups.any(false)).await;
                if looked.news || looked.holes || woken.is_ok() {
                    idle = Idle::new(self.poll);
                }
                let read = woken != Ok(Woken::Live) || looked.holes || fresh.elapsed() >= self.poll;
                step = if read { Step::Read } else { Step::Take(Reach::Run) };
                continue;
            }
            if looked.hole {
                hole_until.get_or_insert_with(|| Instant::now() + HOLE_GRACE);
            }
            step = self.next_step(&mut wake_ups, &mut proof, hole_until, fresh + poll).await;
        }
    }

    /// Waits, while the feed streams, for the next step.
    async fn next_step(
        &self,
        wake_ups: &mut WakeUps,
        proof: &mut HoleProof,
        hole_until: Option<Instant>,
        poll_at: Instant,
    ) -> Step {
        loop {
            let now = Instant::now();
            let due = proof.due(self.first_hole(), now);
            let until = match due {
                _ if hole_until.is_some_and(|until| until <= now) => return Step::Take(Reach::All),
                ProofStep::AskWriters | ProofStep::LookInto(_) => return Step::Prove,
                ProofStep::Nothing | ProofStep::At(_) if poll_at <= now => return Step::Read,
                ProofStep::Nothing => poll_at,
                ProofStep::At(at) => poll_at.min(at),
            };
            let until = hole_until.map_or(until, |hole_until| hole_until.min(until));
            match timeout_at(until.into(), wake_ups.any(true)).await {
                Ok(Woken::Live) => return Step::Take(Reach::Run),
                Ok(Woken::Other) => return Step::Read,
                Err(_) => {}
            }
        }
    }

    async fn check_history(&self, asked: &mut Option<Instant>) -> Result<(), ReadError> {
        let doubted = self.doubted.swap(false, Ordering::AcqRel);
        if !doubted && asked.is_some_and(|asked| asked.elapsed() < ASK_HISTORY) {
            return Ok(());
        }
        *asked = None;
        let (known, now) = (self.reading().0, timed(self.log.history()).await?);
        *asked = Some(Instant::now());
        if known != Some(now) {
            if known.is_some() {
                tracing::info!(namespace = self.log.namespace(), "the server has another history: beginning anew");
            }
            self.begin_anew(Some(now));
        }
        Ok(())
    }

    /// The first place that is missing and may still be filled.
    fn first_hole(&self) -> Option<u64> {
        self.past().ring.as_ref()?.holes().first()
    }

    /// Takes what the feed has. `None`: the log has to be read.
    fn take_live(&self, reach: Reach) -> Option<Looked> {
        let feed = self.live.as_ref()?;
        let mut past = self.past();
        let history = past.history;
        let ring = past.ring.as_mut()?;
        // With too many holes, only the events that fill them are taken.
        let reach = if ring.is_full() { Reach::Holes } else { reach };
        let Taken { filled, events, rest } = feed.take(ring.seen(), ring.holes(), reach, history)?;
        let (fills, ran) = (!filled.is_empty(), !events.is_empty());
        let hole = rest != Rest::Nothing && reach != Reach::Holes;
        if !fills && !ran {
            return Some(Looked { holes: !ring.holes().is_empty(), hole, ..Looked::default() });
        }
        let seen = events.last().map_or(0, |event| event.sequence().get());
        let change = ring.take_partly(LookAhead { filled, events, seen, ..LookAhead::default() }, Instant::now());
        let holes = !ring.holes().is_empty();
        let more = ran && (rest == Rest::More || reach == Reach::All && rest != Rest::Nothing);
        ring.has_more(rest != Rest::Nothing);
        drop(past);
        self.note_change(&change);
        if !holes {
            self.writers.lock().expect("no holder of this lock panics").clear();
        }
        Some(Looked { news: change.news, more, holes, ran, hole, rests: false })
    }

    /// Does what is due for the holes: asks who may still fill them, or looks into those that no
    /// writer can fill any longer.
    async fn prove(&self, proof: &mut HoleProof) -> Result<Looked, ReadError> {
        let (seen, holes, history, log) = {
            let past = self.past();
            let Some(ring) = past.ring.as_ref() else { return Ok(Looked::default()) };
            (ring.seen(), ring.holes().clone(), past.history, past.log.clone())
        };
        let first = holes.first();
        match (proof.due(first, Instant::now()), first) {
            (ProofStep::AskWriters, Some(first)) => {
                let mut settled = timed(log.settled_up_to(seen)).await?;
                *self.writers.lock().expect("no holder of this lock panics") = std::mem::take(&mut settled.writers);
                proof.answered(settled.horizon, first, Instant::now());
                Ok(Looked { holes: true, ..Looked::default() })
            }
            (ProofStep::LookInto(up_to), _) => {
                let look = timed(log.in_gaps(&holes.below(up_to.saturating_add(1)), MAX_PAGE_SIZE)).await?;
                self.tell_of(&look.poison);
                proof.looked(look.filled.len());
                let settled = look.seen.min(up_to);
                let (change, holes) = {
                    let mut past = self.past();
                    let ring = past.ring.get_or_insert_default();
                    (ring.take_partly(LookAhead { settled, seen, ..look }, Instant::now()), !ring.holes().is_empty())
                };
                self.note_change(&change);
                let news = change.news;
                self.record_permanent(history, change).await;
                Ok(Looked { news, holes, ..Looked::default() })
            }
            (ProofStep::Nothing | ProofStep::At(_) | ProofStep::AskWriters, _) => {
                Ok(Looked { holes: first.is_some(), ..Looked::default() })
            }
        }
    }

    /// Tells subscribers that something has changed.
    fn note_change(&self, change: &Change) {
        if change.news {
            self.changed.send_modify(|version| *version += 1);
        }
    }

    /// Returns when somebody needs what comes after the end of the ring, or soon will.
    async fn until_wanted(&self) {
        let is_wanted = |after: &u64| self.past().ring.as_ref().is_none_or(|ring| ring.is_wanted(*after));
        // The sender lives as long as the tail.
        _ = self.wanted.subscribe().wait_for(is_wanted).await;
    }

    async fn look(&self) -> Result<Looked, ReadError> {
        let size = self.size.load(Ordering::Relaxed);
        let wanted = *self.wanted.borrow();
        let (known, history, log) = {
            let past = self.past();
            let next = |ring: &Ring| {
                // While nobody needs more events, the look covers only holes.
                let rests = !ring.is_wanted(wanted) && !ring.holes().is_empty();
                (ring.next_look(if rests { 0 } else { size }), rests)
            };
            (past.ring.as_ref().map(next), past.history, past.log.clone())
        };
        let Some((next, rests)) = known else {
            let horizon = timed(log.horizon()).await?;
            self.past().ring = Some(Ring::starting_at(horizon.horizon));
            self.changed.send_modify(|version| *version += 1);
            return Ok(Looked { news: true, more: true, ..Looked::default() });
        };
        let begun = Instant::now();
        let mut look = timed(log.look_again(next.look())).await?;
        drop(next);
        // The last look for events left more of them.
        look.more |= rests;
        self.tell_of(&look.poison);
        *self.writers.lock().expect("no holder of this lock panics") = look.writers.clone();
        if !rests {
            let bytes = look.events.iter().map(weight).sum();
            self.size.store(next_size(size, look.events.len(), bytes), Ordering::Relaxed);
        }
        let (more, filled) = (look.more, !look.filled.is_empty());
        let wanted = *self.wanted.borrow();
        let (change, holes, rests) = {
            let mut past = self.past();
            let ring = past.ring.get_or_insert_default();
            let change = ring.take(look, begun, Instant::now());
            (change, !ring.holes().is_empty(), !filled && !ring.is_wanted(wanted))
        };
        let news = change.news;
        let change = Change { news: self.nudged.swap(false, Ordering::AcqRel) | change.news, ..change };
        self.note_change(&change);
        self.record_permanent(history, change).await;
        Ok(Looked { news, more, holes, rests, ..Looked::default() })
    }
}
