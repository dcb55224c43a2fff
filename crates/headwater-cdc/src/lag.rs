//! Decides whether a stream keeps up: it compares what the stream has passed of the WAL with where
//! the WAL ended a while ago.

/// How many looks lie between the end of the WAL and the moment by which the stream must have
/// passed it. More than one, because the server reports only once a second how far it is.
const LOOKS: usize = 2;

/// How far a stream has come.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    passed: u64,
    /// Everything before this place is the backlog.
    target: u64,
    /// Where the WAL ended at the last looks, oldest first.
    ends: Vec<u64>,
    caught_up: bool,
}

impl Lag {
    /// A stream that begins while the WAL ends here.
    pub(crate) fn starting_at(wal_end: u64) -> Self {
        Lag { target: wal_end, ..Lag::default() }
    }

    /// Returns whether the stream passes commits at once.
    pub(crate) fn caught_up(&self) -> bool {
        self.caught_up
    }

    /// Records that the stream has passed a place. Returns whether it has caught up by that.
    pub(crate) fn pass(&mut self, lsn: u64) -> bool {
        self.passed = self.passed.max(lsn);
        let now = !self.caught_up && self.passed >= self.target;
        self.caught_up |= now;
        now
    }

    /// Records where the WAL ends. Returns whether the stream has fallen behind: it has not passed
    /// where the WAL ended some looks ago.
    pub(crate) fn look(&mut self, wal_end: u64) -> bool {
        self.ends.push(wal_end);
        if self.ends.len() <= LOOKS {
            return false;
        }
        let then = self.ends.remove(0);
        let behind = self.caught_up && self.passed < then;
        if behind {
            self.caught_up = false;
            self.target = wal_end;
        }
        behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_caught_up_when_it_has_passed_where_the_wal_ended() {
        let mut lag = Lag::starting_at(100);
        assert!(!lag.pass(60));
        assert!(!lag.look(500), "it never was");
        assert!(lag.pass(100));
        assert!(!lag.pass(120), "said once");
    }

    #[test]
    fn a_stream_that_stands_falls_behind_and_one_that_moves_does_not() {
        let mut lag = Lag::starting_at(100);
        assert!(lag.pass(100));
        for end in [200, 300, 400] {
            assert!(!lag.look(end), "two looks ago it ended at {}", end - 200);
            lag.pass(end - 50);
        }
        assert!(!lag.look(500));
        assert!(lag.look(600), "350 of 400");
        assert!(!lag.look(700), "said once");
        assert!(!lag.pass(599));
        assert!(lag.pass(600), "where the WAL ended when it fell behind");
    }

    #[test]
    fn a_wal_that_stands_needs_no_stream() {
        let mut lag = Lag::starting_at(100);
        assert!(lag.pass(100));
        assert!((0..9).all(|_| !lag.look(100)));
    }
}
