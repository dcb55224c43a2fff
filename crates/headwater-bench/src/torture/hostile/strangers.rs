//! Strangers take advisory locks of every kind: keys like a writer's with any sequence, keys with
//! the id of a queue or a subscriber, pairs with a class of 0x4857…, and random keys. The locks are
//! shared and exclusive, for the session and for a transaction. A stranger that waits for a lock
//! also matters: others queue behind it.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use sqlx::ConnectOptions;
use tokio::time::{Instant, sleep};

use super::super::NAMESPACE;
use super::super::arena::Arena;
use super::super::faults::Kind;
use super::super::subscribers::ALL;
use super::{STRANGER, act};

/// Takes locks until `end`. Returns the number of rounds.
pub(crate) async fn run(arena: &Arena, mut dice: StdRng, end: Instant) -> anyhow::Result<u64> {
    let connect = arena.control.clone().username(STRANGER).password("stranger").application_name("stranger");
    let mut rounds = 0;
    while Instant::now() < end {
        // The server may be restarting.
        rounds += u64::from(act(arena, "stranger", once(arena, &connect, &mut dice)).await);
        sleep(Duration::from_millis(dice.random_range(50..400))).await;
    }
    Ok(rounds)
}

async fn once(arena: &Arena, connect: &sqlx::postgres::PgConnectOptions, dice: &mut StdRng) -> sqlx::Result<()> {
    let mut control = arena.control.connect().await?;
    let place = sqlx::query_as::<_, (i32, i64)>(include_str!("../../../sql/torture_log_place.sql"));
    let (namespace, last) = place.bind(NAMESPACE).fetch_one(&mut control).await?;
    let mut conn = connect.connect().await?;
    sqlx::raw_sql("SET lock_timeout = '300ms'; BEGIN").execute(&mut conn).await?;
    let locks: Vec<String> = (0..dice.random_range(1..12)).map(|_| lock(dice, namespace, last)).collect();
    arena.faults.begin(Kind::StrangersLock, locks.join("; "), Duration::from_secs(2));
    for lock in locks {
        // The wait for a lock that somebody else holds times out.
        let lock = format!("SAVEPOINT s; {lock}; RELEASE s");
        if sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut conn).await.is_err() {
            sqlx::raw_sql("ROLLBACK TO s").execute(&mut conn).await?;
        }
    }
    sleep(Duration::from_millis(dice.random_range(0..2000))).await;
    // The session ends here, and so do its locks.
    Ok(())
}

/// Returns a statement that takes one lock.
fn lock(dice: &mut StdRng, namespace: i32, last: i64) -> String {
    let tries = if dice.random_bool(0.7) { "try_" } else { "" };
    let scope = if dice.random_bool(0.5) { "xact_" } else { "" };
    let mode = if dice.random_bool(0.6) { "_shared" } else { "" };
    let key = match dice.random_range(0..10) {
        0..6 => writers_key(dice, namespace, last),
        6 => {
            let id = ALL[dice.random_range(0..ALL.len())].id();
            format!("(18513::bigint << 48) | ({namespace}::bigint << 32) | (hashtext('{id}')::bigint & 4294967295)")
        }
        7 => {
            let id = ALL[dice.random_range(0..ALL.len())].id();
            let half = |from: u32| format!("('x' || substr(md5('{NAMESPACE}:{id}'), {from}, 8))::bit(32)::int");
            format!("{}, {}", half(1), half(9))
        }
        // Pairs with a class from 0x48570001 on.
        8 => format!("{}, {}", 1_213_661_185 + dice.random_range(0..8), dice.random_range(0..3)),
        _ => dice.random::<i64>().to_string(),
    };
    format!("SELECT pg_{tries}advisory_{scope}lock{mode}({key})")
}

/// Returns a key like a writer's, with any sequence.
fn writers_key(dice: &mut StdRng, namespace: i32, last: i64) -> String {
    let namespace = if dice.random_bool(0.8) { i64::from(namespace) } else { dice.random_range(0..65_536) };
    let low = match dice.random_range(0..6) {
        0 => i64::from(dice.random::<u32>()),
        1 => 4_000_000_000,
        2 => i64::from(u32::MAX) - dice.random_range(0..400),
        3 => dice.random_range(0..400),
        4 => (last + dice.random_range(0..50)) & 0xffff_ffff,
        _ => (last - dice.random_range(0..50)) & 0xffff_ffff,
    };
    format!("(72::bigint << 56) | ({namespace}::bigint << 32) | {low}")
}
