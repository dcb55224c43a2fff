//! `postmaster.pid`: PostgreSQL's own lock on a data folder, and its report whether it is ready.
//!
//! PostgreSQL takes a pid file as stale if the process in it does not exist, and refuses to start
//! if it exists, whatever it is. After a power loss, any process of the same user may have got that
//! number (in a container, where numbers are small, it is likely). So we check more: the file is
//! live only if that process works in the data folder. A stale file is not removed, because
//! PostgreSQL finds in it the shared memory that backends of a killed postmaster may still use.
//! Instead we put our own number in it. PostgreSQL sees that this is its parent, takes the file as
//! stale, and then checks the rest.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::EmbeddedError;
use crate::run_as::RunAs;

const POLL: Duration = Duration::from_millis(50);
/// A server writes its number right after it creates the file. If the file is empty for longer, a
/// power loss cut it off.
const EMPTY_FOR: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PidFile {
    pub(crate) pid: u32,
    pub(crate) port: u16,
    /// `starting`, `standby`, `ready`, `stopping`, or nothing yet.
    pub(crate) status: String,
}

impl PidFile {
    pub(crate) fn read(data_dir: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(path(data_dir)).ok()?)
    }

    pub(crate) fn takes_connections(&self) -> bool {
        matches!(self.status.as_str(), "ready" | "standby")
    }

    fn parse(text: &str) -> Option<Self> {
        let line = |number: usize| text.lines().nth(number).unwrap_or_default().trim();
        Some(Self {
            // A single-user backend writes its number negative.
            pid: line(0).trim_start_matches('-').parse().ok()?,
            port: line(3).parse().unwrap_or_default(),
            status: line(7).into(),
        })
    }
}

/// Makes sure that no server uses the folder. Waits for a server that is stopping.
pub(crate) fn claim(data_dir: &Path, run_as: &RunAs, patience: Duration) -> Result<(), EmbeddedError> {
    let deadline = Instant::now() + patience;
    let mut empty_since = None;
    loop {
        let Some(file) = PidFile::read(data_dir) else {
            if !path(data_dir).exists() {
                return Ok(());
            }
            if empty_since.get_or_insert_with(Instant::now).elapsed() > EMPTY_FOR {
                let path = path(data_dir);
                return fs::remove_file(&path).map_err(EmbeddedError::io("remove", &path));
            }
            sleep(POLL);
            continue;
        };
        if !is_live(&file, data_dir, run_as) {
            return hand_over(data_dir, run_as);
        }
        if file.status != "stopping" || Instant::now() > deadline {
            return Err(already_running(&file, data_dir));
        }
        sleep(POLL);
    }
}

pub(crate) fn already_running(file: &PidFile, data_dir: &Path) -> EmbeddedError {
    EmbeddedError::AlreadyRunning { pid: file.pid, data_dir: data_dir.to_path_buf(), port: file.port }
}

/// Checked as the server's user: in a container even root may not look at other users' processes.
fn is_live(file: &PidFile, data_dir: &Path, run_as: &RunAs) -> bool {
    let script = r#"if [ -e /proc/self/cwd ]; then [ "/proc/$1/cwd" -ef "$2" ]; else kill -0 "$1"; fi"#;
    run_as.shell(script, &[Path::new(&file.pid.to_string()), data_dir]).is_some()
}

fn hand_over(data_dir: &Path, run_as: &RunAs) -> Result<(), EmbeddedError> {
    let script = r#"umask 077 && cd "$1" && sed "1s/.*/$2/" postmaster.pid >postmaster.pid.new &&
        mv postmaster.pid.new postmaster.pid"#;
    let ours = std::process::id().to_string();
    match run_as.shell(script, &[data_dir, Path::new(&ours)]) {
        Some(_) => Ok(()),
        None => {
            let error = std::io::Error::other("it is stale; if no server uses this folder, remove it");
            Err(EmbeddedError::io("take over", &path(data_dir))(error))
        }
    }
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("postmaster.pid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_postmaster_writes_is_read() {
        let text = "4242\n/data\n1750000000\n5433\n/tmp\n127.0.0.1\n  1234 5\nready   \n";
        let file = PidFile { pid: 4242, port: 5433, status: "ready".into() };
        assert_eq!(PidFile::parse(text), Some(file));
    }

    #[test]
    fn a_file_that_is_still_being_written_has_no_port_and_no_status() {
        let file = PidFile { pid: 7, port: 0, status: String::new() };
        assert_eq!(PidFile::parse("-7\n/data\n"), Some(file));
        assert_eq!(PidFile::parse(""), None);
    }
}
