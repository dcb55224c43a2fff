//! How many events a subscriber of this node handles, where that is limited.
//!
//! Events get their places in the order in which they come, which is that of the log, before any of them is begun: so of several that are handled at once, the
//! first are counted, whichever is done first. An event keeps its place while it is tried again. One that is given up, or left to another instance,
//! gives it back, and the next one has it.

use std::sync::Arc;

use tokio::sync::watch;

#[derive(Debug)]
pub(super) struct Places {
    left: watch::Sender<u32>,
}

/// Leave to handle one event. Dropped, it is given back.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    used: bool,
}

impl Places {
    pub(super) fn new(events: u32) -> Arc<Self> {
        Arc::new(Places { left: watch::Sender::new(events) })
    }

    /// The next place, if one is left.
    pub(super) fn take(self: &Arc<Self>) -> Option<Place> {
        let taken = self.left.send_if_modified(|left| {
            let any = *left > 0;
            *left = left.saturating_sub(1);
            any
        });
        taken.then(|| Place { places: self.clone(), used: false })
    }

    /// Waits for one.
    pub(super) async fn next(self: &Arc<Self>) -> Place {
        let mut left = self.left.subscribe();
        loop {
            if let Some(place) = self.take() {
                return place;
            }
            // The sender is here.
            _ = left.wait_for(|left| *left > 0).await;
        }
    }

    /// Changes when places are taken or given back.
    pub(super) fn changes(&self) -> watch::Receiver<u32> {
        self.left.subscribe()
    }
}

impl Place {
    /// The event was handled.
    pub(super) fn use_up(mut self) {
        self.used = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.used {
            self.places.left.send_modify(|left| *left += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_dropped_is_another_s() {
        let places = Places::new(2);
        let (first, second) = (places.take().expect("one"), places.take().expect("two"));
        assert!(places.take().is_none());
        first.use_up();
        assert!(places.take().is_none());
        drop(second);
        assert!(places.take().is_some());
    }
}
