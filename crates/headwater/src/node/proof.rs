//! Holes in what came from the WAL: when to ask who may still fill them, and when to look into them.
//!
//! A hole lies below an event that was seen, so its place was handed out before: to a transaction that took its lock first, and keeps it until it has ended and
//! what it committed is visible. So the proof takes two steps, in this order:
//!
//! 1. Ask for the locks. At or below the lowest one, every writer has ended. This reads no events.
//! 2. Look into the holes up to there, in a later statement: what is not there was rolled back, and is missing for ever. This reads what is in the
//!    holes, and so nothing, if they are holes.
//!
//! Between the two, the WAL gets time to bring what was committed, so that only what was rolled back is left to look into. That time decides what a proof
//! costs and never what it says: too short, and rows are read that were about to come; too long, and what follows a rollback waits. So it is learned: it grows
//! when a look has found something, and shrinks when it has not.
//!
//! The stream itself proves nothing here. It may lack an event (a row that it could not decode, a table that is not published) and say so to nobody;
//! the second step finds it.

use std::time::{Duration, Instant};

/// Between questions, doubling from here while the answer is that the writer of the first hole still lives.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// The time that the WAL gets.
const FIRST_GRACE: Duration = Duration::from_millis(4);
const SHORTEST_GRACE: Duration = Duration::from_millis(1);
const LONGEST_GRACE: Duration = Duration::from_millis(50);

/// What is known about the holes of one generation of the tail.
#[derive(Debug)]
pub(super) struct Proof {
    /// Most time between questions.
    longest_pause: Duration,
    /// Every writer at or below has ended, and when to look into what is missing there.
    ended: Option<(u64, Instant)>,
    /// When the last question was asked, and about which first hole.
    asked: Option<(Instant, u64)>,
    pause: Duration,
    grace: Duration,
}

/// What to do about holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// There are none.
    Nothing,
    /// Something, then.
    At(Instant),
    /// Ask who may still fill them.
    Ask,
    /// Look into those at or below.
    LookInto(u64),
}

impl Proof {
    pub(super) fn new(longest_pause: Duration) -> Self {
        Proof { longest_pause, ended: None, asked: None, pause: FIRST_PAUSE, grace: FIRST_GRACE }
    }

    /// What to do, given the first hole.
    pub(super) fn due(&mut self, first_hole: Option<u64>, now: Instant) -> Due {
        let Some(first) = first_hole else {
            self.ended = None;
            return Due::Nothing;
        };
        match self.ended {
            Some((up_to, at)) if first <= up_to => match at <= now {
                true => return Due::LookInto(up_to),
                false => return Due::At(at),
            },
            _ => self.ended = None,
        }
        let Some((at, about)) = self.asked else { return Due::Ask };
        if about != first {
            self.pause = FIRST_PAUSE;
        }
        match at + self.pause {
            at if at <= now => Due::Ask,
            at => Due::At(at),
        }
    }

    /// A question was answered: at or below `horizon`, every writer has ended.
    pub(super) fn answered(&mut self, horizon: u64, first_hole: u64, now: Instant) {
        let same = self.asked.is_some_and(|(_, about)| about == first_hole);
        self.asked = Some((now, first_hole));
        if horizon >= first_hole {
            self.ended = Some((horizon, now + self.grace));
        } else if same {
            self.pause = (self.pause * 2).min(self.longest_pause);
        }
    }

    /// Holes were looked into, and so many events found.
    pub(super) fn looked(&mut self, found: usize) {
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
        let (mut proof, start) = (Proof::new(LONG), Instant::now());
        assert_eq!(proof.due(None, start), Due::Nothing);
        assert_eq!(proof.due(Some(5), start), Due::Ask);
        proof.answered(9, 5, start);
        assert_eq!(proof.due(Some(5), start), Due::At(start + FIRST_GRACE));
        assert_eq!(proof.due(Some(7), start + FIRST_GRACE), Due::LookInto(9), "the WAL has filled the first");
        proof.looked(0);
        assert_eq!(proof.due(Some(10), start + FIRST_GRACE), Due::Ask);
    }

    #[test]
    fn what_the_wal_has_filled_is_not_looked_into() {
        let (mut proof, start) = (Proof::new(LONG), Instant::now());
        proof.answered(9, 5, start);
        assert_eq!(proof.due(None, start + LONG), Due::Nothing);
        assert_eq!(proof.due(Some(12), start + LONG), Due::Ask, "the proof does not reach there");
    }

    #[test]
    fn a_writer_that_lives_is_asked_about_more_and_more_seldom() {
        let (mut proof, mut now) = (Proof::new(LONG), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..12 {
            proof.answered(4, 5, now);
            let Due::At(at) = proof.due(Some(5), now) else { panic!("there is nothing to look into") };
            pauses.push((at - now).as_millis());
            now = at;
            assert_eq!(proof.due(Some(5), now), Due::Ask);
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000]);
        assert_eq!(proof.due(Some(6), now), Due::Ask, "another hole");
        proof.answered(5, 6, now);
        assert_eq!(proof.due(Some(6), now), Due::At(now + FIRST_PAUSE));
    }

    #[test]
    fn the_grace_is_learned() {
        let mut proof = Proof::new(LONG);
        proof.looked(1);
        assert_eq!(proof.grace, FIRST_GRACE * 2);
        (0..100).for_each(|_| proof.looked(3));
        assert_eq!(proof.grace, LONGEST_GRACE);
        (0..1_000).for_each(|_| proof.looked(0));
        assert_eq!(proof.grace, SHORTEST_GRACE);
    }
}
