//! `headwater schedules run`

use clap::Args;
use headwater::Headwater;

use super::Target;
use crate::failure::Failure;
use crate::output::{Output, printable};

/// Append a schedule's event now, even if it is paused. Its later due times do not change
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater schedules run -n shop daily-cleanup")]
pub(crate) struct Run {
    #[command(flatten)]
    target: Target,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let sequence = self.target.namespace(headwater).await?.run_now(&self.target.schedule).await?;
        if self.json {
            return output.json(&serde_json::json!({ "global_sequence": sequence }));
        }
        output.line(format_args!("{}: global_sequence {sequence}", printable(&self.target.namespace)))
    }
}
