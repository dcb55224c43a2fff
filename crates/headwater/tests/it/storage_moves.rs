//! A namespace moves to its own tables and back under load: writers of every kind, a subscriber, a
//! subscriber that follows the WAL, a queue, and a consumer by SQL.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon, until};
use headwater::admin::Storage;
use headwater::cdc::{CdcOptions, Live};
use headwater::delivery::OperatorStore;
use headwater::{Event, Json, Queue, Subscription};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use uuid::Uuid;

/// Whether a script failed with an error after which users try again: a conflict, a lock timeout,
/// or a table that was replaced.
fn again(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    matches!(code.as_deref(), Some("40001" | "55P03" | "42P01"))
}

/// Runs transactions of an isolation level until told to stop, with three events each. Every fifth
/// is rolled back. Returns how many events were committed.
async fn write(url: String, level: &'static str, stop: Arc<AtomicBool>) -> u64 {
    let mut session = PgConnection::connect(&url).await.unwrap();
    let mut committed = 0;
    for n in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let end = if n % 5 == 0 { "ROLLBACK" } else { "COMMIT" };
        let script = format!(
            "BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM headwater.namespace_status();
             SELECT headwater.emit('shop', 'E', key => 'k{0}'); SELECT headwater.emit('shop', 'E', key => 'k{0}');
             SELECT headwater.emit('shop', 'E', key => 'l{0}'); {end}",
            n % 7
        );
        match sqlx::raw_sql(AssertSqlSafe(script)).execute(&mut session).await {
            Ok(_) => committed += if end == "COMMIT" { 3 } else { 0 },
            Err(error) if again(&error) => sqlx::raw_sql("ROLLBACK").execute(&mut session).await.map(drop).unwrap(),
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    committed
}

/// Consumes in order by SQL, with its effects in the same transaction, until it is told to stop.
async fn consume(url: String, stop: Arc<AtomicBool>) {
    let mut session = PgConnection::connect(&url).await.unwrap();
    let worker = Uuid::new_v4();
    while !stop.load(Ordering::Acquire) {
        match turn(&mut session, worker).await {
            Ok(()) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) if again(&error) => sqlx::raw_sql("ROLLBACK").execute(&mut session).await.map(drop).unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
}

async fn turn(session: &mut PgConnection, worker: Uuid) -> sqlx::Result<()> {
    let lease = "SELECT partition, term FROM headwater.lease_partitions('shop', 'ordered', $1)";
    let partitions: Vec<(i32, i64)> = sqlx::query_as(lease).bind(worker).fetch_all(&mut *session).await?;
    for (partition, term) in partitions {
        let next = "SELECT cursor, global_sequence FROM headwater.next_events('shop', 'ordered', $1, $2, max_events => 50, scope => 'batch')";
        let query = sqlx::query_as(next).bind(partition).bind(term);
        let page: Vec<(Option<String>, i64)> = query.fetch_all(&mut *session).await?;
        if page.is_empty() {
            continue;
        }
        sqlx::raw_sql("BEGIN").execute(&mut *session).await?;
        for (cursor, sequence) in page {
            sqlx::query("INSERT INTO effects VALUES ($1)").bind(sequence).execute(&mut *session).await?;
            if let Some(cursor) = cursor {
                let settle = sqlx::query("SELECT headwater.settle('shop', 'ordered', $1, $2, $3)");
                settle.bind(partition).bind(term).bind(cursor).execute(&mut *session).await?;
            }
        }
        sqlx::raw_sql("COMMIT").execute(&mut *session).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_is_moved_there_and_back_under_load() {
    let shop = Shop::open().await;
    shop.db.past_months("shop", 3, 40).await;
    let mut session = shop.db.session().await;
    sqlx::raw_sql(
        "CREATE TABLE effects (sequence bigint);
         SELECT headwater.register_subscriber('shop', 'ordered', mode => 'partitioned', partitions => 2)",
    )
    .execute(&mut session)
    .await
    .unwrap();
    let recorders = ["totals", "live", "work"].map(Recorder::new);
    let [totals, live, work] = recorders.clone();
    let plain = shop.shop.node("n1").run(Subscription::of(totals).config(quick())).start().await.unwrap();
    let follower =
        shop.shop.node("n2").run(Subscription::of(live).config(quick())).live(Live::Cdc(CdcOptions::default()));
    let follower = follower.start().await.unwrap();
    let workers = shop.shop.node("n3").run(Queue::of(work).config(quick()).workers(4)).start().await.unwrap();

    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let url = &shop.db.url;
    let writers = ["READ COMMITTED", "REPEATABLE READ", "READ COMMITTED"];
    let writers = writers.map(|level| tokio::spawn(write(url.clone(), level, stop.clone())));
    let consumer = tokio::spawn(consume(url.clone(), done.clone()));
    let (client, client_stop) = (shop.shop.clone(), stop.clone());
    let client = tokio::spawn(async move {
        let mut emitted = 0;
        while !client_stop.load(Ordering::Acquire) {
            client.emit(Event::raw("client", Json::null())).await.unwrap();
            emitted += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        emitted
    });

    for storage in [Storage::Own, Storage::Shared, Storage::Own, Storage::Shared] {
        let info = shop.headwater.admin().set_storage("shop", storage, Duration::from_secs(60), |_| {}).await.unwrap();
        assert_eq!(info.storage, storage);
        shop.db.database.maintain("shop", false).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    stop.store(true, Ordering::Release);
    let mut events: u64 = 120 + soon(client).await.unwrap();
    for writer in writers {
        events += soon(writer).await.unwrap();
    }

    let last = shop.db.database.log_end("shop").await.unwrap();
    for (node, subscriber) in [(&plain, "totals"), (&follower, "live"), (&workers, "work")] {
        soon(node.wait_for(subscriber, last)).await.unwrap();
    }
    until(|| async {
        let settled = "SELECT bool_and(position >= headwater.log_end('shop') AND pending_gaps = '{}') FROM headwater.group_status('shop', 'ordered')";
        sqlx::query_scalar(settled).fetch_one(shop.headwater.pool()).await.unwrap()
    })
    .await;
    done.store(true, Ordering::Release);
    soon(consumer).await.unwrap();

    let log: BTreeSet<i64> =
        sqlx::query_scalar("SELECT global_sequence FROM headwater.read_log('shop', max_events => 100000)")
            .fetch_all(&mut session)
            .await
            .unwrap()
            .into_iter()
            .collect();
    assert_eq!(log.len() as u64, events, "all that was committed is in the log");
    for recorder in &recorders {
        let sequences = recorder.sequences();
        assert_eq!(sequences.len(), log.len(), "each event once");
        assert_eq!(sequences.iter().map(|sequence| *sequence as i64).collect::<BTreeSet<_>>(), log);
    }
    let effects: Vec<i64> = sqlx::query_scalar("SELECT sequence FROM effects").fetch_all(&mut session).await.unwrap();
    assert_eq!((effects.len(), effects.into_iter().collect::<BTreeSet<_>>()), (log.len(), log));
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    let faults: Vec<String> =
        sqlx::query_scalar("SELECT fault FROM headwater.faults('shop')").fetch_all(&mut session).await.unwrap();
    assert_eq!(faults, [""; 0]);
    let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_class WHERE relname ~ '^events_n'")
        .fetch_one(&mut session)
        .await
        .unwrap();
    assert_eq!(tables, 0, "no tables of its own are left");
    for node in [plain, follower, workers] {
        node.shutdown().await.unwrap();
    }
}
