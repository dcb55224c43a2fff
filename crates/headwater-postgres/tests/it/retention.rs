//! Retention: whole months go, none that a subscriber still needs, and nobody waits for it.

use std::time::Duration;

use crate::common::{emit, raw, run, sqlstate_of, types_after};
use headwater_core::{
    Append, AppendError, Event, EventLog, ExpectedVersion, GapState, GroupStore, Json, LogQuery, NamespaceConfig,
    OperatorStore, StartFrom, Storage, StreamQuery, SubscriberConfig, SubscriberMode,
};
use headwater_postgres::{LogOptions, Maintained, PgLog, PgSubscribers, SubscribersOptions};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;

const DAY: Duration = Duration::from_secs(86_400);

/// A namespace with its own months (for shared ones see `shared_months.rs`): 6 past months of 3
/// events each, 1 to 18, and event 19 in this month. The first three months are due.
async fn shop(db: &TestDatabase) -> PgLog {
    let log = db.log_with(NamespaceConfig::new("shop").storage(Storage::Own), LogOptions::default()).await;
    db.past_months("shop", 6, 3).await;
    db.keep_months("shop", 3).await;
    log.append(raw("now").into()).await.unwrap();
    log
}

fn subscribers(log: &PgLog) -> PgSubscribers {
    PgSubscribers::new(log.database().clone(), log.info().clone(), SubscribersOptions { session_locks: false })
}

async fn register(log: &PgLog, id: &str, mode: SubscriberMode) {
    let config = SubscriberConfig::new(id, StartFrom::Beginning, mode);
    subscribers(log).register(&config).await.unwrap();
}

async fn maintain(db: &TestDatabase) -> Maintained {
    db.database.maintain("shop", false).await.unwrap()
}

/// How many leaves the log has, and how many months were trimmed and dropped.
async fn state(session: &mut PgConnection) -> (i64, i64, i64) {
    sqlx::query_as(
        "SELECT (SELECT count(*) FROM headwater_private.leaves(1)), count(*) FILTER (WHERE trimmed_at IS NOT NULL),
                count(*) FILTER (WHERE dropped_at IS NOT NULL) FROM headwater_private.months",
    )
    .fetch_one(session)
    .await
    .unwrap()
}

async fn sequences(log: &PgLog, after: u64) -> Vec<u64> {
    let pages = crate::common::pages_after(log, after).await;
    pages.iter().flat_map(|page| &page.events).filter_map(|event| event.global_sequence).collect()
}

#[tokio::test]
async fn without_a_retention_nothing_ever_goes() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    db.past_months("shop", 60, 1).await;
    let done = maintain(&db).await;
    assert_eq!((done.sealed, done.trimmed.len(), done.held, done.left.len()), (60, 0, None, 0));
    assert_eq!(sequences(&log, 0).await.len(), 60);
}

#[tokio::test]
async fn months_that_are_older_go_and_the_log_says_so() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    assert_eq!(state(&mut session).await, (9, 0, 0));
    let done = maintain(&db).await;
    assert_eq!((done.sealed, done.trimmed.len(), done.dropped.len(), done.held), (6, 3, 3, None));
    assert!(done.trimmed.iter().all(|month| month.events == 3 && month.losers.is_empty()), "{:?}", done.trimmed);
    assert_eq!(state(&mut session).await, (6, 3, 3));

    log.look_up_months().await.unwrap();
    let page = log.log_page(&LogQuery::after(4)).await.unwrap();
    assert_eq!(page.events[0].global_sequence, Some(10));
    let gaps: Vec<_> = page.gaps.iter().map(|gap| (gap.first, gap.last, gap.state.clone())).collect();
    assert_eq!(gaps, [(5, 9, GapState::Trimmed)]);
    assert_eq!(sequences(&log, 0).await, (10..=19).collect::<Vec<_>>());
    let horizon = log.horizon().await.unwrap();
    assert_eq!((horizon.horizon, horizon.head), (19, 19));

    let again = maintain(&db).await;
    assert_eq!((again.sealed, again.trimmed.len(), again.dropped.len()), (0, 0, 0));
    let months = db.database.months("shop").await.unwrap();
    assert_eq!(months.len(), 9);
    assert!(months[0].dropped_at.is_some() && months[0].events == Some(3) && months[0].bytes.is_none());
    assert!(months[3].due_at.is_some() && !months[3].due && months[3].first_sequence == Some(10));
}

#[tokio::test]
async fn a_log_of_which_all_is_trimmed_goes_on_where_it_was() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    db.past_months("shop", 6, 3).await;
    db.keep_months("shop", 0).await;
    assert_eq!(maintain(&db).await.trimmed.len(), 6);
    log.look_up_months().await.unwrap();
    assert_eq!(log.horizon().await.unwrap().horizon, 18);
    log.append(raw("next").into()).await.unwrap();
    assert_eq!(sequences(&log, 0).await, [19]);
}

#[tokio::test]
async fn no_month_goes_that_a_subscriber_is_not_done_with() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    register(&log, "slow", SubscriberMode::Exclusive).await;
    register(&log, "group", SubscriberMode::Partitioned { partitions: 2 }).await;
    register(&log, "queue", SubscriberMode::Shared).await;
    let done = maintain(&db).await;
    let (_, holders) = done.held.unwrap();
    assert_eq!(holders, ["group: stands at 0", "queue: was claimed up to 0", "slow: stands at 0"]);
    assert_eq!(state(&mut session).await, (9, 0, 0));
    assert_eq!(
        sqlstate_of(
            &mut session,
            "SELECT headwater.trim_month('shop', (SELECT min(starts_at) FROM headwater_private.months))"
        )
        .await,
        "WH032"
    );

    // One after the other comes past the first month.
    run(&mut session, "UPDATE headwater_private.subscribers SET position = 3 WHERE subscriber_id = 'slow'").await;
    run(
        &mut session,
        "UPDATE headwater_private.subscribers SET position = 3 WHERE subscriber_id = 'group' AND partition = 0",
    )
    .await;
    let claim = "SELECT claim_id FROM headwater.claim('shop', 'queue', 3) LIMIT 1";
    let claim_id: uuid::Uuid = sqlx::query_scalar(claim).fetch_one(&mut session).await.unwrap();
    assert_eq!(
        maintain(&db).await.held.unwrap().1,
        ["group: stands at 0", "queue: has claims, retries or events left behind above 0"]
    );
    run(&mut session, "UPDATE headwater_private.subscribers SET position = 3, pending_gaps = '{2,2}' WHERE subscriber_id = 'group' AND partition = 1").await;
    run(&mut session, &format!("SELECT headwater.nack('shop', 'queue', '{claim_id}', ARRAY[2], interval '1 day')"))
        .await;
    run(&mut session, &format!("SELECT headwater.ack('shop', 'queue', '{claim_id}')")).await;
    assert_eq!(
        maintain(&db).await.held.unwrap().1,
        ["group: waits for a gap at 2", "queue: has claims, retries or events left behind above 1"]
    );
    run(
        &mut session,
        "UPDATE headwater_private.subscribers SET pending_gaps = '{}'; UPDATE headwater_private.retries SET due_at = now();
         UPDATE headwater_private.claims SET state.look_at = now()",
    )
    .await;
    run(&mut session, "SELECT headwater.ack('shop', 'queue', c.claim_id) FROM headwater.claim('shop', 'queue', 1) c")
        .await;
    let done = maintain(&db).await;
    assert_eq!((done.trimmed.len(), done.dropped.len()), (1, 1), "{done:?}");
    assert!(done.held.is_some(), "the second month is held");
}

#[tokio::test]
async fn dead_letters_hold_nothing_but_a_queue_cannot_redrive_what_is_gone() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    register(&log, "queue", SubscriberMode::Shared).await;
    run(&mut session, "SELECT headwater.nack('shop', 'queue', c.claim_id, permanent => true) FROM (SELECT DISTINCT claim_id FROM headwater.claim('shop', 'queue', 3)) c").await;
    let redrive = "SELECT headwater.redrive('shop', 'queue', global_sequence => 2)";
    run(&mut session, redrive).await;
    assert_eq!(maintain(&db).await.held.unwrap().1, ["queue: delivers 1 dead letters again"]);
    run(&mut session, "SELECT headwater.nack('shop', 'queue', c.claim_id, permanent => true) FROM headwater.claim('shop', 'queue', 1) c").await;
    assert_eq!(maintain(&db).await.trimmed.len(), 1);
    assert_eq!(sqlstate_of(&mut session, redrive).await, "WH033");
    let letters: i64 =
        sqlx::query_scalar("SELECT count(*) FROM headwater_private.dead_letters WHERE event -> 'data' IS NOT NULL")
            .fetch_one(&mut session)
            .await
            .unwrap();
    assert_eq!(letters, 3, "letters have the whole event");
}

#[tokio::test]
async fn with_loss_allowed_a_queue_keeps_the_letters_that_it_was_to_deliver_again() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    register(&log, "queue", SubscriberMode::Shared).await;
    run(&mut session, "SELECT headwater.nack('shop', 'queue', c.claim_id, permanent => true) FROM (SELECT DISTINCT claim_id FROM headwater.claim('shop', 'queue', 3)) c").await;
    run(&mut session, "SELECT headwater.redrive('shop', 'queue'); SELECT headwater.claim('shop', 'queue', 1)").await;
    db.database.maintain("shop", true).await.unwrap();
    let states = "SELECT DISTINCT state, queued FROM headwater_private.dead_letters";
    assert_eq!(
        sqlx::query_as::<_, (String, bool)>(states).fetch_all(&mut session).await.unwrap(),
        [("dead".into(), false)]
    );
    let claimed: Vec<i64> = sqlx::query_scalar("SELECT global_sequence FROM headwater.claim('shop', 'queue', 2)")
        .fetch_all(&mut session)
        .await
        .unwrap();
    assert_eq!(claimed, [10, 11]);
}

#[tokio::test]
async fn with_loss_allowed_it_goes_and_whoever_lost_is_told() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    register(&log, "slow", SubscriberMode::Exclusive).await;
    register(&log, "queue", SubscriberMode::Shared).await;
    run(&mut session, "UPDATE headwater_private.subscribers SET position = 2, settled_events = 2, settled_sum = 3 WHERE subscriber_id = 'slow'").await;
    let term = "SELECT term FROM headwater_private.subscribers WHERE subscriber_id = 'slow'";
    let before: i64 = sqlx::query_scalar(term).fetch_one(&mut session).await.unwrap();
    let done = db.database.maintain("shop", true).await.unwrap();
    assert_eq!((done.trimmed.len(), done.dropped.len(), done.held), (3, 3, None));
    assert_eq!(done.trimmed[0].losers, ["queue", "slow"]);

    let losses = db.database.losses("shop", Some("slow")).await.unwrap();
    let ranges: Vec<_> = losses.iter().map(|loss| (loss.first_sequence, loss.last_sequence, loss.events)).collect();
    assert_eq!(ranges, [(7, 9, 3), (4, 6, 3), (3, 3, 1)]);
    assert_eq!(db.database.losses("shop", Some("queue")).await.unwrap().iter().map(|loss| loss.events).sum::<u64>(), 9);
    let after: i64 = sqlx::query_scalar(term).fetch_one(&mut session).await.unwrap();
    assert!(after > before, "an owner that does not know yet is fenced off");
    let store = subscribers(&log);
    assert_eq!(store.position("slow").await.unwrap().position, 9);
    let claimed: Vec<i64> = sqlx::query_scalar("SELECT global_sequence FROM headwater.claim('shop', 'queue', 2)")
        .fetch_all(&mut session)
        .await
        .unwrap();
    assert_eq!(claimed, [10, 11]);
    let audit = store.audit(&[]).await.unwrap();
    assert!(audit.findings.is_empty(), "{:?}", audit.findings);
}

#[tokio::test]
async fn audits_hold_across_a_trim() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    register(&log, "done", SubscriberMode::Exclusive).await;
    // It began in the middle of the first month, and has handled the rest: event 1 through the
    // ledger, and events 3 to 19, with a sum of 188.
    run(
        &mut session,
        "UPDATE headwater_private.subscribers SET position = 19, audit_base = 2, audit_ledger = '{1,1}', settled_events = 16, settled_sum = 183,
                late_events = 2, late_sum = 5 WHERE subscriber_id = 'done'",
    )
    .await;
    let sums = "SELECT in_log = settled AND sums_differ_by = 0 FROM headwater.audit_subscribers('shop')";
    assert!(sqlx::query_scalar::<_, bool>(sums).fetch_one(&mut session).await.unwrap(), "before");
    run(&mut session, "SELECT headwater.maintain('shop')").await;
    run(&mut session, "SELECT headwater.trim_month('shop', (SELECT min(starts_at) FROM headwater_private.months))")
        .await;
    assert!(sqlx::query_scalar::<_, bool>(sums).fetch_one(&mut session).await.unwrap(), "trimmed, and still there");
    assert_eq!(maintain(&db).await.trimmed.len(), 2);
    assert!(sqlx::query_scalar::<_, bool>(sums).fetch_one(&mut session).await.unwrap(), "gone");
    assert!(subscribers(&log).audit(&[]).await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn who_starts_at_the_beginning_starts_with_what_is_kept() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    maintain(&db).await;
    let store = subscribers(&log);
    register(&log, "new", SubscriberMode::Exclusive).await;
    assert_eq!(store.position("new").await.unwrap().position, 9);
    let config = SubscriberConfig::new("after", StartFrom::After(12), SubscriberMode::Exclusive);
    store.register(&config).await.unwrap();
    assert_eq!(store.position("after").await.unwrap().position, 12);
    store.reset("after", 3).await.unwrap();
    let there = store.position("after").await.unwrap();
    assert_eq!((there.position, there.pending_gaps.is_empty()), (9, true));
}

#[tokio::test]
async fn a_stream_goes_on_though_its_first_events_are_trimmed() {
    let db = TestDatabase::create().await;
    let log = db.log_with(NamespaceConfig::new("shop").retention(100 * DAY), LogOptions::default()).await;
    let event = |name: &str| Event::raw(name, Json::null());
    let first = event("first");
    for event in [first.clone(), event("second"), event("third")] {
        log.append(Append::to_stream("order-1", ExpectedVersion::Any, [event])).await.unwrap();
    }
    log.append(Append::to_stream("order-2", ExpectedVersion::NoStream, [event("only")])).await.unwrap();
    db.backdate("shop", 1, 2, 6).await;
    db.backdate("shop", 4, 4, 6).await;
    assert_eq!(maintain(&db).await.trimmed[0].events, 3);

    let rest = log.stream_page(&StreamQuery::new("order-1").from_version(1)).await.unwrap();
    assert_eq!(rest.iter().map(|event| event.stream_version.unwrap()).collect::<Vec<_>>(), [3]);
    assert!(log.stream_page(&StreamQuery::new("order-2")).await.unwrap().is_empty());
    let stale = log.append(Append::to_stream("order-1", ExpectedVersion::Exact(2), [event("stale")])).await;
    assert!(matches!(stale, Err(AppendError::Conflict { actual: 3, .. })), "{stale:?}");
    log.append(Append::to_stream("order-1", ExpectedVersion::Exact(3), [event("fourth")])).await.unwrap();
    let taken = log.append(Append::to_stream("order-2", ExpectedVersion::NoStream, [event("again")])).await;
    assert!(matches!(taken, Err(AppendError::Conflict { actual: 1, .. })), "a stream that was is not new: {taken:?}");
    // Nobody knows the id any more: what is sent again after so long is a new event.
    let again = log.append(Append::to_stream("order-1", ExpectedVersion::Any, [first])).await.unwrap();
    assert_eq!(again.stream_version(), Some(5));
}

#[tokio::test]
async fn maintenance_goes_on_wherever_it_was_cut_off() {
    let db = TestDatabase::create().await;
    shop(&db).await;
    let mut session = db.session().await;
    run(&mut session, "SELECT headwater.maintain('shop')").await;
    let trim = "SELECT headwater.trim_month('shop', (SELECT min(starts_at) FROM headwater_private.months WHERE trimmed_at IS NULL))";
    let next = "SELECT step, statement FROM headwater.drop_steps('shop')";
    for cut_after in ["trim", "detach", "drop"] {
        run(&mut session, trim).await;
        for step in ["trim", "retire", "detach", "drop"] {
            if step != "trim" {
                let (name, statement): (String, String) = sqlx::query_as(next).fetch_one(&mut session).await.unwrap();
                assert_eq!(name, step);
                run(&mut session, &statement).await;
            }
            if step == cut_after {
                break;
            }
        }
        // Crashed here; somebody else goes on.
        run(&mut session, "UPDATE headwater_private.namespaces SET retention = NULL").await;
        maintain(&db).await;
        let (_, trimmed, dropped) = state(&mut session).await;
        assert_eq!(trimmed, dropped, "after {cut_after}");
        db.keep_months("shop", 3).await;
    }
    assert_eq!(state(&mut session).await, (6, 3, 3));
}

#[tokio::test]
async fn writers_and_readers_do_not_wait_for_a_leaf_to_go() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let (mut writer, mut reader, mut session) = (db.session().await, db.session().await, db.session().await);
    run(&mut writer, "BEGIN").await;
    emit(&mut writer, "shop", "open").await;
    run(&mut reader, "BEGIN; SELECT count(*) FROM headwater_private.events_n1").await;
    // Both are in the way of the detachment, which gives up, half done.
    let done = maintain(&db).await;
    assert_eq!((done.trimmed.len(), done.dropped.len()), (3, 0));
    assert!(done.left[0].1.contains("lock timeout"), "{:?}", done.left);
    let steps: Vec<String> =
        sqlx::query_scalar("SELECT step FROM headwater.drop_steps('shop')").fetch_all(&mut session).await.unwrap();
    assert_eq!(steps, ["finish", "detach", "detach"]);
    // Meanwhile all goes on: in these transactions, and in others.
    emit(&mut writer, "shop", "open, too").await;
    run(&mut reader, "SELECT count(*) FROM headwater_private.events_n1").await;
    log.append(raw("another").into()).await.unwrap();
    run(&mut writer, "COMMIT").await;
    run(&mut reader, "COMMIT").await;
    assert_eq!(maintain(&db).await.dropped.len(), 3);
    assert_eq!(types_after(&log, 18).await, ["now", "open", "open, too", "another"]);
}

#[tokio::test]
async fn one_maintains_at_a_time() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    run(&mut session, &format!("SELECT headwater.begin_maintenance({}, '1 hour')", log.info().id)).await;
    assert!(maintain(&db).await.busy);
    run(&mut session, &format!("SELECT headwater.end_maintenance({})", log.info().id)).await;
    assert!(!maintain(&db).await.busy);
}

#[tokio::test]
async fn a_subscriber_is_not_moved_back_while_a_month_is_trimmed() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let store = subscribers(&log);
    register(&log, "done", SubscriberMode::Exclusive).await;
    let (mut trimmer, mut session) = (db.session().await, db.session().await);
    run(&mut trimmer, "UPDATE headwater_private.subscribers SET position = 19; SELECT headwater.maintain('shop')")
        .await;
    run(
        &mut trimmer,
        "BEGIN; SELECT headwater.trim_month('shop', (SELECT min(starts_at) FROM headwater_private.months))",
    )
    .await;
    let pid = crate::common::pid(&mut session).await;
    let reset =
        tokio::spawn(async move { run(&mut session, "SELECT headwater.reset_subscriber('shop', 'done', 0)").await });
    let mut other = db.session().await;
    crate::common::until_it_waits(&mut other, pid).await;
    run(&mut trimmer, "COMMIT").await;
    reset.await.unwrap();
    assert_eq!(store.position("done").await.unwrap().position, 3);
}

#[tokio::test]
async fn what_is_not_due_or_not_the_oldest_is_not_trimmed() {
    let db = TestDatabase::create().await;
    shop(&db).await;
    let mut session = db.session().await;
    let trim = |month: &str| format!("SELECT headwater.trim_month('shop', {month})");
    assert_eq!(sqlstate_of(&mut session, &trim("now() - interval '5 months'")).await, "WH002", "not sealed");
    run(&mut session, "SELECT headwater.maintain('shop')").await;
    for month in [
        "now()",
        "NULL",
        "(SELECT max(starts_at) FROM headwater_private.months)",
        "(SELECT min(starts_at) + interval '40 days' FROM headwater_private.months)",
    ] {
        assert_eq!(sqlstate_of(&mut session, &trim(month)).await, "WH002", "{month}");
    }
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.maintain('none')").await, "WH001");
}
