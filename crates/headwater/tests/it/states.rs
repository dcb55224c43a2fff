//! States of sagas and projections: whatever changes a state at the same time, no change is lost,
//! made twice or made too late.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::common::{Shop, quick, soon, until};
use futures::TryStreamExt;
use headwater::delivery::{
    CheckpointMode, Each, EventApplicator, OperatorStore, PgStateStore, SagaActions, StateStore,
};
use headwater::log::LogQuery;
use headwater::{Event, HandlerError, Json, Projection, RecordedEvent, Saga, SubscriberId, Subscription};
use tokio::sync::{Semaphore, mpsc as channel};

const ONE: &str = "one state";

fn keyed(key: &str) -> Event {
    Event { key: Some(key.into()), ..Event::raw("counted", Json::null()) }
}

/// One event each of enough keys to be in both of two partitions. Returns the last sequence.
async fn emit_keys(shop: &Shop, keys: usize) -> u64 {
    let mut last = 0;
    for key in 0..keys {
        last = shop.shop.emit(keyed(&format!("key-{key}"))).await.unwrap().global_sequence();
    }
    last
}

/// Sessions that wait for a lock of another.
async fn blocked(shop: &Shop) -> i64 {
    let waiting = "SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0";
    sqlx::query_scalar(waiting).fetch_one(shop.headwater.pool()).await.unwrap()
}

#[tokio::test]
async fn whoever_reads_a_state_that_is_being_made_waits_for_it() {
    let shop = Shop::open().await;
    let states: PgStateStore<u32> = shop.shop.state_store("saga");
    let mut one = shop.headwater.pool().begin().await.unwrap();
    assert_eq!(states.get_in(&mut one, ONE).await.unwrap(), None);
    let mut two = shop.headwater.pool().begin().await.unwrap();
    let others = states.clone();
    let reading = tokio::spawn(async move {
        let state = others.get_in(&mut two, ONE).await.unwrap();
        others.put_in(&mut two, ONE, None).await.unwrap();
        two.commit().await.unwrap();
        state
    });
    until(|| async { blocked(&shop).await == 1 }).await;
    assert_eq!(states.get(ONE).await.unwrap(), None, "who only looks does not wait");
    states.put_in(&mut one, ONE, Some(&1)).await.unwrap();
    one.commit().await.unwrap();
    assert_eq!(soon(reading).await.unwrap(), Some(1));
    // Deleted by the one, it is made by the next.
    let mut tx = shop.headwater.pool().begin().await.unwrap();
    assert_eq!(states.get_in(&mut tx, ONE).await.unwrap(), None);
    tx.rollback().await.unwrap();
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM headwater_private.states")
        .fetch_one(shop.headwater.pool())
        .await
        .unwrap();
    assert_eq!(rows, 0);
}

/// Counts the events of one state, whatever their keys, and reports when it has reached four. Waits
/// in the middle.
#[derive(Clone, SubscriberId)]
struct CountToFour {
    begun: channel::UnboundedSender<()>,
    go_on: Arc<Semaphore>,
}

impl Saga<Json> for CountToFour {
    type State = u32;

    fn state_id(&self, event: &Event<Json>) -> Option<String> {
        (event.event_type == "counted").then(|| ONE.into())
    }

    async fn on_event(
        &self,
        state: Option<u32>,
        _: &Event<Json>,
        actions: &mut SagaActions,
    ) -> Result<Option<u32>, HandlerError> {
        self.begun.send(())?;
        if let Ok(permit) = self.go_on.acquire().await {
            permit.forget();
        }
        let count = state.unwrap_or_default() + 1;
        if count == 4 {
            actions.emit(Event::raw("four", Json::null()))?;
        }
        Ok(Some(count))
    }
}

#[tokio::test]
async fn partitions_of_a_saga_that_share_a_state_lose_no_event() {
    let shop = Shop::open().await;
    let last = emit_keys(&shop, 4).await;
    let (begun, mut began) = channel::unbounded_channel();
    let saga = CountToFour { begun, go_on: Arc::new(Semaphore::new(0)) };
    let node =
        shop.shop.node("n1").run(Subscription::saga(saga.clone()).config(quick()).partitions(8)).start().await.unwrap();
    soon(began.recv()).await.unwrap();
    // The others have not read the state: they wait for who did.
    until(|| async { blocked(&shop).await >= 1 }).await;
    saga.go_on.close();
    soon(node.wait_for("count-to-four", last)).await.unwrap();
    node.shutdown().await.unwrap();
    let states: PgStateStore<u32> = shop.shop.state_store("count-to-four");
    assert_eq!(states.get(ONE).await.unwrap(), Some(4));
    let query = LogQuery::after(last).event_types(["four"]);
    let answers: Vec<RecordedEvent> = shop.shop.read_log(query).try_collect().await.unwrap();
    assert_eq!(answers.len(), 1);
}

/// Counts the events of one state. What is told of each comes before it is applied.
#[derive(SubscriberId)]
struct Counter {
    states: Arc<PgStateStore<u32>>,
    before: Box<dyn Fn() + Send + Sync>,
}

impl EventApplicator<Json> for Counter {
    type State = u32;

    fn state_id(&self, _: &Event<Json>) -> Option<String> {
        Some(ONE.into())
    }

    fn apply(&self, state: Option<u32>, _: &Event<Json>) -> Result<Option<u32>, HandlerError> {
        (self.before)();
        Ok(Some(state.unwrap_or_default() + 1))
    }
}

impl Projection<Json> for Counter {
    type Store = PgStateStore<u32>;

    fn state_store(&self) -> &PgStateStore<u32> {
        &self.states
    }
}

fn counter(shop: &Shop, before: impl Fn() + Send + Sync + 'static) -> (Subscription<Each>, Arc<PgStateStore<u32>>) {
    let states = Arc::new(shop.shop.state_store("counter"));
    let projection = Counter { states: states.clone(), before: Box::new(before) };
    (Subscription::of(projection), states)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_state_that_changed_since_it_was_read_is_read_again() {
    let shop = Shop::open().await;
    let states: Arc<PgStateStore<u32>> = Arc::new(shop.shop.state_store("counter"));
    for (present, put) in [(None, Some(10)), (Some(10), Some(20)), (Some(20), None)] {
        let seen = Mutex::new(Vec::new());
        let change = |state: Option<u32>| {
            let mut seen = seen.lock().unwrap();
            seen.push(state);
            if seen.len() == 1 {
                // Another is faster.
                let put = states.put(ONE, put);
                tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(put))?;
            }
            Ok(state)
        };
        states.update(ONE, None, &change).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [present, put]);
        assert_eq!(states.get(ONE).await.unwrap(), put);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keys_and_partitions_of_a_projection_that_share_a_state_lose_no_event() {
    let shop = Shop::open().await;
    let last = emit_keys(&shop, 40).await;
    let (counter, states) = counter(&shop, || ());
    let counter = counter.partitions(4).concurrency(4).config(quick());
    let node = shop.shop.node("n1").run(counter).start().await.unwrap();
    soon(node.wait_for("counter", last)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(states.get(ONE).await.unwrap(), Some(40));
}

#[tokio::test]
async fn after_a_crash_before_the_checkpoint_events_change_their_states_once() {
    let shop = Shop::open().await;
    let last = emit_keys(&shop, 3).await;
    let never = CheckpointMode::Batched { batch_size: 1_000, max_delay_ms: 60_000 };
    let (node, states) = counter(&shop, || ());
    let node = shop.shop.node("n1").run(node.config(quick()).checkpoint(never)).start().await.unwrap();
    until(|| async { states.get(ONE).await.unwrap() == Some(3) }).await;
    drop(node);
    assert_eq!(shop.info("counter").await.position, 0, "the checkpoint was not written");
    let applied = Arc::new(AtomicU32::new(0));
    let again = applied.clone();
    let (node, _) = counter(&shop, move || _ = again.fetch_add(1, Ordering::Relaxed));
    let node = shop.shop.node("n1").run(node.config(quick())).start().await.unwrap();
    soon(node.wait_for("counter", last)).await.unwrap();
    assert_eq!((applied.load(Ordering::Relaxed), states.get(ONE).await.unwrap()), (3, Some(3)));
    // A reset asks for them again.
    shop.shop.subscribers().reset("counter", 0).await.unwrap();
    until(|| async { states.get(ONE).await.unwrap() == Some(6) }).await;
    soon(node.wait_for("counter", last)).await.unwrap();
    // Notes of what the checkpoint has passed are deleted, at the latest when more comes.
    let noted = "SELECT count(*) FROM headwater_private.applied_events";
    until(|| async {
        shop.emit(&["more"]).await;
        let left: i64 = sqlx::query_scalar(noted).fetch_one(shop.headwater.pool()).await.unwrap();
        left <= 2
    })
    .await;
    node.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_projection_that_was_removed_writes_no_state_for_who_comes_next() {
    let shop = Shop::open().await;
    shop.emit(&["first"]).await;
    let (begun, began) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (node, states) = counter(&shop, {
        let may_go_on = Mutex::new(may_go_on);
        move || {
            _ = begun.send(());
            // Until it may, and from then on at once.
            tokio::task::block_in_place(|| _ = may_go_on.lock().unwrap().recv());
        }
    });
    let node = shop.shop.node("n1").run(node.config(quick())).start().await.unwrap();
    tokio::task::block_in_place(|| began.recv_timeout(Duration::from_secs(60))).expect("the event comes");
    shop.shop.subscribers().remove("counter", true).await.unwrap();
    drop(go_on);
    // The write was refused. Either the event is tried again, which is seen here, or the node has
    // noticed by now.
    node.shutdown().await.unwrap();
    assert_eq!(states.get(ONE).await.unwrap(), None);
}

/// As after a failover: an event with the same sequence may be another one there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_state_of_another_history_is_not_written() {
    let shop = Shop::open().await;
    let last = shop.emit(&["first"]).await;
    let (begun, began) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (node, states) = counter(&shop, {
        let may_go_on = Mutex::new(may_go_on);
        move || {
            _ = begun.send(());
            tokio::task::block_in_place(|| _ = may_go_on.lock().unwrap().recv());
        }
    });
    let begins = || {
        tokio::task::block_in_place(|| began.recv_timeout(Duration::from_secs(60))).expect("the event comes");
    };
    let node = shop.shop.node("n1").run(node.config(quick())).start().await.unwrap();
    begins();
    sqlx::query("DELETE FROM headwater_private.histories").execute(&mut shop.db.session().await).await.unwrap();
    go_on.send(()).unwrap();
    begins();
    assert_eq!(states.get(ONE).await.unwrap(), None);
    drop(go_on);
    until(|| async { states.get(ONE).await.unwrap() == Some(1) }).await;
    soon(node.wait_for("counter", last)).await.unwrap();
    node.shutdown().await.unwrap();
}
