//! Calls that the client gave up: the server ends them too, so that they do not pile up and do no
//! work later that nobody waits for.

use crate::common::queue::{Shop, delivered, request};
use crate::common::run;
use headwater_core::SubscriberError;

#[tokio::test]
async fn a_claim_that_waited_too_long_is_not_made_later() {
    let mut shop = Shop::open(2).await;
    let mut holder = shop.db.session().await;
    run(
        &mut holder,
        "BEGIN; SELECT headwater_private.lock_queue(namespace_id, 'work') FROM headwater_private.namespaces",
    )
    .await;
    let given_up = shop.queue.claim(&request()).await;
    assert!(matches!(&given_up, Err(SubscriberError::Unavailable(_))), "{given_up:?}");
    // Its session ends while the lock is still held. When a timer wakes a waiting session, the
    // session shows no wait event for a moment. So only the end of its statement counts.
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active'
                      AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let ends = async {
        while shop.number(waiting).await > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), ends).await.expect("its session waits on");
    run(&mut holder, "ROLLBACK").await;
    assert_eq!(delivered(&shop.claim(10).await), [[1, 2]], "nobody has it");
}
