//! Lost connections: delivery goes on by itself, and says what is the matter meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{Recorder, Shop, quick, soon, until};
use headwater::admin::NamespaceConfig;
use headwater::delivery::OperatorStore;
use headwater::{Event, EventObserver, Headwater, Json, Node, Subscription};
use headwater_embedded::{Server, Shutdown};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn terminated_backends_cost_no_event() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("survivor");
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    let mut session = shop.db.session().await;
    for _ in 0..5 {
        shop.emit_many(20).await;
        let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                          WHERE datname = current_database() AND pid <> pg_backend_pid()";
        sqlx::query(terminate).execute(&mut session).await.unwrap();
    }
    let last = shop.emit(&["last"]).await;
    soon(node.wait_for("survivor", last)).await.unwrap();
    until(|| async { node.status().listening }).await;
    let mut sequences = recorder.sequences();
    assert_eq!(sequences.last(), Some(&last));
    sequences.sort();
    sequences.dedup();
    assert_eq!(sequences.len(), 101);
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_connection_may_be_waited_for_without_end() {
    let shop = Shop::open().await;
    let headwater = Headwater::builder().acquire_timeout(Duration::MAX).connect(&shop.db.url).await.unwrap();
    headwater.namespace("shop").await.unwrap();
}

async fn on_server(url: &str) -> (Headwater, headwater::Namespace) {
    let headwater = Headwater::connect(url).await.unwrap();
    headwater.migrate().await.unwrap();
    headwater.create_namespace(NamespaceConfig::new("shop")).await.unwrap();
    let shop = headwater.namespace("shop").await.unwrap();
    (headwater, shop)
}

async fn emit(shop: &headwater::Namespace) -> u64 {
    shop.emit(Event::raw("e", Json::null())).await.unwrap().global_sequence()
}

#[tokio::test]
async fn server_restarts_cost_no_event_own_server() {
    let mut server = Server::builder().start().expect("failed to start a server");
    let (headwater, shop) = on_server(&server.url("headwater")).await;
    let recorder = Recorder::new("survivor");
    let node = shop.node("n1").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    let mut sent = Vec::new();
    for mode in [Shutdown::Fast, Shutdown::Immediate] {
        sent.push(emit(&shop).await);
        let restart = move || {
            server.restart(mode).expect("failed to restart");
            server
        };
        server = tokio::task::spawn_blocking(restart).await.unwrap();
        sent.push(emit(&shop).await);
    }
    soon(node.wait_for(recorder.subscriber_id(), *sent.last().unwrap())).await.unwrap();
    let mut sequences = recorder.sequences();
    sequences.dedup();
    assert_eq!(sequences, sent);
    until(|| async { node.status().listening && node.status().connected }).await;
    node.shutdown().await.unwrap();
    headwater.shutdown().await;
}

/// Passes connections on to the server, until it is told to swallow everything, as a dead network
/// does.
struct Network {
    port: u16,
    dead: Arc<AtomicBool>,
}

impl Network {
    async fn before(server_port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let dead = Arc::new(AtomicBool::new(false));
        let state = dead.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server_port)).await.unwrap();
                let (client_reads, client_writes) = client.into_split();
                let (server_reads, server_writes) = server.into_split();
                // A connection that existed when the network died stays dead: that is what
                // half-open means.
                let born_dead = state.load(Ordering::Acquire);
                let swallowing = Arc::new(AtomicBool::new(born_dead));
                tokio::spawn(pass(client_reads, server_writes, state.clone(), swallowing.clone()));
                tokio::spawn(pass(server_reads, client_writes, state.clone(), swallowing));
            }
        });
        Network { port, dead }
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    dead: Arc<AtomicBool>,
    swallowing: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        if dead.load(Ordering::Acquire) {
            swallowing.store(true, Ordering::Release);
        }
        if swallowing.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
        if to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn half_open_connections_are_found_out_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    let (direct, shop) = on_server(&server.url("headwater")).await;
    let network = Network::before(server.port()).await;
    let url = server.url("headwater").replace(&server.port().to_string(), &network.port.to_string());
    let headwater = Headwater::builder().call_timeout(Duration::from_secs(1)).connect(&url).await.unwrap();
    let through = headwater.namespace("shop").await.unwrap();
    let recorder = Recorder::new("survivor");
    let node: Node = through.node("n1").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    let first = emit(&shop).await;
    soon(node.wait_for("survivor", first)).await.unwrap();
    network.dead.store(true, Ordering::Release);
    let second = emit(&shop).await;
    until(|| async { !node.status().connected }).await;
    network.dead.store(false, Ordering::Release);
    soon(node.wait_for("survivor", second)).await.unwrap();
    assert_eq!(recorder.sequences().last(), Some(&second));
    _ = tokio::time::timeout(Duration::from_secs(5), node.shutdown()).await;
    direct.shutdown().await;
}
