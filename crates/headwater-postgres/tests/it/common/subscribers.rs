//! What the tests of subscribers share.

use std::time::Duration;

use headwater_core::{
    Advance, Attempt, DeadLetter, DeadLetterState, Event, Fence, Gaps, GroupStore, Instance, LeaseReply, LeaseRequest,
    Report, StartFrom, SubscriberConfig, SubscriberMode,
};
use headwater_postgres::{Database, DatabaseOptions, PgLog, PgSubscribers, SubscribersOptions};
use headwater_testing::TestDatabase;

/// Begins a transaction as a node does for a handler.
pub(crate) const HANDLE: &str = "BEGIN; SET LOCAL headwater.handling = 'on'";

/// Longer than any test runs.
pub(crate) const LONG: Duration = Duration::from_secs(3_600);

/// A process: a pool, a store and an instance of its own.
pub(crate) struct Process {
    pub(crate) store: PgSubscribers,
    pub(crate) instance: Instance,
}

impl Process {
    pub(crate) async fn start(db: &TestDatabase, log: &PgLog, node: &str) -> Self {
        Self::start_with(db, log, node, SubscribersOptions::default()).await
    }

    pub(crate) async fn start_with(db: &TestDatabase, log: &PgLog, node: &str, options: SubscribersOptions) -> Self {
        let connect = DatabaseOptions { application_name: node.into(), ..DatabaseOptions::default() };
        let database = Database::connect(&db.url, connect).await.unwrap();
        Process { store: PgSubscribers::new(database, log.info().clone(), options), instance: Instance::new(node) }
    }

    /// Asks for one subscriber.
    pub(crate) async fn keep(&self, subscriber_id: &str, term: Option<u64>, lease: Duration) -> LeaseReply {
        let asks = [ask(subscriber_id, term)];
        self.store.keep(&self.instance, &asks, lease).await.unwrap().remove(0)
    }

    pub(crate) async fn take(&self, subscriber_id: &str) -> Option<u64> {
        self.keep(subscriber_id, None, LONG).await.term
    }

    pub(crate) async fn renew(&self, subscriber_id: &str, term: u64) -> Option<u64> {
        self.keep(subscriber_id, Some(term), LONG).await.term
    }

    pub(crate) async fn register(&self, subscriber_id: &str, start_from: StartFrom) {
        let config = SubscriberConfig::new(subscriber_id, start_from, SubscriberMode::default());
        self.store.register(&config).await.unwrap();
    }
}

pub(crate) fn ask(subscriber_id: &str, term: Option<u64>) -> LeaseRequest {
    LeaseRequest { subscriber_id: subscriber_id.into(), partition: 0, share: None, term, report: Report::default() }
}

pub(crate) fn fence(subscriber_id: &str, term: Option<u64>) -> Fence {
    Fence { subscriber_id: subscriber_id.into(), partition: 0, term, history: None }
}

/// A move to `position` that settled these in order.
pub(crate) fn advance(position: u64, settled: &[u64]) -> Advance {
    let (events, sequence_sum) = (settled.len() as u64, settled.iter().sum());
    Advance { position, events, sequence_sum, ..Advance::default() }
}

pub(crate) fn with_ledger<const N: usize>(advance: Advance, ranges: [(u64, u64); N]) -> Advance {
    Advance { pending_gaps: ranges.into_iter().collect::<Gaps>(), ..advance }
}

/// The same move, from there.
pub(crate) fn from<const N: usize>(advance: Advance, from_position: u64, ranges: [(u64, u64); N]) -> Advance {
    Advance { from_position, from_gaps: ranges.into_iter().collect::<Gaps>(), ..advance }
}

pub(crate) fn attempt(error: &str) -> Attempt {
    use chrono::SubsecRound;
    Attempt {
        at: chrono::Utc::now().trunc_subsecs(6),
        node: "a".into(),
        errors: vec![error.into(), "the cause".into()],
    }
}

pub(crate) fn letter(sequence: u64, key: &str, state: DeadLetterState, error: &str) -> DeadLetter {
    let data = headwater_core::Json::parse("5").unwrap();
    // A letter is known by its event: the one with this sequence is always the same.
    let id = uuid::Uuid::from_u128(sequence.into());
    let event = super::recorded(sequence, Event { id, key: Some(key.into()), ..Event::raw("OrderPlaced", data) });
    let now = chrono::Utc::now();
    DeadLetter {
        subscriber_id: "totals".into(),
        event,
        order_key: key.into(),
        state,
        parks_key: true,
        attempts: if error.is_empty() { Vec::new() } else { vec![attempt(error)] },
        created_at: now,
        updated_at: now,
        reason: None,
    }
}
