//! A standby follows its primary, and takes its place.

use crate::common::{eventually, lives, value};
use headwater_embedded::{Server, ServerBuilder, Shutdown};

/// Only full installations have pg_basebackup.
fn can_copy(server: &Server) -> bool {
    let found = server.bin_dir().join("pg_basebackup").exists();
    if !found {
        eprintln!("no pg_basebackup in {}: there are no standbys here", server.bin_dir().display());
    }
    found
}

fn count(server: &Server) -> String {
    value(server, "SELECT count(*) FROM t")
}

#[test]
fn a_standby_follows_and_takes_over_own_server() {
    let mut primary = Server::builder().start().unwrap();
    if !can_copy(&primary) {
        return;
    }
    value(&primary, "CREATE TABLE t AS SELECT 1 AS n");
    let mut standby = ServerBuilder::standby_of(&primary).start().unwrap();
    assert_eq!(value(&standby, "SELECT pg_is_in_recovery()"), "t");
    value(&primary, "INSERT INTO t VALUES (2)");
    eventually("the standby has got the row", || count(&standby) == "2");
    let names = "SELECT application_name FROM pg_stat_replication WHERE state = 'streaming'";
    assert_eq!(value(&primary, names), "headwater_standby");

    let pid = primary.pid();
    primary.kill().unwrap();
    assert!(!lives(pid) && !primary.is_running());
    standby.promote().unwrap();
    assert_eq!(value(&standby, "SELECT pg_is_in_recovery()"), "f");
    value(&standby, "INSERT INTO t VALUES (3)");
    standby.restart(Shutdown::Fast).unwrap();
    assert_eq!(count(&standby), "3");

    let second = ServerBuilder::standby_of(&standby).start().unwrap();
    assert_eq!(count(&second), "3");
}

#[test]
fn a_primary_can_not_be_promoted_own_server() {
    let mut server = Server::builder().start().unwrap();
    let error = server.promote().unwrap_err().to_string();
    assert!(error.contains("not in standby mode"), "{error}");
}

#[test]
fn a_server_has_the_environment_it_was_given_own_server() {
    let server = Server::builder().env("HEADWATER_TEST", "as given").start().unwrap();
    let environment = std::fs::read(format!("/proc/{}/environ", server.pid()));
    // Another user's process may be closed to us.
    if let Ok(environment) = environment {
        assert!(String::from_utf8_lossy(&environment).contains("HEADWATER_TEST=as given"));
    }
}
