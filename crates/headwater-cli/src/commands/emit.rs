//! `headwater emit`

use std::time::Duration;

use chrono::{DateTime, FixedOffset, SecondsFormat};
use clap::Args;
use headwater::Namespace;
use headwater::log::{Appended, Due};
use serde_json::json;
use uuid::Uuid;

use crate::connection::ConnectionArgs;
use crate::duration;
use crate::event_args::EventArgs;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = r#"Examples:
  headwater emit -n shop OrderPlaced '{"order": 7, "total": 120}'
  headwater emit -n shop ImageUploaded @image.json --key user-3 --header source=camera
  headwater emit -n shop PaymentOverdue '{"order": 7}' --due-in 3d
  headwater emit -n shop SaleBegins --due-at 2026-12-01T08:00:00Z
  date +'"%F"' | headwater emit -n shop DayEnded -"#;

/// Append one event without a stream, now or when it is due
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Emit {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// The event's type: what happened, such as OrderPlaced or order.placed
    #[arg(value_name = "TYPE")]
    event_type: String,
    /// The event's data: JSON, @FILE, or - for standard input [default: null]
    #[arg(value_name = "DATA", allow_negative_numbers = true)]
    data: Option<String>,
    #[command(flatten)]
    event: EventArgs,
    /// Deliver the event no earlier than this time, such as 2026-12-01T08:00:00Z. `headwater due
    /// cancel` cancels it
    #[arg(long, value_name = "TIME", conflicts_with = "due_in")]
    due_at: Option<DateTime<FixedOffset>>,
    /// Deliver the event no earlier than this delay from now, such as 30s or 3d. The
    /// database's clock measures it
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_short)]
    due_in: Option<Duration>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Emit {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let event = self.event.event(&self.event_type, self.data.as_deref())?;
        let headwater = connection.connect().await?;
        let namespace = headwater.namespace(&self.namespace).await?;
        match self.due_at.map(Due::from).or(self.due_in.map(Due::from)) {
            None => {
                let appended = namespace.emit(event).await?;
                headwater.shutdown().await;
                print(&namespace, &appended, self.json)
            }
            Some(due) => {
                let id = namespace.emit_at(due, event).await?;
                headwater.shutdown().await;
                print_due(&namespace, id, due, self.json)
            }
        }
    }
}

fn print_due(namespace: &Namespace, id: Uuid, due: Due, as_json: bool) -> Result<(), Failure> {
    let mut output = Output::new();
    let name = &namespace.info().name;
    match due {
        Due::At(time) if as_json => output.json(&json!({"id": id, "due_at": time}))?,
        Due::In(delay) if as_json => output.json(&json!({"id": id, "due_in_seconds": delay.as_secs_f64()}))?,
        Due::At(time) => output
            .line(format_args!("{name}: due at {}, id {id}", time.to_rfc3339_opts(SecondsFormat::AutoSi, true)))?,
        Due::In(delay) => output.line(format_args!("{name}: due in {}, id {id}", duration::format(delay)))?,
    }
    output.finish()
}

/// Prints where each event was stored.
pub(crate) fn print(namespace: &Namespace, appended: &Appended, as_json: bool) -> Result<(), Failure> {
    let mut output = Output::new();
    for placed in &appended.events {
        if as_json {
            output.json(&json!({
                "id": placed.id,
                "global_sequence": placed.global_sequence,
                "stream_version": placed.stream_version,
                "retried": appended.retried,
            }))?;
            continue;
        }
        let version = placed.stream_version.map(|version| format!(", stream_version {version}")).unwrap_or_default();
        let retried = if appended.retried { " (it was there already)" } else { "" };
        let name = &namespace.info().name;
        output.line(format_args!(
            "{name}: global_sequence {}{version}, id {}{retried}",
            placed.global_sequence, placed.id
        ))?;
    }
    output.finish()
}
