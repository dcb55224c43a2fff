//! Workers that ack, hand back, wait, forget and vanish, beside writers that commit late or never.
//! Every event is acked once or becomes a dead letter, and no event has two holders at a time. The
//! seed is printed; set HEADWATER_SEED to run it again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use crate::common::queue::{Shop, sequences};
use crate::common::run;
use headwater_core::{Claim, ClaimRequest, DeadLetterQuery, OperatorStore, SubscriberError};
use headwater_postgres::{Database, DatabaseOptions, PgQueue};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

const WRITERS: u64 = 4;
const TRANSACTIONS: usize = 60;
const WORKERS: u64 = 6;
const TYPES: [&str; 3] = ["a", "b", "c"];
/// Every so many events, one that always fails.
const HOPELESS: u64 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_is_acked_once_or_is_a_dead_letter() {
    let seed: u64 = std::env::var("HEADWATER_SEED")
        .map_or_else(|_| u64::from(rand::random::<u32>()), |seed| seed.parse().expect("a number"));
    println!("HEADWATER_SEED={seed}");
    let shop = Shop::open(0).await;
    let done = Arc::new(AtomicBool::new(false));
    let rng = |nth| StdRng::seed_from_u64(seed + nth);
    let mut workers = Vec::new();
    for nth in 0..WORKERS {
        let options = DatabaseOptions { max_connections: 2, ..DatabaseOptions::default() };
        let database = Database::connect(&shop.db.url, options).await.unwrap();
        let queue = PgQueue::new(database, shop.log.info().clone(), "work");
        let worker = Worker { queue, url: shop.db.url.clone(), rng: rng(nth), done: done.clone() };
        workers.push(tokio::spawn(worker.work()));
    }
    let checker = tokio::spawn(check(shop.db.session().await, done.clone()));
    let writers: Vec<_> =
        (WORKERS..WORKERS + WRITERS).map(|nth| tokio::spawn(write(shop.db.url.clone(), rng(nth)))).collect();
    for writer in writers {
        writer.await.expect("a writer failed");
    }
    let events: Vec<i64> = sqlx::query_scalar("SELECT global_sequence FROM headwater_private.events ORDER BY 1")
        .fetch_all(shop.db.database.pool())
        .await
        .unwrap();
    let events: Vec<u64> = events.into_iter().map(|sequence| sequence as u64).collect();
    while shop.position().await < *events.last().expect("the run wrote something") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    done.store(true, SeqCst);
    checker.await.expect("an event was in two hands");

    let mut acked = Vec::new();
    for worker in workers {
        acked.extend(worker.await.expect("a worker failed"));
    }
    let letters =
        shop.store.dead_letters(&DeadLetterQuery { limit: 10_000, ..DeadLetterQuery::default() }).await.unwrap();
    assert!(!letters.is_empty() && acked.len() > letters.len(), "the run says nothing about one of the two");
    let mut all: Vec<u64> =
        acked.iter().copied().chain(letters.iter().map(|letter| letter.global_sequence())).collect();
    all.sort_unstable();
    assert_eq!(all, events, "each of them once");
}

struct Worker {
    queue: PgQueue,
    url: String,
    rng: StdRng,
    done: Arc<AtomicBool>,
}

impl Worker {
    /// Answers what it acked.
    async fn work(mut self) -> Vec<u64> {
        let mut acked = Vec::new();
        while !self.done.load(SeqCst) {
            let typed = self.rng.random_bool(0.3);
            let event_types = if typed { vec![TYPES[self.rng.random_range(0..3)].to_owned()] } else { Vec::new() };
            let request = ClaimRequest {
                max_events: self.rng.random_range(1..20),
                visibility: Duration::from_millis(self.rng.random_range(5..60)),
                event_types,
                // So many that a slow machine, where claims expire, does not use them up.
                max_attempts: 10,
                ..ClaimRequest::new("worker")
            };
            if self.rng.random_bool(0.05) {
                self.vanish(&request).await;
                continue;
            }
            let claims = self.queue.claim(&request).await.expect("failed to claim");
            if claims.is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            for claim in claims {
                self.settle(claim, &mut acked).await;
            }
        }
        acked
    }

    async fn settle(&mut self, claim: Claim, acked: &mut Vec<u64>) {
        let sequences = sequences(&claim);
        let (some, rest) = sequences.split_at(self.rng.random_range(0..=sequences.len()));
        let hopeless: Vec<u64> = sequences.iter().copied().filter(|sequence| sequence % HOPELESS == 0).collect();
        if !hopeless.is_empty() {
            // What is left of it is forgotten.
            note(self.queue.nack(claim.claim_id, Some(&hopeless), Duration::ZERO, "always").await, &[], acked);
            return;
        }
        match self.rng.random_range(0..20) {
            // Forgotten.
            0 => {}
            // Too late, perhaps.
            1 => {
                tokio::time::sleep(Duration::from_millis(self.rng.random_range(0..80))).await;
                note(self.queue.ack(claim.claim_id, None).await, &sequences, acked);
            }
            2 => {
                let extended = self.queue.extend(claim.claim_id, Duration::from_millis(50)).await;
                note(extended.map(drop), &[], acked);
                note(self.queue.ack(claim.claim_id, None).await, &sequences, acked);
            }
            // Some of it fails.
            3..6 => {
                let delay = Duration::from_millis(self.rng.random_range(0..10));
                let kept = note(self.queue.nack(claim.claim_id, Some(some), delay, "some").await, &[], acked);
                if kept && !rest.is_empty() {
                    note(self.queue.ack(claim.claim_id, Some(rest)).await, rest, acked);
                }
            }
            6 => _ = note(self.queue.nack(claim.claim_id, None, Duration::ZERO, "all").await, &[], acked),
            // Some of it is done, and then forgotten.
            7 => _ = note(self.queue.ack(claim.claim_id, Some(some)).await, some, acked),
            _ => _ = note(self.queue.ack(claim.claim_id, None).await, &sequences, acked),
        }
    }

    /// Claims and settles in a transaction whose session ends before it does.
    async fn vanish(&mut self, request: &ClaimRequest) {
        let mut session = PgConnection::connect(&self.url).await.expect("failed to connect");
        run(&mut session, "BEGIN").await;
        for claim in self.queue.claim_in(&mut session, request).await.expect("failed to claim") {
            match self.rng.random_range(0..3) {
                0 => self.queue.ack_in(&mut session, claim.claim_id, None).await.expect("it is its own"),
                1 => self
                    .queue
                    .nack_in(&mut session, claim.claim_id, None, Duration::ZERO, "never")
                    .await
                    .expect("it is its own"),
                _ => {}
            }
        }
    }
}

/// Whether the claim was still held.
fn note(result: Result<(), SubscriberError>, sequences: &[u64], acked: &mut Vec<u64>) -> bool {
    match result {
        Ok(()) => acked.extend(sequences),
        Err(SubscriberError::ClaimLost(_)) => return false,
        Err(error) => panic!("failed to settle: {error}"),
    }
    true
}

/// Checks, with one snapshot per look, whether an event is in two claims or retries, or is both
/// claimed and dead.
async fn check(mut session: PgConnection, done: Arc<AtomicBool>) {
    let twice = "SELECT coalesce(array_agg(h.sequence), '{}') FROM (
                     SELECT h.sequence FROM (
                         SELECT unnest(headwater_private.claimed_sequences(c.namespace_id, c.first_sequence, c.last_sequence, c.sequences,
                                                                   c.event_types)) AS sequence FROM headwater_private.claims c WHERE NOT c.done
                          UNION ALL SELECT unnest(r.sequences) FROM headwater_private.retries r
                          UNION ALL SELECT d.global_sequence FROM headwater_private.dead_letters d) h
                      GROUP BY h.sequence HAVING count(*) > 1) h";
    while !done.load(SeqCst) {
        let twice: Vec<i64> = sqlx::query_scalar(twice).fetch_one(&mut session).await.unwrap();
        assert!(twice.is_empty(), "in two hands: {:?}", twice.iter().collect::<BTreeSet<_>>());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn write(url: String, mut rng: StdRng) {
    let mut session = PgConnection::connect(&url).await.expect("failed to connect");
    for _ in 0..TRANSACTIONS {
        run(&mut session, "BEGIN").await;
        for _ in 0..rng.random_range(1..6) {
            let event_type = TYPES[rng.random_range(0..3)];
            let emit = AssertSqlSafe(format!("SELECT headwater.emit('shop', '{event_type}')"));
            sqlx::raw_sql(emit).execute(&mut session).await.expect("failed to emit");
            if rng.random_bool(0.2) {
                tokio::time::sleep(Duration::from_millis(rng.random_range(0..20))).await;
            }
        }
        run(&mut session, if rng.random_bool(0.8) { "COMMIT" } else { "ROLLBACK" }).await;
    }
}
