//! Permanent gaps on their way into the database.
//!
//! The record of permanent gaps is for people and for audits: no delivery depends on it. So whoever proves that a gap is permanent hands it over here and goes
//! on. One task per node writes the gaps, a page at a time. A node that shuts down writes those that are left, for a while. A gap that could not be written is
//! missing in the record and nowhere else.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use headwater_core::{Gap, GapState, Gaps, History, SubscriberStore};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Gaps that one statement writes. A small number, so that the connection is soon free for others.
const PAGE: usize = 250;
/// The most gaps that wait in memory (4 MB). Beyond, whoever proves more of them waits.
const MAX_WAITING: usize = 250_000;
/// Pause after a failed write.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a node that shuts down goes on writing.
const LAST: Duration = Duration::from_secs(2);

/// Gaps that wait to be written.
pub(super) struct GapRecords {
    waiting: Mutex<Waiting>,
    /// How many there are.
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Waiting {
    /// The history in which they were proved.
    history: Option<History>,
    gaps: Gaps,
}

impl Default for GapRecords {
    fn default() -> Self {
        GapRecords { waiting: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl GapRecords {
    /// Hands over gaps that were proved permanent in a history. Waits only if too many wait already.
    pub(super) async fn add(&self, history: Option<History>, gaps: Vec<(u64, u64)>) {
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
        // The sender is there as long as this is.
        _ = self.count.subscribe().wait_for(|count| *count <= MAX_WAITING).await;
    }

    /// Writes gaps until it is dropped.
    pub(super) async fn write(&self, store: &dyn SubscriberStore, namespace: &str) {
        let mut count = self.count.subscribe();
        while count.wait_for(|count| *count > 0).await.is_ok() {
            if !self.write_page(store, namespace).await {
                sleep(PAUSE).await;
            }
        }
    }

    /// Writes what is left, for a while at most.
    pub(super) async fn write_rest(&self, store: &dyn SubscriberStore, namespace: &str) {
        let written =
            timeout(LAST, async { while *self.count.borrow() > 0 && self.write_page(store, namespace).await {} });
        _ = written.await;
        let left = *self.count.borrow();
        if left > 0 {
            tracing::warn!(namespace, "{left} permanent gaps were not recorded: audits will not count them");
        }
    }

    /// Writes the first gaps. They are taken out afterwards, so that nothing is forgotten if this is dropped. Returns whether it succeeded.
    async fn write_page(&self, store: &dyn SubscriberStore, namespace: &str) -> bool {
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

    /// Whoever changes them says how many there are before it lets go of them.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no holder of this lock panics")
    }
}
