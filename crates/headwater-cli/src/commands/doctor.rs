//! `headwater doctor`

use std::time::Duration;

use clap::Args;
use headwater::admin::{DoctorOptions, Finding, Severity};
use serde_json::json;

use crate::connection::ConnectionArgs;
use crate::duration;
use crate::failure::{Exit, Failure};
use crate::output::{Output, plural, printable};

/// Find present and future problems of the server and the namespaces, and say how to fix them
///
/// Checks settings, connections, locks, the NOTIFY queue, transactions that hold back vacuum,
/// readers, appends or workers, replication slots, rows and tables that contradict the log, months,
/// retention, dead letters, paused subscribers, nodes, and the clock.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater doctor
  headwater doctor --json | jq -r '.findings[] | select(.severity == \"problem\") | .mend'

The exit code is 7 if there are problems or warnings, and 0 if there are only hints or nothing.")]
pub(crate) struct Doctor {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Report a transaction that has been open for this long: it holds back vacuum
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse_short)]
    old_transaction: Duration,
    /// Report a slot, or a transaction whose age this role may not see, that holds back vacuum for
    /// this many transactions
    #[arg(long, value_name = "TRANSACTIONS", default_value_t = DoctorOptions::default().old_snapshot)]
    old_snapshot: u32,
    /// Report a writer that has been open for this long: it holds back readers
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse_short)]
    old_writer: Duration,
    /// Report a replication slot that nobody reads and that retains this many bytes of WAL: it
    /// fills the disk
    #[arg(long, value_name = "BYTES", default_value_t = DoctorOptions::default().retained_bytes)]
    retained_bytes: u64,
    /// Report a NOTIFY queue of which this fraction is full, from 0 to 1: a full queue fails
    /// commits
    #[arg(long, value_name = "FRACTION", default_value_t = DoctorOptions::default().notify_queue)]
    notify_queue: f64,
}

impl Doctor {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let Doctor { json, old_transaction, old_snapshot, old_writer, retained_bytes, notify_queue } = self;
        let options = DoctorOptions { old_transaction, old_snapshot, old_writer, retained_bytes, notify_queue };
        let findings = headwater.admin().diagnose(&options).await?;
        // A call that was abandoned because of a locked table may hold a connection as long as the
        // lock.
        _ = tokio::time::timeout(Duration::from_secs(1), headwater.shutdown()).await;
        let bad = findings.iter().filter(|finding| finding.severity != Severity::Hint).count();
        let mut output = Output::new();
        if json {
            output.json(&json!({ "healthy": bad == 0, "findings": findings }))?;
        } else {
            findings.iter().try_for_each(|finding| print(&mut output, finding))?;
            if bad == 0 {
                output.line("nothing is wrong")?;
            }
        }
        output.finish()?;
        match bad {
            0 => Ok(()),
            _ => Err(Failure::new(Exit::Findings, format!("{} to look at", plural(bad as u64, "finding")))),
        }
    }
}

fn print(output: &mut Output, finding: &Finding) -> Result<(), Failure> {
    let severity = match finding.severity {
        Severity::Problem => "PROBLEM",
        Severity::Warning => "warning",
        Severity::Hint => "hint",
    };
    let place = finding.namespace.as_deref().map_or(String::new(), |namespace| format!(" {namespace}:"));
    output.line(format_args!("{severity:<8} {}:{place} {}", finding.check, printable(&finding.message)))?;
    output.line(format_args!("         so: {}", printable(&finding.consequence)))?;
    output.line(format_args!("         do: {}", printable(&finding.mend)))
}
