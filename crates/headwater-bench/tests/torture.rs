//! A short torture: the laws hold while processes are killed and the server is restarted.

use std::process::Command;

const SEED: &str = "22";

#[test]
fn the_laws_hold_under_torture_own_server() {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater-bench"))
        .args(["torture", "--seconds", "20", "--seed", SEED])
        .output()
        .expect("failed to run the torture");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("no violations"), "{told}");
}
