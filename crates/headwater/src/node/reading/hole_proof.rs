//! Holes in the events from the WAL: when to ask who may still fill them, and when to look into
//! them.
//!
//! A hole lies below an event that was seen, so its place was handed out before that event's. The
//! transaction that got it took its lock first, and keeps the lock until it has ended and what it
//! committed is visible. So the proof takes two steps, in this order:
//!
//! 1. Ask for the locks. At or below the lowest one, every writer has ended. This reads no events.
//! 2. Look into the holes up to there, in a later statement. An event that is not there was rolled
//!    back, and is missing for ever. This reads only rows in the holes, so it reads nothing if they
//!    are permanent.
//!
//! Between the two steps, the WAL gets time to bring the committed events, so that only rolled-back
//! places are left to look into. That time decides what a proof costs, and never what it says. If
//! it is too short, rows are read that were about to come. If it is too long, the events behind a
//! rollback wait. So the time is learned: it grows when a look has found something, and shrinks
//! when it has not.
//!
//! The stream itself proves nothing here. It may lack an event (a row that it could not decode, a
//! table that is not published) without a notice to anybody. The second step finds that event.

use std::time::{Duration, Instant};

use headwater_core::Backoff;

/// The first pause between questions. It doubles while the answer is that the writer of the first
/// hole still lives.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// How long the WAL gets at first to bring the committed events.
const FIRST_GRACE: Duration = Duration::from_millis(4);
const SHORTEST_GRACE: Duration = Duration::from_millis(1);
const LONGEST_GRACE: Duration = Duration::from_millis(50);

/// What is known about the holes of one generation of the tail.
#[derive(Debug)]
pub(in crate::node) struct HoleProof {
    /// Every writer at or below this sequence has ended, and this is when to look into the holes up
    /// to there.
    ended: Option<(u64, Instant)>,
    /// When the last question was asked, and about which first hole.
    asked: Option<(Instant, u64)>,
    /// Pauses between questions.
    pauses: Backoff,
    grace: Duration,
}

/// The next step for the holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::node) enum ProofStep {
    /// There are no holes.
    Nothing,
    /// The next step is due at this time.
    At(Instant),
    /// Ask which writers may still fill them.
    AskWriters,
    /// Look into the holes at or below this sequence.
    LookInto(u64),
}

impl HoleProof {
    pub(in crate::node) fn new(longest_pause: Duration) -> Self {
        HoleProof { ended: None, asked: None, pauses: Backoff::new(FIRST_PAUSE, longest_pause), grace: FIRST_GRACE }
    }

    /// Returns the next step, given the first hole.
    pub(in crate::node) fn due(&mut self, first_hole: Option<u64>, now: Instant) -> ProofStep {
        let Some(first) = first_hole else {
            self.ended = None;
            return ProofStep::Nothing;
        };
        match self.ended {
            Some((up_to, at)) if first <= up_to => match at <= now {
                true => return ProofStep::LookInto(up_to),
                false => return ProofStep::At(at),
            },
            _ => self.ended = None,
        }
        let Some((at, about)) = self.asked else { return ProofStep::AskWriters };
        if about != first {
            self.pauses.reset();
        }
        match at + self.pauses.next_pause() {
            at if at <= now => ProofStep::AskWriters,
            at => ProofStep::At(at),
        }
    }

    /// A question was answered: at or below `horizon`, every writer has ended.
    pub(in crate::node) fn answered(&mut self, horizon: u64, first_hole: u64, now: Instant) {
        let same = self.asked.is_some_and(|(_, about)| about == first_hole);
        self.asked = Some((now, first_hole));
        if horizon >= first_hole {
            self.ended = Some((horizon, now + self.grace));
        } else if same {
            _ = self.pauses.pause();
        }
    }

    /// Notes that holes were looked into, and how many events that found.
    pub(in crate::node) fn looked(&mut self, found: usize) {
        self.ended = None;
        self.grace = match found {
            0 => self.grace.mul_f64(0.95).max(SHORTEST_GRACE),
            _ => (self.grace * 2).min(LONGEST_GRACE),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1);

    #[test]
    fn a_hole_is_asked_about_then_looked_into_after_a_grace() {
        let (mut proof, start) = (HoleProof::new(LONG), Instant::now());
        assert_eq!(proof.due(None, start), ProofStep::Nothing);
        assert_eq!(proof.due(Some(5), start), ProofStep::AskWriters);
        proof.answered(9, 5, start);
        assert_eq!(proof.due(Some(5), start), ProofStep::At(start + FIRST_GRACE));
        assert_eq!(proof.due(Some(7), start + FIRST_GRACE), ProofStep::LookInto(9), "the WAL has filled the first");
        proof.looked(0);
        assert_eq!(proof.due(Some(10), start + FIRST_GRACE), ProofStep::AskWriters);
    }

    #[test]
    fn what_the_wal_has_filled_is_not_looked_into() {
        let (mut proof, start) = (HoleProof::new(LONG), Instant::now());
        proof.answered(9, 5, start);
        assert_eq!(proof.due(None, start + LONG), ProofStep::Nothing);
        assert_eq!(proof.due(Some(12), start + LONG), ProofStep::AskWriters, "the proof does not reach there");
    }

    #[test]
    fn a_writer_that_lives_is_asked_about_more_and_more_seldom() {
        let (mut proof, mut now) = (HoleProof::new(LONG), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            proof.answered(4, 5, now);
            let ProofStep::At(at) = proof.due(Some(5), now) else { panic!("there is nothing to look into") };
            pauses.push((at - now).as_millis());
            now = at;
            assert_eq!(proof.due(Some(5), now), ProofStep::AskWriters);
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000]);
        assert_eq!(proof.due(Some(6), now), ProofStep::AskWriters, "another hole");
        proof.answered(5, 6, now);
        assert_eq!(proof.due(Some(6), now), ProofStep::At(now + FIRST_PAUSE));
    }

    #[test]
    fn the_grace_is_learned() {
        let mut proof = HoleProof::new(LONG);
        proof.looked(1);
        assert_eq!(proof.grace, FIRST_GRACE * 2);
        (0..100).for_each(|_| proof.looked(3));
        assert_eq!(proof.grace, LONGEST_GRACE);
        (0..1_000).for_each(|_| proof.looked(0));
        assert_eq!(proof.grace, SHORTEST_GRACE);
    }
}
