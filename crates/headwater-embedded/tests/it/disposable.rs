//! Servers that go with their handle.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::common::{kill, lives, setting, value};
use headwater_embedded::{EmbeddedError, Server, ServerBuilder, Shutdown};
use rustix::process::Signal;

#[test]
fn a_disposable_server_leaves_nothing_behind() {
    let server = Server::builder().start().unwrap();
    let (pid, data_dir) = (server.pid(), server.data_dir().to_path_buf());
    assert!(server.url("x").starts_with("postgres://headwater:"), "{}", server.url("x"));
    assert!(server.url("x").ends_with(&format!("@127.0.0.1:{}/x", server.port())), "{}", server.url("x"));
    assert_eq!(value(&server, "SELECT current_user || ' in ' || current_database()"), "headwater in headwater");
    assert_eq!(value(&server, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"), "t");
    assert!(setting(&server, "server_version").starts_with(&server.version().to_string()));
    assert!(server.socket_dir().join(format!(".s.PGSQL.{}", server.port())).exists());
    assert!(data_dir.exists() && lives(pid));

    drop(server);
    assert!(!lives(pid));
    assert!(!data_dir.parent().unwrap().exists());
}

#[test]
fn what_headwater_needs_is_set() {
    let server = Server::builder().setting("max_connections", "33").start().unwrap();
    for (name, expected) in [
        ("fsync", "off"),
        ("synchronous_commit", "on"),
        ("wal_level", "logical"),
        ("max_wal_senders", "50"),
        ("max_replication_slots", "50"),
        ("max_prepared_transactions", "16"),
        ("max_connections", "33"),
        ("listen_addresses", "127.0.0.1"),
        ("timezone", "UTC"),
        ("server_encoding", "UTF8"),
    ] {
        assert_eq!(setting(&server, name), expected, "{name}");
    }
    let remote = "SELECT count(*) FROM pg_hba_file_rules WHERE address NOT IN ('127.0.0.1', '::1')";
    assert_eq!(value(&server, remote), "0");
}

#[test]
fn a_disposable_server_can_have_fsync() {
    let server = Server::builder().fsync(true).start().unwrap();
    assert_eq!(setting(&server, "fsync"), "on");
    assert_eq!(setting(&server, "full_page_writes"), "on");
}

#[test]
fn a_restart_in_any_mode_keeps_port_and_data() {
    let mut server = Server::builder().start().unwrap();
    let port = server.port();
    value(&server, "CREATE TABLE t AS SELECT 42 AS n");
    for mode in [Shutdown::Smart, Shutdown::Fast, Shutdown::Immediate] {
        let pid = server.pid();
        server.restart(mode).unwrap();
        assert_ne!(server.pid(), pid);
        assert_eq!(server.port(), port);
        assert_eq!(value(&server, "SELECT n FROM t"), "42", "after a {mode} shutdown");
    }
    let stopped = server.stop(Shutdown::Fast).unwrap();
    assert!(stopped.data_dir().exists());
    let server = stopped.start().unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(value(&server, "SELECT n FROM t"), "42");
    assert!(server.log_tail(50).contains("database system is ready to accept connections"));
}

#[test]
fn a_killed_server_comes_back_with_restart() {
    let mut server = Server::builder().start().unwrap();
    value(&server, "CREATE TABLE t AS SELECT 42 AS n");
    kill(server.pid(), Signal::KILL);
    crate::common::eventually("the postmaster is dead", || !server.is_running());
    server.restart(Shutdown::Fast).unwrap();
    assert_eq!(value(&server, "SELECT n FROM t"), "42");
}

/// A busy backend does not notice that its postmaster is gone, and keeps the shared memory until it
/// is done.
#[test]
fn a_restart_waits_for_backends_that_outlive_a_killed_postmaster() {
    const BUSY: &str = "DO $$ DECLARE until timestamptz := clock_timestamp() + '2 s';
        BEGIN WHILE clock_timestamp() < until LOOP END LOOP; END $$";
    const IS_BUSY: &str = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'DO %'";
    let mut server = Server::builder().start().unwrap();
    let socket = crate::common::socket(&server);
    let client = std::thread::spawn(move || crate::common::value_at(&socket, BUSY));
    crate::common::eventually("the backend computes", || value(&server, IS_BUSY) == "1");
    kill(server.pid(), Signal::KILL);
    crate::common::eventually("the postmaster is dead", || !server.is_running());
    server.restart(Shutdown::Fast).unwrap();
    assert_eq!(value(&server, "SELECT 1"), "1");
    // Whether it got its answer is not the point.
    let _ = client.join().unwrap();
}

/// As one that waits for a lock whose holder has gone.
#[test]
fn a_backend_that_never_notices_is_killed_with_its_server() {
    let mut server = Server::builder().start().unwrap();
    let _session = crate::common::session(&server);
    const OTHER: &str =
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let backend = value(&server, OTHER).parse().unwrap();
    kill(backend, Signal::STOP);
    server.kill().unwrap();
    crate::common::eventually("it is dead", || !lives(backend));
    server.restart(Shutdown::Fast).unwrap();
}

#[test]
fn a_smart_shutdown_that_clients_hold_up_is_an_error_and_the_server_lives() {
    let mut server = Server::builder().stop_timeout(Duration::from_millis(300)).start().unwrap();
    // A session, not only a connection: a connection that has not authenticated does not delay a
    // shutdown.
    let client = crate::common::session(&server);
    let error = server.restart(Shutdown::Smart).unwrap_err();
    assert!(matches!(error, EmbeddedError::StopTimeout { mode: Shutdown::Smart, .. }), "{error}");
    assert!(server.is_running());
    drop(client);
}

/// PostgreSQL waits a minute for one that it refused to say who it is, and takes no signal for it.
#[test]
fn a_dropped_server_does_not_wait_for_connections_that_say_nothing() {
    let mut server = Server::builder().stop_timeout(Duration::from_millis(300)).start().unwrap();
    let _client = crate::common::session(&server);
    server.restart(Shutdown::Smart).unwrap_err();
    let children = format!("/proc/{0}/task/{0}/children", server.pid());
    let count = || std::fs::read_to_string(&children).unwrap().split_whitespace().count();
    let before = count();
    let _silent = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    crate::common::eventually("it was refused", || count() > before);
    let begin = Instant::now();
    drop(server);
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_taken_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = Server::builder().port(port).start().unwrap_err();
    assert!(matches!(error, EmbeddedError::PortTaken { port: p } if p == port), "{error}");
}

#[test]
fn a_server_that_dies_early_shows_its_log() {
    let error = Server::builder().setting("shared_buffers", "nonsense").start().unwrap_err();
    assert!(matches!(error, EmbeddedError::DiedEarly { .. }), "{error}");
    assert!(error.to_string().contains("shared_buffers"), "{error}");
}

#[test]
fn missing_binaries_are_an_error_that_says_what_to_do() {
    let empty = tempfile::tempdir().unwrap();
    let error = ServerBuilder::disposable().bin_dir(empty.path()).start().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("apt-get install postgresql-15") && text.contains("HEADWATER_PG_BIN"), "{text}");
    assert!(text.contains(&empty.path().display().to_string()), "{text}");
}
