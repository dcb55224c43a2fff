//! Rows of the log that are no events: they hold nobody up, are named, and come after all once they are repaired.

mod common;

use common::{Recorder, Shop, quick, soon, until};
use headwater::{AdminError, CdcOptions, Event, Json, Live, LiveState, Node, SubscriberStore};

/// Writes a row past all checks, as nobody should.
async fn insert(shop: &Shop, created_at: &str, headers: &str) -> u64 {
    let sequence: i64 = sqlx::query_scalar(
        "INSERT INTO headwater.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id, event_type,
                                       headers, data)
         SELECT nextval(n.sequence), pg_current_xact_id()::text::bigint, $1::timestamptz, now(), n.namespace_id, gen_random_uuid(),
                'Broken', $2::jsonb, '{}' FROM headwater.namespaces n WHERE n.namespace = 'shop'
         RETURNING global_sequence",
    )
    .bind(created_at)
    .bind(headers)
    .fetch_one(&mut shop.db.session().await)
    .await
    .expect("failed to insert");
    sequence as u64
}

async fn repair(shop: &Shop, sequence: u64) {
    sqlx::query("UPDATE headwater.events SET headers = NULL, created_at = now() WHERE global_sequence = $1")
        .bind(sequence as i64)
        .execute(&mut shop.db.session().await)
        .await
        .expect("failed to repair");
}

async fn start(shop: &Shop, recorder: &Recorder, live: Live) -> Node {
    let follows = live != Live::Wake;
    let node = shop.shop.node("n1").subscribe(recorder.clone()).config(quick()).live(live).start().await.unwrap();
    if follows {
        until(|| async { node.status().live.is_some_and(|live| live.state == LiveState::Streaming) }).await;
    }
    node
}

async fn holds_nobody_up_and_comes_after_its_repair(live: Live) {
    let shop = Shop::open().await;
    let recorder = Recorder::new("totals");
    let early = insert(&shop, "now", "[1]").await;
    shop.emit(&["a"]).await;
    let node = start(&shop, &recorder, live).await;
    recorder.handled(1).await;
    let later = insert(&shop, "infinity", "{}").await;
    let last = shop.emit(&["b"]).await;
    soon(node.wait_for("totals", last)).await.unwrap();
    assert_eq!(recorder.types(), ["a", "b"]);

    let poison = shop.shop.poison(false, 10).await.unwrap();
    assert_eq!(poison.iter().map(|poison| poison.global_sequence).collect::<Vec<_>>(), [early, later]);
    assert!(poison[1].error.contains("out of range"), "{}", poison[1].error);
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, [], "what is poison was not lost");

    let refused = shop.shop.redeliver_poison(early).await.unwrap_err();
    assert!(matches!(&refused, AdminError::InvalidInput(reason) if reason.contains("not repaired")), "{refused}");
    for sequence in [early, later] {
        repair(&shop, sequence).await;
        assert_eq!(shop.shop.redeliver_poison(sequence).await.unwrap(), 1);
        assert!(shop.shop.redeliver_poison(sequence).await.is_err(), "once is enough");
    }
    until(|| async { [early, later].iter().all(|sequence| recorder.sequences().contains(sequence)) }).await;
    assert_eq!(shop.shop.poison(false, 10).await.unwrap(), []);
    assert_eq!(shop.shop.poison(true, 10).await.unwrap().len(), 2);
    let next = shop.emit(&["c"]).await;
    soon(node.wait_for("totals", next)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    assert_eq!(shop.info("totals").await.pending_gaps, []);
}

#[tokio::test]
async fn read_from_the_log() {
    holds_nobody_up_and_comes_after_its_repair(Live::Wake).await;
}

#[tokio::test]
async fn from_the_wal() {
    holds_nobody_up_and_comes_after_its_repair(Live::Cdc(CdcOptions::default())).await;
}

#[tokio::test]
async fn pages_full_of_poison_are_passed_and_nothing_behind_them_is_lost() {
    let shop = Shop::open().await;
    for _ in 0..3 {
        insert(&shop, "now", "[1]").await;
    }
    let first = shop.emit(&["a"]).await;
    for _ in 0..3 {
        insert(&shop, "now", "[1]").await;
    }
    let second = shop.emit(&["b"]).await;
    for page_size in 1..=5 {
        let query = headwater::LogQuery::after(0).page_size(page_size);
        let mut events: Vec<Event<Json>> = Vec::new();
        let mut after = 0;
        loop {
            let page = headwater::EventLog::log_page(shop.shop.log(), &headwater::LogQuery { after, ..query.clone() })
                .await
                .unwrap();
            assert!(page.cursor > after || !page.more, "it goes on: {page:?}");
            after = page.cursor;
            events.extend(page.events);
            if after >= second {
                break;
            }
        }
        let sequences: Vec<_> = events.iter().filter_map(|event| event.global_sequence).collect();
        assert_eq!(sequences, [first, second], "in pages of {page_size}");
    }
    let recorder = Recorder::new("totals");
    let node = start(&shop, &recorder, Live::Wake).await;
    recorder.handled(2).await;
    assert_eq!(recorder.sequences(), [first, second]);
    node.shutdown().await.unwrap();
}
