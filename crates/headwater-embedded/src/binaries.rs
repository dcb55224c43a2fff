//! Finds the server binaries. An explicit choice (the builder's, then `HEADWATER_PG_BIN`) is used
//! or refused, never skipped. Otherwise the usual places are tried one after the other.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::EmbeddedError;

const ENV: &str = "HEADWATER_PG_BIN";
const NEEDED: [&str; 3] = ["initdb", "pg_ctl", "postgres"];
/// Debian keeps one folder per major version here, off PATH.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The version of a PostgreSQL server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 15 in 15.14. A data folder works with one major version only.
    pub major: u32,
    /// 14 in 15.14; 0 in a beta.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// Parses `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)` and `postgres (PostgreSQL)
    /// 18beta1`.
    fn parse(output: &str) -> Option<Self> {
        let (_, rest) = output.split_once("(PostgreSQL) ")?;
        let number = |text: &str| -> Option<u32> {
            let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            text[..digits].parse().ok()
        };
        let major = number(rest)?;
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let minor = after.strip_prefix('.').and_then(number).unwrap_or(0);
        Some(Self { major, minor })
    }
}

/// A folder with the three programs, and their version.
#[derive(Clone, Debug)]
pub(crate) struct Binaries {
    pub(crate) dir: PathBuf,
    pub(crate) version: Version,
}

impl Binaries {
    pub(crate) fn find(chosen: Option<&Path>) -> Result<Self, EmbeddedError> {
        let from_env = env::var_os(ENV).filter(|value| !value.is_empty()).map(PathBuf::from);
        let explicit = match (chosen, &from_env) {
            (Some(dir), _) => Some((dir, "bin_dir")),
            (None, Some(dir)) => Some((dir.as_path(), ENV)),
            (None, None) => None,
        };
        if let Some((dir, origin)) = explicit {
            return if is_complete(dir) {
                Self::in_dir(dir)
            } else {
                Err(EmbeddedError::BinariesNotFound { searched: vec![format!("{origin} = {}", dir.display())] })
            };
        }
        match guesses().into_iter().find(|dir| is_complete(dir)) {
            Some(dir) => Self::in_dir(&dir),
            None => Err(EmbeddedError::BinariesNotFound {
                searched: vec![
                    format!("{ENV} (not set)"),
                    "pg_config --bindir".into(),
                    "PATH".into(),
                    format!("{DEBIAN}/*/bin"),
                ],
            }),
        }
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns whether the server has a setting of this name.
    pub(crate) fn know_setting(&self, name: &str) -> bool {
        let described = Command::new(self.program("postgres")).arg("--describe-config").output();
        described.is_ok_and(|output| {
            let text = String::from_utf8_lossy(&output.stdout);
            text.lines().any(|line| line.split('\t').next() == Some(name))
        })
    }

    fn in_dir(dir: &Path) -> Result<Self, EmbeddedError> {
        // Every program runs in `/`, so a relative path would not work.
        let dir = dir.canonicalize().map_err(EmbeddedError::io("find", dir))?;
        let program = dir.join("postgres");
        let output = Command::new(&program).arg("--version").output().map_err(EmbeddedError::io("run", &program))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match Version::parse(&text) {
            Some(version) => Ok(Self { dir, version }),
            None => Err(EmbeddedError::Program {
                program,
                status: output.status,
                output: format!("{text}{}", String::from_utf8_lossy(&output.stderr)),
            }),
        }
    }
}

fn is_complete(dir: &Path) -> bool {
    NEEDED.iter().all(|name| dir.join(name).is_file())
}

fn guesses() -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = pg_config_bindir().into_iter().collect();
    dirs.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
    dirs.extend(newest_first(Path::new(DEBIAN)));
    dirs
}

fn pg_config_bindir() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let dir = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(dir.trim()))
}

fn newest_first(base: &Path) -> Vec<PathBuf> {
    let major = |name: &OsStr| name.to_str()?.parse::<f32>().ok();
    let mut found: Vec<(f32, PathBuf)> = fs::read_dir(base)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((major(&entry.file_name())?, entry.path().join("bin"))))
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().map(|(_, dir)| dir).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_postgres_prints() {
        let version = |text| Version::parse(text).map(|v| (v.major, v.minor));
        assert_eq!(version("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n"), Some((15, 14)));
        assert_eq!(version("postgres (PostgreSQL) 18.4\n"), Some((18, 4)));
        assert_eq!(version("postgres (PostgreSQL) 19beta2\n"), Some((19, 0)));
        assert_eq!(version("nonsense"), None);
    }

    #[test]
    fn a_server_says_which_settings_it_has() {
        let binaries = Binaries::find(None).expect("there is a server");
        assert!(binaries.know_setting("wal_level"));
        assert!(!binaries.know_setting("no_such_setting"));
    }

    #[test]
    fn the_newest_version_comes_first_by_number() {
        let base = tempfile::tempdir().unwrap();
        for name in ["9.6", "15", "18", "common"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let dirs = newest_first(base.path());
        let expected: Vec<_> = ["18", "15", "9.6"].map(|name| base.path().join(name).join("bin")).into();
        assert_eq!(dirs, expected);
    }
}
