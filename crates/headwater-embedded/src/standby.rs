//! Standbys: a base backup of a running server that follows its WAL.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::binaries::Binaries;
use crate::folder::Folder;
use crate::instance::Instance;
use crate::{EmbeddedError, HEADWATER, Server, Shutdown, password};

/// The application_name of a standby at its primary.
const NAME: &str = "headwater_standby";
const POLL: Duration = Duration::from_millis(10);
/// Backends notice within this time that their postmaster is gone, if they ever do.
const NOTICE: Duration = Duration::from_secs(2);

/// What a standby is created from.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    /// Where the base backup comes from: the socket, which asks for no password.
    socket_dir: PathBuf,
    port: u16,
    /// Where the WAL comes from.
    pub(crate) stream_port: u16,
}

impl Upstream {
    pub(crate) fn of(primary: &Server) -> Self {
        Self { socket_dir: primary.socket_dir().into(), port: primary.port(), stream_port: primary.port() }
    }

    /// The password is in a file: settings are arguments of the server, and everybody on the
    /// machine can see those.
    pub(crate) fn setting(&self, data_dir: &Path) -> (String, String) {
        let file = quoted(&password::pass_file(data_dir));
        let conninfo = conninfo("127.0.0.1", self.stream_port);
        ("primary_conninfo".into(), format!("{conninfo} passfile={file} application_name={NAME}"))
    }

    /// Creates the data folder. The backup includes the WAL that is written in the meantime, so the
    /// primary need not keep it.
    pub(crate) fn copy_into(&self, folder: &Folder, binaries: &Binaries) -> Result<(), EmbeddedError> {
        let mut command = folder.run_as.command(binaries.program("pg_basebackup"));
        let conninfo = conninfo(&quoted(&self.socket_dir), self.port);
        command.args(["-d", &conninfo, "-X", "stream", "-c", "fast", "--no-sync"]);
        folder.make(command, "standby.signal")
    }
}

fn conninfo(host: &str, port: u16) -> String {
    format!("host={host} port={port} user={HEADWATER} sslmode=disable")
}

/// Quotes a path for a connection string, whatever it holds.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\\', "\\\\").replace('\'', "\\'"))
}

impl Instance {
    pub(crate) fn promote(&self) -> Result<(), EmbeddedError> {
        let program = self.binaries.program("pg_ctl");
        let mut command = self.folder.run_as.command(&program);
        command.args(["promote", "-s", "-w", "-t", &self.start_timeout.as_secs().max(1).to_string(), "-D"]);
        let output = command.arg(&self.folder.data_dir).output().map_err(EmbeddedError::io("run", &program))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        let output_text = String::from_utf8_lossy(&said).trim().into();
        Err(EmbeddedError::Program { program, status: output.status, output: output_text })
    }

    /// Waits until no process works in the data folder. Backends end when they notice that the
    /// postmaster is gone. A backend that waits for what another one held never ends, so those that
    /// stay are killed. This runs as the server's user, the only one who may look, and who can harm
    /// no other user's process.
    pub(crate) fn end_backends(&self) -> Result<(), EmbeddedError> {
        let find = r#"found=1; for p in /proc/[0-9]*; do [ "$p/cwd" -ef "$1" ] && found=0; done; exit $found"#;
        let kill = r#"found=1; for p in /proc/[0-9]*; do [ "$p/cwd" -ef "$1" ] && found=0 && kill -9 "${p#/proc/}"; done; exit $found"#;
        let begin = Instant::now();
        let data_dir: &PathBuf = &self.folder.data_dir;
        while self.folder.run_as.shell(if begin.elapsed() < NOTICE { find } else { kill }, &[data_dir]).is_some() {
            if begin.elapsed() > self.stop_timeout {
                return Err(EmbeddedError::StopTimeout { mode: Shutdown::Immediate, after: self.stop_timeout });
            }
            sleep(POLL);
        }
        Ok(())
    }
}
