//! Servers whose data stays.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{kill, setting, value, without_password};
use headwater_embedded::{EmbeddedError, Server, ServerBuilder, Shutdown};
use rustix::process::Signal;
use tempfile::TempDir;

/// A place that the server's user can reach, also if the tests run as root.
fn place() -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = place.path().join("deep/down");
    (place, folder)
}

fn start(folder: &Path) -> Server {
    ServerBuilder::durable(folder).start().unwrap()
}

fn with_a_table(folder: &Path) -> Server {
    let server = start(folder);
    value(&server, "CREATE TABLE t AS SELECT 42 AS n");
    server
}

#[test]
fn data_survives_a_drop_and_every_safety_is_on() {
    let (_place, folder) = place();
    drop(with_a_table(&folder));
    let server = start(&folder);
    assert_eq!(value(&server, "SELECT n FROM t"), "42");
    for name in ["fsync", "synchronous_commit", "full_page_writes", "data_checksums"] {
        assert_eq!(setting(&server, name), "on", "{name}");
    }
    assert_eq!(setting(&server, "wal_level"), "logical");
}

#[test]
fn data_survives_the_kill_of_the_postmaster() {
    let (_place, folder) = place();
    let mut server = with_a_table(&folder);
    kill(server.pid(), Signal::KILL);
    crate::common::eventually("the postmaster is dead", || !server.is_running());
    drop(server);
    assert!(folder.join("pgdata/postmaster.pid").exists());
    assert_eq!(value(&start(&folder), "SELECT n FROM t"), "42");
}

#[test]
fn a_second_server_on_the_folder_is_refused() {
    let (_place, folder) = place();
    let server = with_a_table(&folder);
    match ServerBuilder::durable(&folder).start().unwrap_err() {
        EmbeddedError::AlreadyRunning { pid, data_dir, port } => {
            assert_eq!((pid, port), (server.pid(), server.port()));
            assert_eq!(data_dir, server.data_dir());
        }
        other => panic!("{other}"),
    }
    assert_eq!(value(&server, "SELECT n FROM t"), "42");
}

#[test]
fn of_two_starts_at_once_one_wins() {
    let (_place, folder) = place();
    let results = std::thread::scope(|scope| {
        let starts = [(); 2].map(|()| scope.spawn(|| ServerBuilder::durable(&folder).start()));
        starts.map(|start| start.join().unwrap())
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let error = results.iter().find_map(|result| result.as_ref().err()).unwrap();
    assert!(matches!(error, EmbeddedError::AlreadyRunning { .. }), "{error}");
}

/// A pid file as a power loss leaves it. Another process of the same user has its number by now:
/// here a second server, on another folder.
#[test]
fn a_stale_pid_file_does_not_stop_a_start_even_if_its_number_is_in_use() {
    let (_place, folder) = place();
    let other = Server::builder().start().unwrap();
    let data_dir = with_a_table(&folder).stop(Shutdown::Fast).unwrap().data_dir().to_path_buf();
    let pid_file = data_dir.join("postmaster.pid");
    let content = format!("{}\n{}\n1750000000\n5432\n\n127.0.0.1\n 99 99\nready\n", other.pid(), data_dir.display());
    fs::write(&pid_file, content).unwrap();
    crate::common::same_owner(&data_dir, &pid_file);

    assert_eq!(value(&start(&folder), "SELECT n FROM t"), "42");
    assert_eq!(value(&other, "SELECT 1"), "1");
}

#[test]
fn an_empty_pid_file_does_not_stop_a_start() {
    let (_place, folder) = place();
    let data_dir = with_a_table(&folder).stop(Shutdown::Fast).unwrap().data_dir().to_path_buf();
    fs::write(data_dir.join("postmaster.pid"), "").unwrap();
    assert_eq!(value(&start(&folder), "SELECT n FROM t"), "42");
}

#[test]
fn an_initdb_that_was_cut_short_is_begun_again() {
    let (_place, folder) = place();
    fs::create_dir_all(folder.join("pgdata.new/global")).unwrap();
    for path in [folder.parent().unwrap(), &folder] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(folder.join("pgdata.new/PG_VERSION"), "15\n").unwrap();
    drop(with_a_table(&folder));
    assert!(!folder.join("pgdata.new").exists());
}

#[test]
fn a_data_folder_of_another_version_is_refused() {
    let (_place, folder) = place();
    let server = start(&folder);
    let (version, data_dir) = (server.version(), server.data_dir().to_path_buf());
    drop(server);
    fs::write(data_dir.join("PG_VERSION"), "9.6\n").unwrap();
    let error = ServerBuilder::durable(&folder).start().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, EmbeddedError::VersionMismatch { .. }), "{text}");
    assert!(text.contains("PostgreSQL 9.6") && text.contains(&version.to_string()), "{text}");
}

#[test]
fn a_data_folder_made_by_something_else_is_refused() {
    let (place, _) = place();
    fs::write(place.path().join("PG_VERSION"), "15\n").unwrap();
    let error = ServerBuilder::durable(place.path()).start().unwrap_err();
    assert!(matches!(error, EmbeddedError::ForeignCluster { .. }), "{error}");
}

#[test]
fn a_durable_server_without_fsync_is_refused() {
    let (_place, folder) = place();
    let error = ServerBuilder::durable(&folder).fsync(false).start().unwrap_err();
    assert!(matches!(error, EmbeddedError::InvalidSetting { .. }), "{error}");
    assert!(!folder.exists());
}

#[test]
fn a_path_too_long_for_a_socket_is_no_obstacle() {
    let (_place, folder) = place();
    let folder = folder.join("a, b ".repeat(30));
    let server = start(&folder);
    let socket_dir = server.socket_dir().to_path_buf();
    assert!(socket_dir.join(format!(".s.PGSQL.{}", server.port())).exists());
    drop(server);
    assert!(!socket_dir.exists());
}

/// Says which folder is in the way. Only root runs servers as somebody else.
#[test]
fn a_folder_closed_to_the_servers_user_is_named() {
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !root {
        return;
    }
    let (place, folder) = place();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o700)).unwrap();
    match ServerBuilder::durable(&folder).start().unwrap_err() {
        EmbeddedError::Unreachable { blocked, .. } => assert_eq!(blocked, place.path().canonicalize().unwrap()),
        other => panic!("{other}"),
    }
}

/// Reads the password that a server's url holds.
fn password(server: &Server) -> String {
    let url = server.url("headwater");
    url.split(['@', ':']).nth(2).unwrap().to_owned()
}

#[test]
fn nobody_gets_in_over_tcp_without_the_password() {
    let (_place, folder) = place();
    let server = start(&folder);
    for user in ["headwater", "postgres"] {
        let refused = without_password(server.port(), user).unwrap_err().to_string();
        assert_eq!(refused, "the server asks for a password", "{user}");
    }
    let kept = server.data_dir().join("headwater.password");
    assert_eq!(fs::read_to_string(&kept).unwrap().trim(), password(&server));
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    let socket = fs::metadata(crate::common::socket(&server)).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o700);
    let stored = value(&server, "SELECT rolpassword FROM pg_authid WHERE rolname = 'headwater'");
    assert!(stored.starts_with("SCRAM-SHA-256$"), "{stored}");
    assert_eq!(Server::url_in(&folder, "headwater").unwrap(), Some(server.url("headwater")));

    let first = password(&server);
    drop(server);
    assert_eq!(Server::url_in(&folder, "headwater").unwrap(), None);
    assert_eq!(password(&start(&folder)), first, "it stays the same");
}

/// A folder as it was made when every connection from this machine was trusted.
#[test]
fn a_folder_that_trusts_everybody_is_closed_at_the_next_start() {
    let (_place, folder) = place();
    let server = with_a_table(&folder);
    value(&server, "ALTER ROLE headwater PASSWORD NULL");
    let data_dir = server.stop(Shutdown::Fast).unwrap().data_dir().to_path_buf();
    let rules = data_dir.join("pg_hba.conf");
    let trusting = fs::read_to_string(&rules).unwrap().replace("scram-sha-256", "trust");
    fs::write(&rules, trusting).unwrap();
    fs::remove_file(data_dir.join("headwater.password")).unwrap();

    let server = start(&folder);
    let refused = without_password(server.port(), "headwater").unwrap_err().to_string();
    assert_eq!(refused, "the server asks for a password");
    let trusted = "SELECT count(*) FROM pg_hba_file_rules WHERE type <> 'local' AND auth_method = 'trust'";
    assert_eq!(value(&server, trusted), "0");
    let stored = value(&server, "SELECT rolpassword FROM pg_authid WHERE rolname = 'headwater'");
    assert!(stored.starts_with("SCRAM-SHA-256$"), "{stored}");
    assert_eq!(value(&server, "SELECT n FROM t"), "42");
}
