//! Missing places in the log, as values.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// A range of missing global_sequences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The first missing sequence.
    pub first: u64,
    /// The last missing sequence.
    pub last: u64,
    /// What is known about the missing sequences.
    pub state: GapState,
}

/// Whether the missing events may still come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GapState {
    /// One of these writers may hold the sequences and is still at work.
    Pending(Vec<Writer>),
    /// It is proved that the sequences were rolled back and will never come.
    Permanent,
    /// Like permanent: the events were older than the namespace's retention and were dropped.
    Trimmed,
    /// Like permanent: rows exist, but they cannot be turned into events. Once repaired, they can
    /// be delivered.
    Poison,
}

/// A transaction that may still commit events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// The writer's events lie above this sequence.
    pub above_sequence: u64,
    /// The server process. `None`: a prepared transaction.
    pub pid: Option<i32>,
    /// The writer's application_name, or the name of the prepared transaction. `None`: not visible
    /// to this role.
    pub application_name: Option<String>,
    /// When the writer's transaction began, by the database's clock. `None`: not visible to this
    /// role.
    pub started_at: Option<DateTime<Utc>>,
    /// How old the transaction was when it was read.
    pub age: Option<Duration>,
    /// Identifies the transaction for as long as it lasts. `None`: not known.
    pub transaction: Option<String>,
}

impl Writer {
    /// Whether the writer's transaction is one of these. An unknown transaction equals no other.
    pub fn is_among(&self, writers: &[Writer]) -> bool {
        let known = (&self.transaction, self.above_sequence);
        self.transaction.is_some() && writers.iter().any(|other| (&other.transaction, other.above_sequence) == known)
    }
}

/// Returns the sequence above which gaps may have changed between two looks at the open writers.
/// `None`: nothing has changed.
///
/// The transaction behind a gap took its lock before the gap was seen, and holds it until it ends.
/// Suppose a reader asked for the open writers, then looked into a gap and found nothing. While all
/// of these writers are still there, it need not look again: the gap's writer is among them, or has
/// ended without a commit.
pub fn changed_above(before: &[Writer], now: &[Writer]) -> Option<u64> {
    before.iter().filter(|writer| !writer.is_among(now)).map(|writer| writer.above_sequence).min()
}

/// How far the log is settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Horizon {
    /// Nothing can still commit at or below this sequence.
    pub horizon: u64,
    /// The highest sequence handed out so far.
    pub head: u64,
    /// The writers that may still commit between `horizon` and `head`.
    pub writers: Vec<Writer>,
}

/// The ranges that are missing above `after` and up to `up_to`. `present` has the existing
/// sequences, in order.
pub fn missing_runs(after: u64, up_to: u64, present: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut runs = Vec::new();
    let mut next = after.saturating_add(1);
    for sequence in present.into_iter().chain([up_to.saturating_add(1)]) {
        if sequence > next {
            runs.push((next, sequence - 1));
        }
        next = sequence.saturating_add(1);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::{Writer, changed_above, missing_runs};

    fn writer(transaction: Option<&str>, above_sequence: u64) -> Writer {
        let transaction = transaction.map(str::to_owned);
        Writer { above_sequence, pid: None, application_name: None, started_at: None, age: None, transaction }
    }

    #[test]
    fn gaps_change_above_the_lowest_writer_that_has_ended() {
        let before = [writer(Some("3/7"), 10), writer(Some("4/1"), 20), writer(Some("5/2"), 30)];
        assert_eq!(changed_above(&before, &before), None);
        assert_eq!(changed_above(&[], &before), None, "whoever came later has none of the gaps that were seen");
        assert_eq!(changed_above(&before, &before[..2]), Some(30));
        assert_eq!(changed_above(&before, &before[2..]), Some(10));
        // The first writer rolled back to a savepoint and took another lock. What it had below will
        // not come.
        let moved = [writer(Some("3/7"), 40), writer(Some("4/1"), 20), writer(Some("5/2"), 30)];
        assert_eq!(changed_above(&before, &moved), Some(10));
        assert_eq!(
            changed_above(&[writer(None, 10)], &[writer(None, 10)]),
            Some(10),
            "nobody knows whether it is the same"
        );
    }

    #[test]
    fn runs_lie_before_between_and_after_what_is_there() {
        assert_eq!(missing_runs(0, 10, [3, 4, 7]), [(1, 2), (5, 6), (8, 10)]);
        assert_eq!(missing_runs(2, 4, [3, 4]), []);
        assert_eq!(missing_runs(2, 4, []), [(3, 4)]);
        assert_eq!(missing_runs(4, 4, []), []);
    }
}
