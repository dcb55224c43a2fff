//! The database's integers are signed and ours are not. A number that only one side can hold is an
//! error, and never becomes another number.

use crate::common::queue::{Shop, sequences};
use crate::common::subscribers::{Process, advance, fence};
use crate::common::{emit, run, sqlstate_of};
use headwater_core::{
    AdminError, EventLog, Gap, GapState, GroupStore, LogQuery, OperatorStore, ProgressStore, ReadError, StartFrom,
    SubscriberConfig, SubscriberError, SubscriberMode,
};
use headwater_testing::TestDatabase;

const BEYOND: u64 = i64::MAX.unsigned_abs() + 1;

/// What a row says that holds -1 where a sequence belongs.
const MINUS_ONE: &str = "invalid sequence -1";

#[tokio::test]
async fn a_negative_horizon_is_an_error() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut session = db.session().await;
    emit(&mut session, "shop", "event").await;
    let broken = "CREATE OR REPLACE FUNCTION headwater.horizon(namespace text, OUT horizon bigint, OUT head bigint,
                      caller headwater.caller DEFAULT current_user)
                  LANGUAGE sql VOLATILE AS 'SELECT -1::bigint, 1::bigint'";
    run(&mut session, broken).await;
    let failed = db.database.horizon("shop").await;
    assert!(
        matches!(&failed, Err(AdminError::Unavailable(fault)) if fault.message.contains(MINUS_ONE) && !fault.retryable),
        "{failed:?}"
    );
    // What is filtered cannot be read without the horizon.
    let failed = log.log_page(&LogQuery::after(0).event_types(["event"])).await;
    assert!(matches!(&failed, Err(ReadError::Unavailable(fault)) if fault.message.contains(MINUS_ONE)), "{failed:?}");
}

#[tokio::test]
async fn a_negative_position_is_an_error() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let a = Process::start(&db, &log, "a").await;
    a.register("totals", StartFrom::Beginning).await;
    let broken = "ALTER TABLE headwater_private.subscribers DROP CONSTRAINT subscribers_position_check;
                  UPDATE headwater_private.subscribers SET position = -1";
    run(&mut db.session().await, broken).await;
    let failed = [
        a.store.position("totals").await.map(drop),
        a.store.load(&fence("totals", None)).await.map(drop),
        a.store.subscriber("totals").await.map(drop),
        a.store.group("totals").await.map(drop),
    ];
    for failed in failed {
        assert!(
            matches!(&failed, Err(SubscriberError::Unavailable(fault)) if fault.message.contains(MINUS_ONE)),
            "{failed:?}"
        );
    }
}

/// Whether a call was refused by naming the number.
fn is_refused<T>(result: &Result<T, SubscriberError>, number: u64) -> bool {
    let names = format!("invalid sequence {number}:");
    matches!(result, Err(SubscriberError::InvalidInput(message)) if message.starts_with(&names))
}

#[tokio::test]
async fn what_the_database_cannot_hold_is_refused() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let a = Process::start(&db, &log, "a").await;
    emit(&mut db.session().await, "shop", "event").await;
    a.register("totals", StartFrom::Beginning).await;
    let none = fence("totals", None);
    for number in [BEYOND, u64::MAX] {
        let beyond = SubscriberConfig::new("beyond", StartFrom::After(number), SubscriberMode::default());
        let gap = Gap { first: 1, last: number, state: GapState::Permanent };
        let refused = [
            a.store.register(&beyond).await,
            a.store.reset("totals", number).await,
            a.store.advance(&none, &advance(number, &[])).await,
            a.store.redriven(&none, number, None).await,
            a.store.record_gaps(None, &[gap]).await,
        ];
        for (at, refused) in refused.iter().enumerate() {
            assert!(is_refused(refused, number), "{at}: {refused:?}");
        }
        let refused = db.database.redeliver_poison("shop", number).await;
        assert!(matches!(&refused, Err(AdminError::InvalidInput(message)) if message.contains(&number.to_string())));
        // Beyond every event there is nothing to read.
        assert!(log.log_page(&LogQuery::after(number)).await.unwrap().events.is_empty());
    }
    assert_eq!(a.store.position("totals").await.unwrap().position, 0);
    assert_eq!(a.store.subscribers().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_claim_is_settled_by_numbers_that_exist() {
    let shop = Shop::open(1).await;
    let claim = shop.claim(1).await.remove(0);
    for number in [BEYOND, u64::MAX] {
        let refused = shop.queue.ack(claim.claim_id, Some(&[number])).await;
        assert!(is_refused(&refused, number), "{refused:?}");
        let refused = shop.queue.release(claim.claim_id, Some(&[number])).await;
        assert!(is_refused(&refused, number), "{refused:?}");
    }
    shop.queue.ack(claim.claim_id, Some(&sequences(&claim))).await.unwrap();
}

/// A checkpoint, a ledger and what is settled ahead are lists of sequences, which SQL checks before
/// it stores them.
#[tokio::test]
async fn lists_of_sequences_are_in_order_and_in_the_log() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.hand_out("shop", 9).await;
    let mut session = db.session().await;
    let check = |list: &str, pairs: bool| {
        format!(
            "SELECT headwater_private.check_sequences((SELECT namespace_id FROM headwater_private.namespaces), {list}, {pairs})"
        )
    };
    for (list, pairs) in [
        ("'{}'", false),
        ("'{}'", true),
        ("'{9}'", false),
        ("'{1,2,9}'", false),
        ("'{1,1}'", true),
        ("'{1,9}'", true),
        ("'{1,2,3,3,5,9}'", true),
    ] {
        run(&mut session, &check(list, pairs)).await;
    }
    for (list, pairs) in [
        ("NULL", false),
        ("NULL", true),
        ("'{NULL}'", false),
        ("'{NULL,NULL}'", true),
        ("'{1,NULL}'", false),
        ("'{1,NULL,3}'", false),
        ("'{NULL,3}'", true),
        ("'{1,2,3,NULL}'", true),
        ("'{0}'", false),
        ("'{0,1}'", true),
        ("'{2,1}'", false),
        ("'{1,1}'", false),
        ("'{1,3,2}'", false),
        ("'{2,1}'", true),
        ("'{1}'", true),
        ("'{1,2,3}'", true),
        ("'{1,2,2,3}'", true),
        ("'{4,5,1,2}'", true),
        ("'{1,2,4,3}'", true),
        ("'[2:3]={1,2}'", false),
        ("'{{1,2}}'", false),
        ("'{{1,2}}'", true),
    ] {
        assert_eq!(sqlstate_of(&mut session, &check(list, pairs)).await, "WH002", "{list} {pairs}");
    }
    for (list, pairs) in [
        ("'{10}'", false),
        ("'{1,10}'", false),
        ("'{1,10}'", true),
        ("'{10,10}'", true),
        ("'{9223372036854775807}'", false),
        ("'{-1}'", false),
        ("'{-1,2}'", true),
        ("'{10,9}'", false),
        ("'{3,10,5}'", false),
    ] {
        assert_eq!(sqlstate_of(&mut session, &check(list, pairs)).await, "WH016", "{list} {pairs}");
    }
}
