//! Futures that are dropped at any of their waits leave no pool connection in a transaction: later
//! work on it is committed.

use std::time::Duration;

use crate::common::proxy::Proxy;
use headwater_core::{GroupStore, NamespaceInfo, OperatorStore, StartFrom, SubscriberConfig, SubscriberMode};
use headwater_postgres::{Database, DatabaseOptions, PgSubscribers, SubscribersOptions};
use headwater_testing::TestDatabase;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{PgConnection, Row};

/// Waits of a future, by far.
const WAITS: usize = 12;

/// Drops a future after `polls` polls, if it still waits. The server has time to answer between the
/// polls.
async fn drop_after(polls: usize, future: impl Future) {
    let mut future = std::pin::pin!(future);
    for poll in 0..polls {
        if poll > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        if futures::poll!(&mut future).is_ready() {
            return;
        }
    }
}

struct Shop {
    db: TestDatabase,
    info: NamespaceInfo,
    session: PgConnection,
}

impl Shop {
    async fn open() -> Self {
        let db = TestDatabase::create().await;
        let info = db.log("shop").await.info().clone();
        let mut session = db.session().await;
        crate::common::run(&mut session, "CREATE TABLE notes (n bigint NOT NULL)").await;
        let shop = Shop { db, info, session };
        let config = SubscriberConfig::new("totals", StartFrom::Beginning, SubscriberMode::Exclusive);
        shop.subscribers(&shop.db.database).register(&config).await.unwrap();
        shop
    }

    /// A pool of one connection, so that all meet there.
    async fn owned(&self, transaction_pooler: bool) -> Database {
        let options = DatabaseOptions { max_connections: 1, transaction_pooler, ..DatabaseOptions::default() };
        Database::connect(&self.db.url, options).await.unwrap()
    }

    /// The same pool as an application makes it: it checks connections neither before use nor when
    /// they come back.
    async fn of_application(&self) -> PgPool {
        PgPoolOptions::new().max_connections(1).test_before_acquire(false).connect(&self.db.url).await.unwrap()
    }

    fn subscribers(&self, database: &Database) -> PgSubscribers {
        PgSubscribers::new(database.clone(), self.info.clone(), SubscribersOptions::default())
    }

    /// Whether a statement of the application is committed when it was answered.
    async fn assert_commits(&mut self, pool: &PgPool, n: usize) {
        let n = n as i64;
        sqlx::query("INSERT INTO notes VALUES ($1)").bind(n).execute(pool).await.unwrap();
        let noted = "SELECT count(*) FROM notes WHERE n = $1";
        let noted: i64 = sqlx::query(noted).bind(n).fetch_one(&mut self.session).await.unwrap().get(0);
        assert_eq!(noted, 1, "dropped after {n} polls");
    }
}

#[tokio::test]
async fn a_transaction_that_the_application_did_not_come_to_begin_takes_nothing_with_it() {
    let mut shop = Shop::open().await;
    let database = shop.owned(false).await;
    for polls in 0..WAITS {
        drop_after(polls, database.pool().begin()).await;
        shop.assert_commits(database.pool(), polls).await;
    }
}

#[tokio::test]
async fn a_transaction_that_a_handler_did_not_come_to_begin_takes_nothing_of_the_application_with_it() {
    let mut shop = Shop::open().await;
    let pool = shop.of_application().await;
    let subscribers = shop.subscribers(&Database::from_pool(pool.clone()));
    for polls in 0..WAITS {
        drop_after(polls, subscribers.begin(Duration::from_secs(10))).await;
        shop.assert_commits(&pool, polls).await;
    }
}

#[tokio::test]
async fn a_call_is_committed_though_the_applications_pool_had_a_transaction_open() {
    let mut shop = Shop::open().await;
    let pool = shop.of_application().await;
    let subscribers = shop.subscribers(&Database::from_pool(pool.clone()));
    let is_paused = "SELECT paused FROM headwater_private.subscribers WHERE subscriber_id = 'totals'";
    for polls in 0..WAITS {
        let pause = polls % 2 == 0;
        drop_after(polls, pool.begin()).await;
        subscribers.set_paused("totals", pause).await.unwrap();
        let paused: bool = sqlx::query(is_paused).fetch_one(&mut shop.session).await.unwrap().get(0);
        assert_eq!(paused, pause, "dropped after {polls} polls");
    }
}

/// Begins a transaction behind the driver's back, which fails, and gives the connection back so.
async fn fail_in_a_transaction(pool: &PgPool) {
    let mut conn = pool.acquire().await.unwrap();
    crate::common::run(&mut conn, "BEGIN").await;
    sqlx::raw_sql("SELECT 1/0").execute(&mut *conn).await.unwrap_err();
}

#[tokio::test]
async fn a_connection_whose_transaction_failed_is_not_used_again() {
    let mut shop = Shop::open().await;
    let database = shop.owned(false).await;
    fail_in_a_transaction(database.pool()).await;
    shop.assert_commits(database.pool(), 0).await;
    let pool = shop.of_application().await;
    fail_in_a_transaction(&pool).await;
    shop.subscribers(&Database::from_pool(pool.clone())).position("totals").await.unwrap();
    shop.assert_commits(&pool, 1).await;
}

#[tokio::test]
async fn behind_a_pooler_a_call_that_was_dropped_takes_nothing_with_it() {
    let mut shop = Shop::open().await;
    let database = shop.owned(true).await;
    let subscribers = shop.subscribers(&database);
    for polls in 0..2 * WAITS {
        drop_after(polls, subscribers.position("totals")).await;
        shop.assert_commits(database.pool(), polls).await;
    }
}

#[tokio::test]
async fn a_pool_closes_though_answers_are_lost_on_connections_that_stay_open() {
    let shop = Shop::open().await;
    let proxy = Proxy::start(&shop.db.url).await;
    let options = DatabaseOptions { call_timeout: Duration::from_millis(50), ..DatabaseOptions::default() };
    let database = Database::connect(&proxy.url, options).await.unwrap();
    let mut conn = database.pool().acquire().await.unwrap();
    crate::common::run(&mut conn, "SELECT 1").await;
    proxy.freeze();
    // It is asked whether it is in a transaction, and does not answer.
    drop(conn);
    database.close().await;
}

#[tokio::test]
async fn a_connection_that_does_not_answer_is_given_up_when_it_comes_back() {
    let shop = Shop::open().await;
    let proxy = Proxy::start(&shop.db.url).await;
    let options = DatabaseOptions {
        max_connections: 1,
        call_timeout: Duration::from_millis(50),
        acquire_timeout: Duration::from_secs(600),
        ..DatabaseOptions::default()
    };
    let database = Database::connect(&proxy.url, options).await.unwrap();
    drop(database.pool().acquire().await.unwrap());
    let conn = database.pool().acquire().await.unwrap();
    proxy.freeze();
    drop(conn);
    // The pool has room again: it makes another, which gets no answer either.
    while database.pool().size() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_handlers_transaction_takes_nothing_of_one_that_the_application_left_open() {
    let mut shop = Shop::open().await;
    let pool = shop.of_application().await;
    let subscribers = shop.subscribers(&Database::from_pool(pool.clone()));
    let mut conn = pool.acquire().await.unwrap();
    crate::common::run(&mut conn, "BEGIN; INSERT INTO notes VALUES (1)").await;
    drop(conn);
    let tx = subscribers.begin(Duration::from_secs(10)).await.unwrap();
    subscribers.commit(tx).await.unwrap();
    let noted: i64 = sqlx::query("SELECT count(*) FROM notes").fetch_one(&mut shop.session).await.unwrap().get(0);
    assert_eq!(noted, 0, "what was left open was rolled back, not committed with the handler's");
    shop.assert_commits(&pool, 2).await;
}

/// A connection that is kept from call to call is the only one of the pool here.
#[tokio::test]
async fn calls_that_follow_each_other_leave_the_connection_to_others() {
    let mut shop = Shop::open().await;
    let database = shop.owned(false).await;
    let subscribers = shop.subscribers(&database);
    subscribers.position("totals").await.unwrap();
    shop.assert_commits(database.pool(), 1).await;
    let calls = tokio::spawn(async move {
        loop {
            subscribers.position("totals").await.unwrap();
        }
    });
    for n in 2..5 {
        let commits = shop.assert_commits(database.pool(), n);
        tokio::time::timeout(Duration::from_secs(9), commits).await.expect("the calls never gave it back");
    }
    calls.abort();
    database.close().await;
}

#[test]
fn a_kept_connection_may_outlive_its_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (outer, inner) = (runtime(), runtime());
    let shop = outer.block_on(Shop::open());
    let database = inner.block_on(async {
        let database = shop.owned(false).await;
        shop.subscribers(&database).position("totals").await.unwrap();
        database
    });
    drop(inner);
    drop(database);
    outer.block_on(async { drop(shop) });
}
