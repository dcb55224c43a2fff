//! Permanent gaps on their way into the database.
//!
//! The record of permanent gaps is for people and for audits: no delivery depends on it. So a
//! reader that proves a permanent gap hands it over here and goes on. One task per node writes the
//! gaps, a page at a time. A node that shuts down goes on writing the remaining gaps for a short
//! time. A gap that could not be written is missing in the record and nowhere else.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use headwater_core::{Gap, GapState, Gaps, History, ProgressStore};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Gaps that one statement writes. A small number, so that the connection is soon free for others.
const PAGE: usize = 250;
/// The most gaps that wait in memory (4 MB). A reader that proves more of them waits.
const MAX_WAITING: usize = 250_000;
/// Pause after a failed write.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a node that shuts down goes on writing.
const LAST: Duration = Duration::from_secs(2);

/// Gaps that wait to be written.
pub(in crate::node) struct GapRecords {
    waiting: Mutex<Waiting>,
    /// How many gaps wait.
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Waiting {
    /// The history in which the gaps were proved.
    history: Option<History>,
    gaps: Gaps,
}

impl Default for GapRecords {
    fn default() -> Self {
        GapRecords { waiting: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl GapRecords {
    /// Hands over gaps that were proved permanent in a history. Waits only if too many are waiting
    /// already.
    pub(in crate::node) async fn add(&self, history: Option<History>, gaps: Vec<(u64, u64)>) {
        if gaps.is_empty() {
            return;
        }
        {
            let mut waiting = self.waiting();
            if waiting.history != history {
                *waiting = Waiting { history, gaps: Gaps::new() };
            }
            gaps.into_iter().for_each(|(first, last)| waiting.gaps.insert(first, last));
            self.count.send_replace(waiting.gaps.len());
        }
        // The sender lives as long as this value.
        _ = self.count.subscribe().wait_for(|count| *count <= MAX_WAITING).await;
    }

    /// Writes gaps until this future is dropped.
    pub(in crate::node) async fn write(&self, store: &dyn ProgressStore, namespace: &str) {
        let mut count = self.count.subscribe();
        while count.wait_for(|count| *count > 0).await.is_ok() {
            if !self.write_page(store, namespace).await {
                sleep(PAUSE).await;
            }
        }
    }

    /// Writes the remaining gaps, for a limited time.
    pub(in crate::node) async fn write_rest(&self, store: &dyn ProgressStore, namespace: &str) {
        let written =
            timeout(LAST, async { while *self.count.borrow() > 0 && self.write_page(store, namespace).await {} });
        _ = written.await;
        let left = *self.count.borrow();
        if left > 0 {
            tracing::warn!(namespace, "{left} permanent gaps were not recorded: audits will not count them");
        }
    }

    /// Writes the first gaps. It takes them out afterwards, so that none is forgotten if this
    /// future is dropped. Returns whether it succeeded.
    async fn write_page(&self, store: &dyn ProgressStore, namespace: &str) -> bool {
        let (history, page) = {
            let waiting = self.waiting();
            let gap = |(first, last)| Gap { first, last, state: GapState::Permanent };
            (waiting.history, waiting.gaps.iter().take(PAGE).map(gap).collect::<Vec<_>>())
        };
        let written = store.record_gaps(history, &page).await;
        if let Err(error) = &written {
            tracing::warn!(namespace, %error, "failed to record permanent gaps");
        }
        let mut waiting = self.waiting();
        if waiting.history == history {
            page.iter().for_each(|gap| _ = waiting.gaps.remove(gap.first, gap.last));
        }
        self.count.send_replace(waiting.gaps.len());
        written.is_ok()
    }

    /// A caller that changes the gaps updates the count before it releases the lock.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder of this lock panics")
    }
}
