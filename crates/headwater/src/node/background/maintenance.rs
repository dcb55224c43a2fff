//! Maintains the months of the node's namespace: creates coming ones, seals past ones, drops old
//! ones.
//!
//! Who has authority: the database. It says what is due, by its clock, and which subscribers still
//! need a month. A session lock lets one node of a namespace do this at a time. States: asleep, for
//! about an hour, or at work. A call that fails is repeated an hour later: appends create the
//! months that they need, and a month that is not dropped now is dropped then. A month that a
//! subscriber still needs is never dropped here. The log names the subscriber that holds a month
//! back.

use std::time::Duration;

use headwater_core::jittered;
use headwater_postgres::PgLog;

/// Pause between two looks.
pub(crate) const INTERVAL: Duration = Duration::from_secs(3600);

/// Maintains until this future is dropped.
pub(crate) async fn maintain(log: PgLog, interval: Duration) {
    let namespace = &*log.info().name;
    // Nodes that start together do not come at the same time.
    let mut pause = interval.mul_f64(rand::random());
    loop {
        tokio::time::sleep(pause).await;
        pause = jittered(interval, 0.2, rand::random());
        let done = match log.database().maintain(namespace, false).await {
            Ok(done) => done,
            Err(error) => {
                tracing::warn!(namespace, %error, "failed to maintain the partitions, trying again later");
                continue;
            }
        };
        for month in &done.trimmed {
            tracing::info!(namespace, leaf = month.leaf, events = month.events, "trimmed a month of the log");
        }
        if let Some((leaf, holders)) = &done.held {
            tracing::warn!(namespace, leaf, ?holders, "retention is held back: see `headwater months list`");
        }
        if !done.left.is_empty() {
            tracing::info!(namespace, left = ?done.left, "tables of trimmed months are still in use");
        }
        if done.sealed > 0 || !done.trimmed.is_empty() {
            _ = log.look_up_months().await;
        }
    }
}
