//! The keeper: one task a node that holds its leases, with one statement a tick for all subscribers.
//!
//! Who has authority: the database and its clock. A lease is this instance's as long as the database says so; the keeper passes that on to the
//! runners. While the database cannot be reached, runners go on, since whatever they write is fenced; when the lease must have ended by
//! now, they stop, so as not to do twice what another does.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Ask, Fault, Fence, Held, Instance, InstanceMode, SubscriberError, SubscriberStore, jittered};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::runner::Control;
use super::status::Status;

/// Between ticks: how long a standby may take to notice that the owner is gone.
const TICK: Duration = Duration::from_secs(1);
/// Ticks between looks at subscribers without a lease.
const SINGLES_EVERY: u64 = 5;

pub(super) struct Kept {
    pub(super) subscriber_id: String,
    pub(super) mode: InstanceMode,
    pub(super) control: Arc<watch::Sender<Control>>,
    pub(super) status: Arc<Status>,
    pub(super) counted: u64,
}

pub(super) struct Keeper {
    pub(super) store: Arc<dyn SubscriberStore>,
    pub(super) instance: Instance,
    pub(super) lease: Duration,
    pub(super) kept: Vec<Kept>,
    pub(super) counted_at: Instant,
}

impl Keeper {
    /// Keeps leases until told to stop.
    pub(super) async fn run(&mut self, mut stop: watch::Receiver<bool>) {
        let mut renewed = Instant::now();
        let mut said = false;
        for tick in 0.. {
            let begun = Instant::now();
            match timeout(self.lease / 2, self.keep()).await.unwrap_or_else(|_| Err(no_answer())) {
                Ok(()) => (renewed, said) = (begun, false),
                Err(error) => {
                    if !std::mem::replace(&mut said, true) {
                        tracing::warn!(node = self.instance.node, %error, "failed to renew leases, trying again");
                    }
                    // The lease may have been renewed when a third of it had passed.
                    if renewed.elapsed() >= self.lease * 2 / 3 {
                        self.coordinated().for_each(|kept| self.tell(kept, None, None));
                    }
                }
            }
            if tick % SINGLES_EVERY == 0 {
                self.look_at_singles().await;
            }
            self.note_rates();
            tokio::select! {
                () = tokio::time::sleep(jittered(TICK, 0.2, rand::random())) => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
    }

    /// Gives up what this instance owns.
    pub(super) async fn release(&self) {
        let owned: Vec<String> = self.coordinated().map(|kept| kept.subscriber_id.clone()).collect();
        if !owned.is_empty()
            && let Err(error) = self.store.release(&self.instance, &owned).await
        {
            tracing::warn!(node = self.instance.node, %error, "failed to release leases: others take over when they end");
        }
    }

    fn coordinated(&self) -> impl Iterator<Item = &Kept> {
        self.kept.iter().filter(|kept| kept.mode == InstanceMode::Coordinated)
    }

    async fn keep(&self) -> Result<(), SubscriberError> {
        let ask = |kept: &Kept| Ask {
            subscriber_id: kept.subscriber_id.clone(),
            term: kept.control.borrow().fence.as_ref().and_then(|fence| fence.term),
            report: kept.status.report(),
        };
        let asks: Vec<Ask> = self.coordinated().map(ask).collect();
        if asks.is_empty() {
            return Ok(());
        }
        let held = self.store.keep(&self.instance, &asks, self.lease).await?;
        for (kept, held) in self.coordinated().zip(&held) {
            self.tell(kept, held.term, Some(held));
        }
        Ok(())
    }

    fn tell(&self, kept: &Kept, term: Option<u64>, held: Option<&Held>) {
        let fence = term.map(|term| Fence { subscriber_id: kept.subscriber_id.clone(), term: Some(term) });
        kept.control.send_if_modified(|control| {
            let before = control.clone();
            control.fence = fence;
            if let Some(held) = held {
                control.paused = held.paused;
                control.redrives += u64::from(held.redrives && held.term.is_some());
            }
            *control != before
        });
    }

    /// Subscribers without a lease are asked about one by one, less often.
    async fn look_at_singles(&self) {
        for kept in self.kept.iter().filter(|kept| kept.mode == InstanceMode::SingleInstance) {
            if let Ok(loaded) = self.store.position(&kept.subscriber_id).await {
                let fence = Fence { subscriber_id: kept.subscriber_id.clone(), term: Some(loaded.term) };
                kept.control.send_modify(|control| {
                    control.fence = Some(fence);
                    control.redrives += 1;
                    control.paused = loaded.paused;
                });
            }
        }
    }

    fn note_rates(&mut self) {
        let elapsed = std::mem::replace(&mut self.counted_at, Instant::now()).elapsed().as_secs_f64().max(0.001);
        for kept in &mut self.kept {
            let handled = kept.status.handled();
            let rate = handled.saturating_sub(std::mem::replace(&mut kept.counted, handled)) as f64 / elapsed;
            kept.status.set_rate(rate);
        }
    }
}

fn no_answer() -> SubscriberError {
    let message = "failed to renew leases: no answer in time".into();
    SubscriberError::Unavailable(Fault { message, retryable: true, source: None })
}
