//! What becomes of a server whose owner dies, and of a command whose server is told to end.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::common::{eventually, kill, lives, value};
use headwater_embedded::ServerBuilder;
use rustix::process::Signal;

const TEST_SERVER: &str = env!("CARGO_BIN_EXE_headwater-test-server");
const OWNER_FOLDER: &str = "HEADWATER_EMBEDDED_TEST_OWNER_FOLDER";

/// A test server with a command that prints where the server is, and stays until its standard input
/// ends.
struct Owner {
    process: Child,
    output: BufReader<ChildStdout>,
    data_dir: PathBuf,
}

impl Owner {
    fn start(script: &str) -> Self {
        let mut process = Command::new(TEST_SERVER)
            .args(["--", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let data_dir = line(&mut output).into();
        Self { process, output, data_dir }
    }

    fn server(&self) -> (u32, PathBuf) {
        let pid_file = fs::read_to_string(self.data_dir.join("postmaster.pid")).unwrap();
        (pid_file.lines().next().unwrap().parse().unwrap(), self.data_dir.clone())
    }
}

fn line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

#[test]
fn a_disposable_server_goes_when_its_owner_is_killed() {
    let mut owner = Owner::start("echo $HEADWATER_TEST_DATA; cat");
    let (server, data_dir) = owner.server();
    kill(owner.process.id(), Signal::KILL);
    owner.process.wait().unwrap();
    eventually("the server ends", || !lives(server));
    eventually("its folder is gone", || !data_dir.parent().unwrap().exists());
}

/// The owner of the test below: a process of its own, since it is to be killed.
#[test]
fn helper_that_owns_a_durable_server() {
    let Some(folder) = std::env::var_os(OWNER_FOLDER) else { return };
    let server = ServerBuilder::durable(folder).start().unwrap();
    value(&server, "CREATE TABLE t AS SELECT 42 AS n");
    println!("\nserver {}", server.pid());
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lines().count();
}

#[test]
fn a_durable_server_is_stopped_in_order_when_its_owner_is_killed() {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = place.path().join("data");
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner_dies::helper_that_owns_a_durable_server", "--nocapture"])
        .env(OWNER_FOLDER, &folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(owner.stdout.take().unwrap()).lines().map_while(Result::ok);
    let server: u32 = said.into_iter().find_map(|line| line.strip_prefix("server ")?.parse().ok()).unwrap();
    kill(owner.id(), Signal::KILL);
    owner.wait().unwrap();
    eventually("the server ends", || !lives(server));

    let server = ServerBuilder::durable(&folder).start().unwrap();
    assert_eq!(value(&server, "SELECT n FROM t"), "42");
    assert!(!server.log_tail(100).contains("not properly shut down"), "{}", server.log_tail(100));
}

#[test]
fn the_test_server_ends_as_its_command_does() {
    let mut owner = Owner::start("echo $HEADWATER_TEST_DATA; [ -x \"$HEADWATER_PG_BIN/postgres\" ] && cat; exit 7");
    let (server, data_dir) = owner.server();
    drop(owner.process.stdin.take());
    assert_eq!(owner.process.wait().unwrap().code(), Some(7));
    assert!(!lives(server) && !data_dir.exists());
}

#[test]
fn the_test_server_passes_signals_on_and_cleans_up() {
    for signal in [Signal::TERM, Signal::INT] {
        let script = "trap 'echo told; exit 5' TERM INT; echo $HEADWATER_TEST_DATA; while :; do sleep 0.1; done";
        let mut owner = Owner::start(script);
        let (server, data_dir) = owner.server();
        kill(owner.process.id(), signal);
        let status = owner.process.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(5), None));
        assert_eq!(line(&mut owner.output), "told");
        assert!(!lives(server) && !data_dir.exists());
    }
}

#[test]
fn the_test_server_says_how_it_is_used() {
    let output = Command::new(TEST_SERVER).arg("cargo").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: "));
}
