//! Partitioned subscribers: many instances, each key in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Shop, quick, soon, until};
use headwater::delivery::{
    CheckpointMode, DeadLetterQuery, Each, GroupInfo, InstanceMode, OperatorStore, Partitions, ReliableDeliveryConfig,
    SubscriberError,
};
use headwater::node::NodeBuilder;
use headwater::{Delivery, Event, EventObserver, HandlerError, Json, Node, Subscription, Transaction};

/// What all instances of a test handled, in the order in which they did.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<Vec<(String, String, u64)>>>);

/// An instance that tells the witness.
struct Worker {
    name: String,
    witness: Witness,
    failing: Arc<AtomicBool>,
}

impl EventObserver for Worker {
    fn subscriber_id(&self) -> &str {
        "g"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        if self.failing.load(Ordering::Acquire) {
            return Err(HandlerError::permanent("told to fail".to_owned()));
        }
        // Others may come in between here.
        tokio::task::yield_now().await;
        let key = event.key.clone().unwrap_or_default();
        let mut seen = self.witness.0.lock().unwrap();
        seen.push((self.name.clone(), key, event.global_sequence.unwrap_or_default()));
        Ok(())
    }
}

impl Witness {
    fn worker(&self, name: &str) -> Worker {
        Worker { name: name.into(), witness: self.clone(), failing: Arc::default() }
    }

    fn group(&self, name: &str, partitions: impl Into<Partitions>) -> Subscription<Each> {
        Subscription::of(self.worker(name)).config(quick()).partitions(partitions)
    }

    fn node(&self, shop: &Shop, name: &str, partitions: impl Into<Partitions>) -> NodeBuilder {
        shop.shop.node(name).run(self.group(name, partitions))
    }

    fn sequences(&self) -> Vec<u64> {
        let mut sequences: Vec<_> = self.0.lock().unwrap().iter().map(|(_, _, sequence)| *sequence).collect();
        sequences.sort_unstable();
        sequences
    }

    /// Each event was handled once, and those of a key in order, whoever handled them.
    fn is_complete_and_in_order(&self, events: &[u64]) {
        assert_eq!(self.sequences(), events);
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for (name, key, sequence) in self.0.lock().unwrap().iter() {
            let before = last.insert(key.clone(), *sequence).unwrap_or_default();
            assert!(before < *sequence, "{name} handled {sequence} of {key} after {before}");
        }
    }

    fn names(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().iter().map(|(name, ..)| name.clone()).collect()
    }
}

async fn group(shop: &Shop) -> GroupInfo {
    shop.shop.subscribers().group("g").await.unwrap()
}

/// How many partitions each node owns, by name.
async fn shares(shop: &Shop) -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    for owner in group(shop).await.partitions.into_iter().filter_map(|partition| partition.owner) {
        *shares.entry(owner.node).or_default() += 1;
    }
    shares
}

async fn until_shared(shop: &Shop, expected: &[usize]) {
    until(|| async {
        let mut counts: Vec<usize> = shares(shop).await.into_values().collect();
        counts.sort_unstable();
        counts == expected
    })
    .await;
}

/// Emits events of some keys, and says which sequences they got.
async fn emit(shop: &Shop, events: usize, keys: usize) -> Vec<u64> {
    let append = (0..events).fold(headwater::log::Append::new(), |append, n| {
        append.event(Event { key: Some(format!("key-{}", n % keys)), ..Event::raw("E", Json::null()) })
    });
    let appended = shop.shop.append_all(append).await.unwrap();
    appended.events.iter().map(|event| event.global_sequence).collect()
}

async fn settled(shop: &Shop, node: &Node, events: &[u64]) {
    let last = *events.last().unwrap();
    soon(node.wait_for("g", last)).await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&["g".into()]).await.unwrap().findings, []);
}

#[tokio::test]
async fn instances_share_partitions_and_keep_the_order_of_keys() {
    let shop = Shop::open().await;
    let witness = Witness::default();
    let mut nodes = Vec::new();
    for name in ["one", "two", "three"] {
        nodes.push(witness.node(&shop, name, 16).start().await.unwrap());
    }
    until_shared(&shop, &[5, 5, 6]).await;
    let events = emit(&shop, 900, 60).await;
    settled(&shop, &nodes[0], &events).await;
    witness.is_complete_and_in_order(&events);
    assert_eq!(witness.names().len(), 3, "all had some");
    for node in &nodes {
        node.shutdown().await.unwrap();
    }
    assert!(group(&shop).await.members.is_empty() && shares(&shop).await.is_empty());
}

#[tokio::test]
async fn who_joins_gets_its_share_and_who_leaves_or_dies_is_replaced() {
    let shop = Shop::open().await;
    let witness = Witness::default();
    // Long leases: only sessions tell who is gone.
    let lease = Duration::from_secs(600);
    let start = async |name: &str| witness.node(&shop, name, 8).lease(lease).start().await.unwrap();
    let one = start("one").await;
    until_shared(&shop, &[8]).await;
    let mut events = emit(&shop, 100, 20).await;
    let two = start("two").await;
    events.extend(emit(&shop, 100, 20).await);
    until_shared(&shop, &[4, 4]).await;
    events.extend(emit(&shop, 100, 20).await);
    let three = start("three").await;
    until_shared(&shop, &[2, 3, 3]).await;
    settled(&shop, &three, &events).await;
    one.shutdown().await.unwrap();
    events.extend(emit(&shop, 100, 20).await);
    until_shared(&shop, &[4, 4]).await;
    settled(&shop, &three, &events).await;
    witness.is_complete_and_in_order(&events);
    drop(two);
    until_shared(&shop, &[8]).await;
    events.extend(emit(&shop, 100, 20).await);
    settled(&shop, &three, &events).await;
    witness.is_complete_and_in_order(&events);
    three.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_number_of_partitions_changes_under_load() {
    let shop = Arc::new(Shop::open().await);
    let witness = Witness::default();
    let batched = ReliableDeliveryConfig {
        checkpoint_mode: CheckpointMode::Batched { batch_size: 50, max_delay_ms: 100 },
        ..quick()
    };
    let one = shop.shop.node("one").run(witness.group("one", 4).config(batched.clone())).start().await.unwrap();
    let two = shop.shop.node("two").run(witness.group("two", 4).config(batched)).start().await.unwrap();
    until_shared(&shop, &[2, 2]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let producing = tokio::spawn({
        let (shop, stop) = (shop.clone(), stop.clone());
        async move {
            let mut events = Vec::new();
            while !stop.load(Ordering::Acquire) {
                events.extend(emit(&shop, 7, 7).await);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            events
        }
    });
    for partitions in [7, 2, 16] {
        shop.shop.subscribers().resize("g", partitions).await.unwrap();
        until(|| async {
            let now = group(&shop).await;
            now.resize_to.is_none() && now.partitions.len() == partitions as usize
        })
        .await;
        until_shared(&shop, &[partitions as usize / 2, partitions as usize - partitions as usize / 2]).await;
    }
    stop.store(true, Ordering::Release);
    let events = producing.await.unwrap();
    settled(&shop, &one, &events).await;
    witness.is_complete_and_in_order(&events);
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn partitions_can_be_assigned_by_hand() {
    let shop = Shop::open().await;
    let witness = Witness::default();
    let one = witness.node(&shop, "one", Partitions::of(4).only([0, 2, 3])).start().await.unwrap();
    let events = emit(&shop, 100, 20).await;
    until(|| async { shares(&shop).await == BTreeMap::from([("one".into(), 3)]) }).await;
    let two = witness.node(&shop, "two", Partitions::of(4).only([1])).start().await.unwrap();
    settled(&shop, &two, &events).await;
    witness.is_complete_and_in_order(&events);
    for (name, key, _) in witness.0.lock().unwrap().iter() {
        assert_eq!(name == "two", headwater::delivery::partition_of(key, 4) == 1, "{key} by {name}");
    }
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn dead_letters_are_redriven_by_the_owner_of_their_key() {
    let shop = Shop::open().await;
    let witness = Witness::default();
    let failing = Arc::new(AtomicBool::new(true));
    let start = async |name: &str| {
        let worker = Worker { failing: failing.clone(), ..witness.worker(name) };
        shop.shop.node(name).run(Subscription::of(worker).config(quick()).partitions(4)).start().await.unwrap()
    };
    let (one, two) = (start("one").await, start("two").await);
    until_shared(&shop, &[2, 2]).await;
    let events = emit(&shop, 20, 20).await;
    settled(&shop, &one, &events).await;
    assert_eq!(witness.sequences(), [0u64; 0]);
    assert_eq!(shop.info("g").await.dead_letters, 20);
    failing.store(false, Ordering::Release);
    let all = DeadLetterQuery { subscriber_id: Some("g".into()), ..DeadLetterQuery::default() };
    assert_eq!(shop.shop.subscribers().redrive(&all).await.unwrap(), 20);
    until(|| async { shop.info("g").await.dead_letters == 0 }).await;
    witness.is_complete_and_in_order(&events);
    assert_eq!(witness.names().len(), 2, "each by the owner of its partition");
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn effects_in_transactions_are_there_once_however_owners_change() {
    let shop = Shop::open().await;
    let mut conn = shop.db.session().await;
    sqlx::query("CREATE TABLE effects (sequence bigint, key text)").execute(&mut conn).await.unwrap();
    let start = async |name: &str| {
        let effects = Subscription::new("g").transactional(|event: Delivery<Json>, mut tx: Transaction| async move {
            sqlx::query("INSERT INTO effects VALUES ($1, $2)")
                .bind(event.global_sequence.unwrap_or_default() as i64)
                .bind(&event.key)
                .execute(&mut *tx)
                .await?;
            Ok(())
        });
        shop.shop.node(name).run(effects.config(quick()).partitions(6)).start().await.unwrap()
    };
    let one = start("one").await;
    let mut events = emit(&shop, 300, 30).await;
    let two = start("two").await;
    events.extend(emit(&shop, 300, 30).await);
    until_shared(&shop, &[3, 3]).await;
    events.extend(emit(&shop, 300, 30).await);
    drop(one);
    shop.shop.subscribers().resize("g", 5).await.unwrap();
    until(|| async { group(&shop).await.partitions.len() == 5 }).await;
    settled(&shop, &two, &events).await;
    let effects: Vec<i64> =
        sqlx::query_scalar("SELECT sequence FROM effects ORDER BY sequence").fetch_all(&mut conn).await.unwrap();
    assert_eq!(effects.into_iter().map(|sequence| sequence as u64).collect::<Vec<_>>(), events);
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn wrong_partitions_are_refused_at_the_start() {
    let shop = Shop::open().await;
    let witness = Witness::default();
    let single = ReliableDeliveryConfig { instance_mode: InstanceMode::SingleInstance, ..quick() };
    for (node, reason) in [
        (witness.node(&shop, "one", 0), "invalid number of partitions 0"),
        (witness.node(&shop, "one", 1025), "invalid number of partitions 1025"),
        (shop.shop.node("one").run(witness.group("one", 4).config(single)), "its instance_mode is Coordinated"),
        (witness.node(&shop, "one", Partitions::of(4).only([])), "invalid partition_ids []"),
        (witness.node(&shop, "one", Partitions::of(4).only([1, 1])), "invalid partition_ids [1, 1]"),
    ] {
        match node.start().await.err() {
            Some(SubscriberError::InvalidInput(message)) => assert!(message.contains(reason), "{message}"),
            other => panic!("{reason}: {other:?}"),
        }
    }
}
