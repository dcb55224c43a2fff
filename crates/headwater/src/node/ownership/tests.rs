//! A subscription that is stopped while an event is being handled, step by step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::poll;
use headwater_core::{Append, Delivery, Event, EventLog, GroupStore, HandlerError, Instance, Json, OperatorStore};
use headwater_memory::{MemoryLog, MemorySubscribers};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::keeper::Keeper;
use super::runners::Runners;
use crate::Subscription;
use crate::node::reading::tail::Tail;
use crate::node::subscription::Runnable;
use crate::node::subscription::settings::Surroundings;

const LEASE: Duration = Duration::from_secs(60);

/// A keeper that ticks when it is told to, and its runners, on a store in memory.
struct Stepwise {
    log: MemoryLog,
    store: MemorySubscribers,
    keeper: Keeper,
    _reading: JoinSet<()>,
}

impl Stepwise {
    async fn run(subscription: impl Runnable) -> Self {
        let log = MemoryLog::new("shop");
        let store = MemorySubscribers::new(log.clone());
        let shared = Arc::new(store.clone());
        let poll = Duration::from_millis(10);
        let tail = Arc::new(Tail::new(Arc::new(log.clone()), shared.clone(), poll, None, None));
        let mut reading = JoinSet::new();
        let following = tail.clone();
        reading.spawn(async move { following.follow(Vec::new(), None).await });
        let runners = Arc::new(Runners::new(tail, shared, None, Instance::new("one"), None));
        let surroundings =
            Surroundings { namespace: "shop".into(), postgres: None, default_config: Default::default() };
        let plan = subscription.into_settings().0.plan(&surroundings).unwrap();
        store.register(&plan.registered_as()).await.unwrap();
        runners.begin([plan]);
        let counted_at = tokio::time::Instant::now();
        let keeper = Keeper { runners, lease: LEASE, counted_at, lost: Default::default() };
        Stepwise { log, store, keeper, _reading: reading }
    }

    async fn append(&self, keys: impl IntoIterator<Item = String>) {
        let event = |key| Event { key: Some(key), ..Event::raw("happened", Json::null()) };
        let append = keys.into_iter().map(event).fold(Append::new(), Append::event);
        self.log.append(append).await.unwrap();
    }
}

/// A handler that never ends. It says when it has begun, and when it is dropped.
#[derive(Clone)]
struct Endless {
    begun: Arc<Semaphore>,
    dropped: Arc<AtomicBool>,
}

struct SaysDropped(Arc<AtomicBool>);

impl Drop for SaysDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Endless {
    fn new() -> Self {
        Endless { begun: Arc::new(Semaphore::new(0)), dropped: Arc::default() }
    }

    async fn handle(self) -> Result<(), HandlerError> {
        let _says = SaysDropped(self.dropped);
        self.begun.add_permits(1);
        std::future::pending().await
    }

    async fn has_begun(&self) {
        let begun = tokio::time::timeout(Duration::from_secs(60), self.begun.acquire()).await;
        begun.expect("it did not begin within a minute").unwrap().forget();
    }
}

#[tokio::test]
async fn a_subscriber_that_is_stopping_takes_no_partition() {
    let (endless, other) = (Endless::new(), Instance::new("other"));
    let handler = endless.clone();
    let group = Subscription::new("g").partitions(2).each(move |_: Delivery| handler.clone().handle());
    let node = Stepwise::run(group).await;
    node.store.join(&other, &["g".to_owned()], LEASE).await.unwrap();
    let owned = || async {
        let group = node.store.group("g").await.unwrap();
        group.partitions.iter().filter(|partition| partition.owner.is_some()).count()
    };
    node.keeper.keep().await.unwrap();
    assert_eq!(owned().await, 1, "the other half is the other member's");
    node.append((0..20).map(|number| format!("key-{number}"))).await;
    endless.has_begun().await;
    {
        let mut stopping = std::pin::pin!(node.keeper.runners.end("g", LEASE));
        assert!(poll!(stopping.as_mut()).is_pending(), "an event is at hand");
        node.store.leave(&other, &["g".to_owned()]).await.unwrap();
        node.keeper.keep().await.unwrap();
        assert_eq!(owned().await, 1, "nobody here would handle the other half");
    }
}

#[tokio::test]
async fn a_handler_that_is_stopped_has_let_go_before_others_take_over() {
    let endless = Endless::new();
    let handler = endless.clone();
    let subscription = Subscription::new("x").each(move |_: Delivery| handler.clone().handle());
    let node = Stepwise::run(subscription).await;
    node.keeper.keep().await.unwrap();
    node.append(["key".to_owned()]).await;
    endless.has_begun().await;
    assert!(node.keeper.runners.end("x", Duration::ZERO).await.unwrap());
    assert!(endless.dropped.load(Ordering::Acquire), "its handler goes on, and its lease is free");
    assert_eq!(node.store.subscriber("x").await.unwrap().owner, None);
    assert!(node.keeper.runners.slots().is_empty() && node.keeper.runners.subscriptions().is_empty());
}
