//! `headwater audit`

use clap::Args;
use headwater::delivery::{AuditFinding, AuditReport, OperatorStore};
use serde_json::json;

use crate::connection::ConnectionArgs;
use crate::failure::{Exit, Failure};
use crate::output::{Output, plural, printable};

/// Compare what subscribers settled with what the log holds, and recorded gaps with the log
///
/// Reads every event from where each subscriber began to where it is. Of shared subscribers, it looks whether what is claimed, waits or was left behind
/// contradicts itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater audit
  headwater audit -n shop --subscriber mailer --subscriber totals
  headwater audit --json | jq '.findings[]'

It exits with 7 when it finds something.")]
pub(crate) struct Audit {
    /// The namespace; without it, all
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only this subscriber; may be repeated
    #[arg(short, long = "subscriber", value_name = "ID", requires = "namespace")]
    subscribers: Vec<String>,
    /// One JSON object a namespace
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let names = match self.namespace {
            Some(name) => vec![name],
            None => headwater.namespaces().await?.into_iter().map(|info| info.name).collect(),
        };
        let mut output = Output::new();
        let mut findings = 0;
        for name in &names {
            let report = headwater.namespace(name).await?.subscribers().audit(&self.subscribers).await?;
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
        let message = format!("the audit found {}", plural(findings, "thing")) + " that must not be";
        Err(Failure::new(Exit::Findings, message))
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
            format!("global_sequence {global_sequence} was recorded as a gap for ever, and holds event {event_id}")
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
            format!("subscriber {id} settled as many events as there are after {after} up to {position}, but others")
        }
        AuditFinding::QueueContradicts { subscriber_id, problem, first, last, events } => {
            let id = printable(subscriber_id);
            let how = match problem.as_str() {
                "held_twice" => "claimed or waiting twice",
                "held_and_open" => "claimed or waiting, and left behind at once",
                "beyond_frontier" => "noted ahead of where its queue stands",
                "frontier_beyond_log" => "passed before the log had them",
                "letter_forgotten" => "redriven, and nowhere in its queue",
                other => other,
            };
            format!("subscriber {id} has {} that must not be so, {first} to {last}: {how}", plural(*events, "event"))
        }
    }
}
