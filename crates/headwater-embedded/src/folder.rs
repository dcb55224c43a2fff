//! The server's folder. `pgdata` is the data folder, which is created whole or not at all. The
//! process that starts a server there holds `headwater.lock`, so that two starts do not collide.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::binaries::Binaries;
use crate::run_as::RunAs;
use crate::{EmbeddedError, HEADWATER};

/// `sockaddr_un` holds 107 bytes and a zero. The longest file name in it is `/.s.PGSQL.65535`.
const SOCKET_DIR_MAX: usize = 107 - "/.s.PGSQL.65535".len();

#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) data_dir: PathBuf,
    pub(crate) run_as: RunAs,
    temporary: Option<TempDir>,
}

impl Folder {
    pub(crate) fn durable(path: &Path) -> Result<Self, EmbeddedError> {
        let made = !path.exists();
        if made {
            fs::create_dir_all(path).map_err(EmbeddedError::io("create", path))?;
        }
        let path = path.canonicalize().map_err(EmbeddedError::io("open", path))?;
        if path.join("PG_VERSION").exists() {
            return Err(EmbeddedError::ForeignCluster { folder: path });
        }
        let data_dir = path.join("pgdata");
        let run_as = RunAs::for_data_dir(&data_dir)?;
        if made {
            run_as.give(&path)?;
        }
        run_as.check_reach(&path)?;
        Ok(Self { path, data_dir, run_as, temporary: None })
    }

    pub(crate) fn disposable() -> Result<Self, EmbeddedError> {
        let temporary = temp_dir()?;
        let path = temporary.path().to_path_buf();
        let data_dir = path.join("pgdata");
        let run_as = RunAs::for_data_dir(&data_dir)?;
        run_as.give(&path)?;
        run_as.check_reach(&path)?;
        Ok(Self { path, data_dir, run_as, temporary: Some(temporary) })
    }

    /// Returns the folder to remove at the end.
    pub(crate) fn temporary(&self) -> Option<&Path> {
        self.temporary.as_ref().map(TempDir::path)
    }

    /// Waits until other starts in this folder are finished. The lock is released when the file is
    /// dropped.
    pub(crate) fn lock(&self) -> Result<File, EmbeddedError> {
        let path = self.path.join("headwater.lock");
        let file = File::create(&path).map_err(EmbeddedError::io("create", &path))?;
        file.lock().map_err(EmbeddedError::io("lock", &path))?;
        Ok(file)
    }

    /// Creates the data folder if there is none. Otherwise checks that these binaries can use it.
    /// The caller holds the lock.
    pub(crate) fn prepare(&self, binaries: &Binaries) -> Result<(), EmbeddedError> {
        let path = self.data_dir.join("PG_VERSION");
        if !self.data_dir.exists() {
            return self.initdb(binaries);
        }
        let found = fs::read_to_string(&path).map_err(EmbeddedError::io("read", &path))?;
        if found.trim() == binaries.version.major.to_string() {
            return Ok(());
        }
        Err(EmbeddedError::VersionMismatch {
            data_dir: self.data_dir.clone(),
            found: found.trim().into(),
            server: binaries.version,
            bin_dir: binaries.dir.clone(),
        })
    }

    /// Creates it under another name first: a data folder that an interrupted initdb left half done
    /// looks much like a complete one.
    fn initdb(&self, binaries: &Binaries) -> Result<(), EmbeddedError> {
        let mut command = self.run_as.command(binaries.program("initdb"));
        command.args(["-U", HEADWATER, "--auth-local=trust", "--auth-host=scram-sha-256"]);
        command.args(["--encoding=UTF8", "--locale=C"]);
        command.arg(if self.temporary.is_some() { "--no-sync" } else { "--data-checksums" });
        self.make(command, "")
    }

    /// Runs a program that creates the data folder, and leaves an empty file of the name `mark` in
    /// it (if that is not empty). The program's folder has another name until everything is done.
    pub(crate) fn make(&self, mut command: Command, mark: &str) -> Result<(), EmbeddedError> {
        let unfinished = self.path.join("pgdata.new");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(EmbeddedError::io("remove", &unfinished))?;
        }
        // PostgreSQL refuses a data folder that other users can read.
        fs::DirBuilder::new().mode(0o700).create(&unfinished).map_err(EmbeddedError::io("create", &unfinished))?;
        self.run_as.give(&unfinished)?;
        let program = PathBuf::from(command.get_program());
        command.arg("-D").arg(&unfinished);
        let output = command.output().map_err(EmbeddedError::io("run", &program))?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            return Err(EmbeddedError::Program {
                program,
                status: output.status,
                output: String::from_utf8_lossy(&said).trim().into(),
            });
        }
        if !mark.is_empty() {
            let mark = unfinished.join(mark);
            File::create(&mark).map_err(EmbeddedError::io("create", &mark))?;
            self.run_as.give(&mark)?;
        }
        fs::rename(&unfinished, &self.data_dir).map_err(EmbeddedError::io("rename", &unfinished))?;
        File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(EmbeddedError::io("sync", &self.path))
    }

    /// Returns where the socket goes: the data folder, which is private already, unless its path is
    /// too long for a socket.
    pub(crate) fn socket_home(&self) -> Result<Option<TempDir>, EmbeddedError> {
        if self.data_dir.as_os_str().as_bytes().len() <= SOCKET_DIR_MAX {
            return Ok(None);
        }
        let folder = tempfile::Builder::new()
            .prefix("headwater-")
            .tempdir_in("/tmp")
            .map_err(EmbeddedError::io("create a folder for the socket in", Path::new("/tmp")))?;
        self.run_as.give(folder.path())?;
        Ok(Some(folder))
    }
}

fn temp_dir() -> Result<TempDir, EmbeddedError> {
    let base = std::env::temp_dir();
    let base = base.canonicalize().map_err(EmbeddedError::io("open", &base))?;
    tempfile::Builder::new()
        .prefix("headwater-")
        .tempdir_in(&base)
        .map_err(EmbeddedError::io("create a folder in", &base))
}
