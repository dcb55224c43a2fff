//! What the tests of delivery share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use headwater::admin::NamespaceConfig;
use headwater::delivery::{OperatorStore, ReliableDeliveryConfig, SubscriberInfo, Transactional};
use headwater::{
    Bundle, Delivery, Event, EventObserver, HandlerError, Headwater, Json, Namespace, Node, RecordedEvent,
    Subscription, Transaction,
};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;
use tokio::sync::watch;

/// A database with the namespace `shop`, opened as a program would.
pub(crate) struct Shop {
    pub(crate) db: TestDatabase,
    pub(crate) headwater: Headwater,
    pub(crate) shop: Namespace,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        let db = TestDatabase::create().await;
        let headwater = Headwater::connect(&db.url).await.expect("failed to connect");
        Self::with(db, headwater).await
    }

    /// As `open`, but a call that is not answered within half a second has failed.
    pub(crate) async fn open_impatient() -> Self {
        let db = TestDatabase::create().await;
        let builder = Headwater::builder().call_timeout(Duration::from_millis(500));
        let headwater = builder.connect(&db.url).await.expect("failed to connect");
        Self::with(db, headwater).await
    }

    async fn with(db: TestDatabase, headwater: Headwater) -> Self {
        headwater.create_namespace(NamespaceConfig::new("shop")).await.expect("failed to create a namespace");
        let shop = headwater.namespace("shop").await.expect("failed to open the namespace");
        Shop { db, headwater, shop }
    }

    /// Emits events of these types, one after the other, and says which sequence the last one got.
    pub(crate) async fn emit(&self, types: &[&str]) -> u64 {
        let mut last = 0;
        for event_type in types {
            last =
                self.shop.emit(Event::raw(*event_type, Json::null())).await.expect("failed to emit").global_sequence();
        }
        last
    }

    pub(crate) async fn emit_many(&self, events: usize) -> u64 {
        let append = (0..events)
            .fold(headwater::log::Append::new(), |append, n| append.event(Event::raw(format!("e{n}"), Json::null())));
        self.shop.append_all(append).await.expect("failed to append").events.last().expect("an event").global_sequence
    }

    pub(crate) async fn info(&self, subscriber_id: &str) -> SubscriberInfo {
        self.shop.subscribers().subscriber(subscriber_id).await.expect("failed to look at the subscriber")
    }
}

/// A commit that hangs until it is released, and then succeeds. The client, an impatient one, has
/// given up long before.
pub(crate) struct SlowCommit {
    holder: sqlx::PgConnection,
}

impl SlowCommit {
    /// Makes the transaction of the `nth` row that is inserted into `table` from now on hang at its
    /// commit.
    pub(crate) async fn of(shop: &Shop, table: &str, nth: i64) -> Self {
        let trigger = format!(
            "CREATE SEQUENCE commits;
             CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
                 IF nextval('commits') = {nth} THEN PERFORM pg_advisory_xact_lock(4711); END IF; RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION dawdle()"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(trigger)).execute(shop.headwater.pool()).await.unwrap();
        let mut holder = shop.db.session().await;
        sqlx::query("SELECT pg_advisory_lock(4711)").execute(&mut holder).await.unwrap();
        SlowCommit { holder }
    }

    /// Waits until the commit has hung for twice as long as an impatient client waits, by the
    /// server's clock.
    pub(crate) async fn is_given_up(&mut self) {
        soon(async {
            let hangs = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'commit%'
                             AND wait_event = 'advisory' AND clock_timestamp() > query_start + interval '1 second')";
            while !sqlx::query_scalar::<_, bool>(hangs).fetch_one(&mut self.holder).await.unwrap() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    pub(crate) async fn let_go(mut self) {
        sqlx::query("SELECT pg_advisory_unlock(4711)").execute(&mut self.holder).await.unwrap();
    }
}

/// Retries at once, so that tests need not wait.
pub(crate) fn quick() -> ReliableDeliveryConfig {
    ReliableDeliveryConfig {
        initial_retry_delay: Duration::from_millis(1),
        max_retry_delay: Duration::from_millis(5),
        ..ReliableDeliveryConfig::default()
    }
}

/// Remembers what it was told, and fails when it is asked to.
#[derive(Clone)]
pub(crate) struct Recorder {
    id: String,
    seen: watch::Sender<Vec<RecordedEvent>>,
    failures: Arc<Mutex<VecDeque<HandlerError>>>,
}

impl Recorder {
    pub(crate) fn new(id: &str) -> Self {
        Recorder { id: id.into(), seen: watch::Sender::new(Vec::new()), failures: Arc::default() }
    }

    /// The next events fail with these, one each.
    pub(crate) fn fail_with(self, failures: impl IntoIterator<Item = HandlerError>) -> Self {
        self.failures.lock().unwrap().extend(failures);
        self
    }

    pub(crate) fn types(&self) -> Vec<String> {
        self.seen.borrow().iter().map(|event| event.event_type.clone()).collect()
    }

    pub(crate) fn sequences(&self) -> Vec<u64> {
        self.seen.borrow().iter().filter_map(|event| event.global_sequence).collect()
    }

    /// Waits until it has handled so many events.
    pub(crate) async fn handled(&self, events: usize) {
        let mut seen = self.seen.subscribe();
        let waiting = seen.wait_for(|seen| seen.len() >= events);
        soon(waiting).await.expect("the recorder lives");
    }
}

impl EventObserver for Recorder {
    fn subscriber_id(&self) -> &str {
        &self.id
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        let failure = self.failures.lock().unwrap().pop_front();
        match failure {
            Some(failure) => Err(failure),
            None => {
                self.seen.send_modify(|seen| seen.push(RecordedEvent::clone(&event)));
                Ok(())
            }
        }
    }
}

/// What one transaction of a test's handler holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Per {
    Event,
    Batch,
    Bundle(Bundle),
}

/// A subscription whose handler has an effect for each event, in transactions that hold so much.
pub(crate) fn effects_per<F>(subscriber_id: &str, per: Per, effect: F) -> Subscription<Transactional>
where
    F: for<'e> Fn(&'e Event, &'e mut PgConnection) -> BoxFuture<'e, Result<(), HandlerError>>
        + Clone
        + Send
        + Sync
        + 'static,
{
    let subscription = Subscription::new(subscriber_id);
    let each = {
        let effect = effect.clone();
        move |event: Delivery, mut tx: Transaction| {
            let effect = effect.clone();
            async move { effect(&event, &mut tx).await }
        }
    };
    match per {
        Per::Event => subscription.transactional(each),
        Per::Bundle(bundle) => subscription.bundled_by(bundle).transactional(each),
        Per::Batch => subscription.transactional_batch(move |events: Vec<Delivery>, mut tx: Transaction| {
            let effect = effect.clone();
            async move {
                for event in &events {
                    effect(event, &mut tx).await?;
                }
                Ok(())
            }
        }),
    }
}

/// A wait that ends in a failed test rather than never.
pub(crate) async fn soon<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("it did not happen within a minute")
}

/// Waits until a condition holds, looking again and again.
pub(crate) async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    soon(async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// The state of a node's only subscriber, and the detail of it.
pub(crate) fn state(node: &Node) -> (headwater::delivery::RunnerState, String) {
    let report = node.status().subscribers.remove(0).report;
    (report.state, report.detail.unwrap_or_default())
}
