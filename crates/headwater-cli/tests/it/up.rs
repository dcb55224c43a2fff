//! `up`: with a server of its own, and with a database that is there.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use crate::common::{Said, command};
use headwater_testing::TestDatabase;
use rustix::process::{Pid, Signal, kill_process};

/// A running `headwater up`. Dropped in a failing test, it is told to stop.
struct Up {
    child: Child,
    output: BufReader<ChildStdout>,
    url: String,
}

impl Up {
    /// Starts it and waits until it is ready.
    fn start(args: &[&str], database_url: Option<&str>) -> Up {
        let mut command = command();
        command.arg("up").args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(url) = database_url {
            command.env("DATABASE_URL", url);
        }
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let Some(url) = line.trim().strip_prefix("DATABASE_URL=") else {
            panic!("{:#?}", Said::from(child.wait_with_output().unwrap()))
        };
        Up { url: url.into(), child, output }
    }

    fn run(&self, args: &[&str]) -> Said {
        command().args(args).args(["--database-url", &self.url]).output().unwrap().into()
    }

    /// Sends the signal, and waits for the end.
    fn stop(mut self, signal: Signal) -> Said {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let code = self.child.wait().unwrap().code();
        let (mut out, mut err) = (String::new(), String::new());
        self.output.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Said { code, out, err }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            _ = self.child.wait();
        }
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    // The user that the server runs as must get in.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn no_server_runs(data: &Path) {
    assert!(!data.join("pgdata/postmaster.pid").exists());
}

#[test]
fn own_server_keeps_its_data_from_run_to_run() {
    let folder = folder();
    let data = folder.path().join("data");
    let args = ["--data-dir", data.to_str().unwrap(), "--port", "0", "--namespace", "shop", "--namespace", "billing"];
    let up = Up::start(&args, None);
    up.run(&["emit", "-n", "shop", "OrderPlaced", r#"{"total": 5}"#]).ok();
    let first = up.run(&["read", "-n", "shop", "--json"]).ok();
    assert_eq!(first.json()["data"]["total"], 5);
    let status = up.run(&["status", "--json"]).ok();
    assert_eq!(status.json()["server"]["durable"], true, "{status:?}");
    assert_eq!(status.json()["namespaces"].as_array().unwrap().len(), 2);
    assert_eq!(status.err, "", "a durable server is nothing to warn of");

    // A user who may read its folder finds the server and its password with the folder alone.
    // Nobody gets in without the password.
    let found = |url: Option<&str>| -> Said {
        let mut command = command();
        command.env("HEADWATER_DATA", &data).args(["read", "-n", "shop", "--json"]);
        url.into_iter().for_each(|url| _ = command.args(["--database-url", url]));
        command.output().unwrap().into()
    };
    assert_eq!(found(None).ok().out, first.out);
    let (user, place) = up.url.split_once('@').unwrap();
    let open = format!("{}@{place}", user.rsplit_once(':').unwrap().0);
    found(Some(&open)).fails(3, "password authentication failed");

    // A second one on the same folder, or on the same port, says what is in its way.
    let second = |args: &[&str]| -> Said { command().arg("up").args(args).output().unwrap().into() };
    second(&args).fails(1, "already (pid ");
    let port = up.url.rsplit_once('/').unwrap().0.rsplit_once(':').unwrap().1;
    let other = folder.path().join("other");
    second(&["--data-dir", other.to_str().unwrap(), "--port", port])
        .fails(1, &format!("port {port} is taken by another program\nhelp: choose another one with --port"));

    let stopped = up.stop(Signal::TERM).ok();
    assert!(stopped.err.contains("stopping on SIGTERM\nstopped; the data is kept in "), "{stopped:?}");
    no_server_runs(&data);

    let up = Up::start(&args, None);
    assert_eq!(up.run(&["read", "-n", "shop", "--json"]).ok().out, first.out);
    let stopped = up.stop(Signal::INT).ok();
    assert!(stopped.err.contains(", nothing to do\n"), "{stopped:?}");
    assert!(stopped.err.contains("stopping on Ctrl-C\n"), "{stopped:?}");
    no_server_runs(&data);
}

#[test]
fn own_server_that_ends_by_itself_ends_the_command() {
    let folder = folder();
    let data = folder.path().join("data");
    let mut up = Up::start(&["--data-dir", data.to_str().unwrap(), "--port", "0"], None);
    let postmaster = fs::read_to_string(data.join("pgdata/postmaster.pid")).unwrap();
    let pid = postmaster.lines().next().unwrap().parse().unwrap();
    // A fast shutdown, as an administrator would ask for.
    kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
    assert_eq!(up.child.wait().unwrap().code(), Some(1));
    let mut err = String::new();
    up.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(err.contains("error: the server ended by itself; its log ends with:\n"), "{err}");
    assert!(err.contains("database system is shut down"), "{err}");
}

#[tokio::test]
async fn a_database_that_is_there_is_migrated_and_used() {
    let db = TestDatabase::create_empty().await;
    let mut up = Up::start(&["--namespace", "shop"], Some(&db.url));
    let (user, place) = db.url.split_once('@').unwrap();
    assert_eq!(
        up.url,
        format!("{}@{place}", user.rsplit_once(':').unwrap().0),
        "a password of somebody's own is not printed"
    );
    up.url.clone_from(&db.url);
    up.run(&["emit", "-n", "shop", "A"]).ok();
    // Without a node, it is this command that delivers what is due.
    up.run(&["emit", "-n", "shop", "B", "--due-in", "100ms"]).ok();
    let begin = std::time::Instant::now();
    while up.run(&["read", "-n", "shop", "--json"]).ok().json_lines().len() < 2 {
        assert!(begin.elapsed().as_secs() < 20, "nobody fired it");
    }
    let stopped = up.stop(Signal::TERM).ok();
    assert!(stopped.err.contains("no server is started\nmigrated to schema version "), "{stopped:?}");
}
