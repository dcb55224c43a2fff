use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use headwater_embedded::Server;
use rustix::process::{Pid, Signal, kill_process};

#[path = "../../../src/wire.rs"]
mod wire;

/// The one value of the one row of `sql`.
pub(crate) fn value_at(port: u16, sql: &str) -> io::Result<String> {
    let rows = wire::query(port, "headwater", "headwater", sql)?;
    Ok(rows.into_iter().flatten().flatten().next().unwrap_or_default())
}

pub(crate) fn value(server: &Server, sql: &str) -> String {
    value_at(server.port(), sql).unwrap()
}

pub(crate) fn setting(server: &Server, name: &str) -> String {
    value(server, &format!("SHOW {name}"))
}

/// A session that stays until it is dropped.
pub(crate) fn session(port: u16) -> std::net::TcpStream {
    wire::connect(port, "headwater", "headwater").unwrap()
}

/// A process of ours, or of a server of ours.
pub(crate) fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// Whether the process is there and no zombie.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(50);
    while !condition() {
        assert!(Instant::now() < deadline, "did not happen in time: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Hands a folder that the test prepared to the user the server runs as.
pub(crate) fn same_owner(as_path: &Path, path: &Path) {
    use std::os::unix::fs::{MetadataExt, chown};
    let meta = std::fs::metadata(as_path).unwrap();
    chown(path, Some(meta.uid()), Some(meta.gid())).unwrap();
}
