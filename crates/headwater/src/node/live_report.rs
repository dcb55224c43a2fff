//! Says what a node's live source does, for `headwater cdc status`: when that changes, and with the heartbeat's interval if events came since. Nothing is written
//! for an event, and nothing depends on what is written.

use std::sync::Arc;
use std::time::Duration;

use headwater_cdc::{Feed, LiveStatus};
use headwater_core::{Instance, jittered};
use headwater_postgres::{Database, LiveReport};
use tokio::time::sleep;

/// After a report that failed.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct LiveReporter {
    pub(super) database: Database,
    pub(super) namespace: String,
    pub(super) instance: Instance,
    pub(super) mode: &'static str,
    pub(super) feed: Arc<Feed>,
    pub(super) every: Duration,
}

impl LiveReporter {
    /// Until it is dropped.
    pub(super) async fn run(self) {
        let mut statuses = self.feed.statuses();
        let mut written = None;
        loop {
            let status = statuses.borrow_and_update().clone();
            // A stream that begins anew is said, though its state may be the same: whoever does not say so is not there any more.
            let streams = status.streams;
            let report = self.report(status);
            let mut pause = self.every;
            if written.as_ref() != Some(&(streams, report.clone())) {
                match self.database.report_live(&self.namespace, &self.instance, &report).await {
                    Ok(_) => written = Some((streams, report)),
                    Err(error) => {
                        tracing::debug!(node = self.instance.node, %error, "failed to say what the live source does");
                        pause = PAUSE.min(self.every);
                    }
                }
            }
            tokio::select! {
                () = sleep(jittered(pause, 0.1, rand::random())) => {}
                _ = statuses.changed() => {}
            }
        }
    }

    fn report(&self, status: LiveStatus) -> LiveReport {
        LiveReport {
            mode: self.mode,
            state: status.state.as_str(),
            slot: status.slot,
            error: status.error,
            warnings: status.warnings,
            received: status.received,
            taken: status.taken,
        }
    }
}
