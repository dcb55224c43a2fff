//! Wake-ups after the commit, off the write path.
//!
//! One task a log. Writers poke it after their commit and go on; it sends one NOTIFY for all pokes since the last, the
//! first at once and then at most one every [`PAUSE`]. A NOTIFY that fails is dropped: a wake-up is a hint, and readers
//! poll behind it. When the log is closed, the last poke is still sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::PgPool;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;

use crate::sql;

/// Under load, wake-ups cost the server a commit each; two milliseconds bound that without being felt.
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Notifier {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    changed: Notify,
    poked: AtomicBool,
    closing: AtomicBool,
}

impl Notifier {
    pub(crate) fn start(pool: PgPool, namespace: String) -> Self {
        let shared = Arc::<Shared>::default();
        let task = tokio::spawn(shared.clone().run(pool, namespace));
        Notifier { shared, task: Mutex::new(Some(task)) }
    }

    pub(crate) fn poke(&self) {
        self.shared.poked.store(true, Ordering::Release);
        self.shared.changed.notify_one();
    }

    /// Returns when the last poke has been passed on.
    pub(crate) async fn close(&self) {
        self.shared.close();
        if let Some(task) = self.task.lock().await.take() {
            // It ends by itself; a panic in it has been reported by its runtime.
            _ = task.await;
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Shared {
    fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    async fn run(self: Arc<Self>, pool: PgPool, namespace: String) {
        loop {
            self.changed.notified().await;
            // Read before the poke: whoever poked before closing is heard.
            let closing = self.closing.load(Ordering::Acquire);
            if self.poked.swap(false, Ordering::AcqRel)
                && let Err(error) = sqlx::query(sql::WAKE).bind(&namespace).execute(&pool).await
            {
                tracing::debug!(namespace, %error, "failed to wake readers: they will poll");
            }
            if closing {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
