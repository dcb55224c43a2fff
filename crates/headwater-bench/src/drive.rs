//! Runs callers side by side for a while, and counts what they completed.

use std::time::Duration;

use sqlx::PgConnection;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::contenders::Turn;
use crate::cpu::CpuTime;
use crate::stats::Sample;

/// One of the callers: a producer, or a writer with its own connection.
pub(crate) trait Caller: Send + 'static {
    /// Makes one call. Returns how many events it stored; they are durable when it returns.
    fn call(&mut self) -> impl Future<Output = anyhow::Result<u64>> + Send;
}

/// How long callers run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// Time that is not counted.
    pub(crate) warm_up: Duration,
    pub(crate) measure: Duration,
}

/// Lets every caller call in a loop. Counts the calls that end inside the window.
pub(crate) async fn drive<C: Caller>(callers: Vec<C>, turn: &mut Turn<'_>) -> anyhow::Result<Sample> {
    let start = Instant::now() + turn.window.warm_up;
    let end = start + turn.window.measure;
    let postmaster = turn.server.pid();
    let mut tasks = JoinSet::new();
    for mut caller in callers {
        tasks.spawn(async move {
            let (mut events, mut latencies) = (0, Vec::new());
            let mut before = Instant::now();
            while before < end {
                let stored = caller.call().await?;
                let after = Instant::now();
                if (start..end).contains(&after) {
                    events += stored;
                    latencies.push(after - before);
                }
                before = after;
            }
            anyhow::Ok((events, latencies))
        });
    }
    sleep_until(start).await;
    let (wal_before, cpu_before) = (wal_position(turn.monitor).await?, CpuTime::now(postmaster));
    sleep_until(end).await;
    let (wal_after, cpu_after) = (wal_position(turn.monitor).await?, CpuTime::now(postmaster));

    let (mut events, mut latencies) = (0, Vec::new());
    while let Some(done) = tasks.join_next().await {
        let (of_caller, times) = done??;
        events += of_caller;
        latencies.extend(times);
    }
    let mut sample = Sample::new(events, turn.window.measure, latencies);
    sample.wal_bytes = Some(wal_after - wal_before);
    sample.cpu = cpu_after.zip(cpu_before).map(|(after, before)| after.since(before));
    Ok(sample)
}

async fn wal_position(monitor: &mut PgConnection) -> anyhow::Result<u64> {
    let position: i64 = sqlx::query_scalar(include_str!("../sql/wal_position.sql")).fetch_one(monitor).await?;
    Ok(position as u64)
}
