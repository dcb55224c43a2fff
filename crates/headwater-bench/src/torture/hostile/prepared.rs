//! Transactions that are prepared before the server goes down, and committed long after it is back.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use sqlx::{ConnectOptions, Connection};
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;

use super::super::NAMESPACE;
use super::super::arena::{Arena, SharedServer};
use super::super::faults::{Kind, restart};
use super::super::producers::Fate;

/// The first restart comes soon, so that short runs have one.
const FIRST: Duration = Duration::from_secs(4);

/// Restarts the server until `end`. Returns the number of restarts.
pub(crate) async fn run(arena: &Arena, server: &SharedServer, mut dice: StdRng, end: Instant) -> anyhow::Result<u64> {
    let mut rounds = 0;
    let mut next = Instant::now() + FIRST;
    while next < end {
        sleep_until(next).await;
        let (id, name) = (Uuid::now_v7(), format!("torture-over-restart-{rounds}"));
        let prepared = prepare(arena, id, &name).await;
        arena.faults.begin(Kind::PreparedOverRestart, name.clone(), Duration::from_secs(10));
        let kind = if dice.random_bool(0.5) { Kind::RestartFast } else { Kind::RestartImmediately };
        restart(&arena.faults, server, kind).await?;
        sleep(Duration::from_millis(dice.random_range(200..3000))).await;
        let fate = match prepared {
            Ok(()) => commit(arena, &name).await?,
            // The transaction may have been prepared or not.
            Err(_) => Fate::Unknown,
        };
        {
            let mut known = arena.known.lock().expect("no holder of this lock panics");
            known.note(&[id], fate);
            known.prepared += 1;
        }
        rounds += 1;
        next = Instant::now() + Duration::from_secs_f64(dice.random_range(6.0..14.0));
    }
    Ok(rounds)
}

async fn prepare(arena: &Arena, id: Uuid, name: &str) -> sqlx::Result<()> {
    let mut conn = arena.control.connect().await?;
    let mut tx = conn.begin().await?;
    sqlx::query(include_str!("../../../sql/torture_append.sql"))
        .bind(NAMESPACE)
        .bind(id)
        .bind("key-1")
        .execute(&mut *tx)
        .await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("PREPARE TRANSACTION '{name}'"))).execute(&mut *tx).await?;
    // For the driver the transaction is still open. A ROLLBACK outside of a transaction is only a
    // warning.
    tx.rollback().await
}

async fn commit(arena: &Arena, name: &str) -> anyhow::Result<Fate> {
    let mut conn = arena.connect().await?;
    let commit = sqlx::AssertSqlSafe(format!("COMMIT PREPARED '{name}'"));
    sqlx::raw_sql(commit).execute(&mut conn).await?;
    Ok(Fate::Committed)
}
