//! Events of passed gaps that commit while other events of the same look are handled. Each comes
//! before the events behind it, and after those before it.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon};
use headwater::delivery::ReliableDeliveryConfig;
use headwater::{Delivery, EventObserver, HandlerError, Subscription};
use sqlx::{PgConnection, Row};
use tokio::sync::{Semaphore, watch};

/// Waits at each event for leave to go on.
#[derive(Clone)]
struct Slow {
    began: watch::Sender<Vec<u64>>,
    leave: Arc<Semaphore>,
}

impl EventObserver for Slow {
    fn subscriber_id(&self) -> &str {
        "slow"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        self.began.send_modify(|began| began.extend(event.global_sequence));
        _ = self.leave.acquire().await.map(|leave| leave.forget());
        Ok(())
    }
}

/// Emits in a transaction that stays open.
async fn dawdle(shop: &Shop) -> (PgConnection, u64) {
    let mut session = shop.db.session().await;
    sqlx::raw_sql("BEGIN").execute(&mut session).await.unwrap();
    let emitted = sqlx::query("SELECT headwater.emit('shop', 'late')").fetch_one(&mut session).await.unwrap();
    let sequence = emitted.get::<i64, _>(0) as u64;
    (session, sequence)
}

#[tokio::test]
async fn late_events_go_between_those_before_and_behind_them() {
    let shop = Shop::open().await;
    let (mut one, _) = dawdle(&shop).await;
    let first = shop.emit(&["first"]).await;
    let (mut two, second) = dawdle(&shop).await;
    let third = shop.emit(&["third"]).await;
    let (mut three, fourth) = dawdle(&shop).await;
    let last = shop.emit(&["last"]).await;
    let slow = Slow { began: watch::Sender::new(Vec::new()), leave: Arc::new(Semaphore::new(0)) };
    let mut began = slow.began.subscribe();
    let config = ReliableDeliveryConfig { hold_for: Duration::ZERO, ..quick() };
    let witness = Recorder::new("witness");
    let node = shop
        .shop
        .node("n1")
        .default_config(config)
        .run(Subscription::of(slow.clone()))
        .run(Subscription::of(witness.clone()));
    let node = node.start().await.unwrap();
    // All visible events were read with one look. Now two of the gaps are filled while the first
    // event is handled.
    soon(began.wait_for(|began| *began == [first])).await.unwrap();
    for session in [&mut two, &mut three] {
        sqlx::raw_sql("COMMIT").execute(session).await.unwrap();
    }
    // The node knows of it.
    witness.handled(5).await;
    slow.leave.close();
    soon(began.wait_for(|began| began.len() >= 5)).await.unwrap();
    assert_eq!(*slow.began.borrow(), [first, second, third, fourth, last]);
    sqlx::raw_sql("ROLLBACK").execute(&mut one).await.unwrap();
    soon(node.wait_for("slow", last)).await.unwrap();
    node.shutdown().await.unwrap();
}
