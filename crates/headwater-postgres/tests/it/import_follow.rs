//! Imports that follow a table which is still written to: no order of commits, no kill and no
//! second run loses a row or doubles one.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::epoch::{self, left_behind, store};
use crate::common::{pid, run};
use futures::TryStreamExt;
use headwater_core::{EventLog, RecordedEvent};
use headwater_postgres::{ImportError, ImportFollow, ImportOptions, ImportSource, ImportStage, Imported, PgLog};
use headwater_testing::TestDatabase;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::JoinHandle;

async fn shop() -> (TestDatabase, PgLog, PgConnection) {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut session = db.session().await;
    run(&mut session, epoch::TABLES).await;
    (db, log, session)
}

async fn follow(log: &PgLog, follow: ImportFollow) -> Result<Imported, ImportError> {
    log.import(None, &epoch::options(Some(follow)), |_| ()).await
}

/// A run in the background, with the stages that it tells.
fn spawn(
    log: &PgLog,
    follow: ImportFollow,
) -> (JoinHandle<Result<Imported, ImportError>>, tokio::sync::mpsc::UnboundedReceiver<ImportStage>) {
    let (log, (tell, told)) = (log.clone(), tokio::sync::mpsc::unbounded_channel());
    let running = tokio::spawn(async move {
        log.import(None, &epoch::options(Some(follow)), move |at| _ = tell.send(at.stage)).await
    });
    (running, told)
}

/// The old sequences of the imported events, in the order of the log.
async fn old_sequences(log: &PgLog) -> Vec<i64> {
    let events: Vec<RecordedEvent> = log.read_all_events_since(0).try_collect().await.unwrap();
    events.iter().map(|event| event.headers["source_sequence"].parse().unwrap()).collect()
}

async fn number(session: &mut PgConnection, query: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(session).await.unwrap()
}

async fn notes_table(session: &mut PgConnection) -> String {
    let name = r"SELECT relname::text FROM pg_class WHERE relname LIKE 'headwater\_notes%' AND relkind = 'r'";
    sqlx::query_scalar(name).fetch_one(session).await.unwrap()
}

async fn until(session: &mut PgConnection, condition: &str) {
    let begin = std::time::Instant::now();
    while !sqlx::query_scalar::<_, bool>(AssertSqlSafe(format!("SELECT {condition}")))
        .fetch_one(&mut *session)
        .await
        .unwrap()
    {
        assert!(begin.elapsed() < Duration::from_secs(60), "{condition}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn rows_are_followed_to_the_end_and_nothing_is_left_behind() {
    let (_db, log, mut session) = shop().await;
    store(&mut session, 1, 1..=25).await;
    let first = follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    assert_eq!((first.events, first.new_events, first.followed_events), (25, 25, 0));
    store(&mut session, 1, 26..=40).await;
    let second = follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    assert_eq!((second.events, second.new_events, second.followed_events), (40, 15, 15));
    store(&mut session, 2, 1..=3).await;
    let plain = log.import(None, &epoch::options(None), |_| ()).await;
    assert!(matches!(plain, Err(ImportError::Followed(_))), "{plain:?}");
    assert!(left_behind(&mut session).await > 0);

    let last = follow(&log, ImportFollow::Finish).await.unwrap();
    assert_eq!((last.events, last.new_events, last.followed_events), (43, 3, 18));
    assert_eq!(old_sequences(&log).await, (1..=43).collect::<Vec<i64>>());
    assert_eq!(left_behind(&mut session).await, 0);

    // Again: nothing changes.
    for options in [epoch::options(None), epoch::options(Some(ImportFollow::Finish))] {
        let again = log.import(None, &options, |_| ()).await.unwrap();
        assert_eq!(again, Imported { new_events: 0, ..last.clone() });
    }
    let ended = follow(&log, ImportFollow::UntilCaughtUp).await;
    assert!(matches!(ended, Err(ImportError::FollowEnded(_))), "{ended:?}");
    // Who writes to the old table after the switch-over is found out.
    store(&mut session, 2, 4..=4).await;
    let more = follow(&log, ImportFollow::Finish).await;
    assert!(matches!(more, Err(ImportError::Mismatch { in_source: 44, imported: 43, .. })), "{more:?}");
}

/// A writer that has its sequence before the trigger is there, and writes after it: whoever trusts
/// sequences misses it.
#[tokio::test]
async fn a_sequence_that_was_taken_before_the_trigger_is_not_missed() {
    let (_db, log, mut session) = shop().await;
    store(&mut session, 1, 1..=5).await;
    let taken = number(&mut session, "SELECT nextval('public.events_global_sequence_seq')").await;
    store(&mut session, 1, 6..=8).await;
    follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    run(&mut session, &format!("SELECT public.store(2, 1, {taken})")).await;
    assert_eq!(follow(&log, ImportFollow::UntilCaughtUp).await.unwrap().new_events, 1);
    assert_eq!(follow(&log, ImportFollow::Finish).await.unwrap().events, 9);
    assert_eq!(old_sequences(&log).await, [1, 2, 3, 4, 5, 7, 8, 9, 6]);
}

/// The trigger waits for a transaction that has written before it, names it, and does not keep
/// other writers out for long.
#[tokio::test]
async fn the_trigger_waits_for_open_writers_and_says_for_whom() {
    let (db, log, mut session) = shop().await;
    let mut writer = db.session().await;
    let its_pid = pid(&mut writer).await;
    run(&mut writer, "BEGIN; SELECT public.store(1, 1)").await;
    let (running, mut told) = spawn(&log, ImportFollow::UntilCaughtUp);
    loop {
        if let ImportStage::Waiting { pid, .. } = told.recv().await.expect("it goes on") {
            assert_eq!(pid, its_pid);
            break;
        }
    }
    // Others get through between two attempts.
    store(&mut session, 2, 1..=2).await;
    assert_eq!(left_behind(&mut session).await, 0);
    run(&mut writer, "COMMIT").await;
    assert_eq!(running.await.unwrap().unwrap().events, 3);
    assert_eq!(old_sequences(&log).await, [1, 2, 3]);
}

/// What commits out of order comes in order, what is rolled back does not come.
#[tokio::test]
async fn rows_that_commit_out_of_order_come_in_order() {
    let (db, log, mut session) = shop().await;
    follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    let (mut slow, mut failing) = (db.session().await, db.session().await);
    run(&mut slow, "BEGIN; SELECT public.store(1, 1)").await;
    run(&mut failing, "BEGIN; SELECT public.store(2, 1)").await;
    store(&mut session, 3, 1..=2).await;
    let (running, _told) = spawn(&log, ImportFollow::UntilCaughtUp);
    // It has looked who writes, and waits for them.
    until(&mut session, "EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%virtualtransaction = ANY%' AND pid <> pg_backend_pid())").await;
    run(&mut failing, "ROLLBACK").await;
    run(&mut slow, "COMMIT").await;
    assert_eq!(running.await.unwrap().unwrap().events, 3);
    assert_eq!(old_sequences(&log).await, [1, 3, 4]);
}

/// One that stays open is not waited for without end: its row comes late.
#[tokio::test]
async fn a_row_that_commits_much_later_comes_later() {
    let (db, log, mut session) = shop().await;
    follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    let mut slow = db.session().await;
    run(&mut slow, "BEGIN; SELECT public.store(1, 1)").await;
    store(&mut session, 2, 1..=2).await;
    assert_eq!(follow(&log, ImportFollow::UntilCaughtUp).await.unwrap().events, 2);
    run(&mut slow, "COMMIT").await;
    follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    assert_eq!(old_sequences(&log).await, [2, 3, 1]);
}

/// Killed after the target has a batch, and before the source has deleted its notes.
#[tokio::test]
async fn a_kill_between_the_events_and_the_notes_doubles_nothing() {
    let (db, log, mut session) = shop().await;
    follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    store(&mut session, 1, 1..=3).await;
    let notes = notes_table(&mut session).await;
    let mut holder = db.session().await;
    run(&mut holder, &format!("BEGIN; SELECT FROM public.{notes} FOR UPDATE")).await;
    let (running, _told) = spawn(&log, ImportFollow::UntilCaughtUp);
    until(&mut session, "(SELECT cardinality(follow_notes) = 3 FROM headwater_private.imports)").await;
    let waiting = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%DELETE FROM%headwater\\_notes%'";
    until(&mut session, &format!("EXISTS ({waiting})")).await;
    run(&mut session, &format!("SELECT pg_terminate_backend(pid) FROM ({waiting}) w")).await;
    assert!(matches!(running.await.unwrap(), Err(ImportError::Source(_))));
    run(&mut holder, "ROLLBACK").await;
    assert_eq!(number(&mut session, &format!("SELECT count(*) FROM public.{notes}")).await, 3, "nobody deleted them");

    store(&mut session, 1, 4..=4).await;
    assert_eq!(follow(&log, ImportFollow::Finish).await.unwrap().events, 4);
    assert_eq!(old_sequences(&log).await, [1, 2, 3, 4]);
}

/// Killed at the end: after the trigger is removed, and before the target says so.
#[tokio::test]
async fn a_kill_after_the_trigger_is_removed_is_gone_on_from() {
    let (_db, log, mut session) = shop().await;
    follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    store(&mut session, 1, 1..=3).await;
    let notes = notes_table(&mut session).await;
    assert_eq!(follow(&log, ImportFollow::Finish).await.unwrap().events, 3);
    let token = notes.trim_start_matches("headwater_notes_");
    run(
        &mut session,
        &format!("UPDATE headwater_private.imports SET follow_state = 'finishing', follow_token = '{token}'"),
    )
    .await;
    assert_eq!(follow(&log, ImportFollow::Finish).await.unwrap().events, 3);
    assert_eq!(
        number(&mut session, "SELECT count(*) FROM headwater_private.imports WHERE follow_state = 'ended'").await,
        1
    );
}

/// The last rows are stored while the table is locked: if the transaction that locks it fails then,
/// they are not stored again.
#[tokio::test]
async fn a_kill_before_the_trigger_is_removed_doubles_nothing() {
    for _ in 0..10 {
        if killed_before_the_trigger_is_removed().await {
            return;
        }
    }
    panic!("the removal never waited for a writer that ended in time");
}

/// `false`: the writer ended too late, after the lock was given up; its row then comes in a round.
async fn killed_before_the_trigger_is_removed() -> bool {
    let (db, log, mut session) = shop().await;
    follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    // It commits after the last round, while the removal waits for it.
    let mut late = db.session().await;
    run(&mut late, "BEGIN; SELECT public.store(1, 1)").await;
    let stream = "00000000-0000-0000-0000-000000000001";
    let mut holder = db.session().await;
    run(&mut holder, &format!("BEGIN; SELECT headwater.append('shop', '{stream}', '{{\"type\": \"Held\"}}')")).await;
    let (running, _told) = spawn(&log, ImportFollow::Finish);
    let removing = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%DROP FUNCTION%' AND pid <> pg_backend_pid()";
    until(&mut session, &format!("EXISTS ({removing} AND wait_event_type = 'Lock')")).await;
    run(&mut late, "COMMIT").await;
    // Its row is about to be stored in the target. The source's session ends before that.
    until(
        &mut session,
        "EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%headwater.append%')",
    )
    .await;
    let holding = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction' AND query LIKE '%headwater\\_notes%'";
    let killed = sqlx::query(holding).fetch_all(&mut session).await.unwrap().len();
    if killed == 0 {
        return false;
    }
    run(&mut holder, "ROLLBACK").await;
    let failed = running.await.unwrap();
    assert!(matches!(failed, Err(ImportError::Source(_))), "{failed:?}");
    let notes = notes_table(&mut session).await;
    assert_eq!(number(&mut session, "SELECT events FROM headwater_private.imports").await, 1);
    assert_eq!(number(&mut session, &format!("SELECT count(*) FROM public.{notes}")).await, 1);
    store(&mut session, 1, 2..=2).await;
    assert_eq!(follow(&log, ImportFollow::Finish).await.unwrap().events, 2);
    assert_eq!(old_sequences(&log).await, [1, 2]);
    assert_eq!(left_behind(&mut session).await, 0);
    true
}

#[tokio::test]
async fn a_second_one_who_follows_is_refused() {
    let (_db, log, mut session) = shop().await;
    let (running, mut told) = spawn(&log, ImportFollow::Forever);
    while told.recv().await != Some(ImportStage::Following) {}
    let second = follow(&log, ImportFollow::Forever).await;
    assert!(matches!(second, Err(ImportError::Busy(_))), "{second:?}");
    store(&mut session, 1, 1..=2).await;
    until(&mut session, "(SELECT events = 2 FROM headwater_private.imports)").await;
    // One that got past the lock: the first of both that stores a batch goes on.
    run(&mut session, "UPDATE headwater_private.imports SET follow_batch = follow_batch + 1").await;
    store(&mut session, 1, 3..=3).await;
    let first = running.await.unwrap();
    assert!(matches!(first, Err(ImportError::Busy(_))), "{first:?}");
    assert_eq!(old_sequences(&log).await, [1, 2]);
    assert_eq!(follow(&log, ImportFollow::Finish).await.unwrap().events, 3);
}

/// Rows that are added while older ones are read: ahead of what is read, and behind it.
#[tokio::test]
async fn rows_that_are_added_while_older_ones_are_read_come_once() {
    let (db, log, mut session) = shop().await;
    let taken = number(&mut session, "SELECT nextval('public.events_global_sequence_seq')").await;
    store(&mut session, 1, 1..=25).await;
    let url = db.url.clone();
    let add = move || {
        let url = url.clone();
        let adding = std::thread::spawn(move || {
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                let mut session = PgConnection::connect(&url).await.unwrap();
                run(&mut session, &format!("SELECT public.store(1, 26); SELECT public.store(2, 1, {taken})")).await;
            });
        });
        adding.join().unwrap();
    };
    let options = epoch::options(Some(ImportFollow::UntilCaughtUp));
    let told = |at: headwater_postgres::ImportProgress| {
        if at.stage == ImportStage::Reading && at.events == 10 {
            add();
        }
    };
    assert_eq!(log.import(None, &options, told).await.unwrap().events, 27);
    let expected: Vec<i64> = (2..=26).chain([1, 27]).collect();
    assert_eq!(old_sequences(&log).await, expected);
    assert_eq!(follow(&log, ImportFollow::Finish).await.unwrap().followed_events, 2);
}

/// A run that does not follow, and began before, stores nothing once another follows: it would
/// store rows that have notes.
#[tokio::test]
async fn one_that_does_not_follow_stops_when_another_follows() {
    let (db, log, mut session) = shop().await;
    store(&mut session, 1, 1..=25).await;
    let url = db.url.clone();
    let begin = move || {
        let url = url.clone();
        let other = std::thread::spawn(move || {
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                let mut session = PgConnection::connect(&url).await.unwrap();
                run(
                    &mut session,
                    "SELECT headwater.import_follow(namespace_id, 'old', 'token') FROM headwater_private.namespaces",
                )
                .await;
            });
        });
        other.join().unwrap();
    };
    let refused = log.import(None, &epoch::options(None), |_| begin()).await;
    assert!(matches!(refused, Err(ImportError::Busy(_))), "{refused:?}");
    assert_eq!(old_sequences(&log).await.len(), 10);
}

#[tokio::test]
async fn rows_that_an_earlier_run_missed_are_found_out_before_it_follows() {
    let (_db, log, mut session) = shop().await;
    let taken = number(&mut session, "SELECT nextval('public.events_global_sequence_seq')").await;
    store(&mut session, 1, 1..=3).await;
    log.import(None, &epoch::options(None), |_| ()).await.unwrap();
    run(&mut session, &format!("SELECT public.store(2, 1, {taken})")).await;
    let missed = follow(&log, ImportFollow::Forever).await;
    assert!(matches!(missed, Err(ImportError::Mismatch { in_source: 4, imported: 3, .. })), "{missed:?}");
}

#[tokio::test]
async fn who_stops_following_leaves_nothing_behind() {
    let (_db, log, mut session) = shop().await;
    store(&mut session, 1, 1..=3).await;
    let options = epoch::options(Some(ImportFollow::UntilCaughtUp));
    assert!(!log.stop_following(None, &options, |_| ()).await.unwrap());
    follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    assert!(log.stop_following(None, &options, |_| ()).await.unwrap());
    assert_eq!(left_behind(&mut session).await, 0);
    assert!(!log.stop_following(None, &options, |_| ()).await.unwrap());
    // No row came by its note, so it is an import like any other.
    store(&mut session, 1, 4..=5).await;
    assert_eq!(log.import(None, &epoch::options(None), |_| ()).await.unwrap().events, 5);
    follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    store(&mut session, 1, 6..=6).await;
    follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    assert!(log.stop_following(None, &options, |_| ()).await.unwrap());
    assert_eq!(left_behind(&mut session).await, 0);
    let ended = follow(&log, ImportFollow::UntilCaughtUp).await;
    assert!(matches!(ended, Err(ImportError::FollowEnded(_))), "{ended:?}");
    assert_eq!(log.import(None, &epoch::options(None), |_| ()).await.unwrap().events, 6);
}

#[tokio::test]
async fn a_trigger_that_is_off_is_noticed() {
    let (_db, log, mut session) = shop().await;
    follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    for (off, on) in [
        ("ALTER TABLE public.events DISABLE TRIGGER USER", Some("ALTER TABLE public.events ENABLE TRIGGER USER")),
        (
            "DO $$ BEGIN EXECUTE (SELECT format('DROP TRIGGER %I ON public.events', tgname) FROM pg_trigger WHERE tgname LIKE 'headwater_note%'); END $$",
            None,
        ),
    ] {
        run(&mut session, off).await;
        for how in [ImportFollow::UntilCaughtUp, ImportFollow::Finish] {
            let gone = follow(&log, how).await;
            assert!(matches!(gone, Err(ImportError::TriggerGone { .. })), "{gone:?}");
        }
        if let Some(on) = on {
            run(&mut session, on).await;
            follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
        }
    }
    log.stop_following(None, &epoch::options(None), |_| ()).await.unwrap();
    assert_eq!(left_behind(&mut session).await, 0);
}

#[tokio::test]
async fn it_needs_few_rights_and_writers_need_none() {
    let (db, log, mut session) = shop().await;
    let (mine, writer) = (db.role().await, db.role().await);
    let grants = format!(
        "GRANT SELECT ON public.events TO {0}; GRANT INSERT, SELECT ON public.events TO {1};
                          GRANT USAGE ON SEQUENCE public.events_global_sequence_seq TO {1}",
        mine.name, writer.name
    );
    run(&mut session, &grants).await;
    let mut writing = writer.session().await;
    let url = mine.url.clone();
    let options = epoch::options(Some(ImportFollow::UntilCaughtUp));
    let refused = log.import(Some(&url), &options, |_| ()).await;
    assert!(matches!(&refused, Err(ImportError::MayNotFollow { .. })), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains("needs TRIGGER on the table and CREATE on schema public"));
    run(
        &mut session,
        &format!("GRANT TRIGGER ON public.events TO {0}; GRANT CREATE ON SCHEMA public TO {0}", mine.name),
    )
    .await;
    log.import(Some(&url), &options, |_| ()).await.unwrap();
    run(&mut writing, "SELECT public.store(1, 1)").await;
    let finish = epoch::options(Some(ImportFollow::Finish));
    assert_eq!(log.import(Some(&url), &finish, |_| ()).await.unwrap().events, 1);
    assert_eq!(left_behind(&mut session).await, 0);
    run(&mut session, &format!("DROP OWNED BY {0}; DROP OWNED BY {1}", mine.name, writer.name)).await;
    drop(writing);
    db.drop_role(mine).await;
    db.drop_role(writer).await;
}

#[tokio::test]
async fn partitions_are_followed_and_views_are_not() {
    let (_db, log, mut session) = shop().await;
    let parts = "CREATE TABLE public.parts (id int, event_type text, data jsonb) PARTITION BY RANGE (id);
                 CREATE TABLE public.part_1 PARTITION OF public.parts FOR VALUES FROM (0) TO (100);
                 CREATE TABLE public.part_2 PARTITION OF public.parts FOR VALUES FROM (100) TO (200);
                 CREATE VIEW public.seen AS SELECT * FROM public.parts;
                 INSERT INTO public.parts SELECT n, 'A', to_jsonb(n) FROM generate_series(1, 15) n";
    run(&mut session, parts).await;
    let options = |table: &str, follow| ImportOptions {
        follow: Some(follow),
        ..ImportOptions::new(table, ImportSource::table(table))
    };
    log.import(None, &options("public.parts", ImportFollow::UntilCaughtUp), |_| ()).await.unwrap();
    run(
        &mut session,
        "INSERT INTO public.parts VALUES (150, 'A', '1'); INSERT INTO public.part_1 VALUES (50, 'A', '2')",
    )
    .await;
    let all = log.import(None, &options("public.parts", ImportFollow::Finish), |_| ()).await.unwrap();
    assert_eq!((all.events, all.followed_events), (17, 2));
    assert_eq!(left_behind(&mut session).await, 0);
    let view = log.import(None, &options("public.seen", ImportFollow::Finish), |_| ()).await;
    assert!(matches!(&view, Err(ImportError::Invalid(said)) if said.contains("cannot be followed")), "{view:?}");
    let queue = ImportOptions {
        follow: Some(ImportFollow::Finish),
        ..ImportOptions::new("q", ImportSource::pgmq("jobs", true))
    };
    assert!(matches!(log.import(None, &queue, |_| ()).await, Err(ImportError::Invalid(_))));
}

/// A copy of the namespace does not follow the table as well: each note is one namespace's.
#[tokio::test]
async fn a_copy_of_the_namespace_does_not_follow() {
    let (_db, log, mut session) = shop().await;
    follow(&log, ImportFollow::UntilCaughtUp).await.unwrap();
    let line: String = sqlx::query_scalar("SELECT l FROM headwater.export_rows('shop') l WHERE l LIKE '%\"imports\"%'")
        .fetch_one(&mut session)
        .await
        .unwrap();
    assert!(line.contains("\"follow_state\": \"ended\"") && !line.contains("token"), "{line}");
}

/// Eight writers with transactions of any length, some rolled back, and a follower that is killed
/// again and again.
#[tokio::test]
async fn nothing_is_lost_or_doubled_while_writers_write_and_the_import_is_killed() {
    let (db, log, mut session) = shop().await;
    store(&mut session, 100, 1..=50).await;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut writers = Vec::new();
    for stream in 1..=8 {
        let (mut session, stop) = (db.session().await, stop.clone());
        writers.push(tokio::spawn(async move {
            let mut version = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let (rows, keeps) = (rand::random_range(1..=5), rand::random_bool(0.8));
                run(&mut session, "BEGIN").await;
                for row in 1..=rows {
                    run(&mut session, &format!("SELECT public.store({stream}, {})", version + row)).await;
                    tokio::time::sleep(Duration::from_millis(rand::random_range(0..8))).await;
                }
                run(&mut session, if keeps { "COMMIT" } else { "ROLLBACK" }).await;
                version += if keeps { rows } else { 0 };
            }
            version
        }));
    }
    let begin = std::time::Instant::now();
    let (mut kills, mut followed) = (0, 0);
    while kills < 10 || followed < 100 {
        assert!(begin.elapsed() < Duration::from_secs(90), "{followed} rows in {kills} runs");
        let (running, _told) = spawn(&log, ImportFollow::Forever);
        // Longer each time, however slow this machine is.
        tokio::time::sleep(Duration::from_millis(rand::random_range(50..300 + 50 * kills))).await;
        // At once, wherever it is: its session ends in the middle of what it does.
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%headwater\\_notes%' AND pid <> pg_backend_pid()";
        if kills % 2 == 0 {
            run(&mut session, kill).await;
        }
        running.abort();
        if let Ok(Err(error)) = running.await {
            assert!(matches!(error, ImportError::Source(_)), "{error}");
        }
        kills += 1;
        followed =
            number(&mut session, "SELECT coalesce(max(followed_events), 0) FROM headwater_private.imports").await;
    }
    // Those who write are not in its way when it ends, but what they write after that would be
    // missed.
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut expected = BTreeMap::from([(100, 50)]);
    for (stream, writer) in (1..=8).zip(writers) {
        expected.insert(stream, writer.await.unwrap());
    }
    let done = follow(&log, ImportFollow::Finish).await.unwrap();
    assert_eq!(done.events, u64::try_from(expected.values().sum::<i64>()).unwrap());
    let rows: Vec<(i64, i64, i64)> = sqlx::query_as(
        "SELECT right(stream_id, 12)::bigint, count(*), max(stream_version) FROM headwater_private.events GROUP BY 1",
    )
    .fetch_all(&mut session)
    .await
    .unwrap();
    let found: BTreeMap<i64, i64> = rows.iter().map(|(stream, _, last)| (*stream, *last)).collect();
    expected.retain(|_, versions| *versions > 0);
    assert_eq!(found, expected);
    assert!(rows.iter().all(|(_, events, last)| events == last), "{rows:?}");
    let same = "SELECT count(*) FROM headwater_private.events e JOIN public.events o
                    ON o.id::text = e.headers ->> 'source_id' AND o.stream_version = e.stream_version AND o.data = e.data";
    assert_eq!(number(&mut session, same).await, i64::try_from(done.events).unwrap());
    assert_eq!(left_behind(&mut session).await, 0);
}
