//! The server's clock steps forwards and back, and months end under load. libfaketime gives the
//! server its own clock: it adds the offset in a file to the time, in all of the server's processes
//! at once.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, Datelike, Months, TimeDelta, Utc};
use headwater_embedded::ServerBuilder;
use rand::RngExt;
use rand::rngs::StdRng;
use tempfile::TempDir;
use tokio::time::{Instant, sleep_until};

use super::super::arena::Arena;
use super::super::faults::Kind;

/// Seconds before the end of a month to which the clock is set, so that the month ends under load.
const BEFORE_THE_END: i64 = 4;

#[derive(Debug)]
pub(crate) struct Clock {
    library: Option<PathBuf>,
    folder: TempDir,
    /// Seconds ahead of the true time.
    ahead: i64,
}

impl Clock {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("headwater-clock-").tempdir()?;
        // The server may run as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let library = library();
        if library.is_none() {
            eprintln!("libfaketime was not found: the clock stays as it is (Debian: apt-get install libfaketime)");
        }
        let mut clock = Clock { library, folder, ahead: 0 };
        clock.set(0)?;
        Ok(clock)
    }

    /// Makes the server use this clock.
    pub(crate) fn install(&self, builder: ServerBuilder) -> ServerBuilder {
        let Some(library) = &self.library else { return builder };
        builder
            .env("LD_PRELOAD", library.to_string_lossy())
            .env("FAKETIME_TIMESTAMP_FILE", self.file().to_string_lossy())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ahead")
    }

    fn set(&mut self, ahead: i64) -> anyhow::Result<()> {
        // Replace the file as a whole: the server can read it at any moment.
        let unfinished = self.folder.path().join("ahead.new");
        fs::write(&unfinished, format!("{ahead:+}\n")).context("failed to write the clock's file")?;
        fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o644))?;
        fs::rename(&unfinished, self.file())?;
        self.ahead = ahead;
        Ok(())
    }

    /// Steps the clock until `end`. Returns the number of steps.
    pub(crate) async fn run(&mut self, arena: &Arena, mut dice: StdRng, end: Instant) -> anyhow::Result<u64> {
        let mut steps = 0;
        if self.library.is_none() {
            return Ok(steps);
        }
        loop {
            let (kind, ahead) = match dice.random_range(0..10) {
                0..4 => {
                    let now = Utc::now() + TimeDelta::seconds(self.ahead);
                    let step = (end_of_month(now) - now).num_seconds() - BEFORE_THE_END;
                    (Kind::MonthEnds, self.ahead + step.max(0))
                }
                4..7 => (Kind::ClockForward, self.ahead + dice.random_range(1..90)),
                _ => (Kind::ClockBack, self.ahead - dice.random_range(1..40)),
            };
            let next = Instant::now() + Duration::from_secs_f64(dice.random_range(2.0..7.0));
            if next >= end {
                return Ok(steps);
            }
            arena.faults.begin(kind, format!("{ahead} s ahead"), Duration::from_secs(40));
            self.set(ahead)?;
            steps += 1;
            sleep_until(next).await;
        }
    }
}

fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    folders.map(|folder| folder.join("faketime/libfaketime.so.1")).find(|library| library.is_file())
}

fn end_of_month(now: DateTime<Utc>) -> DateTime<Utc> {
    let first = now.date_naive().with_day(1).unwrap_or_default();
    let next = first.checked_add_months(Months::new(1)).unwrap_or_default();
    next.and_time(Default::default()).and_utc()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_ends_when_the_next_begins() {
        let end = |text: &str| end_of_month(text.parse().unwrap()).to_rfc3339();
        assert_eq!(end("2026-11-16T12:00:00Z"), "2026-12-01T00:00:00+00:00");
        assert_eq!(end("2026-12-31T23:59:59Z"), "2027-01-01T00:00:00+00:00");
    }
}
