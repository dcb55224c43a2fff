use std::time::Duration;

use headwater_core::{
    Advance, Fence, GroupStore, Instance, LeaseRequest, OperatorStore, ProgressStore, StartFrom, SubscriberConfig,
    SubscriberMode,
};

use super::MemorySubscribers;
use crate::MemoryLog;

const LEASE: Duration = Duration::from_secs(10);

async fn totals() -> (MemorySubscribers, [LeaseRequest; 1]) {
    let store = MemorySubscribers::new(MemoryLog::new("orders"));
    let (start_from, mode) = (StartFrom::Beginning, SubscriberMode::Exclusive);
    store.register(&SubscriberConfig::new("totals", start_from, mode)).await.unwrap();
    let report = Default::default();
    (store, [LeaseRequest { subscriber_id: "totals".into(), partition: 0, share: None, term: None, report }])
}

async fn lease_left(store: &MemorySubscribers) -> Option<Duration> {
    store.subscriber("totals").await.unwrap().lease_left
}

#[tokio::test(start_paused = true)]
async fn a_move_renews_for_the_length_of_the_lease() {
    let (store, request) = totals().await;
    let term = store.keep(&Instance::new("a"), &request, LEASE).await.unwrap()[0].term;
    let second = Duration::from_secs(1);
    for (position, term, expected) in [(1, term, LEASE), (2, None, LEASE - second), (3, term, LEASE)] {
        tokio::time::advance(second).await;
        let fence = Fence { subscriber_id: "totals".into(), partition: 0, term, history: None };
        store.advance(&fence, &Advance { position, ..Advance::default() }).await.unwrap();
        assert_eq!(lease_left(&store).await, Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_by_tokios_clock_or_when_a_test_moves_the_stores() {
    let (store, request) = totals().await;
    let (first, second) = (Instance::new("a"), Instance::new("b"));
    assert_eq!(store.keep(&first, &request, LEASE).await.unwrap()[0].term, Some(2));
    tokio::time::advance(LEASE - Duration::from_millis(1)).await;
    assert_eq!(store.clone().keep(&second, &request, LEASE).await.unwrap()[0].term, None);
    assert_eq!(lease_left(&store).await, Some(Duration::from_millis(1)));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(lease_left(&store).await, None);
    assert_eq!(store.keep(&second, &request, LEASE).await.unwrap()[0].term, Some(3));
    store.advance_clock(LEASE - Duration::from_millis(1));
    assert_eq!(store.keep(&first, &request, LEASE).await.unwrap()[0].term, None);
    store.advance_clock(Duration::from_millis(1));
    assert_eq!(store.keep(&first, &request, LEASE).await.unwrap()[0].term, Some(4));
}
