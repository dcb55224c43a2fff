//! `headwater due fire`

use clap::Args;
use headwater::Headwater;
use headwater::admin::Fired;

use crate::duration;
use crate::failure::{Exit, Failure};
use crate::output::{Output, plural};

/// The most events in one transaction.
const BATCH: u32 = 1_000;

/// Append the events that are due, and the events of schedules that are due, once
///
/// Nodes and `headwater up` do this by themselves when an event is due. This command is for jobs
/// where neither of them runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater due fire
  headwater due fire -n shop")]
pub(crate) struct Fire {
    /// Only events of this namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Fire {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let namespace = match &self.namespace {
            Some(name) => Some(headwater.namespace(name).await?),
            None => None,
        };
        let mut all = Fired { fired: 0, failed: 0, next_due_in: None };
        loop {
            let some = match &namespace {
                Some(namespace) => namespace.fire_due(BATCH).await?,
                None => headwater.admin().fire_due(BATCH).await?,
            };
            all.fired += some.fired;
            all.failed += some.failed;
            all.next_due_in = some.next_due_in;
            if some.fired == 0 || some.next_due_in.is_none_or(|next| !next.is_zero()) {
                break;
            }
        }
        if self.json {
            let next = all.next_due_in.map(|next| next.as_secs_f64());
            output.json(&serde_json::json!({"fired": all.fired, "failed": all.failed, "next_due_in_seconds": next}))?;
        } else {
            let next = all.next_due_in.map(|next| format!("; the next is due in {}", duration::format_age(next)));
            output.line(format_args!("fired {}{}", plural(all.fired.into(), "event"), next.unwrap_or_default()))?;
        }
        if all.failed > 0 {
            let failed = plural(all.failed.into(), "event");
            return Err(Failure::new(Exit::Findings, format!("{failed} could not be appended"))
                .help("see why with `headwater due list --failed` or `headwater schedules list`; they are kept, and tried again"));
        }
        Ok(())
    }
}
