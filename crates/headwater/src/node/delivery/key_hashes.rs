//! Hashes of event keys. Partitions use them to find their events.
//!
//! All partitions of a subscriber on this node get the same events, and each keeps its own. Each
//! hash is computed once, not once per partition.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use headwater_core::{Admitted, RecordedEvent, order_hash};

use crate::node::delivery::shared_segments::SharedSegments;

/// The number of runs whose hashes are kept. Few are enough, since the partitions are about equally
/// far.
const RUNS: usize = 4;

#[derive(Debug, Default)]
pub(in crate::node) struct KeyHashes {
    runs: Mutex<VecDeque<Run>>,
    /// Runs that are split by partition already.
    pub(in crate::node) shared: SharedSegments,
}

#[derive(Debug)]
struct Run {
    events: Vec<Arc<RecordedEvent>>,
    hashes: Arc<[u32]>,
}

impl KeyHashes {
    /// The hashes of these events. Only the very same events share hashes: another event may have
    /// the same sequence.
    pub(in crate::node) fn of(&self, events: &[Admitted]) -> Arc<[u32]> {
        let mut runs = self.runs.lock().expect("no holder of this lock panics");
        let same = |run: &&Run| {
            run.events.len() == events.len()
                && run.events.iter().zip(events).all(|(known, admitted)| Arc::ptr_eq(known, &admitted.event))
        };
        if let Some(run) = runs.iter().find(same) {
            return run.hashes.clone();
        }
        let hashes: Arc<[u32]> = events.iter().map(|admitted| order_hash(&admitted.event)).collect();
        let events = events.iter().map(|admitted| admitted.event.clone()).collect();
        runs.truncate(RUNS - 1);
        runs.push_front(Run { events, hashes: hashes.clone() });
        hashes
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::{Event, order_key, partition_of};

    use super::*;

    fn admitted(key: &str) -> Admitted {
        let mut event = Event::raw("tested", serde_json::json!({}));
        (event.global_sequence, event.recorded_at) = (Some(1), Some(chrono::Utc::now()));
        event.key = Some(key.into());
        Admitted { event: Arc::new(RecordedEvent::new(event).unwrap()), passed: None }
    }

    #[test]
    fn only_the_same_events_share_hashes() {
        let hashes = KeyHashes::default();
        let (one, other) = ([admitted("a")], [admitted("b")]);
        for run in [&one, &other, &one] {
            let expected = partition_of(&order_key(&run[0].event), 16);
            assert_eq!(hashes.of(run)[0] % 16, expected);
        }
        assert!(Arc::ptr_eq(&hashes.of(&one), &hashes.of(&one)));
        assert_eq!(hashes.runs.lock().unwrap().len(), 2);
        (0..10).for_each(|n| _ = hashes.of(&[admitted(&n.to_string())]));
        assert_eq!(hashes.runs.lock().unwrap().len(), RUNS);
    }
}
