//! A queue whose server crashes: what its workers were told before stays true.

use std::time::Duration;

use crate::common::raw;
use headwater_core::{
    ClaimRequest, EventLog, GroupStore, NamespaceConfig, OperatorStore, StartFrom, SubscriberConfig, SubscriberMode,
};
use headwater_embedded::{Server, Shutdown};
use headwater_postgres::{Database, DatabaseOptions, LogOptions, PgQueue, PgSubscribers, SubscribersOptions};

/// Claims and acks do not wait for the disk. An event that was handed back must not be in its claim
/// again when the rest of the claim is acked.
#[tokio::test]
async fn what_was_handed_back_before_a_crash_comes_again_though_the_rest_is_acked_own_server() {
    let settings = Server::builder().setting("wal_writer_delay", "10s").setting("bgwriter_delay", "10s");
    let mut server = settings.start().expect("failed to start a server");
    let database = Database::connect(&server.url("headwater"), DatabaseOptions::default()).await.unwrap();
    database.migrate().await.unwrap();
    database.create_namespace(&NamespaceConfig::new("shop")).await.unwrap();
    let log = database.open_log("shop", LogOptions::default()).await.unwrap();
    let store = PgSubscribers::new(database.clone(), log.info().clone(), SubscribersOptions::default());
    let shared = SubscriberConfig::new("work", StartFrom::Beginning, SubscriberMode::Shared);
    store.register(&shared).await.unwrap();
    let queue = PgQueue::new(database.clone(), log.info().clone(), "work");
    let request = ClaimRequest { visibility: Duration::from_secs(3600), ..ClaimRequest::new("worker") };
    for handed_back in ["nack", "reject", "release"] {
        for event in ["a", "b", "c"] {
            log.append(raw(event).into()).await.unwrap();
        }
        let claim = queue.claim(&request).await.unwrap().remove(0);
        // The claim itself is on the disk with this.
        log.append(raw("d").into()).await.unwrap();
        let failed = claim.events[1].sequence().get();
        match handed_back {
            "nack" => queue.nack(claim.claim_id, Some(&[failed]), Duration::ZERO, "no").await.unwrap(),
            "reject" => queue.reject(claim.claim_id, Some(&[failed]), "never").await.unwrap(),
            _ => queue.release(claim.claim_id, Some(&[failed])).await.unwrap(),
        }
        let restart = move || {
            server.restart(Shutdown::Immediate).expect("failed to restart");
            server
        };
        server = tokio::task::spawn_blocking(restart).await.unwrap();
        queue.ack(claim.claim_id, None).await.unwrap();
        if handed_back == "reject" {
            let letters = store.dead_letters(&Default::default()).await.unwrap();
            assert_eq!(
                letters.iter().map(|letter| letter.global_sequence()).collect::<Vec<_>>(),
                [failed],
                "{handed_back}"
            );
        } else {
            let again = queue.claim(&request).await.unwrap().remove(0);
            let sequences: Vec<_> = again.events.iter().filter_map(|event| event.global_sequence).collect();
            assert_eq!(sequences, [failed], "{handed_back}");
            queue.ack(again.claim_id, None).await.unwrap();
        }
        // What was last appended.
        for rest in queue.claim(&request).await.unwrap() {
            queue.ack(rest.claim_id, None).await.unwrap();
        }
    }
}
