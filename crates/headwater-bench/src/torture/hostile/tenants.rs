//! A tenant has grants in another namespace. It tries to lock shared tables, which must fail. It
//! leaves transactions open, which must delay nobody else.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;
use tokio::time::{Instant, sleep};

use super::super::EVENT_TYPE;
use super::super::arena::Arena;
use super::super::check::Violations;
use super::super::faults::Kind;
use super::{ELSEWHERE, TENANT, act};

/// Lock modes that block others.
const MODES: [&str; 5] = ["SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"];

/// Locks tables and leaves transactions open until `end`. Returns the number of rounds.
pub(crate) async fn run(
    arena: &Arena,
    mut dice: StdRng,
    end: Instant,
    violations: &mut Violations,
) -> anyhow::Result<u64> {
    let connect = arena.control.clone().username(TENANT).password("tenant").application_name("tenant");
    let tables: Vec<String> = sqlx::query_scalar(include_str!("../../../sql/torture_lockable.sql"))
        .fetch_all(&mut arena.connect().await?)
        .await?;
    let mut rounds = 0;
    while Instant::now() < end {
        let hold = Duration::from_millis(dice.random_range(100..1000));
        let done = if dice.random_bool(0.7) {
            let table = &tables[dice.random_range(0..tables.len())];
            let mode = MODES[dice.random_range(0..MODES.len())];
            act(arena, "tenant", lock(arena, &connect, table, mode, hold, violations)).await
        } else {
            act(arena, "tenant", dawdle(arena, &connect, 2 * hold)).await
        };
        // The server may be restarting.
        rounds += u64::from(done);
        sleep(Duration::from_millis(dice.random_range(50..500))).await;
    }
    Ok(rounds)
}

async fn lock(
    arena: &Arena,
    connect: &PgConnectOptions,
    table: &str,
    mode: &str,
    hold: Duration,
    violations: &mut Violations,
) -> sqlx::Result<()> {
    let mut conn = connect.connect().await?;
    let lock = format!("LOCK TABLE {table} IN {mode} MODE");
    arena.faults.begin(Kind::TenantsLock, lock.clone(), hold);
    let locked = format!("SET lock_timeout = '300ms'; BEGIN; {lock}");
    match sqlx::raw_sql(sqlx::AssertSqlSafe(locked)).execute(&mut conn).await {
        Ok(_) => {
            violations.add("TENANT", format!("with grants in another namespace only, it could {lock}"));
            sleep(hold).await;
            Ok(())
        }
        // The lock was refused as it must be, or somebody else held it.
        Err(sqlx::Error::Database(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Keeps an event of the tenant's own namespace uncommitted.
async fn dawdle(arena: &Arena, connect: &PgConnectOptions, hold: Duration) -> sqlx::Result<()> {
    let mut conn = connect.connect().await?;
    arena.faults.begin(Kind::TenantsTransaction, ELSEWHERE.into(), hold);
    sqlx::raw_sql("BEGIN").execute(&mut conn).await?;
    let emit = "SELECT headwater.emit(namespace => $1, event_type => $2, data => '{}')";
    sqlx::query(emit).bind(ELSEWHERE).bind(EVENT_TYPE).execute(&mut conn).await?;
    sleep(hold).await;
    Ok(())
}
