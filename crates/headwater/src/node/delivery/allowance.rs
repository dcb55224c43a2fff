//! The limit on how many events a subscriber handles on this node, where there is one.
//!
//! Events get their permits in log order, before any of them is begun. So of several events that
//! are handled at the same time, the first ones are counted, whichever is done first. An event
//! keeps its permit while it is tried again. An event that is given up, or left to another
//! instance, returns its permit, and the next event gets it.

use std::sync::Arc;

use tokio::sync::watch;

#[derive(Debug)]
pub(in crate::node) struct Allowance {
    left: watch::Sender<u32>,
}

/// A permit to handle one event. A permit that is dropped is returned.
#[derive(Debug)]
pub(in crate::node) struct Permit {
    allowance: Arc<Allowance>,
    used: bool,
}

impl Allowance {
    pub(in crate::node) fn new(events: u32) -> Arc<Self> {
        Arc::new(Allowance { left: watch::Sender::new(events) })
    }

    /// Takes a permit, if one is left.
    pub(in crate::node) fn take(self: &Arc<Self>) -> Option<Permit> {
        let taken = self.left.send_if_modified(|left| {
            let any = *left > 0;
            *left = left.saturating_sub(1);
            any
        });
        taken.then(|| Permit { allowance: self.clone(), used: false })
    }

    /// Waits for a permit.
    pub(in crate::node) async fn next(self: &Arc<Self>) -> Permit {
        let mut left = self.left.subscribe();
        loop {
            if let Some(permit) = self.take() {
                return permit;
            }
            // The sender is part of this value.
            _ = left.wait_for(|left| *left > 0).await;
        }
    }

    /// Changes when permits are taken or returned.
    pub(in crate::node) fn changes(&self) -> watch::Receiver<u32> {
        self.left.subscribe()
    }
}

impl Permit {
    /// Uses the permit up: the event was handled.
    pub(in crate::node) fn use_up(mut self) {
        self.used = true;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.used {
            self.allowance.left.send_modify(|left| *left += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_that_is_dropped_is_the_next_events() {
        let allowance = Allowance::new(2);
        let (first, second) = (allowance.take().expect("one"), allowance.take().expect("two"));
        assert!(allowance.take().is_none());
        first.use_up();
        assert!(allowance.take().is_none());
        drop(second);
        assert!(allowance.take().is_some());
    }
}
