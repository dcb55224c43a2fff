//! Keeps the partitions of the node's namespace in shape: coming months made, past ones sealed, old ones dropped.
//!
//! Who has authority: the database. It says what is due, by its clock, and who is not done with it; a session lock lets one node of a namespace do this at
//! a time. States: asleep, for an hour or so, or at work. A call that fails is made again at the next hour: appends make the months that they need, and
//! what is not dropped now is dropped then. No month goes here that a subscriber is not done with: whoever holds one back is named in the log.

use std::time::Duration;

use headwater_core::jittered;
use headwater_postgres::PgLog;

/// Between two looks.
pub(crate) const INTERVAL: Duration = Duration::from_secs(3600);

/// Maintains until it is dropped.
pub(crate) async fn maintain(log: PgLog, interval: Duration) {
    let namespace = &*log.info().name;
    // Nodes that start together do not come together.
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
            tracing::warn!(namespace, leaf, ?holders, "retention is held back: see `headwater partitions list`");
        }
        if !done.left.is_empty() {
            tracing::info!(namespace, left = ?done.left, "tables of trimmed months are still in use");
        }
        if done.sealed > 0 || !done.trimmed.is_empty() {
            _ = log.look_up_months().await;
        }
    }
}
