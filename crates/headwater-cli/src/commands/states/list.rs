//! `headwater states list`

use clap::Args;
use headwater::Headwater;
use headwater::delivery::StoredState;

use crate::failure::Failure;
use crate::output::{Output, printable, shortened, width};

/// How many states are read at once.
const PAGE: u32 = 500;

/// List the states of a projection or saga, in the order of their ids
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater states list -n shop order-totals
  headwater states list -n shop order-totals --after order-17 --limit 100 --json | jq .state

In SQL: SELECT * FROM headwater.projection_states.")]
pub(crate) struct List {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// The subscriber id of the projection or saga
    #[arg(value_name = "PROJECTION")]
    projection: String,
    /// Only states with an id after this one
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// List at most N states
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(mut self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let mut left = self.limit.unwrap_or(u64::MAX);
        let (mut listed, width) = (false, width());
        while left > 0 {
            let wanted = u32::try_from(left).map_or(PAGE, |left| left.min(PAGE));
            let page =
                headwater.admin().states(&self.namespace, &self.projection, self.after.as_deref(), wanted).await?;
            for state in &page {
                if self.json {
                    output.json(state)?;
                    continue;
                }
                if !std::mem::replace(&mut listed, true) {
                    output.line(format_args!("{:<30}  {:>10}  {:<20}  STATE", "ID", "SEQUENCE", "UPDATED"))?;
                }
                output.line(line(state, width))?;
            }
            left -= page.len() as u64;
            match page.into_iter().last() {
                Some(last) if left > 0 => self.after = Some(last.id),
                _ => break,
            }
        }
        match listed || self.json {
            true => Ok(()),
            false => output.line("no states"),
        }
    }
}

/// Formats a state in columns of a usual width. The widths are not measured, because the whole list
/// may be larger than the memory.
fn line(state: &StoredState, width: Option<usize>) -> String {
    let sequence = state.sequence.map_or("-".into(), |sequence| sequence.to_string());
    let front = format!("{:<30}  {sequence:>10}  {:<20}", printable(&state.id), state.updated_at.format("%F %TZ"));
    let text = printable(state.state.as_str());
    match width {
        Some(width) => {
            format!("{front}  {}", shortened(&text, width.saturating_sub(front.chars().count() + 2).max(20)))
        }
        None => format!("{front}  {text}"),
    }
}
