//! Through PgBouncer in transaction mode: append, read, deliver, in transactions of their own.

use std::process::{Child, Command, Stdio};

use crate::common::{Recorder, quick, soon, until};
use headwater::admin::NamespaceConfig;
use headwater::delivery::OperatorStore;
use headwater::node::WakeUpSource;
use headwater::{Delivery, Event, Headwater, Json, Namespace, Subscription, Transaction};
use headwater_testing::TestDatabase;

/// PgBouncer before the test server, with fewer connections than it has clients.
struct PgBouncer {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl PgBouncer {
    async fn start(server_url: &str) -> Self {
        PgBouncer::start_with(server_url, "").await
    }

    async fn start_with(server_url: &str, settings: &str) -> Self {
        let server: sqlx::postgres::PgConnectOptions = server_url.parse().expect("a url");
        let (host, server_port) = (server.get_host(), server.get_port());
        let password = server_url.split(['@', ':']).nth(2).expect("a password");
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host={host} port={server_port} user=headwater password={password}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 3\nunix_socket_dir =\n{settings}"
        );
        std::fs::write(&config, text).unwrap();
        // It does not run as root, and then reads its settings as somebody else.
        let mut command = Command::new("pgbouncer");
        if std::fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0).unwrap_or_default()
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
            command.args(["-u", "nobody"]);
        }
        let process = command.arg("-q").arg(&config).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn();
        let process = process.expect("failed to start pgbouncer: scripts/test installs it");
        until(|| async { tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() }).await;
        PgBouncer { process, port, _folder: folder }
    }

    fn url(&self, server_url: &str) -> String {
        let (front, rest) = server_url.split_once('@').expect("a user");
        let database = rest.split_once('/').expect("a database").1;
        format!("{front}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

async fn emit(shop: &Namespace, events: usize) -> u64 {
    let emitting = (0..events).map(|n| shop.emit(Event::raw(format!("e{n}"), Json::null())));
    let emitted = futures::future::try_join_all(emitting).await.expect("failed to emit");
    emitted.iter().map(|appended| appended.global_sequence()).max().expect("an event")
}

#[tokio::test]
async fn everything_works_through_a_transaction_pooler() {
    let db = TestDatabase::create().await;
    let bouncer = PgBouncer::start(&db.url).await;
    let url = bouncer.url(&db.url);
    let connect = || Headwater::builder().transaction_pooler(true).connect(&url);
    let headwater = connect().await.unwrap();
    headwater.migrate().await.unwrap();
    headwater.create_namespace(NamespaceConfig::new("shop")).await.unwrap();
    let shop = headwater.namespace("shop").await.unwrap();
    sqlx::raw_sql("CREATE TABLE effects (event_id uuid)").execute(headwater.pool()).await.unwrap();

    let other = connect().await.unwrap();
    let other_shop = other.namespace("shop").await.unwrap();
    let recorders = [Recorder::new("polls"), Recorder::new("listens")];
    let polls =
        other_shop.node("polls").run(Subscription::of(recorders[0].clone()).config(quick())).start().await.unwrap();
    let listens = shop
        .node("listens")
        .wake_ups(WakeUpSource::ListenAt(db.url.clone()))
        .run(Subscription::of(recorders[1].clone()).config(quick()))
        .run(Subscription::new("effects").transactional(|event: Delivery, mut tx: Transaction| async move {
            let failed = event.event_type == "e3";
            sqlx::query("INSERT INTO effects VALUES ($1)").bind(event.id).execute(&mut *tx).await?;
            if failed { Err(headwater::HandlerError::permanent("no")) } else { Ok(()) }
        }))
        .start()
        .await
        .unwrap();
    // Both sides write at once, through three connections.
    let (one, two) = futures::join!(emit(&shop, 50), emit(&other_shop, 50));
    let last = one.max(two);
    soon(polls.wait_for("polls", last)).await.unwrap();
    soon(listens.wait_for("listens", last)).await.unwrap();
    soon(listens.wait_for("effects", last)).await.unwrap();
    assert!(listens.status().listening && !polls.status().listening);
    for recorder in &recorders {
        assert!(recorder.sequences().is_sorted());
        assert_eq!(recorder.sequences().len(), 100);
    }
    polls.shutdown().await.unwrap();
    listens.shutdown().await.unwrap();
    let effects: i64 =
        sqlx::query_scalar("SELECT count(DISTINCT event_id) FROM effects").fetch_one(db.database.pool()).await.unwrap();
    assert_eq!(effects, 98, "all but the two that failed");
    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
    headwater.shutdown().await;
    other.shutdown().await;
}

/// Whoever forgot to say that there is a pooler is told so, and what to do.
#[tokio::test]
async fn without_the_flag_errors_name_the_pooler_and_the_flag() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let names_it = |error: &dyn std::fmt::Display| {
        let text = error.to_string();
        assert!(text.contains("PgBouncer") && text.contains("--transaction-pooler"), "{text}");
    };
    let strict = PgBouncer::start(&db.url).await;
    let refused = Headwater::connect(&strict.url(&db.url)).await.expect_err("it is no PostgreSQL");
    assert!(refused.to_string().contains("unsupported startup parameter: extra_float_digits"), "{refused}");
    names_it(&refused);

    // One that takes the connection, and then mixes up the prepared statements of its clients.
    let lenient =
        PgBouncer::start_with(&db.url, "ignore_startup_parameters = extra_float_digits\ndefault_pool_size = 1\n").await;
    let url = lenient.url(&db.url);
    let (one, two) = (Headwater::connect(&url).await.unwrap(), Headwater::connect(&url).await.unwrap());
    let failed: Vec<_> =
        [one.admin().namespaces().await, two.admin().namespaces().await].into_iter().filter_map(Result::err).collect();
    assert!(!failed.is_empty(), "both have statements of the same names in one session");
    failed.iter().for_each(|error| names_it(error));
}
