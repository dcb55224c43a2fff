//! Events from the WAL are visible to all: the server sends a commit before it is visible, and the
//! feed gets it afterwards.

use std::sync::Arc;

use crate::common::until;
use headwater_cdc::{CdcOptions, Direct, Feed, LiveState, Reach};
use headwater_core::{Event, EventLog, Gaps, Json, LogQuery, NamespaceConfig};
use headwater_embedded::Server;
use headwater_postgres::{Database, DatabaseOptions, LogOptions};
use sqlx::{Connection, PgConnection};

async fn told(session: &mut PgConnection, query: &'static str) -> bool {
    sqlx::query_scalar(query).fetch_one(session).await.unwrap()
}

/// A commit that waits for a standby is in the WAL, but nobody can see it. During that time it is
/// not delivered. Meanwhile the server gets our replies, although it drops clients that are silent
/// for two seconds.
#[tokio::test]
async fn a_commit_that_nobody_sees_yet_is_held_and_the_stream_lives_own_server() {
    let server = Server::builder().setting("wal_sender_timeout", "2s").start().expect("failed to start a server");
    let database = Database::connect(&server.url("headwater"), DatabaseOptions::default()).await.unwrap();
    database.migrate().await.unwrap();
    database.create_namespace(&NamespaceConfig::new("shop")).await.unwrap();
    let log = database.open_log("shop", LogOptions::default()).await.unwrap();
    let feed = Arc::new(Feed::new(&CdcOptions::default()));
    let source = Direct::new(database.clone(), log.info().clone(), "n1", CdcOptions::default(), feed.clone());
    let task = tokio::spawn(source.run());
    until(|| async { feed.status().state == LiveState::Streaming }).await;
    let history = Some(database.history().await.unwrap());
    assert_eq!(feed.take(0, &Gaps::new(), Reach::Run, history), None, "a stream begins with the log");

    let mut session = PgConnection::connect(&server.url("headwater")).await.unwrap();
    for statement in ["ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"] {
        sqlx::raw_sql(statement).execute(&mut session).await.unwrap();
    }
    let writer = tokio::spawn({
        let log = log.clone();
        async move { log.append(Event::raw("Held", Json::null()).into()).await }
    });
    // The commit waits for its standby, it was sent to us, and we have replied for longer than the
    // server's timeout.
    for condition in [
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')",
        "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sent_lsn >= pg_current_wal_flush_lsn())",
        "SELECT EXISTS (SELECT FROM pg_stat_replication r, pg_stat_activity w
                         WHERE w.wait_event = 'SyncRep' AND r.reply_time > w.query_start + interval '4 seconds')",
    ] {
        loop {
            if told(&mut session, condition).await {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
    assert_eq!(feed.status().received, 0, "nobody can see it");
    assert!(log.log_page(&LogQuery::after(0)).await.unwrap().events.is_empty());
    assert_eq!((feed.status().state, feed.status().streams), (LiveState::Streaming, 1));

    for statement in ["ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"] {
        sqlx::raw_sql(statement).execute(&mut session).await.unwrap();
    }
    writer.await.unwrap().unwrap();
    until(|| async { feed.status().received == 1 }).await;
    let taken = feed.take(0, &Gaps::new(), Reach::Run, history).expect("it is there");
    assert_eq!(taken.events, log.log_page(&LogQuery::after(0)).await.unwrap().events);
    task.abort();
}
