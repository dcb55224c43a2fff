//! Schedules: fired once and in order, caught up as configured, paused, run by hand, kept when
//! their event cannot be appended.

use std::time::Duration;

use crate::common::{pid, run, sqlstate_of, types_after, until_it_waits};
use chrono::{DateTime, TimeDelta, Utc};
use futures::TryStreamExt;
use futures::future::join_all;
use headwater_core::{
    EventLog, Json, MissedRuns, NamespaceConfig, Ordering, RecordedEvent, RunOutcome, ScheduleError, ScheduleState,
    Task,
};
use headwater_embedded::{Server, Shutdown};
use headwater_postgres::{Database, DatabaseOptions, Fired, LogOptions, NamespaceChanges, PgLog};
use headwater_testing::TestDatabase;
use sqlx::{Connection, PgConnection, Row};

fn hourly(name: &str) -> Task {
    Task::cron(name, "0 * * * *").emits(name, Json::null())
}

/// Makes a schedule due at a time in the past, and next of all.
async fn due_since(db: &TestDatabase, name: &str, time: &str) {
    let earlier = "UPDATE headwater_private.schedules SET next_due_at = $2::timestamptz, fire_at = $2::timestamptz WHERE name = $1";
    let done = sqlx::query(earlier).bind(name).bind(time).execute(&mut db.session().await).await.unwrap();
    assert_eq!(done.rows_affected(), 1);
}

/// What `headwater.fire_schedules` answers at a time: fired, failed.
async fn fire_at(session: &mut PgConnection, time: &str) -> (i32, i32) {
    let firing = sqlx::query("SELECT * FROM headwater.fire_schedules('shop', at => $1::timestamptz)").bind(time);
    let row = firing.fetch_one(session).await.expect("failed to fire");
    (row.get("fired"), row.get("failed"))
}

/// The due times of all events, from the header that holds them, without zero seconds and fractions
/// at the end.
async fn fired_for(log: &PgLog) -> Vec<String> {
    let events: Vec<RecordedEvent> = log.read_all_events_since(0).try_collect().await.unwrap();
    events.iter().map(|event| event.headers["scheduled_at"].replace(":00.000000Z", "")).collect()
}

/// The history, the first run first: outcome and due time.
async fn history(log: &PgLog, name: &str) -> Vec<(RunOutcome, String)> {
    let runs = log.schedule_runs(name, 1_000).await.unwrap();
    let described =
        |run: &headwater_core::ScheduleRun| (run.outcome, run.due_at.to_utc().format("%Y-%m-%dT%H:%M").to_string());
    runs.iter().rev().map(described).collect()
}

#[tokio::test]
async fn a_due_schedule_appends_its_event_and_moves_on() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let task = Task::cron("cleanup", "0 2 * * *")
        .timezone("Europe/Copenhagen")
        .emits("maintenance.cleanup", Json::parse(r#"{"keep": 30}"#).unwrap())
        .stream("maintenance")
        .key("k");
    let made = log.schedule_task(&task).await.unwrap();
    assert_eq!((made.state, made.failures, made.last_due_at), (ScheduleState::Active, 0, None));
    let next = made.next_due_at.unwrap();
    assert!(next.to_utc() > Utc::now() && next.to_utc() < Utc::now() + TimeDelta::hours(26));
    assert_eq!(next.format("%H:%M:%S").to_string(), "02:00:00", "shown in its time zone");
    let early = log.fire_due(100).await.unwrap();
    assert_eq!((early.fired, early.failed), (0, 0));
    let wait = TimeDelta::from_std(early.next_due_in.unwrap()).unwrap() - (next.to_utc() - Utc::now());
    assert!(wait.abs() < TimeDelta::minutes(1), "{wait}");

    due_since(&db, "cleanup", "2026-07-01T00:00:00Z").await;
    assert_eq!(fire_at(&mut db.session().await, "2026-07-01T00:00:00.3Z").await, (1, 0));
    let event = log.last_of("maintenance").await;
    assert_eq!(event.event_type, "maintenance.cleanup");
    assert_eq!(event.data_text(), r#"{"keep": 30}"#);
    assert_eq!((event.key.as_deref(), event.stream_version), (Some("k"), Some(1)));
    assert_eq!(event.headers["scheduled_task_id"], made.task_id.to_string());
    assert_eq!(event.headers["scheduled_at"], "2026-07-01T00:00:00.000000Z");
    assert_eq!(event.headers["producer_node_id"], "scheduler");
    assert_eq!(event.headers["schedule"], "cleanup");

    let after = log.schedule("cleanup").await.unwrap();
    assert_eq!(after.last_due_at.unwrap().to_rfc3339(), "2026-07-01T02:00:00+02:00");
    assert_eq!(after.next_due_at.unwrap().to_rfc3339(), "2026-07-02T02:00:00+02:00");
    let runs = log.schedule_runs("cleanup", 10).await.unwrap();
    assert_eq!((runs.len(), runs[0].outcome, runs[0].attempts), (1, RunOutcome::Fired, 1));
    assert_eq!((runs[0].event_id, runs[0].global_sequence), (Some(event.id), event.global_sequence));
    assert_eq!(runs[0].due_at.to_rfc3339(), "2026-07-01T02:00:00+02:00");
}

trait LastOf {
    async fn last_of(&self, stream_id: &str) -> RecordedEvent;
}

impl LastOf for PgLog {
    async fn last_of(&self, stream_id: &str) -> RecordedEvent {
        let query = headwater_core::StreamQuery::new(stream_id).backwards().page_size(1);
        self.stream_page(&query).await.unwrap().remove(0)
    }
}

#[tokio::test]
async fn eight_sessions_fire_each_due_time_once() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    for n in 0..20 {
        log.schedule_task(&hourly(&format!("s{n}"))).await.unwrap();
    }
    let mut sessions = join_all((0..8).map(|_| db.session())).await;
    for round in 1..=5 {
        let due =
            "UPDATE headwater_private.schedules SET next_due_at = '2026-01-01T00:00:00Z'::timestamptz + $1 * interval '1 hour',
                                                  fire_at = '2026-01-01T00:00:00Z'";
        sqlx::query(due).bind(round).execute(&mut db.session().await).await.unwrap();
        let at = format!("2026-01-01T0{round}:00:10Z");
        let fired = join_all(sessions.iter_mut().map(|session| fire_at(session, &at))).await;
        assert_eq!(fired.iter().map(|(fired, failed)| fired + failed).sum::<i32>(), 20, "{fired:?}");
        assert_eq!(types_after(&log, 0).await.len(), 20 * round as usize);
    }
    for n in 0..20 {
        let expected: Vec<_> = (1..=5).map(|hour| (RunOutcome::Fired, format!("2026-01-01T0{hour}:00"))).collect();
        assert_eq!(history(&log, &format!("s{n}")).await, expected);
    }
}

#[tokio::test]
async fn who_comes_second_leaves_what_the_first_has_and_a_rollback_gives_it_back() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    log.schedule_task(&hourly("a")).await.unwrap();
    due_since(&db, "a", "2026-01-01T10:00:00Z").await;
    let (mut first, mut second) = (db.session().await, db.session().await);
    let task_id = log.schedule("a").await.unwrap().task_id;
    let by_task = "SELECT headwater.run_scheduled_task($1)";

    let mut tx = first.begin().await.unwrap();
    assert_eq!(fire_at(&mut tx, "2026-01-01T10:00:30Z").await, (1, 0));
    // The second one does not wait, and comes back in a second.
    let row = sqlx::query("SELECT * FROM headwater.fire_schedules('shop')").fetch_one(&mut second).await.unwrap();
    assert_eq!((row.get::<i32, _>("fired"), row.get::<i32, _>("failed")), (0, 0));
    assert_eq!(row.get::<sqlx::postgres::types::PgInterval, _>("next_due_in").microseconds, 1_000_000);
    let said: String = sqlx::query_scalar(by_task).bind(task_id).fetch_one(&mut second).await.unwrap();
    assert_eq!(said, "busy");
    // The one who fires dies: all of it is undone, and the next one fires.
    tx.rollback().await.unwrap();
    assert!(types_after(&log, 0).await.is_empty());
    assert!(log.schedule_runs("a", 10).await.unwrap().is_empty());
    assert_eq!(fire_at(&mut second, "2026-01-01T10:00:30Z").await, (1, 0));
    assert_eq!(fire_at(&mut second, "2026-01-01T10:00:30Z").await, (0, 0));
    assert_eq!(fired_for(&log).await, ["2026-01-01T10:00"]);
}

#[tokio::test]
async fn a_due_time_that_is_asked_for_again_is_appended_once() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    for name in ["a", "b"] {
        log.schedule_task(&hourly(name)).await.unwrap();
    }
    let mut session = db.session().await;
    // What only a bug or a restored table could do.
    for _ in 0..2 {
        due_since(&db, "a", "2026-01-01T10:00:00Z").await;
        fire_at(&mut session, "2026-01-01T10:00:30Z").await;
    }
    due_since(&db, "a", "2026-01-01T10:00:00Z").await;
    due_since(&db, "b", "2026-01-01T10:00:00Z").await;
    assert_eq!(fire_at(&mut session, "2026-01-01T10:00:30Z").await, (1, 0), "in a batch with another");
    assert_eq!(types_after(&log, 0).await, ["a", "b"]);
    assert_eq!(history(&log, "a").await, [(RunOutcome::Fired, "2026-01-01T10:00".into())]);
}

#[tokio::test]
async fn nothing_is_fired_before_its_time() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    log.schedule_task(&hourly("a")).await.unwrap();
    let mut session = db.session().await;
    let future = "SELECT headwater.fire_schedules('shop', at => clock_timestamp() + interval '2 hours')";
    assert_eq!(sqlstate_of(&mut session, future).await, "WH002");
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.fire_schedules('shop', 0)").await, "WH002");
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.fire_schedules('nowhere')").await, "WH001");
    let said: String =
        sqlx::query_scalar("SELECT headwater.run_scheduled_task(task_id) FROM headwater_private.schedules")
            .fetch_one(&mut session)
            .await
            .unwrap();
    assert_eq!(said, "nothing due");
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.run_scheduled_task(gen_random_uuid())").await, "WH030");
    assert!(types_after(&log, 0).await.is_empty());
}

/// Nobody fired from 10:00 on; at 13:30:00 somebody comes.
async fn caught_up(missed: MissedRuns, at: &str) -> (Vec<String>, Vec<(RunOutcome, String)>, PgLog) {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    log.schedule_task(&hourly("a").missed(missed)).await.unwrap();
    due_since(&db, "a", "2026-01-01T10:00:00Z").await;
    let mut session = db.session().await;
    fire_at(&mut session, at).await;
    assert_eq!(fire_at(&mut session, at).await, (0, 0));
    let next = log.schedule("a").await.unwrap().next_due_at.unwrap();
    assert_eq!(next.to_rfc3339(), "2026-01-01T14:00:00+00:00");
    (fired_for(&log).await, history(&log, "a").await, log)
}

#[tokio::test]
async fn of_missed_due_times_the_last_is_fired() {
    let (fired, history, log) = caught_up(MissedRuns::FireOnce, "2026-01-01T13:30:00Z").await;
    assert_eq!(fired, ["2026-01-01T13:00"]);
    assert_eq!(history.len(), 2);
    assert!(history.contains(&(RunOutcome::Skipped, "2026-01-01T10:00".into())), "{history:?}");
    let runs = log.schedule_runs("a", 10).await.unwrap();
    let skipped = runs.iter().find(|run| run.outcome == RunOutcome::Skipped).unwrap();
    assert_eq!(skipped.skipped_until.unwrap().to_rfc3339(), "2026-01-01T12:00:00+00:00");
    assert_eq!((skipped.event_id, skipped.global_sequence), (None, None));
    // One that is on time is enough.
    let (fired, ..) = caught_up(MissedRuns::FireOnce, "2026-01-01T13:00:20Z").await;
    assert_eq!(fired, ["2026-01-01T13:00"]);
}

#[tokio::test]
async fn missed_due_times_are_all_fired_up_to_a_limit() {
    let (fired, history, _) = caught_up(MissedRuns::FireAll { limit: 100 }, "2026-01-01T13:30:00Z").await;
    assert_eq!(fired, ["2026-01-01T10:00", "2026-01-01T11:00", "2026-01-01T12:00", "2026-01-01T13:00"]);
    assert!(history.iter().all(|(outcome, _)| *outcome == RunOutcome::Fired), "{history:?}");
    let (fired, history, _) = caught_up(MissedRuns::FireAll { limit: 2 }, "2026-01-01T13:30:00Z").await;
    assert_eq!(fired, ["2026-01-01T12:00", "2026-01-01T13:00"]);
    assert!(history.contains(&(RunOutcome::Skipped, "2026-01-01T10:00".into())), "{history:?}");
    let (fired, ..) = caught_up(MissedRuns::FireAll { limit: 2 }, "2026-01-01T13:00:59Z").await;
    assert_eq!(fired, ["2026-01-01T11:00", "2026-01-01T12:00", "2026-01-01T13:00"], "and the one on time");
}

#[tokio::test]
async fn missed_due_times_are_skipped() {
    let (fired, history, log) = caught_up(MissedRuns::Skip, "2026-01-01T13:30:00Z").await;
    assert!(fired.is_empty(), "{fired:?}");
    assert_eq!(history, [(RunOutcome::Skipped, "2026-01-01T10:00".into())]);
    let until = log.schedule_runs("a", 10).await.unwrap()[0].skipped_until.unwrap();
    assert_eq!(until.to_rfc3339(), "2026-01-01T13:00:00+00:00");
    let (fired, ..) = caught_up(MissedRuns::Skip, "2026-01-01T13:00:20Z").await;
    assert_eq!(fired, ["2026-01-01T13:00"], "what is on time is not missed");
}

#[tokio::test]
async fn a_year_of_seconds_is_caught_up_with_at_once() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let task = Task::cron("a", "* * * * * *").emits("a", Json::null()).missed(MissedRuns::FireAll { limit: 20 });
    log.schedule_task(&task).await.unwrap();
    due_since(&db, "a", "2025-01-01T00:00:00Z").await;
    assert_eq!(fire_at(&mut db.session().await, "2026-01-01T00:00:00Z").await, (20 + 121, 0));
    assert_eq!(log.schedule("a").await.unwrap().next_due_at.unwrap().to_rfc3339(), "2026-01-01T00:00:01+00:00");
    // The history is kept short.
    assert_eq!(log.schedule_runs("a", 1_000).await.unwrap().len(), 100);
    let mut session = db.session().await;
    for second in 1..=30 {
        fire_at(&mut session, &format!("2026-01-01T00:00:{second:02}Z")).await;
    }
    assert_eq!(log.schedule_runs("a", 1_000).await.unwrap().len(), 100);
}

#[tokio::test]
async fn a_backlog_is_fired_in_bounded_parts_and_in_order() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let large = Json::parse(format!("{:?}", "x".repeat(1_000_000))).unwrap();
    let task = hourly("a").missed(MissedRuns::FireAll { limit: 1_000 });
    log.schedule_task(&task.clone().emits("a", large)).await.unwrap();
    due_since(&db, "a", "2026-01-01T01:00:00Z").await;
    let mut session = db.session().await;
    // Twenty of a megabyte each.
    let at = "2026-01-01T20:30:00Z";
    assert_eq!(fire_at(&mut session, at).await, (8, 0));
    assert_eq!(fire_at(&mut session, at).await, (8, 0));
    assert_eq!(fire_at(&mut session, at).await, (4, 0));
    assert_eq!(fire_at(&mut session, at).await, (0, 0));
    let expected: Vec<_> = (1..=20).map(|hour| format!("2026-01-01T{hour:02}:00")).collect();
    assert_eq!(fired_for(&log).await, expected);

    log.schedule_task(&task).await.unwrap();
    due_since(&db, "a", "2026-01-02T01:00:00Z").await;
    let few = "SELECT fired, next_due_in = interval '0' AS more
                 FROM headwater.fire_schedules('shop', 3, at => '2026-01-02T04:30:00Z')";
    let mut calls = Vec::new();
    for _ in 0..2 {
        let row = sqlx::query(few).fetch_one(&mut session).await.unwrap();
        calls.push((row.get::<i32, _>("fired"), row.get::<bool, _>("more")));
    }
    assert_eq!(calls, [(3, true), (1, false)]);
}

#[tokio::test]
async fn a_single_due_time_is_fired_once_and_for_all() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let past: DateTime<Utc> = "2026-01-01T10:00:00.25Z".parse().unwrap();
    let once = |name: &str| Task::once(name, past).emits(name, Json::null());
    for task in [once("late"), once("too late").missed(MissedRuns::Skip), once("paused").paused()] {
        log.schedule_task(&task).await.unwrap();
    }
    let later = Task::once("later", Utc::now() + TimeDelta::hours(1)).emits("later", Json::null());
    log.schedule_task(&later).await.unwrap();
    let fired = log.fire_due(100).await.unwrap();
    assert_eq!((fired.fired, fired.failed), (1, 0));
    assert!(fired.next_due_in.unwrap() > Duration::from_secs(3_500), "{fired:?}");
    assert_eq!(types_after(&log, 0).await, ["late"]);
    assert_eq!(log.schedule("late").await.unwrap().state, ScheduleState::Ended);
    assert_eq!(history(&log, "too late").await, [(RunOutcome::Skipped, "2026-01-01T10:00".into())]);
    // Scheduled again at the next start of the program: it was fired.
    log.schedule_task(&once("late")).await.unwrap();
    // What was paused is due when it is resumed.
    log.resume_schedule("paused").await.unwrap();
    log.fire_due(100).await.unwrap();
    assert_eq!(types_after(&log, 0).await, ["late", "paused"]);
    log.schedule_task(&Task { active: Some(true), ..once("paused") }).await.unwrap();
    log.fire_due(100).await.unwrap();
    assert_eq!(types_after(&log, 0).await.len(), 2);
}

#[tokio::test]
async fn start_and_end_bound_the_due_times() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let starts_at: DateTime<Utc> = "2900-01-01T10:00:00Z".parse().unwrap();
    let task = hourly("a").starts_at(starts_at).ends_at(starts_at + TimeDelta::hours(1));
    let made = log.schedule_task(&task).await.unwrap();
    assert_eq!(made.next_due_at.unwrap().to_utc(), starts_at, "the start is a due time of its own");
    // The last due time was at its end.
    let ends_at =
        "UPDATE headwater_private.schedules SET starts_at = '2026-01-01T10:00:00Z', ends_at = '2026-01-01T12:00:00Z'";
    run(&mut db.session().await, ends_at).await;
    due_since(&db, "a", "2026-01-01T12:00:00Z").await;
    assert_eq!(fire_at(&mut db.session().await, "2026-01-01T12:00:01Z").await, (1, 0));
    let ended = log.schedule("a").await.unwrap();
    assert_eq!((ended.state, ended.next_due_at), (ScheduleState::Ended, None));
    assert_eq!(log.fire_due(10).await.unwrap(), Fired { fired: 0, failed: 0, next_due_in: None });
    // Missed ones end there too.
    due_since(&db, "a", "2026-01-01T11:00:00Z").await;
    fire_at(&mut db.session().await, "2026-01-01T20:00:00Z").await;
    assert_eq!(fired_for(&log).await, ["2026-01-01T12:00"], "the last of the missed ones, which was fired already");
}

#[tokio::test]
async fn a_paused_schedule_fires_nothing_and_misses_nothing() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let task = hourly("a").missed(MissedRuns::FireAll { limit: 100 });
    log.schedule_task(&task).await.unwrap();
    log.pause_schedule("a").await.unwrap();
    due_since(&db, "a", "2026-01-01T10:00:00Z").await;
    let mut session = db.session().await;
    assert_eq!(fire_at(&mut session, "2026-01-01T11:30:00Z").await, (0, 0));
    let by_task = "SELECT headwater.run_scheduled_task(task_id) FROM headwater_private.schedules";
    assert_eq!(sqlx::query_scalar::<_, String>(by_task).fetch_one(&mut session).await.unwrap(), "paused");
    // A program that starts anew does not undo what an operator did.
    assert_eq!(log.schedule_task(&task).await.unwrap().state, ScheduleState::Paused);
    log.resume_schedule("a").await.unwrap();
    let resumed = log.schedule("a").await.unwrap();
    assert_eq!(resumed.state, ScheduleState::Active);
    assert!(resumed.next_due_at.unwrap().to_utc() > Utc::now());
    log.fire_due(100).await.unwrap();
    assert!(types_after(&log, 0).await.is_empty());
}

#[tokio::test]
async fn one_can_be_run_by_hand_paused_or_not() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let made = log.schedule_task(&hourly("a").paused()).await.unwrap();
    let commits = log.commits();
    let first = log.run_schedule_now("a").await.unwrap();
    assert!(commits.has_changed().unwrap(), "readers of this process are woken");
    let second = log.run_schedule_now("a").await.unwrap();
    assert!(second > first);
    assert_eq!(types_after(&log, 0).await, ["a", "a"]);
    let runs = log.schedule_runs("a", 10).await.unwrap();
    assert!(runs.iter().all(|run| run.outcome == RunOutcome::Manual), "{runs:?}");
    assert_eq!(runs.iter().map(|run| run.global_sequence.unwrap()).collect::<Vec<_>>(), [second, first]);
    let after = log.schedule("a").await.unwrap();
    assert_eq!((after.next_due_at, after.last_due_at), (made.next_due_at, None), "what is due is not changed by it");
    // In a transaction that rolls back, and sent again with the same id.
    let mut session = db.session().await;
    run(&mut session, "BEGIN; SELECT headwater.run_schedule_now('shop', 'a'); ROLLBACK").await;
    let again = "SELECT headwater.run_schedule_now('shop', 'a', '01980c5e-8f3a-7c11-b0a5-2f4f1f0c9d11')";
    let one: i64 = sqlx::query_scalar(again).fetch_one(&mut session).await.unwrap();
    let two: i64 = sqlx::query_scalar(again).fetch_one(&mut session).await.unwrap();
    assert_eq!(one, two);
    assert_eq!(types_after(&log, 0).await.len(), 3);
}

#[tokio::test]
async fn scheduled_again_it_keeps_what_is_due_unless_its_times_change() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let first = log.schedule_task(&hourly("a")).await.unwrap();
    due_since(&db, "a", "2026-01-01T10:00:00Z").await;
    let changed = hourly("a").emits("other", Json::parse("7").unwrap());
    let second = log.schedule_task(&changed).await.unwrap();
    assert_eq!(second.task_id, first.task_id);
    assert_eq!(second.next_due_at.unwrap().to_rfc3339(), "2026-01-01T10:00:00+00:00");
    log.fire_due(10).await.unwrap();
    assert_eq!(types_after(&log, 0).await, ["other"]);
    due_since(&db, "a", "2026-01-01T10:00:00Z").await;
    let third = log.schedule_task(&changed.timezone("Asia/Kathmandu")).await.unwrap();
    assert!(third.next_due_at.unwrap().to_utc() > Utc::now());
    assert_eq!(third.next_due_at.unwrap().format("%M %z").to_string(), "00 +0545");
    assert_eq!(log.schedules().await.unwrap().len(), 1);
}

#[tokio::test]
async fn two_sessions_that_make_the_same_schedule_make_one() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (mut first, mut second) = (db.session().await, db.session().await);
    let make = "SELECT headwater.schedule('shop', 'a', 'A', '0 * * * *')";
    let mut tx = first.begin().await.unwrap();
    let one: uuid::Uuid = sqlx::query_scalar(make).fetch_one(&mut *tx).await.unwrap();
    let waiting = pid(&mut second).await;
    let making = tokio::spawn(async move { sqlx::query_scalar::<_, uuid::Uuid>(make).fetch_one(&mut second).await });
    until_it_waits(&mut db.session().await, waiting).await;
    tx.commit().await.unwrap();
    assert_eq!(making.await.unwrap().unwrap(), one);
    assert_eq!(log.schedules().await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_cannot_be_appended_is_tried_again_and_holds_up_no_other() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let large = Json::parse(r#""0123456789""#).unwrap();
    log.schedule_task(&Task::cron("large", "0 * * * *").emits("large", large)).await.unwrap();
    log.schedule_task(&hourly("small")).await.unwrap();
    let limit = |bytes| NamespaceChanges { max_payload_bytes: Some(bytes), ..NamespaceChanges::default() };
    db.database.alter_namespace("shop", &limit(5)).await.unwrap();
    for name in ["large", "small"] {
        due_since(&db, name, "2026-01-01T10:00:00Z").await;
    }
    let mut session = db.session().await;
    assert_eq!(fire_at(&mut session, "2026-01-01T10:00:01Z").await, (1, 1));
    assert_eq!(types_after(&log, 0).await, ["small"]);
    let failing = log.schedule("large").await.unwrap();
    assert_eq!((failing.state, failing.failures), (ScheduleState::Failing, 1));
    assert!(failing.error.as_deref().unwrap().starts_with("WH004: payload of 12 bytes"), "{failing:?}");
    assert_eq!(failing.next_due_at.unwrap().to_rfc3339(), "2026-01-01T10:00:00+00:00", "it is not passed by");
    let runs = log.schedule_runs("large", 10).await.unwrap();
    assert_eq!((runs.len(), runs[0].outcome, runs[0].attempts), (1, RunOutcome::Failed, 1));
    assert!(runs[0].error.is_some());
    // Tried again later; once there is room, it is fired, as one run.
    let now = "UPDATE headwater_private.schedules SET fire_at = '2026-01-01T10:00:02Z' WHERE name = 'large'";
    run(&mut session, now).await;
    assert_eq!(fire_at(&mut session, "2026-01-01T10:00:02Z").await, (0, 1));
    let wait: f64 = sqlx::query_scalar(
        "SELECT extract(epoch FROM fire_at - clock_timestamp())::float8 FROM headwater_private.schedules WHERE name = 'large'",
    )
    .fetch_one(&mut session)
    .await
    .unwrap();
    assert!((1.0..=2.0).contains(&wait), "the second pause is of two seconds: {wait}");
    db.database.alter_namespace("shop", &limit(1_000)).await.unwrap();
    run(&mut session, now).await;
    assert_eq!(fire_at(&mut session, "2026-01-01T10:00:03Z").await, (1, 0));
    let runs = log.schedule_runs("large", 10).await.unwrap();
    assert_eq!((runs.len(), runs[0].outcome, runs[0].attempts, &runs[0].error), (1, RunOutcome::Fired, 3, &None));
    let mended = log.schedule("large").await.unwrap();
    assert_eq!((mended.state, mended.error), (ScheduleState::Active, None));
}

#[tokio::test]
async fn a_stream_that_somebody_holds_delays_its_own_schedule_only() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    run(&mut db.session().await, r#"SELECT headwater.append('shop', 'held', '{"type": "A"}')"#).await;
    log.schedule_task(&hourly("to the stream").stream("held")).await.unwrap();
    log.schedule_task(&hourly("free")).await.unwrap();
    for name in ["to the stream", "free"] {
        due_since(&db, name, "2026-01-01T10:00:00Z").await;
    }
    let mut holder = db.session().await;
    run(&mut holder, r#"BEGIN; SELECT headwater.append('shop', 'held', '{"type": "B"}')"#).await;
    let mut session = db.session().await;
    assert_eq!(fire_at(&mut session, "2026-01-01T10:00:01Z").await, (1, 0), "to wait is no failure");
    let waits = log.schedule("to the stream").await.unwrap();
    assert_eq!(waits.state, ScheduleState::Active);
    assert!(waits.error.unwrap().starts_with("waits for its stream"));
    assert!(log.schedule_runs("to the stream", 10).await.unwrap().is_empty());
    run(&mut holder, "COMMIT").await;
    run(
        &mut session,
        "UPDATE headwater_private.schedules SET fire_at = '2026-01-01T10:00:02Z' WHERE error IS NOT NULL",
    )
    .await;
    assert_eq!(fire_at(&mut session, "2026-01-01T10:00:03Z").await, (1, 0));
    assert_eq!(types_after(&log, 0).await.len(), 4);
}

#[tokio::test]
async fn namespaces_fire_their_own_and_all_are_fired_together() {
    let db = TestDatabase::create().await;
    let shop = db.log("shop").await;
    let config = NamespaceConfig::new("bank").ordering(Ordering::Gapless);
    let bank = db.log_with(config, LogOptions::default()).await;
    for log in [&shop, &bank] {
        log.schedule_task(&hourly("a")).await.unwrap();
    }
    due_since_both(&db).await;
    assert_eq!(shop.fire_due(10).await.unwrap().fired, 1);
    assert!(types_after(&bank, 0).await.is_empty());
    shop.pause_schedule("a").await.unwrap();
    assert_eq!(bank.schedule("a").await.unwrap().state, ScheduleState::Active);
    shop.delete_schedule("a").await.unwrap();
    assert!(matches!(shop.schedule("a").await, Err(ScheduleError::NotFound(name)) if name == "a"));
    assert_eq!(bank.fire_due(10).await.unwrap().fired, 1);
    bank.delete_schedule("a").await.unwrap();
    for log in [&shop, &bank] {
        log.schedule_task(&hourly("b")).await.unwrap();
    }
    due_since_both(&db).await;
    let fired = db.database.fire_all_due(10).await.unwrap();
    assert_eq!((fired.fired, fired.failed), (2, 0));
    assert!(fired.next_due_in.unwrap() <= Duration::from_secs(3_600), "{fired:?}");
    assert_eq!((types_after(&shop, 0).await.len(), types_after(&bank, 0).await.len()), (2, 2));
}

async fn due_since_both(db: &TestDatabase) {
    let earlier =
        "UPDATE headwater_private.schedules SET next_due_at = '2026-01-01T10:00:00Z', fire_at = '2026-01-01T10:00:00Z'";
    run(&mut db.session().await, earlier).await;
}

#[tokio::test]
async fn bad_input_is_refused_and_changes_nothing() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let (early, late) = (Utc::now(), Utc::now() + TimeDelta::hours(1));
    let cases = [
        (Task::cron("a", "61 * * * *").emits("A", Json::null()), "minute '61' is not 0 to 59"),
        (hourly("a").timezone("Europe/Copenhagn"), "unknown time zone 'Europe/Copenhagn'"),
        (Task::cron("a", "0 0 30 2 *").emits("A", Json::null()), "schedule 'a' is never due"),
        (hourly("a").ends_at(early - TimeDelta::hours(2)), "schedule 'a' is never due"),
        (hourly("a").starts_at(late).ends_at(early), "before it starts"),
        (hourly("a").missed(MissedRuns::FireAll { limit: 0 }), "invalid missed_limit 0"),
        (hourly("a").missed(MissedRuns::FireAll { limit: 1_001 }), "missed_limit is 1 to 1000"),
        (Task::cron("a", "0 * * * *"), "invalid event_type"),
        (hourly(""), "invalid schedule name"),
        (Task { due_at: Some(late), ..hourly("a") }, "both a cron_expression and a due_at"),
        (Task { cron: None, ..hourly("a") }, "no cron_expression and no due_at"),
        (Task::once("a", late).emits("A", Json::null()).ends_at(late), "is due once"),
        (hourly("a").key(""), "invalid key"),
        (hourly("a").stream("a\nb"), "invalid stream_id"),
    ];
    for (task, reason) in cases {
        let refused = log.schedule_task(&task).await.unwrap_err();
        assert_eq!(refused.code(), Some("WH002"), "{refused:?}");
        assert!(refused.to_string().contains(reason), "{refused}");
    }
    let refused = log.schedule_task(&hourly("a").with_pg_cron()).await.unwrap_err();
    assert!(
        matches!(&refused, ScheduleError::PgCronUnavailable(message) if message.contains("leave the schedule to nodes")),
        "{refused:?}"
    );
    let large = Json::parse(format!("{:?}", "x".repeat(1 << 20))).unwrap();
    let refused = log.schedule_task(&hourly("a").emits("A", large)).await.unwrap_err();
    assert!(matches!(refused, ScheduleError::PayloadTooLarge { limit: 1_048_576, .. }), "{refused:?}");
    assert!(log.schedules().await.unwrap().is_empty());
    for refused in [log.pause_schedule("a").await, log.resume_schedule("a").await, log.delete_schedule("a").await] {
        assert_eq!(refused.unwrap_err().code(), Some("WH030"));
    }
    assert_eq!(log.run_schedule_now("a").await.unwrap_err().code(), Some("WH030"));
    assert_eq!(log.schedule_runs("a", 10).await.unwrap_err().code(), Some("WH030"));
    // A change that is refused leaves what is there.
    log.schedule_task(&hourly("a")).await.unwrap();
    log.schedule_task(&hourly("a").timezone("CEST")).await.unwrap_err();
    assert_eq!(log.schedule("a").await.unwrap().timezone, "UTC");
    let mut session = db.session().await;
    for call in [
        "SELECT headwater.schedule('shop', 'b', 'A', '* * * * *', missed => 'later')",
        "SELECT headwater.schedule('shop', 'b', 'A', '* * * * *', trigger => 'systemd')",
        "SELECT headwater.schedule('shop', 'b', 'A', due_at => 'infinity')",
        "SELECT headwater.next_runs('* * * * *', count => 0)",
        "SELECT headwater.schedule_history('shop', 'a', 0)",
    ] {
        assert_eq!(sqlstate_of(&mut session, call).await, "WH002", "{call}");
    }
    assert_eq!(sqlstate_of(&mut session, "SELECT headwater.schedule('nowhere', 'b', 'A', '* * * * *')").await, "WH001");
}

#[tokio::test]
async fn the_next_runs_can_be_looked_at_before() {
    let db = TestDatabase::create().await;
    let after = "2026-03-28T12:00:00Z".parse().unwrap();
    let runs = db.database.next_runs("30 2 * * *", "Europe/Copenhagen", Some(after), 2).await.unwrap();
    let shown: Vec<_> = runs.iter().map(|run| run.to_rfc3339()).collect();
    assert_eq!(shown, ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]);
    let refused = db.database.next_runs("* * * *", "UTC", None, 5).await.unwrap_err();
    assert!(matches!(refused, ScheduleError::InvalidInput(_)), "{refused:?}");
}

#[tokio::test]
async fn a_change_wakes_those_who_fire() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let changes = log.due_changes();
    log.schedule_task(&hourly("a").paused()).await.unwrap();
    assert!(changes.has_changed().unwrap());
    let mut listener = sqlx::postgres::PgListener::connect(&db.url).await.unwrap();
    listener.listen("headwater.due").await.unwrap();
    log.resume_schedule("a").await.unwrap();
    let number: i32 =
        sqlx::query_scalar("SELECT namespace_id FROM headwater_private.namespaces WHERE namespace = 'shop'")
            .fetch_one(&mut db.session().await)
            .await
            .unwrap();
    assert_eq!(listener.recv().await.unwrap().payload(), number.to_string(), "nodes listen for the number");
}

#[tokio::test]
async fn the_server_crashes_while_it_fires_own_server() {
    let mut server = Server::builder().start().expect("failed to start a server");
    let url = server.url("headwater");
    let database = Database::connect(&url, DatabaseOptions::default()).await.unwrap();
    database.migrate().await.unwrap();
    database.create_namespace(&NamespaceConfig::new("shop")).await.unwrap();
    let log = database.open_log("shop", LogOptions::default()).await.unwrap();
    log.schedule_task(&hourly("a").missed(MissedRuns::FireAll { limit: 3 })).await.unwrap();
    let mut session = PgConnection::connect(&url).await.unwrap();
    let due =
        "UPDATE headwater_private.schedules SET next_due_at = '2026-01-01T10:00:00Z', fire_at = '2026-01-01T10:00:00Z'";
    run(&mut session, due).await;
    let mut tx = session.begin().await.unwrap();
    assert_eq!(fire_at(&mut tx, "2026-01-01T12:30:00Z").await, (3, 0));
    let server = tokio::task::spawn_blocking(move || {
        server.restart(Shutdown::Immediate).expect("failed to restart");
        server
    });
    let server = server.await.unwrap();
    drop(tx);
    let mut session = PgConnection::connect(&url).await.unwrap();
    assert_eq!(fire_at(&mut session, "2026-01-01T12:30:00Z").await, (3, 0));
    assert_eq!(fire_at(&mut session, "2026-01-01T12:30:00Z").await, (0, 0));
    assert_eq!(fired_for(&log).await, ["2026-01-01T10:00", "2026-01-01T11:00", "2026-01-01T12:00"]);
    log.close().await;
    drop(server);
}
