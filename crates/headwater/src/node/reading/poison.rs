//! Tells a notifier about poison, at least once.
//!
//! Who has authority: the database. Every process that finds poison records it there, together with
//! the notifiers to tell. Nodes that have such a notifier look there when their tail finds poison,
//! and at intervals. They tell the notifier, and then record that it was told. A notifier may fail,
//! a node may die in between, or poison may be found while no node runs: the notifier is then told
//! later, perhaps twice.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater_core::{AdminError, Backoff, jittered};
use headwater_postgres::Database;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::poison::CdcPoisonNotifier;

/// The most poison that is remembered as seen. Looking once more does no harm.
const MAX_SEEN: usize = 10_000;
/// The most poison in one call of the notifier.
const BATCH: u32 = 1_000;
/// Pause between looks for poison that others have found.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Pauses between tries: each doubles the one before, up to the longest.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));

/// Where the tail reports the poison that it finds. A look at the log shows the same poison again
/// as long as there are holes around it.
#[derive(Debug)]
pub(in crate::node) struct Poison {
    seen: Mutex<BTreeSet<u64>>,
    found: watch::Sender<u64>,
}

/// Changes when there may be something to tell.
pub(in crate::node) type Found = watch::Receiver<u64>;

impl Poison {
    pub(in crate::node) fn new() -> (Self, Found) {
        let (found, telling) = watch::channel(0);
        (Poison { seen: Mutex::default(), found }, telling)
    }

    pub(in crate::node) fn found(&self, sequences: impl IntoIterator<Item = u64>) {
        let mut seen = self.seen.lock().expect("no holder of this lock panics");
        if seen.len() >= MAX_SEEN {
            seen.clear();
        }
        // Every one of them must be inserted, so this counts them all.
        let new = sequences.into_iter().filter(|sequence| seen.insert(*sequence)).count();
        if new > 0 {
            self.found.send_modify(|found| *found += 1);
        }
    }
}

/// A notifier, and the database that records what it was told.
pub(in crate::node) struct Teller {
    pub(in crate::node) notifier: Arc<dyn CdcPoisonNotifier>,
    pub(in crate::node) database: Database,
    pub(in crate::node) namespace: String,
}

impl Teller {
    /// Registers the notifier before anything is read: it is told about all poison found from then
    /// on.
    pub(in crate::node) async fn add(&self) -> Result<(), AdminError> {
        self.database.add_poison_notifier(&self.namespace, self.notifier.name()).await
    }

    /// Tells the notifier until the node ends. It begins once it is known which subscribers are
    /// active.
    pub(in crate::node) async fn tell(self, mut found: Found, mut kept: watch::Receiver<bool>) {
        if kept.wait_for(|kept| *kept).await.is_err() {
            return;
        }
        let mut pauses = PAUSES;
        loop {
            found.borrow_and_update();
            match self.tell_some().await {
                Ok(true) => pauses.reset(),
                Ok(false) => {
                    pauses.reset();
                    _ = timeout(jittered(LOOK_EVERY, 0.2, rand::random()), found.changed()).await;
                }
                Err(error) => {
                    tracing::warn!(namespace = self.namespace, notifier = self.notifier.name(), %error, "failed to tell of poison, trying again");
                    sleep(pauses.jittered(rand::random())).await;
                }
            }
        }
    }

    /// Tells the notifier about some poison. Returns whether there was any.
    async fn tell_some(&self) -> Result<bool, AdminError> {
        let name = self.notifier.name();
        let sequences = self.database.poison_to_tell(&self.namespace, name, BATCH).await?;
        if sequences.is_empty() {
            return Ok(false);
        }
        self.notifier.on_poison(&sequences).await?;
        self.database.poison_told(&self.namespace, name, &sequences).await?;
        Ok(true)
    }
}
