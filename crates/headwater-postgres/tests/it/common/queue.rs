//! What the tests of queues share.

use std::time::Duration;

use headwater_core::{Claim, ClaimRequest, GroupStore, OperatorStore, StartFrom, SubscriberConfig, SubscriberMode};
use headwater_postgres::{PgLog, PgQueue, PgSubscribers, SubscribersOptions};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::common::{emit, run};

/// The queue `work` of the namespace `shop`, and a session beside it.
pub(crate) struct Shop {
    pub(crate) db: TestDatabase,
    pub(crate) log: PgLog,
    pub(crate) store: PgSubscribers,
    pub(crate) queue: PgQueue,
    pub(crate) session: PgConnection,
}

impl Shop {
    /// With so many events of the type `event`.
    pub(crate) async fn open(events: usize) -> Self {
        let db = TestDatabase::create().await;
        let log = db.log("shop").await;
        let store = PgSubscribers::new(db.database.clone(), log.info().clone(), SubscribersOptions::default());
        store.register(&shared(StartFrom::Beginning)).await.unwrap();
        let queue = PgQueue::new(db.database.clone(), log.info().clone(), "work");
        let session = db.session().await;
        let mut shop = Shop { db, log, store, queue, session };
        shop.emit(&vec!["event"; events]).await;
        shop
    }

    pub(crate) async fn emit(&mut self, types: &[&str]) {
        for event_type in types {
            emit(&mut self.session, "shop", event_type).await;
        }
    }

    pub(crate) async fn claim(&self, max_events: u32) -> Vec<Claim> {
        self.claim_with(ClaimRequest { max_events, ..request() }).await
    }

    pub(crate) async fn claim_types(&self, max_events: u32, types: &[&str]) -> Vec<Claim> {
        let event_types = types.iter().map(|event_type| event_type.to_string()).collect();
        self.claim_with(ClaimRequest { max_events, event_types, ..request() }).await
    }

    pub(crate) async fn claim_with(&self, request: ClaimRequest) -> Vec<Claim> {
        self.queue.claim(&request).await.expect("failed to claim")
    }

    /// Claims for one new worker after the other, until nothing is left. After its worker was lost,
    /// an event comes alone, and a worker has at most one such event at a time.
    pub(crate) async fn claim_each(&self, max_events: u32) -> Vec<Claim> {
        let mut all = Vec::new();
        for nth in 0.. {
            let request = ClaimRequest { max_events, worker: format!("worker-{nth}"), ..request() };
            let claims = self.claim_with(request).await;
            if claims.is_empty() {
                break;
            }
            all.extend(claims);
        }
        all
    }

    /// Lets the time of a claim be over, as if it had been claimed for no time at all.
    pub(crate) async fn expire(&mut self, claim_id: Uuid) {
        let moment = "(SELECT (state).expired_from FROM headwater_private.claims ORDER BY number DESC LIMIT 1)";
        run(
            &mut self.session,
            &format!("UPDATE headwater_private.claims SET visible_at = {moment} WHERE claim_id = '{claim_id}'"),
        )
        .await;
        self.look_again().await;
    }

    /// Nothing is to be looked for, however slow this machine is.
    pub(crate) async fn look_never(&mut self) {
        run(&mut self.session, "UPDATE headwater_private.claims SET state.look_at = 'infinity'").await;
    }

    /// Makes the next claim look again for expired claims and due retries. The times that claims
    /// noted for these are wrong now.
    pub(crate) async fn look_again(&mut self) {
        run(&mut self.session, "UPDATE headwater_private.claims SET state.look_at = '-infinity'").await;
    }

    /// Lets all delays be over.
    pub(crate) async fn pass_delays(&mut self) {
        let moment = "(SELECT (state).due_from FROM headwater_private.claims ORDER BY number DESC LIMIT 1)";
        run(&mut self.session, &format!("UPDATE headwater_private.retries SET due_at = {moment}")).await;
        self.look_again().await;
    }

    /// A number from the database.
    pub(crate) async fn number(&mut self, query: &str) -> i64 {
        let query = sqlx::AssertSqlSafe(query.to_owned());
        sqlx::query_scalar(query).fetch_one(&mut self.session).await.expect("failed to query")
    }

    /// Claims everything that is available now, and acks it. Returns the sequences in the order of
    /// their delivery.
    pub(crate) async fn drain(&self) -> Vec<u64> {
        let mut all = Vec::new();
        loop {
            let claims = self.claim(1_000).await;
            if claims.is_empty() {
                return all;
            }
            for claim in claims {
                all.extend(sequences(&claim));
                self.queue.ack(claim.claim_id, None).await.unwrap();
            }
        }
    }

    /// Where the queue stands, and what of it is not settled.
    pub(crate) async fn position(&self) -> u64 {
        self.store.subscriber("work").await.unwrap().position
    }
}

pub(crate) fn shared(start_from: StartFrom) -> SubscriberConfig {
    SubscriberConfig::new("work", start_from, SubscriberMode::Shared)
}

/// For longer than any test runs.
pub(crate) fn request() -> ClaimRequest {
    ClaimRequest { visibility: Duration::from_secs(3_600), ..ClaimRequest::new("worker") }
}

pub(crate) fn sequences(claim: &Claim) -> Vec<u64> {
    claim.events.iter().filter_map(|event| event.global_sequence).collect()
}

/// The sequences of all claims, claim by claim.
pub(crate) fn delivered(claims: &[Claim]) -> Vec<Vec<u64>> {
    claims.iter().map(sequences).collect()
}
