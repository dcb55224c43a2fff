use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use headwater_embedded::Server;
use rustix::process::{Pid, Signal, kill_process};

#[path = "../../../src/wire.rs"]
mod wire;

/// The one value of the one row of `sql`, asked through the socket.
pub(crate) fn value_at(socket: &Path, sql: &str) -> io::Result<String> {
    let rows = wire::query(socket, "headwater", "headwater", &[], sql)?;
    Ok(rows.into_iter().flatten().flatten().next().unwrap_or_default())
}

pub(crate) fn socket(server: &Server) -> PathBuf {
    server.socket_dir().join(format!(".s.PGSQL.{}", server.port()))
}

pub(crate) fn value(server: &Server, sql: &str) -> String {
    value_at(&socket(server), sql).unwrap()
}

/// What the server says to somebody who comes over TCP and knows no password.
pub(crate) fn without_password(port: u16, user: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    wire::say_hello(&mut stream, user, "headwater", &[])
}

pub(crate) fn setting(server: &Server, name: &str) -> String {
    value(server, &format!("SHOW {name}"))
}

/// A session that stays until it is dropped.
pub(crate) fn session(server: &Server) -> UnixStream {
    wire::connect(&socket(server), "headwater", "headwater", &[]).unwrap()
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
