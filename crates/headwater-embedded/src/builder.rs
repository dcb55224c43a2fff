use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use crate::binaries::Binaries;
use crate::folder::Folder;
use crate::instance::Instance;
use crate::postmaster::Postmaster;
use crate::standby::Upstream;
use crate::watchdog::Watchdog;
use crate::{EmbeddedError, Server, password, pidfile, port, settings};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Another program may take a free port before the server does. That many times in a row is no
/// accident.
const PORT_ATTEMPTS: usize = 5;

/// What kind of server to start, and where.
///
/// Every server has the superuser `headwater` with a generated password, a database `headwater`
/// beside `postgres`, UTF8 with the C locale, the time zone UTC, the search path `public`,
/// `wal_level = logical`, 200 connections, 50 WAL senders, 50 replication slots and 16 prepared
/// transactions. [`ServerBuilder::setting`] changes those of them that are settings.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct ServerBuilder {
    folder: Option<PathBuf>,
    fsync: bool,
    port: Option<u16>,
    settings: Vec<(String, String)>,
    environment: Vec<(String, String)>,
    bin_dir: Option<PathBuf>,
    upstream: Option<Upstream>,
    start_timeout: Duration,
    stop_timeout: Duration,
}

impl ServerBuilder {
    /// A server that keeps its data in `folder` (created if needed, initialised once), where the
    /// data is safe: fsync, synchronous commit, full page writes and data checksums are on.
    ///
    /// The server uses `pgdata` and `headwater.lock` in the folder and leaves everything else
    /// alone.
    pub fn durable(folder: impl Into<PathBuf>) -> Self {
        Self { folder: Some(folder.into()), fsync: true, ..Self::disposable() }
    }

    /// A server in a temporary folder that is removed at the end. fsync is off: a crash of the
    /// machine loses the data, a crash of the server does not.
    pub fn disposable() -> Self {
        Self {
            folder: None,
            fsync: false,
            port: None,
            settings: Vec::new(),
            environment: Vec::new(),
            bin_dir: None,
            upstream: None,
            start_timeout: START_TIMEOUT,
            stop_timeout: STOP_TIMEOUT,
        }
    }

    /// A streaming standby of `primary`, in a temporary folder. It is a base backup that follows
    /// the primary's WAL, and [`Server::promote`] turns it into a primary. Give it the settings of
    /// its primary. It needs `pg_basebackup` in the folder of the primary's binaries.
    ///
    /// Its `application_name` at the primary is `headwater_standby`, for
    /// `synchronous_standby_names`.
    pub fn standby_of(primary: &Server) -> Self {
        let upstream = Some(Upstream::of(primary));
        Self { bin_dir: Some(primary.bin_dir().to_path_buf()), upstream, ..Self::disposable() }
    }

    /// Lets a standby stream from another port of this machine than its primary's, such as a proxy
    /// in between. The base backup still comes from the primary itself.
    pub fn streaming_from(mut self, port: u16) -> Self {
        if let Some(upstream) = &mut self.upstream {
            upstream.stream_port = port;
        }
        self
    }

    /// Switches fsync (and full page writes) on in a disposable server, for benchmarks. A durable
    /// server always has it on.
    pub fn fsync(mut self, on: bool) -> Self {
        self.fsync = on;
        self
    }

    /// Sets the port to listen on. The default is a free port.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Adds a setting as in `postgresql.conf`. If a setting is given twice, the later one counts.
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Sets an environment variable of the server process.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the folder of `initdb`, `pg_ctl` and `postgres`. The default is `HEADWATER_PG_BIN`,
    /// then `pg_config --bindir`, `PATH`, and the newest of `/usr/lib/postgresql/*/bin`.
    pub fn bin_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.bin_dir = Some(dir.into());
        self
    }

    /// Sets how long a start may take, recovery included. The default is 60 seconds.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// Sets how long [`Server::stop`] and [`Server::restart`] wait for the server to end. The
    /// default is 60 seconds.
    pub fn stop_timeout(mut self, timeout: Duration) -> Self {
        self.stop_timeout = timeout;
        self
    }

    /// Starts the server and returns when it takes connections.
    pub fn start(self) -> Result<Server, EmbeddedError> {
        let mut settings = settings::resolve(self.folder.is_some(), self.fsync, self.settings)?;
        let binaries = Binaries::find(self.bin_dir.as_deref())?;
        // From some minor versions on, only the named output plugins can be used. In older
        // versions, naming them is an error.
        if self.folder.is_none() && binaries.know_setting(settings::OUTPUT_PLUGINS.0) {
            settings.insert(0, (settings::OUTPUT_PLUGINS.0.into(), settings::OUTPUT_PLUGINS.1.into()));
        }
        let folder = match &self.folder {
            Some(path) => Folder::durable(path)?,
            None => Folder::disposable()?,
        };
        if let Some(upstream) = &self.upstream {
            settings.push(upstream.setting(&folder.data_dir));
        }
        folder.run_as.check_reach(&binaries.program("postgres"))?;
        // Held until the server runs, and with it PostgreSQL's own lock.
        let _lock = folder.lock()?;
        pidfile::claim(&folder.data_dir, &folder.run_as, self.stop_timeout)?;
        let socket_home = folder.socket_home()?;
        let socket_path = socket_home.as_ref().map(TempDir::path);
        let temporary: Vec<_> = folder.temporary().into_iter().chain(socket_path).collect();
        let watchdog = Watchdog::start(&folder.run_as, &binaries, &folder.data_dir, &temporary)?;
        match &self.upstream {
            Some(upstream) => upstream.copy_into(&folder, &binaries)?,
            None => folder.prepare(&binaries)?,
        }
        let password = password::ensure(&folder.data_dir, &folder.run_as)?;
        let mut instance = Instance {
            folder,
            socket_home,
            watchdog,
            binaries,
            password,
            port: 0,
            settings,
            environment: self.environment,
            start_timeout: self.start_timeout,
            stop_timeout: self.stop_timeout,
        };
        let postmaster = match self.port {
            Some(port) => {
                instance.port = port;
                instance.launch()?
            }
            None => launch_on_a_free_port(&mut instance)?,
        };
        instance.equip()?;
        Ok(Server::new(postmaster, instance))
    }
}

fn launch_on_a_free_port(instance: &mut Instance) -> Result<Postmaster, EmbeddedError> {
    let mut attempt = 1;
    loop {
        instance.port = port::free().map_err(EmbeddedError::io("find a free port on", "127.0.0.1".as_ref()))?;
        match instance.launch() {
            Err(EmbeddedError::PortTaken { .. }) if attempt < PORT_ATTEMPTS => attempt += 1,
            result => return result,
        }
    }
}
