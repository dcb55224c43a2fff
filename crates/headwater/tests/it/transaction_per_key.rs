//! A transaction per key: the effects of a group of events happen together, exactly once, and in
//! order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{Per, Shop, effects_per, quick, soon, state, until};
use headwater::delivery::{
    DeadLetter, DeadLetterQuery, DeadLetterState, OnBundleFailure, OnExhaustion, OperatorStore, ReliableDeliveryConfig,
    RunnerState, Transactional,
};
use headwater::node::NodeBuilder;
use headwater::{Bundle, Delivery, Event, HandlerError, Json, Node, Subscription, Transaction};
use sqlx::{PgConnection, Row};

/// Effects, with the transaction that made each: effects of a group share it.
async fn with_table() -> Shop {
    let shop = Shop::open().await;
    let table = "CREATE TABLE effects (n bigserial, sequence bigint NOT NULL, key text, tx xid8 NOT NULL DEFAULT pg_current_xact_id())";
    sqlx::raw_sql(table).execute(shop.headwater.pool()).await.unwrap();
    shop
}

async fn effect(event: &Event, tx: &mut PgConnection) -> Result<(), HandlerError> {
    let insert = "INSERT INTO effects (sequence, key) VALUES ($1, $2)";
    sqlx::query(insert).bind(event.global_sequence.unwrap() as i64).bind(&event.key).execute(tx).await?;
    Ok(())
}

/// The sequences of each transaction, in the order of the effects.
async fn effects(shop: &Shop) -> Vec<Vec<u64>> {
    let all = "SELECT array_agg(sequence ORDER BY n) FROM effects GROUP BY tx ORDER BY min(n)";
    let rows = sqlx::query(all).fetch_all(shop.headwater.pool()).await.unwrap();
    rows.iter().map(|row| row.get::<Vec<i64>, _>(0).into_iter().map(|n| n as u64).collect()).collect()
}

/// Every event has exactly one effect, and nothing is missing.
async fn assert_exactly_once(shop: &Shop, events: u64) {
    let all: Vec<u64> = effects(shop).await.into_iter().flatten().collect();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!((all.len() as u64, distinct.len() as u64), (events, events));
    assert_audited(shop).await;
}

async fn assert_audited(shop: &Shop) {
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

fn keyed(event_type: &str, key: &str) -> Event {
    Event { key: Some(key.into()), ..Event::raw(event_type, Json::null()) }
}

fn by(key: &str, actor: &str) -> Event {
    Event { actor_id: Some(actor.into()), ..keyed("done", key) }
}

/// Emits events one after the other, each in a transaction of its own.
async fn emit_all(shop: &Shop, events: impl IntoIterator<Item = Event>) -> Vec<u64> {
    let mut sequences = Vec::new();
    for event in events {
        sequences.push(shop.shop.emit(event).await.unwrap().global_sequence());
    }
    sequences
}

async fn begin(shop: &Shop) -> PgConnection {
    let mut session = shop.db.session().await;
    sqlx::raw_sql("BEGIN").execute(&mut session).await.unwrap();
    session
}

async fn end(session: &mut PgConnection, how: &'static str) {
    sqlx::raw_sql(how).execute(session).await.unwrap();
}

/// Emits in a transaction that stays open.
async fn emit_in(session: &mut PgConnection, key: &str) -> u64 {
    let emit = "SELECT headwater.emit('shop', 'done', key => $1)";
    sqlx::query(emit).bind(key).fetch_one(session).await.unwrap().get::<i64, _>(0) as u64
}

/// The subscription `keyed`, with an effect per event, in bundles. An event of the type `bad` fails
/// after its effect.
fn keyed_by(bundle: Bundle) -> Subscription<Transactional> {
    effects_per("keyed", Per::Bundle(bundle), |event, tx| {
        Box::pin(async move {
            effect(event, tx).await?;
            if event.event_type == "bad" { Err(HandlerError::message("bad")) } else { Ok(()) }
        })
    })
}

fn failing(on_exhaustion: OnExhaustion, on_bundle_failure: OnBundleFailure) -> ReliableDeliveryConfig {
    ReliableDeliveryConfig { on_exhaustion, on_bundle_failure, max_retries: 1, ..quick() }
}

async fn run_to(node: NodeBuilder, last: u64) -> Node {
    let node = node.start().await.unwrap();
    soon(node.wait_for("keyed", last)).await.unwrap();
    node
}

async fn letters(shop: &Shop) -> Vec<DeadLetter> {
    shop.shop.subscribers().dead_letters(&DeadLetterQuery::default()).await.unwrap()
}

#[tokio::test]
async fn the_events_of_a_key_share_a_transaction_in_order() {
    let shop = with_table().await;
    let s = emit_all(&shop, ["a", "b", "a", "c", "b", "a"].map(|key| keyed("done", key))).await;
    let node = run_to(shop.shop.node("n1").run(keyed_by(Bundle::Key)), s[5]).await;
    assert_eq!(effects(&shop).await, [vec![s[0], s[2], s[5]], vec![s[1], s[4]], vec![s[3]]]);
    until(|| async { shop.info("keyed").await.position == s[5] }).await;
    assert_eq!(shop.info("keyed").await.pending_gaps, []);
    assert_exactly_once(&shop, 6).await;
    node.shutdown().await.unwrap();
}

/// The change comes while the group of `a` is handled. The group of `b`, which the checkpoint has
/// passed, is in the ledger then.
#[tokio::test]
async fn a_group_in_the_ledger_is_not_handled_twice_for_a_change_of_partitions() {
    let shop = with_table().await;
    let s = emit_all(&shop, [("first", "a"), ("second", "b"), ("done", "a")].map(|(name, key)| keyed(name, key))).await;
    let (begun, mut seen) = tokio::sync::watch::channel(false);
    let (go, gone) = tokio::sync::watch::channel(false);
    let handled = Arc::new(AtomicU32::new(0));
    let (store, count) = (shop.shop.subscribers(), handled.clone());
    let subscription = Subscription::new("keyed").bundled_by(Bundle::Key).transactional(
        move |event: Delivery, mut tx: Transaction| {
            let (begun, mut gone, store, count) = (begun.clone(), gone.clone(), store.clone(), count.clone());
            async move {
                if event.event_type == "first" {
                    begun.send_replace(true);
                    _ = gone.wait_for(|go| *go).await;
                } else if event.event_type == "second" {
                    count.fetch_add(1, Ordering::SeqCst);
                    // Long enough for the change, if it does not wait for this.
                    let is_changed = || async { store.group("keyed").await.unwrap().resize_to.is_none() };
                    _ = tokio::time::timeout(Duration::from_secs(3), until(is_changed)).await;
                }
                effect(&event, &mut tx).await
            }
        },
    );
    let subscription = subscription.config(quick()).hold_for(Duration::MAX).partitions(1);
    let node = shop.shop.node("n1").run(subscription).lease(Duration::from_secs(2)).start().await.unwrap();
    soon(seen.wait_for(|begun| *begun)).await.unwrap();
    shop.shop.subscribers().resize("keyed", 3).await.unwrap();
    // The node has heard of it by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    go.send_replace(true);
    until(|| async {
        let group = shop.shop.subscribers().group("keyed").await.unwrap();
        group.partitions.len() == 3 && group.partitions.iter().all(|p| p.position >= s[2] && p.pending_gaps.is_empty())
    })
    .await;
    assert_eq!(handled.load(Ordering::SeqCst), 1);
    assert_eq!(effects(&shop).await, [vec![s[0], s[2]], vec![s[1]]]);
    assert_exactly_once(&shop, 3).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn without_a_key_the_stream_is_one_and_without_a_stream_the_event() {
    let shop = with_table().await;
    let in_stream = || Event::raw("done", Json::null()).in_stream("order-1");
    let plain = || Event::raw("done", Json::null());
    let s = emit_all(&shop, [in_stream(), plain(), in_stream(), plain()]).await;
    let node = run_to(shop.shop.node("n1").run(keyed_by(Bundle::Key)), s[3]).await;
    assert_eq!(effects(&shop).await, [vec![s[0], s[2]], vec![s[1]], vec![s[3]]]);
    assert_exactly_once(&shop, 4).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_events_of_an_actor_share_a_transaction_and_the_key_stays_in_order() {
    let shop = with_table().await;
    let rows = [("k", "x"), ("j", "x"), ("k", "x"), ("k", "y"), ("j", "x"), ("k", "x")];
    let s = emit_all(&shop, rows.map(|(key, actor)| by(key, actor))).await;
    let node = run_to(shop.shop.node("n1").run(keyed_by(Bundle::KeyAndActor)), s[5]).await;
    assert_eq!(effects(&shop).await, [vec![s[0], s[2]], vec![s[1], s[4]], vec![s[3]], vec![s[5]]]);
    assert_exactly_once(&shop, 6).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn events_that_come_one_by_one_are_handled_at_once() {
    let shop = with_table().await;
    let node = shop.shop.node("n1").run(keyed_by(Bundle::Key)).start().await.unwrap();
    for _ in 0..3 {
        let s = emit_all(&shop, [keyed("done", "a")]).await;
        soon(node.wait_for("keyed", s[0])).await.unwrap();
    }
    assert_eq!(effects(&shop).await.len(), 3);
    assert_exactly_once(&shop, 3).await;
    node.shutdown().await.unwrap();
}

/// One transaction of 5,000 events, and a batch of 100: all of the key's effects, or none.
#[tokio::test]
async fn a_transaction_longer_than_a_batch_is_handled_at_once() {
    for ordering in ["sequence", "gapless"] {
        let shop = with_table().await;
        if ordering == "gapless" {
            let config = headwater::admin::NamespaceConfig::new("tight").ordering(headwater::admin::Ordering::Gapless);
            shop.headwater.create_namespace(config).await.unwrap();
        }
        let namespace = shop.headwater.namespace(if ordering == "gapless" { "tight" } else { "shop" }).await.unwrap();
        let before = namespace.emit(keyed("done", "big")).await.unwrap().global_sequence();
        let long = (0..5_000).fold(headwater::log::Append::new(), |append, n| {
            append.event(keyed("done", if n % 1_000 == 7 { "small" } else { "big" }))
        });
        namespace.append_all(long).await.unwrap();
        let last = namespace.emit(keyed("done", "big")).await.unwrap().global_sequence();
        let tries = Arc::new(AtomicU32::new(0));
        let counted = tries.clone();
        let node = namespace.node("n1").run(
            Subscription::new("keyed")
                .bundled_by(Bundle::Key)
                .transactional(move |event: Delivery, mut tx: Transaction| {
                    let tries = counted.clone();
                    async move {
                        effect(&event, &mut tx).await?;
                        // Close to the group's end.
                        if event.global_sequence == Some(last - 2) && tries.fetch_add(1, Ordering::Relaxed) == 0 {
                            return Err(HandlerError::message("once"));
                        }
                        Ok(())
                    }
                })
                .config(ReliableDeliveryConfig { catch_up_batch_size: 100, ..quick() }),
        );
        let node = run_to(node, last).await;
        let groups: Vec<_> = effects(&shop).await.into_iter().map(|group| (group[0], group.len())).collect();
        assert_eq!(groups[0].0, before, "{ordering}");
        assert!(groups[0].1 >= 4_996, "the group has all of the transaction's events, not {}", groups[0].1);
        assert_eq!(groups[1].1, 5, "{ordering}");
        assert_eq!(tries.load(Ordering::Relaxed), 2);
        assert_exactly_once(&shop, 5_002).await;
        node.shutdown().await.unwrap();
    }
}

/// Two open transactions that take turns, with a batch that ends in their midst.
#[tokio::test]
async fn interleaved_transactions_of_a_key_are_not_split() {
    let shop = with_table().await;
    let (mut one, mut two) = (begin(&shop).await, begin(&shop).await);
    let mut of_key = Vec::new();
    let mut others = Vec::new();
    for n in 0..150 {
        of_key.push(emit_in(&mut one, "k").await);
        of_key.push(emit_in(&mut two, "k").await);
        if n % 3 == 0 {
            others.extend(emit_all(&shop, [keyed("done", &format!("other-{n}"))]).await);
        }
    }
    end(&mut one, "COMMIT").await;
    end(&mut two, "COMMIT").await;
    let last = emit_all(&shop, [keyed("done", "last")]).await[0];
    let config = ReliableDeliveryConfig { catch_up_batch_size: 10, ..quick() };
    let node = run_to(shop.shop.node("n1").run(keyed_by(Bundle::Key).config(config)), last).await;
    let groups = effects(&shop).await;
    assert_eq!(groups[0], of_key, "one group, in order");
    let rest: Vec<u64> = groups[1..].iter().flatten().copied().collect();
    assert_eq!(rest, [others.as_slice(), &[last]].concat(), "each by itself, in order");
    assert_exactly_once(&shop, 351).await;
    node.shutdown().await.unwrap();
}

/// The end of a transaction lies behind a gap that is held.
#[tokio::test]
async fn a_group_waits_for_its_transaction_behind_a_held_gap_and_others_do_not() {
    let shop = with_table().await;
    let (mut long, mut held) = (begin(&shop).await, begin(&shop).await);
    let first = emit_in(&mut long, "k").await;
    let other = emit_all(&shop, [keyed("done", "other")]).await[0];
    let gap = emit_in(&mut held, "held").await;
    let last = emit_in(&mut long, "k").await;
    end(&mut long, "COMMIT").await;
    let config = ReliableDeliveryConfig { hold_for: Duration::MAX, ..quick() };
    let node = shop.shop.node("n1").run(keyed_by(Bundle::Key).config(config)).start().await.unwrap();
    until(|| async { effects(&shop).await == [vec![other]] && state(&node).0 == RunnerState::Held }).await;
    until(|| async { shop.info("keyed").await.pending_gaps == [(first, first)] }).await;
    end(&mut held, "COMMIT").await;
    soon(node.wait_for("keyed", last)).await.unwrap();
    assert_eq!(effects(&shop).await, [vec![other], vec![first, last], vec![gap]]);
    assert_exactly_once(&shop, 4).await;
    node.shutdown().await.unwrap();
}

/// A transaction commits after its events were passed, some of them beyond what was seen. All of
/// them share a transaction.
#[tokio::test]
async fn late_events_of_a_transaction_share_one() {
    let shop = with_table().await;
    let mut late = begin(&shop).await;
    let one = emit_in(&mut late, "k").await;
    let a = emit_all(&shop, [keyed("done", "a")]).await[0];
    let two = emit_in(&mut late, "k").await;
    let b = emit_all(&shop, [keyed("done", "b")]).await[0];
    let config = ReliableDeliveryConfig { hold_for: Duration::ZERO, ..quick() };
    let node = shop.shop.node("n1").run(keyed_by(Bundle::Key).config(config)).start().await.unwrap();
    until(|| async { shop.info("keyed").await.position == b }).await;
    assert_eq!(shop.info("keyed").await.pending_gaps, [(one, one), (two, two)]);
    let three = emit_in(&mut late, "k").await;
    end(&mut late, "COMMIT").await;
    soon(node.wait_for("keyed", three)).await.unwrap();
    assert_eq!(effects(&shop).await, [vec![a], vec![b], vec![one, two, three]]);
    assert_exactly_once(&shop, 5).await;
    node.shutdown().await.unwrap();
}

/// Three keys that take turns, the middle one bad.
async fn one_bad_group(config: ReliableDeliveryConfig) -> (Shop, Vec<u64>, Node) {
    let shop = with_table().await;
    let rows = [("done", "a"), ("done", "b"), ("done", "c"), ("bad", "b"), ("done", "a"), ("done", "b"), ("done", "c")];
    let s = emit_all(&shop, rows.map(|(event_type, key)| keyed(event_type, key))).await;
    let node = shop.shop.node("n1").run(keyed_by(Bundle::Key).config(config)).start().await.unwrap();
    (shop, s, node)
}

#[tokio::test]
async fn a_failing_group_is_given_up_as_a_whole_and_the_others_commit() {
    let (shop, s, node) = one_bad_group(failing(OnExhaustion::DeadLetter, OnBundleFailure::DeadLetterBundle)).await;
    soon(node.wait_for("keyed", s[6])).await.unwrap();
    assert_eq!(effects(&shop).await, [vec![s[0], s[4]], vec![s[2], s[6]]]);
    let letters = letters(&shop).await;
    let dead: Vec<_> =
        letters.iter().map(|letter| (letter.global_sequence(), letter.state, letter.parks_key)).collect();
    assert_eq!(dead, [s[1], s[3], s[5]].map(|sequence| (sequence, DeadLetterState::Dead, false)));
    assert!(letters.iter().all(|letter| letter.attempts.len() == 2), "{letters:?}");
    assert_eq!(letters[1].error(), "bad");
    let rolled_back = format!("rolled back with its bundle of 3 events: event {} failed: bad", s[3]);
    assert_eq!((letters[0].error(), letters[2].error()), (rolled_back.as_str(), rolled_back.as_str()));
    assert_audited(&shop).await;
    // A redrive goes in order, event by event.
    shop.shop
        .subscribers()
        .redrive(&DeadLetterQuery { global_sequence: Some(s[1]), ..Default::default() })
        .await
        .unwrap();
    shop.shop
        .subscribers()
        .redrive(&DeadLetterQuery { global_sequence: Some(s[5]), ..Default::default() })
        .await
        .unwrap();
    until(|| async { shop.info("keyed").await.dead_letters == 1 }).await;
    assert_eq!(effects(&shop).await[2..], [vec![s[1]], vec![s[5]]]);
    assert_audited(&shop).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_failing_group_may_be_handled_event_by_event() {
    let (shop, s, node) = one_bad_group(failing(OnExhaustion::DeadLetter, OnBundleFailure::EventByEvent)).await;
    soon(node.wait_for("keyed", s[6])).await.unwrap();
    assert_eq!(effects(&shop).await, [vec![s[0], s[4]], vec![s[1]], vec![s[5]], vec![s[2], s[6]]]);
    let letters = letters(&shop).await;
    let dead: Vec<_> = letters.iter().map(|letter| (letter.global_sequence(), letter.error())).collect();
    assert_eq!(dead, [(s[3], "bad")]);
    assert_eq!(letters[0].attempts.len(), 3, "twice in its group, once by itself");
    assert_audited(&shop).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_failure_that_passes_is_tried_again_as_a_group() {
    let shop = with_table().await;
    let s = emit_all(&shop, ["a", "b", "a", "b"].map(|key| keyed("done", key))).await;
    let failures = Arc::new(AtomicU32::new(0));
    let counted = failures.clone();
    let second = s[2];
    let node = shop.shop.node("n1").run(
        Subscription::new("keyed")
            .bundled_by(Bundle::Key)
            .transactional(move |event: Delivery, mut tx: Transaction| {
                let failures = counted.clone();
                async move {
                    effect(&event, &mut tx).await?;
                    if event.global_sequence == Some(second) && failures.fetch_add(1, Ordering::Relaxed) < 2 {
                        return Err(HandlerError::message("not yet"));
                    }
                    Ok(())
                }
            })
            .config(quick()),
    );
    let node = run_to(node, s[3]).await;
    assert_eq!(effects(&shop).await, [vec![s[0], s[2]], vec![s[1], s[3]]]);
    assert_eq!((failures.load(Ordering::Relaxed), shop.info("keyed").await.dead_letters), (3, 0));
    assert_exactly_once(&shop, 4).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_group_that_parks_its_key_waits_with_what_comes_later() {
    for on_bundle_failure in [OnBundleFailure::DeadLetterBundle, OnBundleFailure::EventByEvent] {
        let (shop, s, node) = one_bad_group(failing(OnExhaustion::ParkKey, on_bundle_failure)).await;
        soon(node.wait_for("keyed", s[6])).await.unwrap();
        let more = emit_all(&shop, [keyed("done", "b"), keyed("done", "a"), keyed("done", "b")]).await;
        soon(node.wait_for("keyed", more[2])).await.unwrap();
        let states: BTreeMap<_, _> = letters(&shop)
            .await
            .iter()
            .map(|letter| (letter.global_sequence(), (letter.state, letter.parks_key)))
            .collect();
        let (dead, parked) = ((DeadLetterState::Dead, true), (DeadLetterState::Parked, false));
        let expected = match on_bundle_failure {
            OnBundleFailure::DeadLetterBundle => {
                vec![(s[1], dead), (s[3], dead), (s[5], dead), (more[0], parked), (more[2], parked)]
            }
            OnBundleFailure::EventByEvent => vec![(s[3], dead), (s[5], parked), (more[0], parked), (more[2], parked)],
        };
        assert_eq!(states, expected.into_iter().collect());
        let all: Vec<u64> = effects(&shop).await.into_iter().flatten().collect();
        assert!(all.contains(&more[1]) && !all.contains(&more[0]) && !all.contains(&s[5]), "{all:?}");
        assert_audited(&shop).await;
        // Without the bad one, all of the key goes on, in order.
        let bad = DeadLetterQuery { global_sequence: Some(s[3]), ..Default::default() };
        shop.shop.subscribers().discard(&bad, "bad").await.unwrap();
        shop.shop.subscribers().redrive(&DeadLetterQuery::default()).await.unwrap();
        until(|| async { shop.info("keyed").await.dead_letters == 0 }).await;
        let last = emit_all(&shop, [keyed("done", "b")]).await[0];
        soon(node.wait_for("keyed", last)).await.unwrap();
        let of_b = "SELECT array_agg(sequence ORDER BY n) FROM effects WHERE key = 'b'";
        let of_b: Vec<i64> = sqlx::query_scalar(of_b).fetch_one(shop.headwater.pool()).await.unwrap();
        assert_eq!(of_b, [s[1], s[5], more[0], more[2], last].map(|sequence| sequence as i64));
        assert_audited(&shop).await;
        node.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_group_may_pause_the_subscriber_and_comes_again_when_it_is_resumed() {
    for on_bundle_failure in [OnBundleFailure::DeadLetterBundle, OnBundleFailure::EventByEvent] {
        let (shop, s, node) = one_bad_group(failing(OnExhaustion::Pause, on_bundle_failure)).await;
        until(|| async { state(&node).0 == RunnerState::Paused }).await;
        let info = shop.info("keyed").await;
        assert!(info.paused, "{info:?}");
        let done = effects(&shop).await;
        assert_eq!(done[0], [s[0], s[4]]);
        assert!(!done.iter().flatten().any(|sequence| *sequence == s[3]), "{done:?}");
        node.shutdown().await.unwrap();
        assert_audited(&shop).await;
        // Another version of the handler has nothing against it.
        shop.shop.subscribers().set_paused("keyed", false).await.unwrap();
        let fixed = shop.shop.node("n1").run(
            Subscription::new("keyed")
                .bundled_by(Bundle::Key)
                .transactional(|event: Delivery, mut tx: Transaction| async move { effect(&event, &mut tx).await }),
        );
        let node = run_to(fixed, s[6]).await;
        let after = effects(&shop).await;
        if on_bundle_failure == OnBundleFailure::DeadLetterBundle {
            assert_eq!(after, [vec![s[0], s[4]], vec![s[1], s[3], s[5]], vec![s[2], s[6]]]);
        }
        assert_exactly_once(&shop, 7).await;
        node.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_letter_of_the_group_is_not_handled_again_by_the_next_owner() {
    let (shop, s, node) = one_bad_group(failing(OnExhaustion::DeadLetter, OnBundleFailure::DeadLetterBundle)).await;
    soon(node.wait_for("keyed", s[6])).await.unwrap();
    drop(node);
    // As if the checkpoint had not passed the letters yet: they are in the ledger.
    let back = "UPDATE headwater_private.subscribers SET pending_gaps = ARRAY[$1, $1, $2, $2, $3, $3]::bigint[],
                settled_events = settled_events - 3, settled_sum = settled_sum - $1 - $2 - $3";
    let [one, two, three] = [s[1], s[3], s[5]].map(|sequence| sequence as i64);
    sqlx::query(back).bind(one).bind(two).bind(three).execute(shop.headwater.pool()).await.unwrap();
    let node = run_to(shop.shop.node("n1").run(keyed_by(Bundle::Key)), s[6]).await;
    assert_eq!(effects(&shop).await.len(), 2);
    assert_eq!(letters(&shop).await.len(), 3);
    assert_audited(&shop).await;
    node.shutdown().await.unwrap();
}

/// Ends the session of a group's transaction at one of its steps, as a kill there does. Groups that
/// have committed are not handled again. The others are, as groups.
#[tokio::test]
async fn a_kill_at_any_step_leaves_one_effect_an_event() {
    for step in ["effect", "checkpoint", "commit"] {
        let shop = with_table().await;
        let s = emit_all(&shop, ["a", "b", "c", "b", "a", "c", "b"].map(|key| keyed("done", key))).await;
        // Only what concerns the key b, the second group.
        let setup = "CREATE TABLE kills (step text);
            CREATE FUNCTION kill_now() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN
                IF EXISTS (SELECT FROM kills WHERE step = TG_ARGV[0])
                   AND EXISTS (SELECT FROM effects e WHERE e.key = 'b' AND e.tx = pg_current_xact_id()) THEN
                    PERFORM pg_terminate_backend(pg_backend_pid());
                END IF;
                RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION kill_now('commit');
            CREATE TRIGGER at_effect AFTER INSERT ON effects FOR EACH ROW EXECUTE FUNCTION kill_now('effect');
            CREATE TRIGGER at_checkpoint AFTER UPDATE OF position ON headwater_private.subscribers FOR EACH ROW
                EXECUTE FUNCTION kill_now('checkpoint')";
        sqlx::raw_sql(setup).execute(shop.headwater.pool()).await.unwrap();
        sqlx::query("INSERT INTO kills VALUES ($1)").bind(step).execute(shop.headwater.pool()).await.unwrap();
        let config = ReliableDeliveryConfig { max_retries: 100, ..quick() };
        let node = shop.shop.node("n1").run(keyed_by(Bundle::Key).config(config.clone())).start().await.unwrap();
        until(|| async { node.status().subscribers[0].report.detail.is_some() }).await;
        assert_eq!(effects(&shop).await, [vec![s[0], s[4]]], "killed at {step}");
        let info = shop.info("keyed").await;
        assert_eq!((info.position, info.pending_gaps), (s[4], vec![(s[1], s[3])]), "killed at {step}");
        // The process goes with it: the next one knows what the database knows.
        drop(node);
        assert_audited(&shop).await;
        sqlx::query("DELETE FROM kills").execute(shop.headwater.pool()).await.unwrap();
        let node = run_to(shop.shop.node("n1").run(keyed_by(Bundle::Key).config(config)), s[6]).await;
        assert_eq!(
            effects(&shop).await,
            [vec![s[0], s[4]], vec![s[1], s[3], s[6]], vec![s[2], s[5]]],
            "killed at {step}"
        );
        assert_exactly_once(&shop, 7).await;
        node.shutdown().await.unwrap();
    }
}

/// A crash in the middle of an extended batch. The next owner finds one part in the ledger and one
/// part ahead.
#[tokio::test]
async fn a_crash_does_not_split_a_long_transaction() {
    let shop = with_table().await;
    let long =
        (0..3_000).fold(headwater::log::Append::new(), |append, n| append.event(keyed("done", ["a", "b", "c"][n % 3])));
    let placed = shop.shop.append_all(long).await.unwrap();
    let last = placed.events.last().unwrap().global_sequence;
    let (told, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let small = ReliableDeliveryConfig { catch_up_batch_size: 10, ..quick() };
    let hangs = shop
        .shop
        .node("n1")
        .run(
            Subscription::new("keyed")
                .bundled_by(Bundle::Key)
                .transactional(move |event: Delivery, mut tx: Transaction| {
                    let told = told.clone();
                    async move {
                        effect(&event, &mut tx).await?;
                        if event.key.as_deref() == Some("b") {
                            told.send(())?;
                            return std::future::pending().await;
                        }
                        Ok(())
                    }
                })
                .config(small.clone()),
        )
        .start()
        .await
        .unwrap();
    soon(begun.recv()).await.unwrap();
    drop(hangs);
    let committed: Vec<usize> = effects(&shop).await.iter().map(Vec::len).collect();
    assert_eq!(committed, [1_000]);
    let node = run_to(shop.shop.node("n1").run(keyed_by(Bundle::Key).config(small)), last).await;
    let groups: Vec<usize> = effects(&shop).await.iter().map(Vec::len).collect();
    assert_eq!(groups, [1_000; 3]);
    assert_exactly_once(&shop, 3_000).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn events_of_others_are_settled_on_the_way() {
    let shop = with_table().await;
    let rows = [("done", "a"), ("other", "a"), ("done", "b"), ("other", "b"), ("done", "a"), ("other", "c")];
    let s = emit_all(&shop, rows.map(|(event_type, key)| keyed(event_type, key))).await;
    let node = run_to(shop.shop.node("n1").run(keyed_by(Bundle::Key).event_types(["done"])), s[5]).await;
    assert_eq!(effects(&shop).await, [vec![s[0], s[4]], vec![s[2]]]);
    node.shutdown().await.unwrap();
    assert_eq!(shop.info("keyed").await.position, s[5]);
    assert_audited(&shop).await;
}

/// Writers of all kinds at the same time, some of which roll back, and an owner that is dropped
/// again and again.
async fn among_writers(hold_for: Duration) -> Shop {
    let shop = with_table().await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4u32 {
        let mut session = shop.db.session().await;
        writers.spawn(async move {
            let mut committed = 0;
            for round in 0..40u32 {
                end(&mut session, "BEGIN").await;
                let events = 1 + (writer + round) % 7;
                for n in 0..events {
                    emit_in(&mut session, &format!("k{}", (writer + n) % 5)).await;
                }
                let keep = !(writer + round).is_multiple_of(5);
                end(&mut session, if keep { "COMMIT" } else { "ROLLBACK" }).await;
                committed += if keep { events as u64 } else { 0 };
            }
            committed
        });
    }
    let config = ReliableDeliveryConfig { catch_up_batch_size: 3, hold_for, ..quick() };
    for crash in 1..=3 {
        let node = shop.shop.node("n1").run(keyed_by(Bundle::Key).config(config.clone())).start().await.unwrap();
        until(|| async { effects(&shop).await.len() >= crash * 5 }).await;
        drop(node);
    }
    let mut events = 0;
    while let Some(committed) = writers.join_next().await {
        events += committed.unwrap();
    }
    let last = emit_all(&shop, [keyed("done", "last")]).await[0];
    let node = run_to(shop.shop.node("n1").run(keyed_by(Bundle::Key).config(config)), last).await;
    assert_exactly_once(&shop, events + 1).await;
    let split: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM (SELECT FROM effects f JOIN headwater_private.events e ON e.global_sequence = f.sequence
                                GROUP BY e.transaction_id, e.key HAVING count(DISTINCT f.tx) > 1) s",
    )
    .fetch_one(shop.headwater.pool())
    .await
    .unwrap();
    assert_eq!(split, 0, "no transaction's events of a key are in two groups");
    node.shutdown().await.unwrap();
    shop
}

#[tokio::test]
async fn whatever_writers_do_each_event_has_one_effect_and_keys_stay_in_order() {
    let shop = among_writers(Duration::MAX).await;
    let out_of_order: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM (SELECT sequence < lag(sequence) OVER (PARTITION BY key ORDER BY n) AS wrong FROM effects) e WHERE wrong",
    )
    .fetch_one(shop.headwater.pool())
    .await
    .unwrap();
    assert_eq!(out_of_order, 0);
}

#[tokio::test]
async fn whatever_writers_do_each_event_has_one_effect_also_when_it_comes_late() {
    among_writers(Duration::ZERO).await;
}

/// Events of one transaction: so many of each key, in turn, with payloads of so many bytes.
async fn emit_together(shop: &Shop, keys: usize, of_each: usize, bytes: usize) -> Vec<u64> {
    let mut session = begin(shop).await;
    let emit =
        "SELECT headwater.emit('shop', 'done', jsonb_build_object('text', repeat('x', $1)), key => 'key-' || n % $2)
                  FROM generate_series(0, $2 * $3 - 1) AS n";
    let emit = sqlx::query(emit).bind(bytes as i32).bind(keys as i32).bind(of_each as i32);
    let rows = emit.fetch_all(&mut session).await.unwrap();
    end(&mut session, "COMMIT").await;
    rows.iter().map(|row| row.get::<i64, _>(0) as u64).collect()
}

/// The transaction is larger than what is kept in memory. It is read several times, for some keys
/// each time, and no group is split.
#[tokio::test]
async fn a_transaction_that_does_not_fit_is_handled_key_by_key() {
    let shop = with_table().await;
    let s = emit_together(&shop, 8, 24, 500_000).await;
    let after = emit_all(&shop, [keyed("done", "key-3"), keyed("done", "other")]).await;
    let node = shop.shop.node("n1").run(keyed_by(Bundle::Key)).start().await.unwrap();
    tokio::time::timeout(Duration::from_secs(120), node.wait_for("keyed", after[1])).await.unwrap().unwrap();
    let groups: Vec<Vec<u64>> = effects(&shop).await;
    for key in 0..8 {
        let of_key: Vec<u64> = s.iter().copied().skip(key).step_by(8).collect();
        assert!(groups.iter().any(|group| group.starts_with(&of_key)), "the events of key {key} have one transaction");
    }
    assert_exactly_once(&shop, s.len() as u64 + 2).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_one_transaction_appended_of_a_key_has_to_fit() {
    let shop = with_table().await;
    let s = emit_together(&shop, 1, 140, 500_000).await;
    let node = shop.shop.node("n1").run(keyed_by(Bundle::Key)).start().await.unwrap();
    until(|| async { shop.info("keyed").await.paused }).await;
    let reason = shop.info("keyed").await.pause_reason.unwrap_or_default();
    assert!(reason.contains("key-0") && reason.contains("64 MiB"), "{reason}");
    assert!(reason.contains(&s[0].to_string()), "{reason}");
    assert_eq!(effects(&shop).await, [[0; 0]; 0], "nothing is split");
    assert_audited(&shop).await;
    node.shutdown().await.unwrap();
}
