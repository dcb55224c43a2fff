use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// At a start, a log larger than this becomes `server.log.1`, so that a durable server does not
/// fill the disk.
const KEEP: u64 = 16 << 20;
/// At most this much is read back.
const READ: u64 = 256 << 10;

/// The server's log. The server's user opens it, not we: root must not write where another user may
/// put a link.
#[derive(Clone, Debug)]
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn in_dir(data_dir: &Path) -> Self {
        Self(data_dir.join("server.log"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn len(&self) -> u64 {
        fs::metadata(&self.0).map_or(0, |meta| meta.len())
    }

    /// Renames a large log. A failure is no reason not to start.
    pub(crate) fn turn_over(&self) {
        if self.len() > KEEP {
            let _ = fs::rename(&self.0, self.0.with_extension("log.1"));
        }
    }

    /// Returns what was logged from `offset` on, or only its end if that is long.
    pub(crate) fn since(&self, offset: u64) -> String {
        let start = offset.max(self.len().saturating_sub(READ));
        let mut bytes = Vec::new();
        if let Ok(mut file) = File::open(&self.0) {
            let _ = file.seek(SeekFrom::Start(start)).and_then(|_| file.take(READ).read_to_end(&mut bytes));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn tail(&self, lines: usize) -> String {
        last_lines(&self.since(0), lines)
    }
}

pub(crate) fn last_lines(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
