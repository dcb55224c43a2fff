//! Nodes on the memory backend: every mode that needs no SQL transaction, without a database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use headwater::delivery::{DeadLetterQuery, OperatorStore, ReliableDeliveryConfig, RunnerState};
use headwater::log::{Append, EventLog};
use headwater::node::NodeBuilder;
use headwater::{Delivery, Event, EventObserver, HandlerError, Json, Queue, Subscription};
use headwater_memory::{MemoryLog, MemorySubscribers};

use crate::common::{quick, soon, state, until};

/// What was handled: by which node, of which key, and the event's sequence.
type Handled = Arc<Mutex<Vec<(&'static str, String, u64)>>>;

/// Notes what it handles. Fails an event of the type `flaky` once, and one of the type `broken`
/// always.
struct Witness {
    node: &'static str,
    handled: Handled,
    tried: Arc<Mutex<BTreeMap<u64, u32>>>,
}

impl EventObserver for Witness {
    fn subscriber_id(&self) -> &str {
        "work"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        // Others may come in between here.
        tokio::task::yield_now().await;
        let sequence = event.global_sequence.unwrap_or_default();
        let tries = {
            let mut tried = self.tried.lock().unwrap();
            let tries = tried.entry(sequence).or_default();
            *tries += 1;
            *tries
        };
        if event.event_type == "broken" || event.event_type == "flaky" && tries == 1 {
            return Err(HandlerError::message("told to fail"));
        }
        self.handled.lock().unwrap().push((self.node, event.key.clone().unwrap_or_default(), sequence));
        Ok(())
    }
}

/// A log in memory, its subscribers, and what their handlers did.
struct Memory {
    log: MemoryLog,
    store: MemorySubscribers,
    handled: Handled,
    tried: Arc<Mutex<BTreeMap<u64, u32>>>,
}

impl Memory {
    fn new() -> Self {
        let log = MemoryLog::new("shop");
        let store = MemorySubscribers::new(log.clone());
        Memory { log, store, handled: Handled::default(), tried: Arc::default() }
    }

    fn node(&self, name: &'static str) -> (NodeBuilder, Witness) {
        let witness = Witness { node: name, handled: self.handled.clone(), tried: self.tried.clone() };
        (NodeBuilder::new(name, Arc::new(self.log.clone()), Arc::new(self.store.clone())), witness)
    }

    async fn append(&self, events: impl IntoIterator<Item = Event>) -> u64 {
        let append = events.into_iter().fold(Append::new(), Append::event);
        self.log.append(append).await.unwrap().events.last().unwrap().global_sequence
    }

    async fn position(&self) -> u64 {
        self.store.subscriber("work").await.unwrap().position
    }

    /// The sequences that were handled, sorted.
    fn sequences(&self) -> Vec<u64> {
        let mut sequences: Vec<u64> = self.handled.lock().unwrap().iter().map(|(_, _, sequence)| *sequence).collect();
        sequences.sort_unstable();
        sequences
    }
}

fn keyed(number: usize) -> Event {
    Event { key: Some(format!("key-{}", number % 7)), ..Event::raw("happened", Json::null()) }
}

#[tokio::test]
async fn partitions_are_shared_out_and_each_key_is_handled_in_order() {
    let memory = Memory::new();
    memory.append((0..50).map(keyed)).await;
    let (one, two) = (memory.node("one"), memory.node("two"));
    let one = one.0.run(Subscription::of(one.1).config(quick()).partitions(4)).start().await.unwrap();
    let two = two.0.run(Subscription::of(two.1).config(quick()).partitions(4)).start().await.unwrap();
    // Each gets its share.
    until(|| async {
        let group = memory.store.group("work").await.unwrap();
        let owners: Vec<_> = group.partitions.iter().filter_map(|it| it.owner.as_ref()).map(|it| &it.node).collect();
        let of = |name: &str| owners.iter().filter(|owner| **owner == name).count();
        (of("one"), of("two")) == (2, 2)
    })
    .await;
    let last = memory.append((50..100).map(keyed)).await;
    until(|| async { memory.position().await >= last }).await;
    assert_eq!(memory.sequences(), (1..=100).collect::<Vec<_>>(), "each once");
    let mut by_key: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (_, key, sequence) in memory.handled.lock().unwrap().iter() {
        by_key.entry(key.clone()).or_default().push(*sequence);
    }
    assert!(by_key.len() == 7 && by_key.values().all(|sequences| sequences.is_sorted()), "{by_key:?}");
    let nodes: BTreeSet<_> = memory.handled.lock().unwrap().iter().map(|(node, ..)| *node).collect();
    assert_eq!(nodes.len(), 2, "both handled some");
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_number_of_partitions_changes_under_load() {
    let memory = Memory::new();
    let (builder, witness) = memory.node("one");
    memory.append((0..30).map(keyed)).await;
    let node = builder.run(Subscription::of(witness).config(quick()).partitions(2)).start().await.unwrap();
    memory.store.resize("work", 5).await.unwrap();
    let last = memory.append((30..60).map(keyed)).await;
    until(|| async { memory.store.group("work").await.unwrap().partitions.len() == 5 }).await;
    until(|| async { memory.position().await >= last }).await;
    assert_eq!(memory.sequences(), (1..=60).collect::<Vec<_>>(), "each once");
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn workers_of_a_queue_handle_each_event_once_retry_and_give_up() {
    let memory = Memory::new();
    let types = |number: usize| match number {
        10 | 20 => "flaky",
        30 => "broken",
        _ => "happened",
    };
    let last = memory.append((1..=60).map(|number| Event::raw(types(number), Json::null()))).await;
    let config = ReliableDeliveryConfig { max_retries: 2, ..quick() };
    let (one, two) = (memory.node("one"), memory.node("two"));
    let one = one.0.run(Queue::of(one.1).config(config.clone()).workers(4)).start().await.unwrap();
    let two = two.0.run(Queue::of(two.1).config(config).workers(4)).start().await.unwrap();
    until(|| async { memory.position().await >= last }).await;
    let expected: Vec<u64> = (1..=60).filter(|sequence| *sequence != 30).collect();
    assert_eq!(memory.sequences(), expected, "each once");
    let tries = |sequence| memory.tried.lock().unwrap()[&sequence];
    assert_eq!((tries(1), tries(10), tries(20), tries(30)), (1, 2, 2, 3));
    let letters = memory.store.dead_letters(&DeadLetterQuery::default()).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].global_sequence(), letters[0].attempts.len()), (30, 3));
    soon(one.shutdown()).await.unwrap();
    soon(two.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_paused_queue_rests_until_it_is_resumed() {
    let memory = Memory::new();
    let (builder, witness) = memory.node("one");
    let node = builder.run(Queue::of(witness).config(quick())).start().await.unwrap();
    memory.store.set_paused("work", true).await.unwrap();
    until(|| async { state(&node).0 == RunnerState::Paused }).await;
    let last = memory.append((0..5).map(keyed)).await;
    assert!(memory.sequences().is_empty());
    memory.store.set_paused("work", false).await.unwrap();
    until(|| async { memory.position().await >= last }).await;
    assert_eq!(memory.sequences(), [1, 2, 3, 4, 5]);
    node.shutdown().await.unwrap();
}
