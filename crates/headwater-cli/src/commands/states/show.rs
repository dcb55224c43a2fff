//! `headwater states show`

use clap::Args;
use headwater::Headwater;

use crate::failure::{Exit, Failure};
use crate::output::{Output, printable};

/// Show a state of a projection or saga
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater states show -n shop order-totals order-17
  headwater states show -n shop order-totals order-17 --json | jq .state")]
pub(crate) struct Show {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// The subscriber id of the projection or saga
    #[arg(value_name = "PROJECTION")]
    projection: String,
    /// The id of the state
    #[arg(value_name = "ID")]
    id: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let Some(state) = headwater.admin().state(&self.namespace, &self.projection, &self.id).await? else {
            let message = format!("{:?} has no state {:?}", printable(&self.projection), printable(&self.id));
            return Err(Failure::new(Exit::NotFound, message)
                .help("list the states with `headwater states list --namespace NAME PROJECTION`"));
        };
        if self.json {
            return output.json(&state);
        }
        output.table(&[
            ["id".into(), printable(&state.id)],
            ["sequence".into(), state.sequence.map_or("-".into(), |sequence| sequence.to_string())],
            ["updated".into(), state.updated_at.format("%F %T UTC").to_string()],
            ["state".into(), printable(state.state.as_str())],
        ])
    }
}
