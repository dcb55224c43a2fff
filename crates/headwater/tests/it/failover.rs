//! A primary and its standby: one URL names both, and connected programs continue with the server
//! that accepts writes.

use crate::common::{Recorder, soon, until};
use headwater::admin::NamespaceConfig;
use headwater::cdc::{CdcOptions, Live, LiveState};
use headwater::delivery::OperatorStore;
use headwater::{Event, Headwater, Json, Subscription};
use headwater_embedded::{Server, ServerBuilder, Shutdown};
use sqlx::{Connection, PgConnection};

/// A url that names both, the standby first.
fn both(standby: &Server, primary: &Server) -> String {
    let url = primary.url("headwater");
    let (user, place) = url.split_once('@').unwrap();
    format!("{user}@127.0.0.1:{},{place}?target_session_attrs=read-write", standby.port())
}

async fn port(headwater: &Headwater) -> i32 {
    sqlx::query_scalar("SELECT inet_server_port()").fetch_one(headwater.pool()).await.unwrap_or_default()
}

#[tokio::test]
async fn one_url_with_several_hosts_survives_a_failover_own_server() {
    let primary = Server::builder().start().expect("failed to start a server");
    if !primary.bin_dir().join("pg_basebackup").exists() {
        eprintln!("no pg_basebackup in {}: there are no standbys here", primary.bin_dir().display());
        return;
    }
    let standby = ServerBuilder::standby_of(&primary);
    let standby = tokio::task::spawn_blocking(|| standby.start().expect("failed to start the standby")).await.unwrap();
    let url = both(&standby, &primary);
    let headwater = Headwater::connect(&url).live(Live::Cdc(CdcOptions::default())).await.expect("failed to connect");
    assert_eq!(port(&headwater).await, i32::from(primary.port()), "the standby takes no writes");
    headwater.migrate().await.unwrap();
    headwater.create_namespace(NamespaceConfig::new("shop")).await.unwrap();
    let shop = headwater.namespace("shop").await.unwrap();
    let recorder = Recorder::new("totals");
    let node = shop.node("one").run(Subscription::of(recorder.clone())).start().await.unwrap();
    let is_live = || async {
        let status = node.status();
        status.listening && status.live.is_some_and(|live| live.state == LiveState::Streaming)
    };
    until(is_live).await;
    let last = shop.emit(Event::raw("a", Json::null())).await.unwrap().global_sequence();
    soon(node.wait_for("totals", last)).await.unwrap();

    // The standby has it all: also that it was handled.
    let mut session = PgConnection::connect(&standby.url("headwater")).await.unwrap();
    let written: String =
        sqlx::query_scalar("SELECT pg_current_wal_lsn()::text").fetch_one(headwater.pool()).await.unwrap();
    soon(async {
        let replayed = "SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn";
        while !sqlx::query_scalar::<_, bool>(replayed).bind(&written).fetch_one(&mut session).await.unwrap() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let (old_port, new_port) = (primary.port(), standby.port());
    let stopped = tokio::task::spawn_blocking(move || primary.stop(Shutdown::Immediate)).await.unwrap().unwrap();
    assert!(sqlx::query_scalar::<_, bool>("SELECT pg_promote()").fetch_one(&mut session).await.unwrap());

    until(|| async { port(&headwater).await == i32::from(new_port) }).await;
    until(|| async { shop.emit(Event::raw("b", Json::null())).await.is_ok() }).await;
    until(|| async { recorder.types().last().is_some_and(|last| last == "b") }).await;
    until(is_live).await;

    // A later connection also finds the new primary while the former one is gone. A former primary
    // that is back as its own server is not asked first.
    let later = Headwater::connect(&url).await.expect("failed to connect");
    assert_eq!(port(&later).await, i32::from(new_port));
    later.shutdown().await;
    assert_ne!(old_port, new_port);
    node.shutdown().await.unwrap();
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
    headwater.shutdown().await;
    drop(session);
    tokio::task::spawn_blocking(move || (drop(stopped), drop(standby))).await.unwrap();
}

#[tokio::test]
async fn errors_say_what_is_wrong_with_each_host() {
    let failed = Headwater::connect("postgres://ada@127.0.0.1:1,127.0.0.1:2/app?connect_timeout=3").await.unwrap_err();
    let text = failed.to_string();
    assert!(text.contains("127.0.0.1:1/app: ") && text.contains("127.0.0.1:2/app: "), "{text}");
    for (url, reason) in [
        ("postgres://a:x,b:1/app", "invalid port number"),
        ("postgres://a,b/app?target_session_attrs=standby", "Headwater writes, so it is read-write, primary or any"),
        ("postgres://a,,b/app", "one of the hosts that it lists is empty"),
    ] {
        let refused = Headwater::connect(url).await.unwrap_err().to_string();
        assert!(refused.contains(reason), "{url}: {refused}");
    }
}
