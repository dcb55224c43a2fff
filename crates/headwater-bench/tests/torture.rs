//! A short torture: the laws hold while processes are killed and the server is restarted.

use std::process::Command;

const SEED: &str = "22";

fn torture(more: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater-bench"))
        .args(["torture", "--seconds", "20", "--seed", SEED])
        .args(more)
        .output()
        .expect("failed to run the torture");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("no violations"), "{told}");
}

#[test]
fn the_laws_hold_under_torture_own_server() {
    torture(&[]);
}

#[test]
fn the_laws_hold_under_torture_with_events_from_the_wal_own_server() {
    torture(&["--live", "cdc-direct"]);
}

#[test]
fn the_laws_hold_under_torture_with_an_inbox_own_server() {
    torture(&["--live", "cdc-inbox"]);
}
