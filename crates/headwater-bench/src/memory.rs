//! `headwater-bench read-child`: reads the log in its own process, so that nothing else uses that
//! process's memory.

use std::fs;

use anyhow::Context;
use clap::Args;
use futures::TryStreamExt;
use headwater::Headwater;
use headwater::log::LogQuery;
use serde::{Deserialize, Serialize};

use crate::read::Seen;

/// Options of `read-child`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[arg(long)]
    url: String,
    #[arg(long)]
    namespace: String,
}

/// What the read needed, in KiB of resident memory.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Growth {
    pub(crate) events: u64,
    /// After connecting, before the first read.
    resident_before: u64,
    /// The peak.
    peak: u64,
}

impl Growth {
    pub(crate) fn mib(&self) -> f64 {
        self.peak.saturating_sub(self.resident_before) as f64 / 1024.0
    }
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let headwater = Headwater::connect(&options.url).await?;
    let namespace = headwater.namespace(&options.namespace).await?;
    let resident_before = status("VmRSS")?;
    let mut seen = Seen::default();
    let mut events = namespace.read_log(LogQuery::after(0));
    while let Some(event) = events.try_next().await? {
        seen.note(&event)?;
    }
    let growth = Growth { events: seen.events, resident_before, peak: status("VmHWM")? };
    println!("{}", serde_json::to_string(&growth)?);
    Ok(())
}

/// Returns a value from `/proc/self/status`, in KiB.
pub(crate) fn status(name: &str) -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/self/status").context("memory can be measured on Linux only")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value =
        line.and_then(|rest| rest.split_whitespace().next()).context("a line of /proc/self/status is missing")?;
    Ok(value.parse()?)
}
