//! `headwater dead-letters list`

use std::io::IsTerminal;

use chrono::SecondsFormat;
use clap::Args;
use headwater::{DeadLetter, DeadLetterQuery, DeadLetterState, Headwater, SubscriberStore};

use super::select::{FilterArgs, Pages};
use crate::failure::Failure;
use crate::output::{Output, plural, printable, shortened, width};
use crate::progress::Progress;

/// The least that a line has room for of an error.
const MIN_ERROR: usize = 20;

/// List dead letters: events that subscribers gave up on
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater dead-letters list -n shop
  headwater dead-letters list -n shop -s mailer --error-contains timeout --limit 10
  headwater dead-letters list -n shop --state discarded --json | jq .event.data")]
pub(crate) struct List {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// Only this subscriber's
    #[arg(short, long, value_name = "ID")]
    subscriber: Option<String>,
    /// Only those in this state; may be repeated [default: dead, parked and redriving]
    #[arg(long = "state", value_name = "dead|parked|redriving|redriven|discarded", value_parser = state)]
    states: Vec<DeadLetterState>,
    #[command(flatten)]
    filter: FilterArgs,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// One JSON object a line, with the whole event
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let store = headwater.namespace(&self.namespace).await?.subscribers();
        let subscribers = match &self.subscriber {
            Some(id) => vec![store.subscriber(id).await?.subscriber_id],
            None => store.subscribers().await?.into_iter().map(|info| info.subscriber_id).collect(),
        };
        // Lines that go to a terminal show the progress themselves.
        let mut progress = (!std::io::stdout().is_terminal()).then(|| Progress::new(None));
        let (width, mut left) = (width(), self.limit.unwrap_or(u64::MAX));
        let (mut pages_read, mut listed) = (0, 0);
        for id in subscribers {
            let query = DeadLetterQuery { states: self.states.clone(), ..self.filter.query(Some(&id)) };
            let mut pages = Pages::new(&store, query);
            while left > 0
                && let Some(page) = pages.next().await?
            {
                for letter in page.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
                    if self.json {
                        output.json(letter)?;
                    } else {
                        if listed == 0 {
                            output.line(heading())?;
                        }
                        output.line(line(letter, width))?;
                    }
                    (left, listed) = (left - 1, listed + 1);
                }
                pages_read += 1;
                if let Some(progress) = &mut progress {
                    progress
                        .tell(listed, &format!("{}, {}", plural(pages_read, "page"), plural(listed, "dead letter")));
                }
            }
        }
        if listed == 0 && !self.json {
            output.line("no dead letters")?;
        }
        Ok(())
    }
}

fn state(text: &str) -> Result<DeadLetterState, String> {
    text.parse()
}

fn heading() -> String {
    let (subscriber, sequence, state, event_type) = ("SUBSCRIBER", "SEQUENCE", "STATE", "TYPE");
    format!("{subscriber:<20}  {sequence:>8}  {state:<9}  {event_type:<20}  TRIES  {:<24}  ERROR", "SINCE")
}

/// In columns, while names are of a common length: the whole may be more than memory holds.
fn line(letter: &DeadLetter, width: Option<usize>) -> String {
    let front = format!(
        "{:<20}  {:>8}  {:<9}  {:<20}  {:>5}  {:<24}",
        printable(&letter.subscriber_id),
        letter.global_sequence(),
        letter.state.name(),
        printable(&letter.event.event_type),
        letter.attempts.len(),
        letter.updated_at.to_rfc3339_opts(SecondsFormat::Millis, true),
    );
    let error = printable(&letter.error().replace('\n', " "));
    match width {
        Some(width) => {
            let room = width.saturating_sub(front.chars().count() + 2).max(MIN_ERROR);
            format!("{front}  {}", shortened(&error, room))
        }
        None => format!("{front}  {error}"),
    }
    .trim_end()
    .to_owned()
}
