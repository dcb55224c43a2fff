//! `headwater audit`

use clap::Args;
use headwater::Headwater;
use headwater::delivery::{AuditFinding, AuditReport, OperatorStore};
use serde_json::json;

use crate::connection::ConnectionArgs;
use crate::failure::{Exit, Failure, unless_gone};
use crate::output::{Output, plural, printable};

/// Compare with the log what subscribers settled, and which gaps were recorded
///
/// Reads every event from the place where each subscriber began to its position. For shared
/// subscribers, checks that claimed events, waiting events and events that were left behind do not
/// contradict each other.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater audit
  headwater audit -n shop --subscriber mailer --subscriber totals
  headwater audit --json | jq '.findings[]'

The exit code is 7 if the audit finds something.")]
pub(crate) struct Audit {
    /// The namespace [default: all]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only this subscriber; may be repeated
    #[arg(short, long = "subscriber", value_name = "ID", requires = "namespace")]
    subscribers: Vec<String>,
    /// Print one JSON object per namespace
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let names = match &self.namespace {
            Some(name) => vec![name.clone()],
            None => headwater.admin().namespaces().await?.into_iter().map(|info| info.name).collect(),
        };
        let mut output = Output::new();
        let mut findings = 0;
        for name in &names {
            let report = self.audit(&headwater, name).await;
            let report = match self.namespace {
                Some(_) => report?,
                None => match unless_gone(report)? {
                    Some(report) => report,
                    None => continue,
                },
            };
            findings += report.findings.len() as u64;
            if self.json {
                output.json(&json!({
                    "namespace": name,
                    "subscribers": report.subscribers,
                    "events": report.events,
                    "permanent_gaps": report.permanent_gaps,
                    "findings": report.findings,
                }))?;
            } else {
                print(&mut output, name, &report)?;
            }
        }
        headwater.shutdown().await;
        output.finish()?;
        if findings == 0 {
            return Ok(());
        }
        Err(Failure::new(Exit::Findings, format!("the audit found {}", plural(findings, "problem"))))
    }
}

impl Audit {
    async fn audit(&self, headwater: &Headwater, namespace: &str) -> Result<AuditReport, Failure> {
        Ok(headwater.namespace(namespace).await?.subscribers().audit(&self.subscribers).await?)
    }
}

fn print(output: &mut Output, namespace: &str, report: &AuditReport) -> Result<(), Failure> {
    output.line(format_args!(
        "{namespace}: compared {}, {} and {}: {}",
        plural(report.subscribers, "subscriber"),
        plural(report.events, "event"),
        plural(report.permanent_gaps, "permanent gap"),
        match report.findings.len() as u64 {
            0 => "nothing found".into(),
            number => plural(number, "finding"),
        }
    ))?;
    report.findings.iter().try_for_each(|finding| output.line(format_args!("  {}", describe(finding))))
}

fn describe(finding: &AuditFinding) -> String {
    match finding {
        AuditFinding::EventInPermanentGap { global_sequence, event_id } => {
            format!("global_sequence {global_sequence} was recorded as a permanent gap, but holds event {event_id}")
        }
        AuditFinding::CountDiffers { subscriber_id, after, position, in_log, settled, missing } => {
            let id = printable(subscriber_id);
            if settled > in_log {
                let which = missing.map(|sequence| format!(": {sequence} was deleted")).unwrap_or_default();
                let gone = plural(settled - in_log, "event");
                return format!(
                    "the log has lost {gone} that subscriber {id} settled after {after} up to {position}{which}"
                );
            }
            let which = missing.map(|sequence| format!(": {sequence} is missing")).unwrap_or_default();
            format!("subscriber {id} settled {settled} of {in_log} events after {after} up to {position}{which}")
        }
        AuditFinding::SumDiffers { subscriber_id, after, position } => {
            let id = printable(subscriber_id);
            format!(
                "subscriber {id} settled the right number of events after {after} up to {position}, but not the same"
            )
        }
        AuditFinding::QueueContradicts { subscriber_id, problem, first, last, events } => {
            let id = printable(subscriber_id);
            let how = match problem.as_str() {
                "held_twice" => "claimed or waiting twice",
                "held_and_open" => "claimed or waiting, and left behind at the same time",
                "beyond_frontier" => "recorded ahead of the position of its queue",
                "frontier_beyond_log" => "passed before the log had them",
                "letter_forgotten" => "redriven, but not in its queue",
                other => other,
            };
            format!(
                "the queue of subscriber {id} contradicts itself, {first} to {last}, {}: {how}",
                plural(*events, "event")
            )
        }
    }
}
