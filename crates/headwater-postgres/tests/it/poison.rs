//! Rows of the log that are not events: every read skips and notes them. Also which subscribers
//! they move back, and which not.

use crate::common::queue::{Shop, delivered, request};
use crate::common::subscribers::{LONG, Process, advance, ask, fence, with_ledger};
use crate::common::{emit, run, sqlstate_of};
use futures::TryStreamExt;
use headwater_core::{
    Append, ClaimRequest, Event, EventLog, ExpectedVersion, Gap, GapState, GroupStore, Json, LeaseRequest, LogQuery,
    OperatorStore, ProgressStore, RecordedEvent, Report, StartFrom, StreamQuery, SubscriberError,
};
use headwater_postgres::{PgLog, Redelivered, SubscriptionReset};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;
use uuid::Uuid;

/// Makes poison of events that are there.
async fn poison(session: &mut PgConnection, sequences: &[u64]) {
    for sequence in sequences {
        run(
            session,
            &format!("UPDATE headwater_private.events SET headers = '[1]' WHERE global_sequence = {sequence}"),
        )
        .await;
    }
}

async fn repair(session: &mut PgConnection, sequence: u64) {
    run(session, &format!("UPDATE headwater_private.events SET headers = NULL WHERE global_sequence = {sequence}"))
        .await;
}

async fn noted(db: &TestDatabase) -> Vec<u64> {
    db.database.poison("shop", true, 100).await.unwrap().iter().map(|poison| poison.global_sequence).collect()
}

fn sequences(events: &[RecordedEvent]) -> Vec<u64> {
    events.iter().filter_map(|event| event.global_sequence).collect()
}

/// A stream of eight events of one correlation. The first, the third to fifth and the last are
/// poison.
async fn stream() -> (TestDatabase, PgLog, Uuid) {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let correlation = Uuid::now_v7();
    let event = |n: usize| {
        let mut event = Event::raw(format!("e{n}"), Json::null());
        event.correlation_id = Some(correlation);
        event
    };
    log.append(Append::to_stream("order-1", ExpectedVersion::NoStream, (1..=8).map(event))).await.unwrap();
    poison(&mut db.session().await, &[1, 3, 4, 5, 8]).await;
    (db, log, correlation)
}

#[tokio::test]
async fn reads_of_a_stream_step_over_it_whatever_the_size_of_pages() {
    let (db, log, _) = stream().await;
    for page_size in 1..=9 {
        let query = StreamQuery::new("order-1").page_size(page_size);
        let forwards: Vec<_> = log.read_stream(query.clone()).try_collect().await.unwrap();
        assert_eq!(sequences(&forwards), [2, 6, 7], "pages of {page_size}");
        let backwards: Vec<_> = log.read_stream(query.clone().backwards()).try_collect().await.unwrap();
        assert_eq!(sequences(&backwards), [7, 6, 2], "pages of {page_size}");
        let limited: Vec<_> = log.read_stream(query.limit(2)).try_collect().await.unwrap();
        assert_eq!(sequences(&limited), [2, 6], "pages of {page_size}");
    }
    assert_eq!(noted(&db).await, [1, 3, 4, 5, 8]);
    let mut session = db.session().await;
    run(&mut session, "BEGIN READ ONLY").await;
    let page = log.stream_page_in(&mut session, &StreamQuery::new("order-1")).await.unwrap();
    assert_eq!(sequences(&page), [2, 6, 7], "also where nothing can be noted");
}

#[tokio::test]
async fn reads_backwards_step_over_it_whatever_the_size_of_pages() {
    let (db, log, _) = stream().await;
    for page_size in 1..=9 {
        let query = LogQuery::default().backwards().page_size(page_size);
        let events: Vec<_> = log.read_log(query).try_collect().await.unwrap();
        assert_eq!(sequences(&events), [7, 6, 2], "pages of {page_size}");
    }
    assert_eq!(noted(&db).await, [1, 3, 4, 5, 8]);
}

#[tokio::test]
async fn reads_of_a_correlation_step_over_it() {
    let (db, log, correlation) = stream().await;
    for limit in 1..=9 {
        let events = log.correlated(correlation, 0, limit).await.unwrap();
        assert_eq!(sequences(&events), [2, 6, 7][..3.min(limit as usize)], "at most {limit}");
    }
    assert_eq!(noted(&db).await, [1, 3, 4, 5, 8]);
    let all: Vec<_> = log.read_correlated(correlation).try_collect().await.unwrap();
    assert_eq!(sequences(&all), [2, 6, 7]);
}

#[tokio::test]
async fn causes_and_consequences_step_over_it() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut cause = None;
    for _ in 0..3 {
        let mut event = Event::raw("e", Json::null());
        event.causation_id = cause;
        cause = Some(event.id);
        log.append(event.into()).await.unwrap();
    }
    poison(&mut db.session().await, &[2]).await;
    let chain = log.causation_chain(cause.unwrap(), 10).await.unwrap();
    assert_eq!((sequences(&chain), noted(&db).await), (vec![1, 3], vec![2]));
}

#[tokio::test]
async fn claims_step_over_it_and_it_does_not_come_again() {
    let mut shop = Shop::open(6).await;
    poison(&mut shop.session, &[1, 2, 4]).await;
    let whole = shop.claim(2).await.remove(0);
    assert_eq!(delivered(std::slice::from_ref(&whole)), [[3]], "behind a claim that was nothing else");
    assert_eq!(noted(&shop.db).await, [1, 2, 4]);
    shop.expire(whole.claim_id).await;
    let again = shop.claim(2).await;
    // Its worker was lost, so it comes alone.
    assert_eq!(again.iter().flat_map(|claim| sequences(&claim.events)).collect::<Vec<_>>(), [3]);
    let last = shop.claim(5).await;
    assert_eq!(last.iter().flat_map(|claim| sequences(&claim.events)).collect::<Vec<_>>(), [5, 6]);
    for claim in again.into_iter().chain(last) {
        shop.queue.ack(claim.claim_id, None).await.unwrap();
    }
    assert_eq!(shop.position().await, 6, "nobody has anything left");
    let letters = shop.number("SELECT count(*) FROM headwater_private.dead_letters").await;
    assert_eq!(letters, 0);
}

#[tokio::test]
async fn claims_by_pattern_and_in_a_transaction_step_over_it() {
    let mut shop = Shop::open(3).await;
    poison(&mut shop.session, &[2]).await;
    let mut tx = shop.db.session().await;
    run(&mut tx, "BEGIN").await;
    let claims = shop.queue.claim_in(&mut tx, &ClaimRequest { max_events: 2, ..request() }).await.unwrap();
    assert_eq!(delivered(&claims), [[1]]);
    run(&mut tx, "ROLLBACK").await;
    assert_eq!(noted(&shop.db).await, [0; 0], "as if it had never been claimed");
    let request = ClaimRequest { max_events: 3, event_types: vec!["ev*".into()], ..request() };
    assert_eq!(delivered(&shop.queue.claim(&request).await.unwrap()), [[1, 3]]);
    assert_eq!(noted(&shop.db).await, [2]);
}

/// A log of nine events, and a process that reads it. Event 5 is poison, and noted.
async fn nine() -> (TestDatabase, Process, PgConnection) {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let a = Process::start(&db, &log, "a").await;
    let mut session = db.session().await;
    for _ in 0..9 {
        emit(&mut session, "shop", "event").await;
    }
    poison(&mut session, &[5]).await;
    assert_eq!(crate::common::types_after(&log, 0).await.len(), 8);
    assert_eq!(noted(&db).await, [5]);
    (db, a, session)
}

impl Process {
    /// Has a subscriber at a position, and owns it, with a report of what it is. Returns its term.
    async fn active(&self, subscriber_id: &str, position: u64, transactional: bool) -> u64 {
        self.register(subscriber_id, StartFrom::After(position)).await;
        let term = self.take(subscriber_id).await.unwrap();
        let report = Report { transactional, ..Report::default() };
        let asks = [LeaseRequest { report, ..ask(subscriber_id, Some(term)) }];
        assert_eq!(self.store.keep(&self.instance, &asks, LONG).await.unwrap()[0].term, Some(term));
        term
    }

    async fn stands(&self, subscriber_id: &str) -> (u64, Vec<(u64, u64)>) {
        let loaded = self.store.position(subscriber_id).await.unwrap();
        (loaded.position, loaded.pending_gaps.ranges())
    }
}

fn reset(subscriber_id: &str, was_at: u64, stands_at: u64) -> SubscriptionReset {
    SubscriptionReset { subscriber_id: subscriber_id.into(), partition: 0, was_at, stands_at }
}

#[tokio::test]
async fn only_active_subscribers_are_moved_back() {
    let (db, a, mut session) = nine().await;
    a.active("active", 9, false).await;
    a.register("nobody's", StartFrom::After(9)).await;
    let silent = a.active("lease over", 9, false).await;
    let asks = [ask("lease over", Some(silent))];
    a.store.keep(&a.instance, &asks, LONG).await.unwrap();
    run(
        &mut session,
        "UPDATE headwater_private.subscribers SET lease_until = now() - interval '1 s' WHERE subscriber_id = 'lease over'",
    )
    .await;
    a.active("paused", 9, false).await;
    run(&mut session, "SELECT headwater.pause_subscriber('shop', 'paused', 'for a test')").await;
    let moved = db.database.reset_on_poison("shop", &[5]).await.unwrap();
    assert_eq!(moved, [reset("active", 9, 4)]);
    for other in ["nobody's", "lease over", "paused"] {
        assert_eq!(a.stands(other).await, (9, vec![]), "{other}");
    }
}

#[tokio::test]
async fn transactional_subscribers_are_not_moved_back() {
    let (db, a, _session) = nine().await;
    let term = a.active("transactional", 9, true).await;
    assert_eq!(db.database.reset_on_poison("shop", &[5]).await.unwrap(), []);
    assert_eq!(a.stands("transactional").await, (9, vec![]));
    assert_eq!(a.renew("transactional", term).await, Some(term), "it goes on undisturbed");
}

#[tokio::test]
async fn nobody_is_moved_forwards() {
    let (db, a, _session) = nine().await;
    let (behind, before) = (a.active("behind", 2, false).await, a.active("just before", 4, false).await);
    assert_eq!(db.database.reset_on_poison("shop", &[5]).await.unwrap(), []);
    assert_eq!((a.stands("behind").await.0, a.stands("just before").await.0), (2, 4));
    assert_eq!(a.renew("behind", behind).await, Some(behind), "it goes on undisturbed");
    assert_eq!(a.renew("just before", before).await, Some(before));
}

#[tokio::test]
async fn where_it_stands_is_saved_at_once_and_fenced() {
    let (db, a, mut session) = nine().await;
    poison(&mut session, &[7]).await;
    sqlx::query("SELECT headwater.note_poison('shop', ARRAY[7], ARRAY['broken'])").execute(&mut session).await.unwrap();
    let term = a.active("totals", 9, false).await;
    let mut open = db.session().await;
    run(&mut open, "BEGIN").await;
    let moved = "SELECT count(*) FROM headwater.reset_on_poison('shop', ARRAY[7, 5])";
    assert_eq!(sqlx::query_scalar::<_, i64>(moved).fetch_one(&mut open).await.unwrap(), 1);
    assert_eq!(a.stands("totals").await.0, 9, "not before it commits");
    run(&mut open, "COMMIT").await;
    assert_eq!(a.stands("totals").await, (4, vec![]), "to the first of them, with nothing left to be written");
    let late = a.store.advance(&fence("totals", Some(term)), &advance(9, &[])).await.unwrap_err();
    assert!(matches!(late, SubscriberError::Fenced(_)), "{late}");
    assert_eq!(a.renew("totals", term).await, None);
    let next = a.take("totals").await.unwrap();
    assert!(next > term);
    a.store.advance(&fence("totals", Some(next)), &advance(9, &[6, 8, 9])).await.unwrap();
    assert_eq!(a.store.audit(&["totals".into()]).await.unwrap().findings, []);
    assert_eq!(db.database.reset_on_poison("shop", &[5, 7]).await.unwrap(), [], "each moves once");
    assert_eq!(a.stands("totals").await.0, 9);
}

#[tokio::test]
async fn what_is_in_flight_stays_in_the_ledger_and_queues_stay() {
    let (db, a, mut session) = nine().await;
    let term = a.active("totals", 0, false).await;
    let ledger = with_ledger(advance(9, &[1, 2, 4, 6, 7, 8, 9]), [(3, 3), (5, 5)]);
    a.store.advance(&fence("totals", Some(term)), &ledger).await.unwrap();
    run(&mut session, "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared')").await;
    let claim = "SELECT count(*) FROM headwater.claim('shop', 'work', 9)";
    assert_eq!(sqlx::query_scalar::<_, i64>(claim).fetch_one(&mut session).await.unwrap(), 9);
    assert_eq!(db.database.reset_on_poison("shop", &[5]).await.unwrap(), [reset("totals", 9, 4)]);
    assert_eq!(a.stands("totals").await, (4, vec![(3, 3)]));
    assert_eq!(sqlx::query_scalar::<_, i64>(claim).fetch_one(&mut session).await.unwrap(), 0, "all are claimed");
}

#[tokio::test]
async fn what_is_not_poison_moves_nobody() {
    let (_db, a, mut session) = nine().await;
    a.active("totals", 9, false).await;
    for list in ["NULL", "'{}'", "ARRAY[NULL::bigint]", "ARRAY[5, 6]"] {
        for call in ["reset_on_poison", "redeliver_in_order"] {
            let script = format!("SELECT headwater.{call}('shop', {list})");
            assert_eq!(sqlstate_of(&mut session, &script).await, "WH002", "{script}");
        }
    }
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater_private.reset_active('shop', NULL)").await, "WH002");
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.reset_on_poison('no', ARRAY[5])").await, "WH001");
    assert_eq!(a.stands("totals").await.0, 9);
}

#[tokio::test]
async fn a_repaired_event_comes_in_order_or_late() {
    let (db, a, mut session) = nine().await;
    let active = a.active("active", 9, false).await;
    let transactional = a.active("transactional", 9, true).await;
    let behind = a.active("behind", 2, false).await;
    let refused = db.database.redeliver_in_order("shop", &[5]).await.unwrap_err();
    assert!(refused.to_string().contains("not repaired"), "{refused}");
    repair(&mut session, 5).await;
    let redelivered = db.database.redeliver_in_order("shop", &[5]).await.unwrap();
    assert_eq!(redelivered, Redelivered { moved: 1, late: 1 });
    assert_eq!(a.stands("active").await, (4, vec![]));
    assert_eq!(a.stands("transactional").await, (9, vec![(5, 5)]));
    assert_eq!(a.stands("behind").await, (2, vec![]));
    for (id, term) in [("active", active), ("transactional", transactional), ("behind", behind)] {
        assert_eq!(a.renew(id, term).await, None, "what {id} read before the repair counts no more");
        let term = a.take(id).await.unwrap();
        assert_eq!(a.store.load(&fence(id, Some(term))).await.unwrap().repairs, 1);
    }
    assert!(db.database.redeliver_in_order("shop", &[5]).await.is_err(), "once is enough");
    let count = "SELECT count(*) FROM headwater_private.poison_events WHERE NOT redelivered";
    assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(&mut session).await.unwrap(), 0);
}

#[tokio::test]
async fn who_was_just_taken_over_is_moved_back_too() {
    let (db, a, _session) = nine().await;
    a.register("plain", StartFrom::After(9)).await;
    a.take("plain").await.unwrap();
    a.register("transactional", StartFrom::After(9)).await;
    let report = Report { transactional: true, ..Report::default() };
    let asks = [LeaseRequest { report, ..ask("transactional", None) }];
    assert!(a.store.keep(&a.instance, &asks, LONG).await.unwrap()[0].term.is_some());
    assert_eq!(db.database.reset_on_poison("shop", &[5]).await.unwrap(), [reset("plain", 9, 4)]);
}

/// Notes another poison, and answers who was moved back because of it.
async fn moved_by(db: &TestDatabase, session: &mut PgConnection, sequence: u64) -> Vec<SubscriptionReset> {
    poison(session, &[sequence]).await;
    let note = format!("SELECT headwater.note_poison('shop', ARRAY[{sequence}], ARRAY['broken'])");
    run(session, &note).await;
    db.database.reset_on_poison("shop", &[sequence]).await.unwrap()
}

#[tokio::test]
async fn each_of_two_poisons_in_quick_succession_moves_it_back() {
    let (db, a, mut session) = nine().await;
    a.active("totals", 9, false).await;
    assert_eq!(db.database.reset_on_poison("shop", &[5]).await.unwrap(), [reset("totals", 9, 4)]);
    // Its node has not noticed yet.
    assert_eq!(moved_by(&db, &mut session, 3).await, [reset("totals", 4, 2)]);
    assert_eq!(a.store.subscriber("totals").await.unwrap().lease_left, None, "nobody owns it");
    assert!(a.take("totals").await.is_some());
}

#[tokio::test]
async fn poison_right_after_a_redelivery_or_a_reset_moves_it_back() {
    let (db, a, mut session) = nine().await;
    a.active("totals", 9, false).await;
    repair(&mut session, 5).await;
    assert_eq!(db.database.redeliver_poison("shop", 5).await.unwrap(), 1);
    assert_eq!(moved_by(&db, &mut session, 8).await, [reset("totals", 9, 7)]);
    a.store.reset("totals", 9).await.unwrap();
    assert_eq!(moved_by(&db, &mut session, 3).await, [reset("totals", 9, 2)]);
}

#[tokio::test]
async fn a_subscriber_that_a_node_runs_alone_is_moved_back() {
    let (db, a, mut session) = nine().await;
    let attend = async |lease| {
        let effects = Report { transactional: true, ..Report::default() };
        let both = [("plain".to_owned(), Report::default()), ("effects".to_owned(), effects)];
        a.store.attend_alone(&both, lease).await.unwrap();
    };
    for id in ["plain", "effects"] {
        a.register(id, StartFrom::After(9)).await;
    }
    attend(LONG).await;
    assert_eq!(db.database.reset_on_poison("shop", &[5]).await.unwrap(), [reset("plain", 9, 4)]);
    // It has ended.
    attend(std::time::Duration::ZERO).await;
    assert_eq!(moved_by(&db, &mut session, 3).await, []);
    // One that is owned stays its owner's.
    let term = a.take("plain").await.unwrap();
    attend(std::time::Duration::ZERO).await;
    assert_eq!(a.renew("plain", term).await, Some(term));
    assert_eq!(moved_by(&db, &mut session, 2).await, [reset("plain", 4, 1)]);
}

/// Of a group, one partition is owned, the other is between two owners.
#[tokio::test]
async fn a_partition_between_owners_is_moved_back_with_its_group() {
    let (db, a, mut session) = nine().await;
    let group = "SELECT headwater.register_subscriber('shop', 'group', start_from => 'after', start_position => 9, mode => 'partitioned', partitions => 2)";
    run(&mut session, group).await;
    assert!(a.take("group").await.is_some());
    let moved = db.database.reset_on_poison("shop", &[5]).await.unwrap();
    assert_eq!(moved, [reset("group", 9, 4), SubscriptionReset { partition: 1, ..reset("group", 9, 4) }]);
}

#[tokio::test]
async fn while_a_group_changes_its_partitions_nothing_is_moved_and_it_is_tried_again() {
    let (db, a, mut session) = nine().await;
    a.active("totals", 9, false).await;
    let group = "SELECT headwater.register_subscriber('shop', 'group', start_from => 'after', start_position => 9, mode => 'partitioned', partitions => 2)";
    run(&mut session, group).await;
    let group = ["group".to_owned()];
    a.store.join(&a.instance, &group, LONG).await.unwrap();
    let term = a.take("group").await.unwrap();
    a.store.resize("group", 3).await.unwrap();
    let refused = db.database.reset_on_poison("shop", &[5]).await.unwrap_err();
    assert!(refused.is_retryable() && refused.to_string().contains("changes its number of partitions"), "{refused}");
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.reset_on_poison('shop', ARRAY[5])").await, "WH036");
    assert_eq!(a.stands("totals").await.0, 9);
    // Its owner gives it up, and it stands even: then it has three, and one is taken.
    assert_eq!(a.renew("group", term).await, Some(term));
    a.store.release(&a.instance, &["group".into()]).await.unwrap();
    a.store.join(&a.instance, &group, LONG).await.unwrap();
    assert!(a.take("group").await.is_some());
    let moved = db.database.reset_on_poison("shop", &[5]).await.unwrap();
    assert_eq!(
        moved.iter().map(|moved| &*moved.subscriber_id).collect::<Vec<_>>(),
        ["group", "group", "group", "totals"]
    );
}

#[tokio::test]
async fn each_notifier_is_told_of_what_is_found_from_its_first_start_on_until_it_was_told() {
    let (db, _a, mut session) = nine().await;
    let to_tell = async |notifier: &str| db.database.poison_to_tell("shop", notifier, 10).await.unwrap();
    for notifier in ["alarm", "reset", "alarm"] {
        db.database.add_poison_notifier("shop", notifier).await.unwrap();
    }
    assert_eq!(to_tell("alarm").await, Vec::<u64>::new(), "5 was found before");
    poison(&mut session, &[7, 3]).await;
    for _ in 0..2 {
        run(&mut session, "SELECT headwater.note_poison('shop', ARRAY[7, 3], ARRAY['broken', 'broken'])").await;
    }
    assert_eq!(
        (to_tell("alarm").await, to_tell("reset").await, to_tell("other").await),
        (vec![3, 7], vec![3, 7], vec![])
    );
    db.database.poison_told("shop", "alarm", &[3]).await.unwrap();
    run(&mut session, "SELECT headwater.note_poison('shop', ARRAY[3], ARRAY['broken'])").await;
    assert_eq!((to_tell("alarm").await, to_tell("reset").await), (vec![7], vec![3, 7]));
    assert_eq!(db.database.poison_to_tell("shop", "reset", 1).await.unwrap(), [3]);
    for wrong in ["add_poison_notifier('shop', '')", "poison_to_tell('shop', 'a', 0)", "poison_told('shop', 'a', NULL)"]
    {
        assert_eq!(sqlstate_of(&mut session, &format!("SELECT headwater.{wrong}")).await, "WH002", "{wrong}");
    }
}

async fn gaps(session: &mut PgConnection) -> Vec<String> {
    let gaps = "SELECT concat(first_sequence, '-', last_sequence, ' ', proof) FROM headwater_private.permanent_gaps ORDER BY first_sequence, last_sequence";
    sqlx::query_scalar(gaps).fetch_all(session).await.unwrap()
}

fn permanent(first: u64, last: u64) -> Gap {
    Gap { first, last, state: GapState::Permanent }
}

#[tokio::test]
async fn poison_is_not_recorded_as_rolled_back_and_ranges_do_not_overlap() {
    let (_db, a, mut session) = nine().await;
    run(&mut session, "SELECT setval(n.sequence, 40) FROM headwater_private.namespaces n").await;
    a.store.record_gaps(None, &[permanent(4, 6)]).await.unwrap();
    assert_eq!(gaps(&mut session).await, ["4-4 aborted", "5-5 poison", "6-6 aborted"]);
    a.store.record_gaps(None, &[permanent(12, 14), permanent(20, 20)]).await.unwrap();
    for _ in 0..2 {
        a.store.record_gaps(None, &[permanent(10, 12), permanent(14, 22)]).await.unwrap();
    }
    let expected = [
        "4-4 aborted",
        "5-5 poison",
        "6-6 aborted",
        "10-11 aborted",
        "12-14 aborted",
        "15-19 aborted",
        "20-20 aborted",
        "21-22 aborted",
    ];
    assert_eq!(gaps(&mut session).await, expected);
    let overlapping =
        "INSERT INTO headwater_private.permanent_gaps (namespace_id, first_sequence, last_sequence, proof)
                       SELECT namespace_id, 11, 30, 'aborted' FROM headwater_private.namespaces";
    assert_eq!(sqlstate_of(&mut session, overlapping).await, "23P01", "whoever writes it");
}

#[tokio::test]
async fn a_page_tells_poison_from_what_was_rolled_back() {
    let (_db, log) = {
        let db = TestDatabase::create().await;
        let log = db.log("shop").await;
        let mut session = db.session().await;
        emit(&mut session, "shop", "event").await;
        run(&mut session, "BEGIN; SELECT headwater.emit('shop', 'gone'); ROLLBACK").await;
        for _ in 0..3 {
            emit(&mut session, "shop", "event").await;
        }
        poison(&mut session, &[3, 4]).await;
        (db, log)
    };
    let page = log.settled_page(0, 5, 100).await.unwrap();
    assert_eq!(sequences(&page.events), [1, 5]);
    assert_eq!(page.gaps, [permanent(2, 2), Gap { first: 3, last: 4, state: GapState::Poison }]);
}
