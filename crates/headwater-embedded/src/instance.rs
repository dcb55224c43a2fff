//! A server that may or may not be running: its folder, its port, its settings, and how to launch
//! it.

use std::ffi::OsString;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::binaries::Binaries;
use crate::folder::Folder;
use crate::log::{Log, last_lines};
use crate::pidfile::{self, PidFile};
use crate::postmaster::Postmaster;
use crate::watchdog::Watchdog;
use crate::{EmbeddedError, HEADWATER, wire};

const POLL: Duration = Duration::from_millis(20);
/// How many lines of the log an error shows.
const LOG_LINES: usize = 20;
const EXISTS: &str = include_str!("sql/database_exists.sql");
const CREATE: &str = include_str!("sql/create_database.sql");
const IS_STANDBY: &str = include_str!("sql/is_standby.sql");
const SET_PASSWORD: &str = include_str!("sql/set_password.sql");

/// Fields are dropped in order: the folders go while the watchdog still protects us.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) folder: Folder,
    pub(crate) socket_home: Option<TempDir>,
    pub(crate) watchdog: Watchdog,
    pub(crate) binaries: Binaries,
    pub(crate) password: String,
    pub(crate) port: u16,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) start_timeout: Duration,
    pub(crate) stop_timeout: Duration,
}

impl Instance {
    pub(crate) fn log(&self) -> Log {
        Log::in_dir(&self.folder.data_dir)
    }

    pub(crate) fn socket_dir(&self) -> &Path {
        self.socket_home.as_ref().map_or(&self.folder.data_dir, TempDir::path)
    }

    /// Starts the server and waits until it takes connections.
    ///
    /// After the postmaster was killed, its backends need a moment to notice and leave. PostgreSQL
    /// refuses to start while they hold its shared memory. So this tries again while it refuses for
    /// that reason.
    pub(crate) fn launch(&self) -> Result<Postmaster, EmbeddedError> {
        let deadline = Instant::now() + self.start_timeout;
        loop {
            match self.launch_once(deadline) {
                Err(EmbeddedError::DiedEarly { log, .. })
                    if log.contains("pre-existing shared memory block") && Instant::now() < deadline =>
                {
                    sleep(POLL);
                }
                result => return result,
            }
        }
    }

    fn launch_once(&self, deadline: Instant) -> Result<Postmaster, EmbeddedError> {
        let log = self.log();
        log.turn_over();
        let offset = log.len();
        let mut command = self.folder.run_as.command("/bin/sh");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // exec: the process that we start is the postmaster.
        command.args(["-c", r#"umask 077; log=$1; shift; exec "$@" >>"$log" 2>&1"#, "sh"]);
        command.arg(log.path()).arg(self.binaries.program("postgres")).args(self.arguments());
        let mut postmaster = Postmaster::spawn(command, self.folder.temporary().is_some())?;
        self.watchdog.watch(postmaster.pid());
        loop {
            if let Some(status) = postmaster.ended() {
                let text = log.since(offset);
                return Err(self
                    .why_it_died(&text)
                    .unwrap_or_else(|| EmbeddedError::DiedEarly { status, log: last_lines(&text, LOG_LINES) }));
            }
            let file = PidFile::read(&self.folder.data_dir);
            if file.is_some_and(|file| file.pid == postmaster.pid() && file.takes_connections()) {
                return Ok(postmaster);
            }
            if Instant::now() > deadline {
                let log = log.tail(LOG_LINES);
                return Err(EmbeddedError::StartTimeout { after: self.start_timeout, log });
            }
            sleep(POLL);
        }
    }

    fn why_it_died(&self, log: &str) -> Option<EmbeddedError> {
        if log.contains("could not bind IPv4 address") {
            return Some(EmbeddedError::PortTaken { port: self.port });
        }
        // Somebody started a server on this folder by hand, between our check and our start.
        let file = PidFile::read(&self.folder.data_dir)?;
        let locked = log.contains("lock file \"postmaster.pid\" already exists");
        locked.then(|| pidfile::already_running(&file, &self.folder.data_dir))
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec!["-D".into(), self.folder.data_dir.clone().into_os_string()];
        let mut socket = OsString::from("unix_socket_directories=");
        socket.push(quoted(self.socket_dir()));
        let port = format!("port={}", self.port).into();
        // The socket trusts everybody who can reach it: the server's user, and root.
        let closed = "unix_socket_permissions=0700".into();
        let settings = self.settings.iter().map(|(name, value)| format!("{name}={value}").into());
        for setting in settings.chain([port, socket, closed]) {
            arguments.push("-c".into());
            arguments.push(setting);
        }
        arguments
    }

    /// Sets the password and creates the database. It does so at every start, because the first one
    /// may have been cut short. A standby gets both from its primary.
    pub(crate) fn equip(&self) -> Result<(), EmbeddedError> {
        let socket = self.socket_dir().join(format!(".s.PGSQL.{}", self.port));
        // A start does not wait for synchronous standbys, which may not be there yet.
        let settings = [("synchronous_commit", "local")];
        let run = |sql: &str| wire::query(&socket, HEADWATER, "postgres", &settings, sql);
        let equip = || {
            if !run(IS_STANDBY)?.is_empty() {
                return Ok(());
            }
            run(&SET_PASSWORD.replace("{password}", &self.password))?;
            if run(EXISTS)?.is_empty() { run(CREATE).map(drop) } else { Ok(()) }
        };
        equip().map_err(|source| EmbeddedError::Equip { source })
    }
}

/// The setting is a list: a path with a comma or a blank in it needs quotes. A path with a quote in
/// it is too rare to support.
fn quoted(path: &Path) -> OsString {
    let mut text = OsString::from("\"");
    text.push(path);
    text.push("\"");
    text
}
