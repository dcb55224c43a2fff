//! What the tests with explicit sessions share.

pub(crate) mod epoch;
pub(crate) mod months;
pub(crate) mod proxy;
pub(crate) mod queue;
pub(crate) mod subscribers;

use futures::TryStreamExt;
use headwater_core::{Event, EventLog, GapState, Json, LogPage, LogQuery, RecordedEvent};
use headwater_postgres::PgLog;
use sqlx::{AssertSqlSafe, PgConnection};

/// Runs a SQL script in a session.
pub(crate) async fn run(session: &mut PgConnection, script: &str) {
    if let Err(error) = sqlx::raw_sql(AssertSqlSafe(script.to_owned())).execute(session).await {
        panic!("failed to run {script:?}: {error}");
    }
}

/// The SQLSTATE that a script fails with.
pub(crate) async fn sqlstate_of(session: &mut PgConnection, script: &str) -> String {
    match sqlx::raw_sql(AssertSqlSafe(script.to_owned())).execute(session).await {
        Ok(_) => panic!("{script:?} succeeded"),
        Err(error) => error.as_database_error().and_then(|error| error.code()).expect("an error of the server").into(),
    }
}

/// Emits one event of `event_type` in the session's transaction, and says which sequence it got.
pub(crate) async fn emit(session: &mut PgConnection, namespace: &str, event_type: &str) -> u64 {
    let sequence: i64 = sqlx::query_scalar("SELECT headwater.emit($1, $2)")
        .bind(namespace)
        .bind(event_type)
        .fetch_one(session)
        .await
        .expect("failed to emit");
    sequence as u64
}

/// The session's process.
pub(crate) async fn pid(session: &mut PgConnection) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(session).await.expect("failed to ask for the pid")
}

/// Waits until a session waits for another's lock.
pub(crate) async fn until_it_waits(session: &mut PgConnection, pid: i32) {
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock')";
    while !sqlx::query_scalar::<_, bool>(waits).bind(pid).fetch_one(&mut *session).await.expect("failed to look") {
        tokio::task::yield_now().await;
    }
}

/// The types of all events that a reader gets from `after` on, now.
pub(crate) async fn types_after(log: &PgLog, after: u64) -> Vec<String> {
    let events: Vec<RecordedEvent> = log.read_all_events_since(after).try_collect().await.expect("failed to read");
    events.into_iter().map(|event| event.into_event().event_type).collect()
}

/// All pages that a reader gets from `after` on, now.
pub(crate) async fn pages_after(log: &PgLog, after: u64) -> Vec<LogPage> {
    log.read_log_pages(LogQuery::after(after)).try_collect().await.expect("failed to read")
}

/// The permanent gaps of some pages.
pub(crate) fn permanent(pages: &[LogPage]) -> Vec<(u64, u64)> {
    let gaps = pages.iter().flat_map(|page| &page.gaps);
    gaps.filter(|gap| gap.state == GapState::Permanent).map(|gap| (gap.first, gap.last)).collect()
}

pub(crate) fn raw(event_type: &str) -> Event {
    Event::raw(event_type, Json::null())
}

/// An event as it is read at this place of the log.
pub(crate) fn recorded(sequence: u64, event: Event) -> RecordedEvent {
    let place = (Some(sequence), Some(chrono::Utc::now()));
    RecordedEvent::new(Event { global_sequence: place.0, recorded_at: place.1, ..event }).unwrap()
}
