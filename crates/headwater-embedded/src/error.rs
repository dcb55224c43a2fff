use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::{Shutdown, Version};

/// Why a server could not be started, restarted or stopped. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// No folder holds `initdb`, `pg_ctl` and `postgres`.
    #[error(
        "PostgreSQL server binaries were not found: install them (Debian: apt-get install postgresql-15) \
         or set HEADWATER_PG_BIN; searched: {}", .searched.join("; ")
    )]
    BinariesNotFound {
        /// The places that were searched, in order.
        searched: Vec<String>,
    },

    /// A program of PostgreSQL or of the system failed.
    #[error("failed to run {} ({status}): {output}", .program.display())]
    Program {
        /// The program that was run.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        output: String,
    },

    /// The operating system refused something.
    #[error("failed to {action} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file, folder or program.
        path: PathBuf,
        /// What the system reported.
        source: io::Error,
    },

    /// Root started it on a machine without a user to run the server as.
    #[error(
        "PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody` to run it as: \
         create one (useradd --system postgres) or start as another user than root"
    )]
    NoUnprivilegedUser,

    /// The user that the server runs as cannot reach a file or folder.
    #[error(
        "failed to reach {} as the user `{user}`, which the server runs as: {} is closed to that user; \
         use another folder, or open this one (chmod o+x {})",
        .path.display(), .blocked.display(), .blocked.display()
    )]
    Unreachable {
        /// The user the server would run as.
        user: String,
        /// The path that it needs.
        path: PathBuf,
        /// The first folder on the way that is closed to it.
        blocked: PathBuf,
    },

    /// The data folder belongs to somebody else.
    #[error(
        "the data folder {} belongs to uid {owner}, and the server would run as uid {uid}: \
         start as its owner, or hand it over (chown -R {uid} {})",
        .data_dir.display(), .data_dir.display()
    )]
    WrongOwner {
        /// The data folder.
        data_dir: PathBuf,
        /// The uid of the folder's owner.
        owner: u32,
        /// The uid that would run the server.
        uid: u32,
    },

    /// The folder is itself a PostgreSQL data folder that another program created.
    #[error(
        "{} is a PostgreSQL data folder that Headwater did not make: give a folder for Headwater's own \
         server, or run that server yourself and connect to it", .folder.display()
    )]
    ForeignCluster {
        /// The folder that was given.
        folder: PathBuf,
    },

    /// A live server uses the data folder.
    #[error(
        "a server runs on {} already (pid {pid}, port {port}): connect to it, or stop it first",
        .data_dir.display()
    )]
    AlreadyRunning {
        /// The server's process.
        pid: u32,
        /// The data folder.
        data_dir: PathBuf,
        /// The port on which it listens.
        port: u16,
    },

    /// Another major version created the data folder.
    #[error(
        "the data folder {} was made by PostgreSQL {found}, the binaries in {} are PostgreSQL {server}: \
         set HEADWATER_PG_BIN to the binaries of PostgreSQL {found}, or move the data with pg_dump or pg_upgrade",
        .data_dir.display(), .bin_dir.display()
    )]
    VersionMismatch {
        /// The data folder.
        data_dir: PathBuf,
        /// The major version that created it.
        found: String,
        /// The version of the binaries.
        server: Version,
        /// The folder of the binaries.
        bin_dir: PathBuf,
    },

    /// An option of the builder that is not valid.
    #[error("the setting `{name}` can not be `{value}`: {reason}")]
    InvalidSetting {
        /// The setting's name.
        name: String,
        /// Its value.
        value: String,
        /// What it may be, or what to use instead.
        reason: &'static str,
    },

    /// Another program listens on the port.
    #[error("port {port} is taken by another program: choose another one, or none to get a free one")]
    PortTaken {
        /// The port.
        port: u16,
    },

    /// The server ended before it took connections.
    #[error("the server ended before it took connections ({status}); its log ends with:\n{log}")]
    DiedEarly {
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },

    /// The server did not take connections in time.
    #[error(
        "the server took no connections within {after:?} (recovery may need longer: raise start_timeout); \
         its log ends with:\n{log}"
    )]
    StartTimeout {
        /// How long it had.
        after: Duration,
        /// The end of its log.
        log: String,
    },

    /// The server did not stop in time. It still runs.
    #[error(
        "the server did not stop within {after:?} after a {mode} shutdown: close its connections, \
         or use a harder mode"
    )]
    StopTimeout {
        /// The requested mode.
        mode: Shutdown,
        /// How long it had.
        after: Duration,
    },

    /// The server runs, but its password could not be set, or the database `headwater` could not be
    /// created.
    #[error("failed to set the password of `headwater` and to create its database: {source}")]
    Equip {
        /// What the server or the connection reported.
        source: io::Error,
    },
}

impl EmbeddedError {
    /// Converts an I/O error to ours: `.map_err(EmbeddedError::io("create", &path))`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}
