//! `headwater dead-letters show`

use clap::Args;
use headwater::Headwater;
use headwater::delivery::{DeadLetter, DeadLetterQuery, OperatorStore};

use super::select::{ALL_STATES, not_found};
use crate::failure::Failure;
use crate::output::{Output, printable};

/// Show a dead letter: the whole event, and every attempt with its errors
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater dead-letters show -n shop mailer 1042
  headwater dead-letters show -n shop mailer 1042 --json | jq .event")]
pub(crate) struct Show {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// The subscriber's id
    #[arg(value_name = "SUBSCRIBER")]
    subscriber: String,
    /// The event's global_sequence
    #[arg(value_name = "SEQUENCE")]
    sequence: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let store = headwater.namespace(&self.namespace).await?.subscribers();
        store.subscriber(&self.subscriber).await?;
        let query = DeadLetterQuery {
            subscriber_id: Some(self.subscriber.clone()),
            global_sequence: Some(self.sequence),
            states: ALL_STATES.into(),
            ..DeadLetterQuery::default()
        };
        let found = store.dead_letters(&query).await?.pop();
        let letter = found.ok_or_else(|| not_found(&self.subscriber, self.sequence, "dead letter"))?;
        if self.json { output.json(&letter) } else { print(output, &letter) }
    }
}

fn print(output: &mut Output, letter: &DeadLetter) -> Result<(), Failure> {
    let mut rows = vec![
        ["subscriber".into(), printable(&letter.subscriber_id)],
        ["sequence".into(), letter.global_sequence().to_string()],
        ["state".into(), letter.state.name().into()],
        ["key".into(), printable(&letter.order_key)],
        ["parks its key".into(), if letter.parks_key { "yes".into() } else { "no".into() }],
        ["since".into(), letter.created_at.format("%F %T UTC").to_string()],
        ["changed".into(), letter.updated_at.format("%F %T UTC").to_string()],
    ];
    rows.extend(letter.reason.as_deref().map(|reason| ["reason".into(), printable(reason)]));
    output.table(&rows)?;
    output.line("\nevent")?;
    let event = serde_json::to_string_pretty(&letter.event).map_err(Failure::unexpected)?;
    lines(output, "  ", &event)?;
    for (nth, attempt) in letter.attempts.iter().enumerate() {
        let (at, node) = (attempt.at.format("%F %T%.3f UTC"), printable(&attempt.node));
        output.line(format_args!("\nattempt {} at {at} by {node}", nth + 1))?;
        for (depth, error) in attempt.errors.iter().enumerate() {
            lines(output, if depth == 0 { "  " } else { "  because " }, error)?;
        }
    }
    Ok(())
}

/// Prints text from other people. The only control characters that it keeps are line ends.
fn lines(output: &mut Output, front: &str, text: &str) -> Result<(), Failure> {
    text.lines().try_for_each(|line| output.line(format_args!("{front}{}", printable(line))))
}
