//! Projections and sagas.

use std::sync::Arc;

use crate::common::{Shop, quick, soon};
use futures::TryStreamExt;
use headwater::delivery::{EventApplicator, MemoryStateStore, PgStateStore, SagaActions, StateStore};
use headwater::log::LogQuery;
use headwater::{
    Event, EventData, EventObserver, ExpectedVersion, HandlerError, Projection, RecordedEvent, Saga, SubscriberId,
    Subscription,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
enum OrderEvent {
    Placed { total: u32 },
    Discounted { by: u32 },
    Cancelled,
}

#[derive(SubscriberId)]
struct OrderTotals<S> {
    store: Arc<S>,
}

impl<S: StateStore<u32>> EventApplicator<OrderEvent> for OrderTotals<S> {
    type State = u32;

    fn apply(&self, state: Option<u32>, event: &Event<OrderEvent>) -> Result<Option<u32>, HandlerError> {
        Ok(match event.data.as_ref().ok_or_else(|| HandlerError::permanent("no data"))? {
            OrderEvent::Placed { total } => Some(*total),
            OrderEvent::Discounted { by } => state.map(|total| total - by),
            OrderEvent::Cancelled => None,
        })
    }
}

impl<S: StateStore<u32>> Projection<OrderEvent> for OrderTotals<S> {
    type Store = S;

    fn state_store(&self) -> &S {
        &self.store
    }
}

async fn place_orders(shop: &Shop) -> u64 {
    let any = ExpectedVersion::Any;
    shop.shop
        .append("order-1", any, [OrderEvent::Placed { total: 9 }, OrderEvent::Discounted { by: 2 }])
        .await
        .unwrap();
    let cancelled = shop.shop.append("order-2", any, [OrderEvent::Placed { total: 5 }, OrderEvent::Cancelled]).await;
    cancelled.unwrap().events[1].global_sequence
}

#[tokio::test]
async fn a_projection_keeps_its_states_in_memory_or_in_postgres() {
    let shop = Shop::open().await;
    let memory = Arc::new(MemoryStateStore::new());
    let postgres: Arc<PgStateStore<u32>> = Arc::new(shop.shop.state_store("order-totals"));
    let last = place_orders(&shop).await;

    let projection = OrderTotals { store: memory.clone() };
    assert_eq!(EventObserver::subscriber_id(&projection), "order-totals", "a projection is an observer of the same id");
    let node = shop.shop.node("n1").run(Subscription::of(projection)).start().await.unwrap();
    soon(node.wait_for("order-totals", last)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(memory.states(), [("order-1".to_owned(), 7)].into());

    use headwater::delivery::OperatorStore;
    shop.shop.subscribers().reset("order-totals", 0).await.unwrap();
    let node =
        shop.shop.node("n1").run(Subscription::of(OrderTotals { store: postgres.clone() })).start().await.unwrap();
    soon(node.wait_for("order-totals", last)).await.unwrap();
    node.shutdown().await.unwrap();
    assert_eq!(postgres.get("order-1").await.unwrap(), Some(7));
    assert_eq!(postgres.get("order-2").await.unwrap(), None, "None deletes the state");
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
enum Shipping {
    Requested { order: String },
    PickUp { parcel: u32 },
}

#[derive(SubscriberId)]
#[subscriber_id(prefix = "saga")]
struct ShipOrders;

impl Saga<OrderEvent> for ShipOrders {
    type State = u32;

    fn state_id(&self, event: &Event<OrderEvent>) -> Option<String> {
        event.stream_id.as_ref().map(|stream| stream.to_string())
    }

    async fn on_event(
        &self,
        state: Option<u32>,
        event: &Event<OrderEvent>,
        actions: &mut SagaActions,
    ) -> Result<Option<u32>, HandlerError> {
        let order = event.stream_id.as_ref().map(|stream| stream.to_string()).unwrap_or_default();
        match event.data {
            Some(OrderEvent::Placed { .. }) => {
                actions.emit(Shipping::Requested { order })?;
                actions.send("warehouse", Shipping::PickUp { parcel: 1 })?;
                Ok(Some(state.unwrap_or_default() + 1))
            }
            Some(OrderEvent::Cancelled) => Ok(None),
            _ => Ok(state),
        }
    }
}

#[tokio::test]
async fn a_saga_answers_each_event_once_with_events_and_commands() {
    let shop = Shop::open().await;
    let last = place_orders(&shop).await;
    let node = shop.shop.node("n1").run(Subscription::saga(ShipOrders).config(quick())).start().await.unwrap();
    soon(node.wait_for("saga:ship-orders", last)).await.unwrap();
    node.shutdown().await.unwrap();
    let query = LogQuery::after(last).event_types(["Requested", "PickUp"]);
    let answers: Vec<RecordedEvent<Shipping>> = shop.shop.read_log_as(query).try_collect().await.unwrap();
    let data: Vec<_> = answers.iter().filter_map(|event| event.data.clone()).collect();
    let requested = |order: &str| Shipping::Requested { order: order.into() };
    let pick_up = Shipping::PickUp { parcel: 1 };
    assert_eq!(data, [requested("order-1"), pick_up.clone(), requested("order-2"), pick_up]);
    assert!(answers.iter().all(|event| event.causation_id.is_some()));
    assert_eq!(answers[1].key.as_deref(), Some("warehouse"));
    let states: PgStateStore<u32> = shop.shop.state_store("saga:ship-orders");
    assert_eq!(states.get("order-1").await.unwrap(), Some(1));
    assert_eq!(states.get("order-2").await.unwrap(), None);
}
