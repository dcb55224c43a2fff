//! Reports the state of a node's live source, for `headwater cdc status`: when it changes, and at
//! the heartbeat's interval if events came since. No event causes a write, and nothing depends on
//! what is written.

use std::sync::Arc;
use std::time::Duration;

use headwater_cdc::{Feed, LiveStatus};
use headwater_core::{Instance, jittered};
use headwater_postgres::{Database, LiveReport};
use tokio::time::sleep;

/// Pause after a failed report.
const PAUSE: Duration = Duration::from_secs(1);

pub(in crate::node) struct LiveReporter {
    pub(in crate::node) database: Database,
    pub(in crate::node) namespace: String,
    pub(in crate::node) instance: Instance,
    pub(in crate::node) mode: &'static str,
    pub(in crate::node) feed: Arc<Feed>,
    pub(in crate::node) every: Duration,
}

impl LiveReporter {
    /// Reports until this future is dropped.
    pub(in crate::node) async fn run(self) {
        let mut statuses = self.feed.statuses();
        let mut written = None;
        loop {
            let status = statuses.borrow_and_update().clone();
            // A stream that begins again is reported, even if its state is the same: a source that
            // does not report that counts as gone.
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
