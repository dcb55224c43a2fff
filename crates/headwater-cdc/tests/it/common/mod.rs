//! What the tests of the WAL share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use headwater_cdc::{CdcOptions, Direct, Feed, LiveState, Plugin, Reach};
use headwater_core::{Gaps, RecordedEvent};
use headwater_postgres::PgLog;
use headwater_testing::TestDatabase;
use tokio::task::JoinHandle;

/// A stream into a feed that nobody else takes from.
pub(crate) struct Following {
    pub(crate) feed: Arc<Feed>,
    pub(crate) plugin: Plugin,
    task: JoinHandle<()>,
}

impl Following {
    /// Returns when it streams.
    pub(crate) async fn start(db: &TestDatabase, log: &PgLog, options: CdcOptions) -> Self {
        let following = Following::begin(db, log, options);
        until(|| async { following.feed.status().state == LiveState::Streaming }).await;
        // Asked for at the beginning of each stream.
        assert_eq!(following.feed.take(0, &Gaps::new(), Reach::Run, following.feed.history()), None);
        following
    }

    pub(crate) fn begin(db: &TestDatabase, log: &PgLog, options: CdcOptions) -> Self {
        let (plugin, feed) = (options.plugin, Arc::new(Feed::new(&options)));
        let source = Direct::new(db.database.clone(), log.info().clone(), "n1", options, feed.clone());
        Following { feed, plugin, task: tokio::spawn(source.run()) }
    }

    /// Waits until so many events have come.
    pub(crate) async fn received(&self, events: usize) {
        let wait = until(|| async { self.feed.status().received >= events as u64 });
        if tokio::time::timeout(Duration::from_secs(50), wait).await.is_err() {
            panic!("{events} events did not come by {:?}: {:?}", self.plugin, self.feed.status());
        }
    }

    /// The run after a sequence.
    pub(crate) fn take_all(&self, mut after: u64) -> Vec<RecordedEvent> {
        let mut all = Vec::new();
        while let Some(taken) = self.feed.take(after, &Gaps::new(), Reach::Run, self.feed.history()) {
            if taken.events.is_empty() {
                break;
            }
            after += taken.events.len() as u64;
            all.extend(taken.events);
        }
        all
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits until a condition holds, looking again and again.
pub(crate) async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("it did not happen within a minute");
}

/// Whether the server for tests has wal2json: beside its other libraries.
pub(crate) fn has_wal2json() -> bool {
    let bin =
        PathBuf::from(std::env::var("HEADWATER_PG_BIN").expect("HEADWATER_PG_BIN: run the tests with scripts/test"));
    bin.join("../lib/wal2json.so").exists()
}
