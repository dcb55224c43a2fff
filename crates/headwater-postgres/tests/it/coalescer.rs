//! The coalescer: one statement for many callers, and none of them harmed by another.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{raw, run, types_after};
use futures::future::join_all;
use headwater_core::{Append, AppendError, Event, EventLog, ExpectedVersion, Json, NamespaceConfig, Ordering};
use headwater_embedded::{Server, Shutdown};
use headwater_postgres::{Database, DatabaseOptions, LogOptions, PgLog};
use headwater_testing::TestDatabase;

async fn transactions(db: &TestDatabase) -> i64 {
    let count = "SELECT count(DISTINCT transaction_id) FROM headwater_private.events";
    sqlx::query_scalar(count).fetch_one(db.database.pool()).await.unwrap()
}

#[tokio::test]
async fn concurrent_callers_share_commits() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let appended = join_all((0..500).map(|n| log.append(raw(&format!("e{n}")).into()))).await;
    let mut sequences: Vec<_> = appended.into_iter().map(|result| result.unwrap().global_sequence()).collect();
    sequences.sort();
    sequences.dedup();
    assert_eq!(sequences.len(), 500);
    assert_eq!(types_after(&log, 0).await.len(), 500);
    let transactions = transactions(&db).await;
    assert!(transactions < 100, "500 appends took {transactions} commits");
}

#[tokio::test]
async fn a_caller_is_released_after_the_commit() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut other = db.session().await;
    for n in 1..=20 {
        log.append(raw("done").into()).await.unwrap();
        let seen: i64 =
            sqlx::query_scalar("SELECT count(*) FROM headwater_private.events").fetch_one(&mut other).await.unwrap();
        assert_eq!(seen, n, "another session sees it as soon as the caller is answered");
    }
}

#[tokio::test]
async fn a_commit_that_fails_fails_the_append() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    // Fails at the commit, after the server has sent an answer too large for its buffer.
    let mut session = db.session().await;
    run(
        &mut session,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN RAISE 'not today'; END $$;
         DO $$ DECLARE leaf regclass; BEGIN
             FOR leaf IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'headwater_private.events'::regclass LOOP
                 EXECUTE format('CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON %s DEFERRABLE INITIALLY DEFERRED
                                 FOR EACH ROW EXECUTE FUNCTION refuse()', leaf);
             END LOOP;
         END $$",
    )
    .await;
    let many = (0..5000).fold(Append::new(), |append, _| append.event(raw("e")));
    assert!(log.append(many).await.is_err(), "an append that is not committed must not be acknowledged");
    assert!(types_after(&log, 0).await.is_empty());
}

#[tokio::test]
async fn one_callers_conflict_fails_only_that_caller() {
    for ordering in [Ordering::Sequence, Ordering::Gapless] {
        let db = TestDatabase::create().await;
        let config = NamespaceConfig::new("shop").ordering(ordering);
        let log = db.log_with(config, LogOptions { flushers: 1, ..Default::default() }).await;
        let appends = (0..100).map(|n| {
            let expected = if n % 10 == 3 { ExpectedVersion::Exact(5) } else { ExpectedVersion::NoStream };
            log.append(Append::to_stream(format!("s{n}"), expected, [raw("a"), raw("b")]))
        });
        for (n, result) in join_all(appends).await.into_iter().enumerate() {
            match result {
                Err(AppendError::Conflict { stream_id, actual, .. }) => {
                    assert!(n % 10 == 3 && *stream_id == format!("s{n}") && actual == 0);
                }
                result => assert_eq!(result.unwrap().stream_version(), Some(2), "{n}"),
            }
        }
        assert_eq!(types_after(&log, 0).await.len(), 180);
        assert_eq!(log.horizon().await.unwrap().head, 180, "a conflict takes no sequence");
    }
}

#[tokio::test]
async fn one_callers_bad_payload_fails_only_that_caller() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let appends = (0..100).map(|n| {
        let data = if n % 10 == 3 { Json::from_trusted(r#""\u0000""#) } else { Json::null() };
        log.append(Event::raw("e", data).into())
    });
    for (n, result) in join_all(appends).await.into_iter().enumerate() {
        assert_eq!(matches!(result, Err(AppendError::InvalidInput(_))), n % 10 == 3, "{n}: {result:?}");
    }
    assert_eq!(types_after(&log, 0).await.len(), 90);
}

#[tokio::test]
async fn one_callers_retry_is_answered_in_the_middle_of_others() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let emitted: Append = raw("emitted").into();
    let streamed = Append::to_stream("s", ExpectedVersion::NoStream, [raw("streamed")]);
    let first = (log.append(emitted.clone()).await.unwrap(), log.append(streamed.clone()).await.unwrap());
    let others = join_all(
        (0..50).map(|n| log.append(Append::to_stream(format!("o{n}"), ExpectedVersion::NoStream, [raw("o")]))),
    );
    let (others, emitted, streamed) = tokio::join!(others, log.append(emitted), log.append(streamed));
    assert!(others.iter().all(Result::is_ok));
    let (emitted, streamed) = (emitted.unwrap(), streamed.unwrap());
    assert!(emitted.retried && emitted.events == first.0.events);
    assert!(streamed.retried && streamed.events == first.1.events);
    assert_eq!(types_after(&log, 0).await.len(), 52);
}

#[tokio::test]
async fn many_callers_of_one_stream_get_consecutive_versions() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let appends = (0..200).map(|_| log.append(Append::to_stream("hot", ExpectedVersion::Any, [raw("e"), raw("e")])));
    let mut versions: Vec<_> = Vec::new();
    for result in join_all(appends).await {
        let placed = result.unwrap().events;
        assert_eq!(placed[0].stream_version.unwrap() + 1, placed[1].stream_version.unwrap());
        versions.extend(placed.iter().map(|placed| placed.stream_version.unwrap()));
    }
    versions.sort();
    assert_eq!(versions, (1..=400).collect::<Vec<_>>());
    assert!(transactions(&db).await < 100, "callers that expect any version share commits");
}

#[tokio::test]
async fn cancelled_callers_harm_nobody() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let callers: Vec<_> = (0..200)
        .map(|n| {
            let log = log.clone();
            tokio::spawn(async move { log.append(raw(&format!("e{n}")).into()).await })
        })
        .collect();
    tokio::task::yield_now().await;
    let mut kept = Vec::new();
    for (n, caller) in callers.into_iter().enumerate() {
        if n % 3 == 0 {
            caller.abort();
        } else {
            kept.push(caller);
        }
    }
    for caller in kept {
        caller.await.unwrap().unwrap();
    }
    let stored = types_after(&log, 0).await;
    for n in (0..200).filter(|n| n % 3 != 0) {
        assert_eq!(stored.iter().filter(|stored| **stored == format!("e{n}")).count(), 1, "e{n}");
    }
}

#[tokio::test]
async fn a_stream_that_another_transaction_holds_stalls_nobody_else() {
    let db = TestDatabase::create().await;
    let log = db.log_with(NamespaceConfig::new("shop"), LogOptions { flushers: 1, ..Default::default() }).await;
    log.append(Append::to_stream("held", ExpectedVersion::NoStream, [raw("first")])).await.unwrap();
    let mut holder = db.session().await;
    run(&mut holder, "BEGIN; SELECT headwater.append('shop', 'held', '{\"type\": \"second\"}')").await;

    let blocked = log.append(Append::to_stream("held", ExpectedVersion::Any, [raw("third")]));
    let mut blocked = std::pin::pin!(blocked);
    // It is sent by itself first, so that it is not other appends that get it out of the way.
    tokio::select! {
        biased;
        result = &mut blocked => panic!("the stream is held, but the append answered {result:?}"),
        () = tokio::time::sleep(Duration::from_millis(20)) => {}
    }
    let others = async {
        for n in 0..20 {
            join_all((0..5).map(|m| log.append(raw(&format!("{n}.{m}")).into()))).await;
        }
    };
    tokio::select! {
        biased;
        result = &mut blocked => panic!("the stream is held, but the append answered {result:?}"),
        () = others => {}
    }
    run(&mut holder, "COMMIT").await;
    assert_eq!(blocked.await.unwrap().stream_version(), Some(3));
}

#[tokio::test]
async fn the_queue_is_bounded() {
    let db = TestDatabase::create().await;
    let log =
        db.log_with(NamespaceConfig::new("shop"), LogOptions { max_queued_bytes: 65536, ..Default::default() }).await;
    // Each is more than half of the queue, and one is more than all of it.
    let append = |bytes: usize| log.append(Event::raw("big", Json::encode(&"x".repeat(bytes)).unwrap()).into());
    let results = join_all([40_000, 40_000, 200_000, 40_000, 40_000].map(append)).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(types_after(&log, 0).await.len(), 5);
}

#[tokio::test]
async fn a_close_answers_what_is_queued_and_takes_no_more() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let callers: Vec<_> = (0..300)
        .map(|_| {
            let log = log.clone();
            tokio::spawn(async move { log.append(raw("e").into()).await })
        })
        .collect();
    tokio::task::yield_now().await;
    log.close().await;
    let (mut stored, mut refused) = (0, 0);
    for caller in callers {
        match caller.await.unwrap() {
            Ok(_) => stored += 1,
            Err(AppendError::ShuttingDown) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((types_after(&log, 0).await.len(), stored + refused), (stored, 300));
    assert!(stored > 0, "what was queued before the close is written");
    assert!(matches!(log.append(raw("late").into()).await, Err(AppendError::ShuttingDown)));
}

#[tokio::test]
async fn a_dropped_log_still_writes_what_is_queued() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let caller = tokio::spawn({
        let log = log.clone();
        async move { log.append(raw("e").into()).await }
    });
    tokio::task::yield_now().await;
    drop(log);
    caller.await.unwrap().unwrap();
}

/// Appends until told to stop, and at least four times, however slow the machine is. Each event is
/// stored exactly once, whatever happens to the connection.
async fn append_until(log: PgLog, stop: Arc<std::sync::atomic::AtomicBool>, name: usize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    while !stop.load(std::sync::atomic::Ordering::SeqCst) || acknowledged.len() < 4 {
        let event_type = format!("{name}.{}", acknowledged.len());
        let append = match acknowledged.len() % 2 {
            0 => raw(&event_type).into(),
            _ => {
                let version = acknowledged.len() as u64 / 2;
                Append::to_stream(format!("s{name}"), ExpectedVersion::Exact(version), [raw(&event_type)])
            }
        };
        log.append(append).await.expect("an append was not retried to its end");
        acknowledged.push(event_type);
    }
    acknowledged
}

async fn exactly_once_despite<T>(log: PgLog, disturb: impl Future<Output = T>) {
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writers: Vec<_> = (0..16).map(|name| tokio::spawn(append_until(log.clone(), stop.clone(), name))).collect();
    let _kept = disturb.await;
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    let mut stored = types_after(&log, 0).await;
    acknowledged.sort();
    stored.sort();
    assert!(acknowledged.len() > 50, "only {} appends", acknowledged.len());
    assert_eq!(stored, acknowledged, "each acknowledged append is stored exactly once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminated_backends_cost_no_append() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut admin = db.session().await;
    let kill = async {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(60)).await;
            run(
                &mut admin,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE datname = current_database() AND application_name = 'headwater' AND pid <> pg_backend_pid()",
            )
            .await;
        }
    };
    exactly_once_despite(log, kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_restarts_cost_no_append_own_server() {
    let mut server = Server::builder().start().expect("failed to start a server");
    let database = Database::connect(&server.url("headwater"), DatabaseOptions::default()).await.unwrap();
    database.migrate().await.unwrap();
    database.create_namespace(&NamespaceConfig::new("shop")).await.unwrap();
    let log = database.open_log("shop", LogOptions::default()).await.unwrap();
    let restart = async {
        for mode in [Shutdown::Fast, Shutdown::Immediate] {
            tokio::time::sleep(Duration::from_millis(200)).await;
            server = tokio::task::spawn_blocking(move || {
                server.restart(mode).expect("failed to restart");
                server
            })
            .await
            .unwrap();
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        server
    };
    exactly_once_despite(log, restart).await;
}

#[tokio::test]
async fn an_unreachable_server_is_said_to_be_so_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let options = DatabaseOptions { acquire_timeout: Duration::from_millis(500), ..Default::default() };
    let database = Database::connect(&server.url("headwater"), options).await.unwrap();
    database.migrate().await.unwrap();
    database.create_namespace(&NamespaceConfig::new("shop")).await.unwrap();
    let options = LogOptions { retry_for: Duration::from_millis(300), ..Default::default() };
    let log = database.open_log("shop", options).await.unwrap();
    let append: Append = raw("e").into();
    let stopped = server.stop(Shutdown::Fast).unwrap();
    let error = log.append(append.clone()).await.unwrap_err();
    assert!(error.is_retryable() && error.outcome_unknown(), "{error}");

    let _server = stopped.start().unwrap();
    log.append(append.clone()).await.expect("the same log appends again when the server is back");
    assert_eq!(types_after(&log, 0).await.len(), 1);
}

#[tokio::test]
async fn many_callers_of_a_held_stream_stall_nobody_else() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    log.append(Append::to_stream("held", ExpectedVersion::NoStream, [raw("first")])).await.unwrap();
    let mut holder = db.session().await;
    run(&mut holder, "BEGIN; SELECT headwater.append('shop', 'held', '{\"type\": \"second\"}')").await;
    let mut blocked = tokio::task::JoinSet::new();
    for n in 0..100 {
        let log = log.clone();
        blocked.spawn(async move {
            log.append(Append::to_stream("held", ExpectedVersion::Any, [raw(&format!("b{n}"))])).await
        });
    }
    let others = async {
        for n in 0..20 {
            join_all((0..5).map(|m| log.append(raw(&format!("{n}.{m}")).into()))).await;
        }
    };
    // Longer than any wait for a lock that others could be behind.
    tokio::time::timeout(Duration::from_secs(20), others).await.expect("others wait behind the held stream");
    assert!(blocked.try_join_next().is_none());
    run(&mut holder, "COMMIT").await;
    while let Some(result) = blocked.join_next().await {
        result.unwrap().unwrap();
    }
    let last = log.stream_page(&headwater_core::StreamQuery::new("held").backwards().page_size(1)).await.unwrap();
    assert_eq!(last[0].stream_version, Some(102));
}

#[tokio::test]
async fn a_caller_that_is_not_polled_holds_up_nobody() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut forgotten = Box::pin(log.append(raw("forgotten").into()));
    assert!(futures::poll!(&mut forgotten).is_pending());
    for n in 0..10 {
        log.append(raw(&format!("e{n}")).into()).await.unwrap();
    }
    tokio::time::timeout(Duration::from_secs(20), log.close())
        .await
        .expect("the close waits for a future that nobody polls");
    drop(forgotten);
}

#[tokio::test]
async fn the_last_append_before_a_close_wakes_readers() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut listener = sqlx::postgres::PgListener::connect(&db.url).await.unwrap();
    listener.listen("headwater_shop").await.unwrap();
    log.append(raw("last").into()).await.unwrap();
    log.close().await;
    let woken = tokio::time::timeout(Duration::from_secs(20), listener.recv()).await;
    assert_eq!(woken.expect("nobody was woken").unwrap().channel(), "headwater_shop");
}
