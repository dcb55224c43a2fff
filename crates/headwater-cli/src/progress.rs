//! Shows progress on stderr: a bar in a terminal, otherwise a line from time to time.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The time between two lines if there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    said: Instant,
}

impl Progress {
    /// With a total, shows a bar; without a total, a count.
    pub(crate) fn new(total: Option<u64>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let (bar, template) = match total {
                Some(total) => (ProgressBar::new(total), "{wide_bar} {pos}/{len}  {msg}"),
                None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
            };
            bar.with_style(ProgressStyle::with_template(template).expect("the template is a valid one"))
        });
        Progress { bar, said: Instant::now() }
    }

    pub(crate) fn tell(&mut self, done: u64, text: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_position(done);
                bar.set_message(text.to_owned());
                bar.tick();
            }
            None if self.said.elapsed() >= LINE_EVERY => {
                self.said = Instant::now();
                eprintln!("{text}");
            }
            None => {}
        }
    }

    /// Prints a line that stays on the screen.
    pub(crate) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }
}

/// Clears the bar, no matter how the work ends.
impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
