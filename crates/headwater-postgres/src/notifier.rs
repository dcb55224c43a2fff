//! Wake-ups after the commit, off the write path.
//!
//! One task a log. Writers poke it after their commit and go on; it sends one NOTIFY for all pokes since the last, the first at once
//! and then at most one every [`PAUSE`]. A NOTIFY that fails is dropped: a wake-up is a hint, and readers poll behind it.

use std::sync::Arc;
use std::time::Duration;

use sqlx::PgPool;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::sql;

/// Under load, wake-ups cost the server a commit each; two milliseconds bound that without being felt.
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(crate) struct Notifier {
    poke: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Notifier {
    pub(crate) fn start(pool: PgPool, namespace: String) -> Self {
        let poke = Arc::new(Notify::new());
        let poked = poke.clone();
        let task = tokio::spawn(async move {
            loop {
                poked.notified().await;
                if let Err(error) = sqlx::query(sql::WAKE).bind(&namespace).execute(&pool).await {
                    tracing::debug!(namespace, %error, "failed to wake readers: they will poll");
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Notifier { poke, task }
    }

    pub(crate) fn poke(&self) {
        self.poke.notify_one();
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.task.abort();
    }
}
