//! Tells a notifier of poison, at least once.
//!
//! Who has authority: the database. Whoever finds poison, in this process or any other, notes it, and with it which notifiers are to be told. Nodes that have such a
//! notifier look there when their tail comes upon poison, and now and then; they tell it, and then note that it was told. A notifier that fails, a node that dies in
//! between, or poison that was found while no node ran: it is told later, perhaps twice.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater_core::{AdminError, jittered};
use headwater_postgres::Database;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::CdcPoisonNotifier;

/// So many are remembered as seen. To look once more does no harm.
const MAX_SEEN: usize = 10_000;
/// Told at once, at most.
const BATCH: u32 = 1_000;
/// Between looks for what others have found.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Between tries, doubling from the one to the other.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Where the tail says that it came upon poison. A look at the log shows the same poison again as long as there are holes around it.
#[derive(Debug)]
pub(super) struct Poison {
    seen: Mutex<BTreeSet<u64>>,
    found: watch::Sender<u64>,
}

/// Changes when there may be something to tell.
pub(super) type Found = watch::Receiver<u64>;

impl Poison {
    pub(super) fn new() -> (Self, Found) {
        let (found, telling) = watch::channel(0);
        (Poison { seen: Mutex::default(), found }, telling)
    }

    pub(super) fn found(&self, sequences: impl IntoIterator<Item = u64>) {
        let mut seen = self.seen.lock().expect("no holder of this lock panics");
        if seen.len() >= MAX_SEEN {
            seen.clear();
        }
        // All of them are remembered.
        let new = sequences.into_iter().filter(|sequence| seen.insert(*sequence)).count();
        if new > 0 {
            self.found.send_modify(|found| *found += 1);
        }
    }
}

/// A notifier, and where it is noted what it was told.
pub(super) struct Teller {
    pub(super) notifier: Arc<dyn CdcPoisonNotifier>,
    pub(super) database: Database,
    pub(super) namespace: String,
}

impl Teller {
    /// Makes the notifier known, before anything is read: what is found from then on is told to it.
    pub(super) async fn add(&self) -> Result<(), AdminError> {
        self.database.add_poison_notifier(&self.namespace, self.notifier.name()).await
    }

    /// Tells it until the node ends; first once it is known which subscribers are active.
    pub(super) async fn tell(self, mut found: Found, mut kept: watch::Receiver<bool>) {
        if kept.wait_for(|kept| *kept).await.is_err() {
            return;
        }
        let mut pause = FIRST_PAUSE;
        loop {
            found.borrow_and_update();
            match self.tell_some().await {
                Ok(true) => pause = FIRST_PAUSE,
                Ok(false) => {
                    pause = FIRST_PAUSE;
                    _ = timeout(jittered(LOOK_EVERY, 0.2, rand::random()), found.changed()).await;
                }
                Err(error) => {
                    tracing::warn!(namespace = self.namespace, notifier = self.notifier.name(), %error, "failed to tell of poison, trying again");
                    sleep(jittered(pause, 0.5, rand::random())).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Answers whether there was something to tell.
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
