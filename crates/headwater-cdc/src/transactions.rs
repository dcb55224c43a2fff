//! Builds transactions from a plugin's messages, with the events of one namespace.

use headwater_core::RecordedEvent;

use crate::fields::Fields;

/// Most events that are kept of one transaction. The rest is read from the log.
const MAX_EVENTS: usize = 16_384;
/// Most bytes that are kept of one transaction.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Most poison rows that are kept of one transaction: each costs a lookup. Readers of the log find
/// the rest.
const MAX_POISON: usize = 100;
/// Most bytes that are kept of an error.
const MAX_ERROR: usize = 2_000;

/// What a message says.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    Begin {
        xid: u32,
    },
    /// A row of an event table.
    Insert(Fields),
    /// A row that cannot be read at all, perhaps of the namespace: the log has to be read.
    Unreadable,
    Commit {
        end_lsn: u64,
    },
    /// Nothing for us.
    Other,
}

/// A row of the namespace that cannot be turned into an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poison {
    /// Its place in the log, if that is readable.
    pub global_sequence: Option<u64>,
    /// What is wrong with it.
    pub error: String,
}

/// A committed transaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transaction {
    /// Its transaction id in the server.
    pub xid: u32,
    /// Where it ends in the WAL: the place to acknowledge.
    pub end_lsn: u64,
    /// The namespace's events, in the order in which they were written.
    pub events: Vec<RecordedEvent>,
    /// Rows that could not be turned into events.
    pub poison: Vec<Poison>,
    /// How many rows were too many to keep, or could not be read. They are read from the log.
    pub left_out: u64,
    /// About how many bytes of memory the events take.
    pub bytes: usize,
}

impl Transaction {
    /// Returns whether it has nothing of the namespace.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.poison.is_empty() && self.left_out == 0
    }
}

/// Assembles transactions.
#[derive(Debug)]
pub(crate) struct Transactions {
    namespace_id: i32,
    open: Option<Transaction>,
}

impl Transactions {
    pub(crate) fn of(namespace_id: i32) -> Self {
        Transactions { namespace_id, open: None }
    }

    /// Returns whether a transaction has begun and not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes a change. A commit completes a transaction.
    pub(crate) fn take(&mut self, change: Change) -> Option<Transaction> {
        match change {
            Change::Begin { xid } => {
                // Nobody knows whether a transaction that never ended was committed or rolled back:
                // the log does.
                let left_out = u64::from(self.open.is_some());
                self.open = Some(Transaction { xid, left_out, ..Transaction::default() });
            }
            Change::Insert(fields) => self.insert(fields),
            Change::Unreadable => {
                if let Some(open) = &mut self.open {
                    open.left_out += 1;
                }
            }
            Change::Commit { end_lsn } => {
                return self.open.take().map(|transaction| Transaction { end_lsn, ..transaction });
            }
            Change::Other => {}
        }
        None
    }

    fn insert(&mut self, fields: Fields) {
        let Some(open) = &mut self.open else { return };
        if fields.namespace_id().is_some_and(|id| id != self.namespace_id) {
            return;
        }
        if open.events.len() >= MAX_EVENTS || open.bytes >= MAX_BYTES {
            open.left_out += 1;
            return;
        }
        let global_sequence = fields.global_sequence();
        match fields.into_event() {
            Ok(event) => {
                open.bytes += weight(&event);
                open.events.push(event);
            }
            Err(_) if open.poison.len() >= MAX_POISON => open.left_out += 1,
            Err(mut error) => {
                error.truncate(error.floor_char_boundary(MAX_ERROR));
                open.bytes += POISON_BYTES + error.len();
                open.poison.push(Poison { global_sequence, error });
            }
        }
    }
}

/// About how many bytes of memory poison takes beside its error.
const POISON_BYTES: usize = 64;

/// Returns about how many bytes of memory an event takes.
pub(crate) fn weight(event: &RecordedEvent) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let headers: usize = event.headers.iter().map(|(name, value)| 64 + name.len() + value.len()).sum();
    let names = event.event_type.len() + text(&event.key) + text(&event.actor_id);
    512 + event.data.as_ref().map_or(0, |data| data.len()) + headers + names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(namespace_id: i32, sequence: u64, payload: &str) -> Change {
        let mut fields = Fields::default();
        for (column, text) in [
            ("namespace_id", namespace_id.to_string()),
            ("global_sequence", sequence.to_string()),
            ("transaction_id", "700".to_owned()),
            ("event_id", "0190a5d0-0000-7000-8000-000000000001".to_owned()),
            ("event_type", "E".to_owned()),
            ("schema_version", "1".to_owned()),
            ("created_at", "2026-11-15 18:00:43+00".to_owned()),
            ("recorded_at", "2026-11-15 18:00:43+00".to_owned()),
            ("data", payload.to_owned()),
        ] {
            fields.set(column, text);
        }
        Change::Insert(fields)
    }

    #[test]
    fn other_namespaces_are_left_out_and_what_is_broken_is_named() {
        let mut transactions = Transactions::of(3);
        assert_eq!(transactions.take(Change::Begin { xid: 9 }), None);
        transactions.take(row(3, 1, "{}"));
        transactions.take(row(4, 1, "{}"));
        let mut broken = Fields::default();
        broken.set("namespace_id", "3".into());
        broken.set("global_sequence", "2".into());
        transactions.take(Change::Insert(broken));
        let done = transactions.take(Change::Commit { end_lsn: 77 }).unwrap();
        assert_eq!((done.xid, done.end_lsn, done.events.len()), (9, 77, 1));
        assert_eq!(done.poison, [Poison { global_sequence: Some(2), error: "there is no data".into() }]);
        assert!(!transactions.is_open());
    }

    fn broken(sequence: u64, column: &str, text: String) -> Change {
        let Change::Insert(mut fields) = row(3, sequence, "{}") else { unreachable!() };
        fields.set(column, text);
        Change::Insert(fields)
    }

    #[test]
    fn poison_of_a_transaction_is_bounded_and_what_is_beyond_is_read_from_the_log() {
        let mut transactions = Transactions::of(3);
        transactions.take(Change::Begin { xid: 9 });
        for sequence in 1..=100_000 {
            transactions.take(broken(sequence, "schema_version", "x".repeat(10_000)));
        }
        transactions.take(Change::Unreadable);
        let done = transactions.take(Change::Commit { end_lsn: 77 }).unwrap();
        assert_eq!(done.poison.len() as u64 + done.left_out, 100_001);
        assert_eq!(done.poison.len(), MAX_POISON);
        assert!(done.poison.iter().all(|poison| poison.error.len() <= MAX_ERROR));
        assert!((MAX_POISON..4 * 1024 * 1024).contains(&done.bytes), "{}", done.bytes);
    }

    #[test]
    fn headers_and_names_count_as_bytes() {
        let mut transactions = Transactions::of(3);
        transactions.take(Change::Begin { xid: 9 });
        for sequence in 1..=40 {
            transactions.take(broken(sequence, "headers", format!("{{\"a\": \"{}\"}}", "x".repeat(1024 * 1024))));
        }
        let done = transactions.take(Change::Commit { end_lsn: 77 }).unwrap();
        assert_eq!(done.events.len() as u64 + done.left_out, 40);
        assert!(done.left_out > 20, "{}", done.left_out);
    }

    #[test]
    fn a_transaction_too_large_to_keep_says_so() {
        let mut transactions = Transactions::of(3);
        transactions.take(Change::Begin { xid: 9 });
        let payload = format!("\"{}\"", "x".repeat(1024 * 1024));
        for sequence in 1..=40 {
            transactions.take(row(3, sequence, &payload));
        }
        let done = transactions.take(Change::Commit { end_lsn: 77 }).unwrap();
        assert_eq!(done.events.len() as u64 + done.left_out, 40);
        assert!(done.bytes < MAX_BYTES + 2 * 1024 * 1024, "{}", done.bytes);
    }
}
