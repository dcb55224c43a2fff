//! Short tortures: the laws hold while processes are killed, servers are restarted, replaced and
//! crashed, and enemies attack.

use std::process::Command;

const SEED: &str = "22";

fn torture(seconds: &str, more: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater-bench"))
        .args(["torture", "--seconds", seconds, "--seed", SEED])
        .args(more)
        .output()
        .expect("failed to run the torture");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("no violations"), "{told}");
}

#[test]
fn the_laws_hold_under_torture_own_server() {
    torture("15", &[]);
}

#[test]
fn the_laws_hold_under_torture_with_events_from_the_wal_own_server() {
    torture("15", &["--live", "cdc-direct"]);
}

#[test]
fn the_laws_hold_under_torture_with_an_inbox_own_server() {
    torture("15", &["--live", "cdc-inbox"]);
}

#[test]
fn the_laws_hold_when_a_standby_takes_over_own_server() {
    // Only full installations have pg_basebackup.
    let server = headwater_embedded::Server::builder().start().expect("failed to start a server");
    let found = server.bin_dir().join("pg_basebackup").exists();
    drop(server);
    if found {
        torture("15", &["--failover"]);
    } else {
        eprintln!("there is no pg_basebackup here, so there are no standbys");
    }
}

#[test]
fn the_laws_hold_when_the_server_crashes_own_server() {
    torture("15", &["--crash"]);
}

#[test]
fn the_laws_hold_among_enemies_own_server() {
    torture("15", &["--hostile"]);
}
