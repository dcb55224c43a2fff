//! Holes in the events from the WAL: the events behind a hole are still taken from the WAL, and
//! holes are closed by proof.

use std::time::Duration;

use crate::common::{Recorder, Shop, quick, state, until};
use headwater::cdc::{CdcMode, CdcOptions, Live, LiveState};
use headwater::delivery::{OperatorStore, ReliableDeliveryConfig, RunnerState};
use headwater::node::WakeUpSource;
use headwater::{Event, Json, Node, Subscription};
use sqlx::{PgConnection, Row};

/// So rare that an event that is delivered soon did not come by polling, and that a test that waits
/// for a poll fails.
const NEVER: Duration = Duration::from_secs(3600);

fn sources() -> [Live; 2] {
    let inbox = CdcOptions { mode: CdcMode::inbox(), ..CdcOptions::default() };
    [Live::Cdc(CdcOptions::default()), Live::Cdc(inbox)]
}

/// A node that hears of events only from the WAL, and has read the log, as the start of a stream
/// requires.
async fn follow(shop: &Shop, recorder: &Recorder, hold_for: Duration, live: Live) -> Node {
    let node = shop
        .shop
        .node("n1")
        .run(Subscription::of(recorder.clone()).config(ReliableDeliveryConfig { hold_for, ..quick() }))
        .live(live)
        .wake_ups(WakeUpSource::Poll)
        .poll(NEVER)
        .start()
        .await
        .unwrap();
    until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Streaming) }).await;
    let before = taken(&node);
    while taken(&node) == before {
        let last = shop.emit(&["first"]).await;
        until(|| async { recorder.sequences().last() == Some(&last) }).await;
    }
    node
}

fn taken(node: &Node) -> u64 {
    node.status().live.expect("it has a live source").taken
}

/// Emits in a transaction that stays open.
async fn dawdle(session: &mut PgConnection, event_type: &str) -> u64 {
    sqlx::raw_sql("BEGIN").execute(&mut *session).await.unwrap();
    let emitted = sqlx::query("SELECT headwater.emit('shop', $1)").bind(event_type).fetch_one(session).await.unwrap();
    emitted.get::<i64, _>(0) as u64
}

async fn end(session: &mut PgConnection, how: &'static str) {
    sqlx::raw_sql(how).execute(session).await.unwrap();
}

async fn permanent_gaps(shop: &Shop) -> Vec<u64> {
    let gaps =
        "SELECT s FROM headwater_private.permanent_gaps, generate_series(first_sequence, last_sequence) s ORDER BY 1";
    let rows: Vec<i64> = sqlx::query_scalar(gaps).fetch_all(shop.headwater.pool()).await.unwrap();
    rows.into_iter().map(|sequence| sequence as u64).collect()
}

#[tokio::test]
async fn what_comes_behind_an_open_transaction_is_taken_from_the_wal_and_waits_for_it() {
    for live in sources() {
        let shop = Shop::open().await;
        let recorder = Recorder::new("strict");
        let node = follow(&shop, &recorder, Duration::MAX, live).await;
        let (before, handled) = (taken(&node), recorder.sequences().len());
        let mut session = shop.db.session().await;
        let held = dawdle(&mut session, "held").await;
        for n in 0..20 {
            shop.emit(&["behind"]).await;
            // The hole is open: what comes behind it needs no read of the log.
            until(|| async { taken(&node) == before + n + 1 }).await;
        }
        let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut session).await.unwrap();
        until(|| async {
            let (state, detail) = state(&node);
            state == RunnerState::Held
                && detail.contains(&format!("global_sequence {held} to {held}"))
                && detail.contains(&format!("pid {pid} "))
        })
        .await;
        assert_eq!(recorder.sequences().len(), handled);
        end(&mut session, "COMMIT").await;
        recorder.handled(handled + 21).await;
        assert!(recorder.sequences().is_sorted());
        assert_eq!(recorder.types()[handled], "held");
        node.shutdown().await.unwrap();
        assert_eq!(permanent_gaps(&shop).await, [0; 0]);
        assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    }
}

/// In all orders in which three transactions can end, each of which may be rolled back.
#[tokio::test]
async fn overlapping_transactions_are_delivered_in_order_and_what_was_rolled_back_is_a_gap() {
    for live in sources() {
        let shop = Shop::open().await;
        let recorder = Recorder::new("strict");
        let node = follow(&shop, &recorder, Duration::MAX, live).await;
        let before = taken(&node);
        let mut sessions = [shop.db.session().await, shop.db.session().await, shop.db.session().await];
        let (mut committed, mut rolled_back) = (recorder.sequences(), Vec::new());
        let mut behind = 0;
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            for which in 0..8 {
                let mut sequences = Vec::new();
                for session in &mut sessions {
                    sequences.push(dawdle(session, "overlapping").await);
                }
                committed.push(shop.emit(&["behind"]).await);
                behind += 1;
                for one in order {
                    let commits = which & (1 << one) != 0;
                    end(&mut sessions[one], if commits { "COMMIT" } else { "ROLLBACK" }).await;
                    if commits { &mut committed } else { &mut rolled_back }.push(sequences[one]);
                }
            }
        }
        committed.push(shop.emit(&["last"]).await);
        committed.sort();
        rolled_back.sort();
        recorder.handled(committed.len()).await;
        assert_eq!(recorder.sequences(), committed);
        until(|| async { permanent_gaps(&shop).await == rolled_back }).await;
        // The events that were certainly behind holes when they came. Of the others, a look into a
        // hole may have found one.
        assert!(taken(&node) >= before + behind, "{:?}", node.status().live);
        node.shutdown().await.unwrap();
        assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    }
}

#[tokio::test]
async fn a_gap_that_was_passed_is_delivered_late_though_its_event_comes_from_the_wal() {
    for live in sources() {
        let shop = Shop::open().await;
        let recorder = Recorder::new("eager");
        let node = follow(&shop, &recorder, Duration::ZERO, live).await;
        let handled = recorder.sequences().len();
        let mut session = shop.db.session().await;
        let late = dawdle(&mut session, "late").await;
        let second = shop.emit(&["second"]).await;
        until(|| async { shop.info("eager").await.position == second }).await;
        assert_eq!(shop.info("eager").await.pending_gaps, [(late, late)]);
        end(&mut session, "COMMIT").await;
        recorder.handled(handled + 2).await;
        until(|| async { shop.info("eager").await.pending_gaps.is_empty() }).await;
        assert_eq!(recorder.types()[handled..], ["second", "late"]);
        node.shutdown().await.unwrap();
        assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    }
}

#[tokio::test]
async fn a_stream_that_breaks_while_there_are_holes_loses_and_repeats_nothing() {
    for live in sources() {
        let shop = Shop::open().await;
        let recorder = Recorder::new("strict");
        let node = follow(&shop, &recorder, Duration::MAX, live).await;
        let mut committed = recorder.sequences();
        let mut sessions = [shop.db.session().await, shop.db.session().await];
        let mut killer = shop.db.session().await;
        for commits in [[true, false], [false, true], [true, true], [false, false]] {
            let mut sequences = Vec::new();
            for session in &mut sessions {
                sequences.push(dawdle(session, "overlapping").await);
                committed.push(shop.emit(&["before"]).await);
            }
            let streams = node.status().live.unwrap().streams;
            let kill = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
                         WHERE database = current_database() AND active_pid IS NOT NULL";
            sqlx::query(kill).execute(&mut killer).await.unwrap();
            for (one, commit) in commits.into_iter().enumerate() {
                end(&mut sessions[one], if commit { "COMMIT" } else { "ROLLBACK" }).await;
                committed.extend(commit.then_some(sequences[one]));
                committed.push(shop.emit(&["after"]).await);
            }
            // A slot can be made only when the transactions have ended that were open.
            until(|| async { node.status().live.unwrap().streams > streams }).await;
        }
        committed.push(shop.emit(&["last"]).await);
        committed.sort();
        recorder.handled(committed.len()).await;
        assert_eq!(recorder.sequences(), committed);
        node.shutdown().await.unwrap();
        assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    }
}

/// The stream leaves a hole although its event was committed, as when the stream has lost a row.
/// Nobody takes the event for a rolled back one.
#[tokio::test]
async fn what_the_stream_has_left_out_is_found_by_the_proof() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("strict");
    let node = follow(&shop, &recorder, Duration::MAX, Live::Cdc(CdcOptions::default())).await;
    let mut session = shop.db.session().await;
    let publication: String =
        sqlx::query_scalar("SELECT pubname FROM pg_publication").fetch_one(&mut session).await.unwrap();
    let (handled, received) = (recorder.sequences().len(), node.status().live.unwrap().received);
    for publish in ["truncate", "insert"] {
        let alter = format!("ALTER PUBLICATION {publication} SET (publish = '{publish}')");
        sqlx::raw_sql(sqlx::AssertSqlSafe(alter)).execute(&mut session).await.unwrap();
        shop.shop.emit(Event::raw(publish, Json::null())).await.unwrap();
    }
    recorder.handled(handled + 2).await;
    assert_eq!(recorder.types()[handled..], ["truncate", "insert"]);
    assert_eq!(node.status().live.unwrap().received, received + 1, "the stream had one of them");
    node.shutdown().await.unwrap();
    assert_eq!(permanent_gaps(&shop).await, [0; 0]);
}
