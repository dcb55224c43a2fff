//! Writers that wait, roll back, use savepoints, prepare and get killed, beside readers that keep
//! reading. A reader gets exactly what was committed, in order. The seed is printed; set
//! HEADWATER_SEED to run it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::common::run;
use headwater_core::{EventLog, GapState, LogQuery, NamespaceConfig};
use headwater_postgres::{LogOptions, PgLog};
use headwater_testing::TestDatabase;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sqlx::PgConnection;

const WRITERS: u64 = 12;
const TRANSACTIONS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_delivered_is_what_was_committed() {
    let seed: u64 = std::env::var("HEADWATER_SEED")
        .map_or_else(|_| u64::from(rand::random::<u32>()), |seed| seed.parse().expect("a number"));
    println!("HEADWATER_SEED={seed}");
    let db = TestDatabase::create().await;
    let log = db.log_with(NamespaceConfig::new("stress").notify(false), LogOptions::default()).await;
    let done = Arc::new(AtomicBool::new(false));

    let readers: Vec<_> = [1, 7, 1000]
        .map(|page_size| tokio::spawn(read_rust(log.clone(), page_size, done.clone())))
        .into_iter()
        .chain([tokio::spawn(read_sql(db.session().await, done.clone()))])
        .collect();
    let writers: Vec<_> =
        (0..WRITERS).map(|n| tokio::spawn(write(db.clone(), StdRng::seed_from_u64(seed + n)))).collect();
    for writer in writers {
        writer.await.expect("a writer failed");
    }
    done.store(true, SeqCst);

    let committed: Vec<i64> = sqlx::query_scalar("SELECT global_sequence FROM headwater_private.events ORDER BY 1")
        .fetch_all(db.database.pool())
        .await
        .unwrap();
    assert!(committed.len() > WRITERS as usize * TRANSACTIONS / 4, "the run wrote too little to say anything");
    let head = log.horizon().await.unwrap().head;
    assert!(head as usize > committed.len(), "the run rolled nothing back, so it says nothing about gaps");
    for reader in readers {
        let delivered = reader.await.expect("a reader failed");
        assert_eq!(delivered, committed, "delivered is not committed (seed {seed})");
    }
}

/// Reads on from its cursor until the writers are done and nothing is left. Checks the order, and
/// that no gap that was called permanent is ever filled.
async fn read_rust(log: PgLog, page_size: u32, done: Arc<AtomicBool>) -> Vec<i64> {
    let (mut delivered, mut gone) = (Vec::new(), Vec::new());
    let mut cursor = 0;
    loop {
        let last_round = done.load(SeqCst);
        let page = log.log_page(&LogQuery::after(cursor).page_size(page_size)).await.expect("failed to read");
        for event in &page.events {
            let sequence = event.sequence().get();
            assert!(
                sequence > cursor
                    && sequence <= page.cursor
                    && !gone.iter().any(|(a, b)| (*a..=*b).contains(&sequence))
            );
            delivered.push(sequence as i64);
        }
        gone.extend(page.gaps.iter().filter(|gap| gap.state == GapState::Permanent).map(|gap| (gap.first, gap.last)));
        let moved = page.cursor > cursor;
        cursor = page.cursor;
        if !moved && !page.more {
            if last_round {
                return delivered;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn read_sql(mut session: PgConnection, done: Arc<AtomicBool>) -> Vec<i64> {
    let mut delivered: Vec<i64> = Vec::new();
    loop {
        let last_round = done.load(SeqCst);
        let page: Vec<i64> = sqlx::query_scalar("SELECT global_sequence FROM headwater.read_log('stress', $1, 50)")
            .bind(delivered.last().copied().unwrap_or(0))
            .fetch_all(&mut session)
            .await
            .expect("failed to read");
        if page.is_empty() {
            if last_round {
                return delivered;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        delivered.extend(page);
    }
}

async fn write(db: TestDatabase, mut rng: StdRng) {
    let mut session = db.session().await;
    for _ in 0..TRANSACTIONS {
        let choice = rng.random_range(0..20);
        if choice == 0 {
            // Killed in the middle of its work.
            run(&mut session, "BEGIN").await;
            emit_some(&mut session, &mut rng).await;
            let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut session).await.unwrap();
            sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(db.database.pool()).await.unwrap();
            session = db.session().await;
            continue;
        }
        run(&mut session, "BEGIN").await;
        emit_some(&mut session, &mut rng).await;
        if choice < 6 {
            run(&mut session, "SAVEPOINT s").await;
            emit_some(&mut session, &mut rng).await;
            run(&mut session, if choice < 4 { "ROLLBACK TO s" } else { "RELEASE s" }).await;
            emit_some(&mut session, &mut rng).await;
        }
        if rng.random_bool(0.3) {
            tokio::time::sleep(Duration::from_millis(rng.random_range(0..20))).await;
        }
        match choice {
            1 | 2 => {
                let name = uuid::Uuid::now_v7();
                run(&mut session, &format!("PREPARE TRANSACTION '{name}'")).await;
                let end = if rng.random_bool(0.5) { "COMMIT" } else { "ROLLBACK" };
                run(&mut session, &format!("{end} PREPARED '{name}'")).await;
            }
            3 | 7 | 8 => run(&mut session, "ROLLBACK").await,
            _ => run(&mut session, "COMMIT").await,
        }
    }
}

async fn emit_some(session: &mut PgConnection, rng: &mut StdRng) {
    let count = rng.random_range(1..5);
    run(session, &format!("SELECT headwater.emit('stress', 'stress') FROM generate_series(1, {count})")).await;
}
