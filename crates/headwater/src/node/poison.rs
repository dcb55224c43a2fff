//! Tells whoever wants to know of poison that the node comes upon: each once, as long as it is not forgotten what was told.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater_core::jittered;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use crate::CdcPoisonNotifier;

/// So many are remembered as told. Telling one again does no harm.
const MAX_TOLD: usize = 10_000;
/// Between tries, doubling from the one to the other.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Where it is told. A look at the log shows the same poison again as long as there are holes around it.
#[derive(Debug)]
pub(super) struct Poison {
    told: Mutex<BTreeSet<u64>>,
    found: UnboundedSender<Vec<u64>>,
}

/// What was found and is to be told.
pub(super) type Found = UnboundedReceiver<Vec<u64>>;

impl Poison {
    pub(super) fn new() -> (Self, Found) {
        let (found, telling) = unbounded_channel();
        (Poison { told: Mutex::default(), found }, telling)
    }

    pub(super) fn found(&self, sequences: &[u64]) {
        if sequences.is_empty() {
            return;
        }
        let mut told = self.told.lock().expect("no holder of this lock panics");
        if told.len() >= MAX_TOLD {
            told.clear();
        }
        let new: Vec<u64> = sequences.iter().copied().filter(|sequence| told.insert(*sequence)).collect();
        if !new.is_empty() {
            // Nobody listens when the node has ended.
            _ = self.found.send(new);
        }
    }
}

/// Tells it, one after the other, until the node ends.
pub(super) async fn tell(notifier: Arc<dyn CdcPoisonNotifier>, mut found: Found) {
    while let Some(sequences) = found.recv().await {
        let mut pause = FIRST_PAUSE;
        while let Err(error) = notifier.on_poison(&sequences).await {
            tracing::warn!(?sequences, %error, "failed to tell of poison");
            if !error.is_retryable() {
                break;
            }
            sleep(jittered(pause, 0.5, rand::random())).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
