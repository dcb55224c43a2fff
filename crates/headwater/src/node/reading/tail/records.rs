//! Permanent gaps are written down once, so that later readers need no proof.

use headwater_core::{Gap, GapState, History};

use super::Tail;
use crate::node::reading::ring::Change;

impl Tail {
    /// Records the permanent gaps of a change that was read in a history.
    pub(super) async fn record_permanent(&self, history: Option<History>, change: Change) {
        if self.store.is_some() {
            self.records.add(history, change.permanent).await;
        }
    }

    /// Records gaps that were proved in a history: see [`GapRecords`]. Poison is recorded already.
    pub(in crate::node) async fn record(&self, history: Option<History>, gaps: &[Gap]) {
        // One sequence of each range is enough: the notifier's task looks up all recorded poison.
        gaps.iter().filter(|gap| gap.state == GapState::Poison).for_each(|gap| self.tell_of(&[gap.first]));
        if self.store.is_none() {
            return;
        }
        let permanent = gaps.iter().filter(|gap| gap.state == GapState::Permanent);
        self.records.add(history, permanent.map(|gap| (gap.first, gap.last)).collect()).await;
    }

    /// Records permanent gaps until this future is dropped.
    pub(in crate::node) async fn write_records(&self) {
        if let Some(store) = &self.store {
            self.records.write(&**store, self.log.namespace()).await;
        }
    }

    /// Records the remaining permanent gaps when the node ends.
    pub(in crate::node) async fn write_last_records(&self) {
        if let Some(store) = &self.store {
            self.records.write_rest(&**store, self.log.namespace()).await;
        }
    }
}
