//! Counts how far a bulk append is, and shows it: a bar in a terminal, otherwise a line from time
//! to time.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use headwater::log::Appended;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::grouped;

/// An append that takes less time than this shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);
const REDRAW: Duration = Duration::from_millis(100);
/// The time between two lines if there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Progress {
    begin: Instant,
    read_bytes: AtomicU64,
    new_events: AtomicU64,
    known_events: AtomicU64,
    last_sequence: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            begin: Instant::now(),
            read_bytes: AtomicU64::new(0),
            new_events: AtomicU64::new(0),
            known_events: AtomicU64::new(0),
            last_sequence: AtomicU64::new(0),
        }
    }
}

impl Progress {
    pub(super) fn read(&self, bytes: usize) {
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn stored(&self, appended: &Appended) {
        let counter = if appended.retried { &self.known_events } else { &self.new_events };
        counter.fetch_add(appended.events.len() as u64, Relaxed);
        let highest = appended.events.iter().map(|placed| placed.global_sequence).max();
        self.last_sequence.fetch_max(highest.unwrap_or_default(), Relaxed);
    }

    /// Events that this run stored.
    pub(super) fn new_events(&self) -> u64 {
        self.new_events.load(Relaxed)
    }

    /// Events that were stored before this run.
    pub(super) fn known_events(&self) -> u64 {
        self.known_events.load(Relaxed)
    }

    pub(super) fn last_sequence(&self) -> u64 {
        self.last_sequence.load(Relaxed)
    }

    pub(super) fn seconds(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// Events per second, so far.
    pub(super) fn rate(&self) -> u64 {
        let millis = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        (self.new_events() + self.known_events()).saturating_mul(1_000) / millis.max(1)
    }

    fn text(&self) -> String {
        let events = self.new_events() + self.known_events();
        format!("{} events, {} events/s", grouped(events), grouped(self.rate()))
    }

    /// Shows the progress on stderr for as long as it is polled. `total` is the size of the file,
    /// if the input is a file.
    pub(super) async fn tell(&self, total: Option<u64>) -> Infallible {
        if !std::io::stderr().is_terminal() {
            loop {
                tokio::time::sleep(LINE_EVERY).await;
                let part = total.map(|total| format!(", {}% of the file", self.percent(total))).unwrap_or_default();
                eprintln!("appended {}{part}", self.text());
            }
        }
        tokio::time::sleep(PATIENCE).await;
        let bar = Bar(self.bar(total));
        loop {
            bar.0.set_position(self.read_bytes.load(Relaxed));
            let left = total.map(|total| format!("  {:.0} s left", self.seconds_left(total))).unwrap_or_default();
            bar.0.set_message(self.text() + &left);
            tokio::time::sleep(REDRAW).await;
        }
    }

    fn percent(&self, total: u64) -> u64 {
        (self.read_bytes.load(Relaxed) * 100).checked_div(total).unwrap_or(100)
    }

    /// Estimated from the average speed so far.
    fn seconds_left(&self, total: u64) -> f64 {
        let read = self.read_bytes.load(Relaxed).max(1);
        self.seconds() * total.saturating_sub(read) as f64 / read as f64
    }

    fn bar(&self, total: Option<u64>) -> ProgressBar {
        let (bar, template) = match total {
            Some(total) => (ProgressBar::new(total), "{wide_bar} {bytes}/{total_bytes}  {msg}"),
            None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {msg}"),
        };
        bar.with_style(ProgressStyle::with_template(template).expect("the template is a valid one"))
    }
}

/// Clears the bar when it is dropped.
struct Bar(ProgressBar);

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
