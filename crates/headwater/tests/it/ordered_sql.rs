//! Members of a group that consume by SQL, as any language can, beside Rust members of the same
//! group.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{Per, Shop, effects_per, quick, soon, until};
use headwater::delivery::OperatorStore;
use headwater::{Event, Json, Node};
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

const EFFECT: &str = "INSERT INTO effects (sequence, key, transaction_id, by) VALUES ($1, $2, $3, $4)";

async fn with_table() -> Shop {
    let shop = Shop::open().await;
    let table = "CREATE TABLE effects (sequence bigint, key text, transaction_id bigint, by text, xid text DEFAULT pg_current_xact_id()::text, at bigserial)";
    sqlx::raw_sql(table).execute(shop.headwater.pool()).await.unwrap();
    shop
}

/// A process that consumes by SQL.
#[derive(Clone)]
struct Process {
    name: &'static str,
    scope: &'static str,
    lease: &'static str,
    stop: Arc<AtomicBool>,
    /// Whether its connection is cut in the middle of a transaction, after an effect, and does not
    /// come back.
    dies: Arc<AtomicBool>,
}

impl Process {
    fn new(name: &'static str, scope: &'static str) -> Self {
        Process { name, scope, lease: "1 s", stop: Arc::default(), dies: Arc::default() }
    }

    fn start(&self, shop: &Shop) -> tokio::task::JoinHandle<()> {
        let (process, url) = (self.clone(), shop.db.url.clone());
        tokio::spawn(async move {
            let mut session = PgConnection::connect(&url).await.unwrap();
            let worker = Uuid::new_v4();
            while !process.stop.load(Ordering::Acquire) {
                match process.consume(&mut session, worker).await {
                    Ok(true) => {}
                    Ok(false) => tokio::time::sleep(Duration::from_millis(5)).await,
                    Err(error) => match error.as_database_error().and_then(|error| error.code()).as_deref() {
                        // Another owns the partition by now.
                        Some("WH011") => sqlx::raw_sql("ROLLBACK").execute(&mut session).await.map(drop).unwrap(),
                        _ if process.dies.load(Ordering::Acquire) => return,
                        _ => panic!("{error}"),
                    },
                }
            }
            let release = sqlx::query("SELECT headwater.release_partitions('shop', 'g', $1)").bind(worker);
            release.execute(&mut session).await.unwrap();
        })
    }

    async fn consume(&self, session: &mut PgConnection, worker: Uuid) -> sqlx::Result<bool> {
        let lease = "SELECT partition, term FROM headwater.lease_partitions('shop', 'g', $1, lease => $2::text::interval, node => $3)";
        let query = sqlx::query_as(lease).bind(worker).bind(self.lease).bind(self.name);
        let partitions: Vec<(i32, i64)> = query.fetch_all(&mut *session).await?;
        let mut busy = false;
        for (partition, term) in partitions {
            let next = "SELECT cursor, global_sequence, key, transaction_id FROM headwater.next_events('shop', 'g', $1, $2, max_events => 7, scope => $3)";
            let query = sqlx::query_as(next).bind(partition).bind(term).bind(self.scope);
            let page: Vec<(Option<String>, i64, Option<String>, i64)> = query.fetch_all(&mut *session).await?;
            busy |= !page.is_empty();
            let mut open = false;
            for (cursor, sequence, key, transaction) in page {
                if !std::mem::replace(&mut open, true) {
                    sqlx::raw_sql("BEGIN").execute(&mut *session).await?;
                }
                let effect = sqlx::query(EFFECT).bind(sequence).bind(key).bind(transaction).bind(self.name);
                effect.execute(&mut *session).await?;
                if self.dies.load(Ordering::Acquire) {
                    sqlx::raw_sql("SELECT pg_terminate_backend(pg_backend_pid())").execute(&mut *session).await?;
                }
                if let Some(cursor) = cursor {
                    let settle = sqlx::query("SELECT headwater.settle('shop', 'g', $1, $2, $3)");
                    settle.bind(partition).bind(term).bind(cursor).execute(&mut *session).await?;
                    sqlx::raw_sql("COMMIT").execute(&mut *session).await?;
                    open = false;
                }
            }
        }
        Ok(busy)
    }
}

/// A Rust member.
async fn node(shop: &Shop, name: &'static str, per: Per, partitions: u32) -> Node {
    let effects = effects_per("g", per, move |event, tx| {
        Box::pin(async move {
            let effect =
                sqlx::query(EFFECT).bind(event.global_sequence.map(|sequence| sequence as i64)).bind(&event.key);
            effect.bind(event.transaction_id.map(|id| id as i64)).bind(name).execute(tx).await?;
            Ok(())
        })
    });
    let effects = effects.config(quick()).partitions(partitions);
    shop.shop.node(name).run(effects).lease(Duration::from_secs(2)).start().await.unwrap()
}

/// Emits some events, of several keys in one transaction each.
async fn emit(shop: &Shop, transactions: usize) {
    for n in 0..transactions {
        let append = (0..6).fold(headwater::log::Append::new(), |append, m| {
            append.event(Event { key: Some(format!("k{}", (n + m / 2) % 11)), ..Event::raw("E", Json::null()) })
        });
        shop.shop.append_all(append).await.unwrap();
    }
}

async fn owners(shop: &Shop) -> Vec<String> {
    let owners =
        "SELECT DISTINCT owner_node FROM headwater.group_status('shop', 'g') WHERE lease_left IS NOT NULL ORDER BY 1";
    sqlx::query_scalar(owners).fetch_all(shop.headwater.pool()).await.unwrap()
}

async fn until_effects_of(shop: &Shop, name: &str) {
    until(|| async {
        let any = sqlx::query_scalar("SELECT EXISTS (SELECT FROM effects WHERE by = $1)").bind(name);
        any.fetch_one(shop.headwater.pool()).await.unwrap()
    })
    .await;
}

/// Waits until everything is settled, and compares the effects with the log: each event once, the
/// events of a key in order, and no bundle split.
async fn all_is_well(shop: &Shop, whole: bool) {
    until(|| async {
        let settled = "SELECT bool_and(position >= headwater.log_end('shop') AND pending_gaps = '{}') FROM headwater.group_status('shop', 'g')";
        sqlx::query_scalar(settled).fetch_one(shop.headwater.pool()).await.unwrap()
    })
    .await;
    assert_eq!(shop.shop.subscribers().audit(&["g".into()]).await.unwrap().findings, []);
    let wrong = "SELECT (SELECT count(*) FROM effects) - (SELECT count(*) FROM headwater.read_log('shop', max_events => 100000)),
                        (SELECT count(*) FROM headwater.read_log('shop', max_events => 100000) e WHERE e.global_sequence NOT IN (SELECT sequence FROM effects)),
                        (SELECT count(*) FROM (SELECT sequence < lag(sequence) OVER (PARTITION BY key ORDER BY at) AS back FROM effects) o WHERE back),
                        (SELECT count(*) FROM (SELECT FROM effects GROUP BY key, transaction_id HAVING count(DISTINCT xid) > 1) s)";
    let (more, missing, back, split): (i64, i64, i64, i64) =
        sqlx::query_as(wrong).fetch_one(shop.headwater.pool()).await.unwrap();
    assert_eq!((more, missing, back), (0, 0, 0));
    assert!(!whole || split == 0, "{split} bundles were split");
}

#[tokio::test]
async fn rust_and_sql_members_share_a_group_and_take_over_from_each_other() {
    let shop = with_table().await;
    let rust = node(&shop, "rust", Per::Batch, 6).await;
    let (one, two) = (Process::new("sql-1", "batch"), Process::new("sql-2", "event"));
    let (first, second) = (one.start(&shop), two.start(&shop));
    until(|| async { owners(&shop).await == ["rust", "sql-1", "sql-2"] }).await;
    emit(&shop, 40).await;
    for name in ["rust", "sql-1", "sql-2"] {
        until_effects_of(&shop, name).await;
    }
    // A process is killed in the middle of a transaction. The others continue when its lease has
    // ended.
    one.dies.store(true, Ordering::Release);
    until(|| async {
        emit(&shop, 11).await;
        first.is_finished()
    })
    .await;
    emit(&shop, 20).await;
    until(|| async { owners(&shop).await == ["rust", "sql-2"] }).await;
    rust.shutdown().await.unwrap();
    emit(&shop, 20).await;
    all_is_well(&shop, false).await;
    assert_eq!(owners(&shop).await, ["sql-2"]);
    // And back.
    let rust = node(&shop, "rust", Per::Batch, 6).await;
    until(|| async { owners(&shop).await == ["rust", "sql-2"] }).await;
    two.stop.store(true, Ordering::Release);
    soon(second).await.unwrap();
    emit(&shop, 20).await;
    all_is_well(&shop, false).await;
    assert_eq!(owners(&shop).await, ["rust"]);
    rust.shutdown().await.unwrap();
}

#[tokio::test]
async fn bundles_stay_whole_whoever_handles_them() {
    let shop = with_table().await;
    emit(&shop, 60).await;
    let rust = node(&shop, "rust", Per::Bundle(headwater::Bundle::Key), 3).await;
    let (one, two) = (Process::new("sql-1", "key"), Process::new("sql-2", "key"));
    let (first, second) = (one.start(&shop), two.start(&shop));
    // Some gaps: open transactions that end one after the other, half of them in a rollback.
    for round in 0..10 {
        let (mut open, mut other) = (shop.db.session().await, shop.db.session().await);
        let of = |key: &str| format!("SELECT headwater.emit('shop', 'E', key => '{key}')");
        for script in ["BEGIN", &of("k1"), &of("k2"), &of("k1")] {
            sqlx::raw_sql(sqlx::AssertSqlSafe(script.to_owned())).execute(&mut open).await.unwrap();
            sqlx::raw_sql(sqlx::AssertSqlSafe(of("k3"))).execute(&mut other).await.unwrap();
        }
        if round == 5 {
            one.dies.store(true, Ordering::Release);
        }
        sqlx::raw_sql(if round % 2 == 0 { "COMMIT" } else { "ROLLBACK" }).execute(&mut open).await.unwrap();
    }
    // Of all keys, so that it gets some, whichever partition it has.
    until(|| async {
        emit(&shop, 11).await;
        first.is_finished()
    })
    .await;
    emit(&shop, 20).await;
    all_is_well(&shop, true).await;
    two.stop.store(true, Ordering::Release);
    soon(second).await.unwrap();
    rust.shutdown().await.unwrap();
}
