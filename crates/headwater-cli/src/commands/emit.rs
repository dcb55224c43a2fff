//! `headwater emit`

use clap::Args;
use headwater::{Appended, Namespace};
use serde_json::json;

use crate::connection::ConnectionArgs;
use crate::event_args::EventArgs;
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = r#"Examples:
  headwater emit -n shop OrderPlaced '{"order": 7, "total": 120}'
  headwater emit -n shop ImageUploaded @image.json --key user-3 --header source=camera
  date +'"%F"' | headwater emit -n shop DayEnded -"#;

/// Append one event without a stream
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Emit {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// What happened, as OrderPlaced or order.placed
    #[arg(value_name = "TYPE")]
    event_type: String,
    /// The event's data: JSON, @FILE, or - for standard input [default: null]
    #[arg(value_name = "DATA", allow_negative_numbers = true)]
    data: Option<String>,
    #[command(flatten)]
    event: EventArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Emit {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let event = self.event.event(&self.event_type, self.data.as_deref())?;
        let headwater = connection.connect().await?;
        let namespace = headwater.namespace(&self.namespace).await?;
        let appended = namespace.emit(event).await?;
        headwater.shutdown().await;
        print(&namespace, &appended, self.json)
    }
}

/// Says where an event went.
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
