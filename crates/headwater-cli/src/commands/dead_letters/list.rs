//! `headwater dead-letters list`

use std::io::IsTerminal;

use chrono::SecondsFormat;
use clap::Args;
use headwater::Headwater;
use headwater::delivery::{DeadLetter, DeadLetterQuery, DeadLetterState, OperatorStore};

use super::select::{FilterArgs, Pages, PagesOfAll};
use crate::failure::Failure;
use crate::output::{Output, plural, printable, shortened, width};
use crate::progress::Progress;

/// The fewest characters of an error that a line shows.
const MIN_ERROR: usize = 20;

/// List dead letters of one namespace or of all: events that subscribers gave up on
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater dead-letters list
  headwater dead-letters list -n shop -s mailer --error-contains timeout --limit 10
  headwater dead-letters list -n shop --state discarded --json | jq .event.data")]
pub(crate) struct List {
    /// The namespace [default: all]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only dead letters of this subscriber
    #[arg(short, long, value_name = "ID")]
    subscriber: Option<String>,
    /// Only dead letters in this state; may be repeated [default: dead, parked and redriving]
    #[arg(long = "state", value_name = "dead|parked|redriving|redriven|discarded", value_parser = state)]
    states: Vec<DeadLetterState>,
    #[command(flatten)]
    filter: FilterArgs,
    /// List at most N dead letters
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print one JSON object per line, with the whole event
    #[arg(long)]
    json: bool,
}

impl List {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let query =
            |subscriber: Option<&str>| DeadLetterQuery { states: self.states.clone(), ..self.filter.query(subscriber) };
        let mut listed = Listed::new(self.json, self.limit, output);
        let Some(namespace) = &self.namespace else {
            let mut pages = PagesOfAll::new(headwater, query(self.subscriber.as_deref()));
            while listed.wants_more()
                && let Some(page) = pages.next().await?
            {
                listed.add(page.iter().map(|(namespace, letter)| (namespace.as_str(), letter)))?;
            }
            return listed.end();
        };
        let store = headwater.namespace(namespace).await?.subscribers();
        let subscribers = match &self.subscriber {
            Some(id) => vec![store.subscriber(id).await?.subscriber_id],
            None => store.subscribers().await?.into_iter().map(|info| info.subscriber_id).collect(),
        };
        for id in subscribers {
            let mut pages = Pages::new(&store, query(Some(&id)));
            while listed.wants_more()
                && let Some(page) = pages.next().await?
            {
                listed.add(page.iter().map(|letter| (namespace.as_str(), letter)))?;
            }
        }
        listed.end()
    }
}

/// The list so far. It is printed page by page.
struct Listed<'o> {
    output: &'o mut Output,
    json: bool,
    width: Option<usize>,
    left: u64,
    letters: u64,
    pages: u64,
    /// Not used if the lines go to a terminal: there, they show the progress themselves.
    progress: Option<Progress>,
}

impl<'o> Listed<'o> {
    fn new(json: bool, limit: Option<u64>, output: &'o mut Output) -> Self {
        let progress = (!std::io::stdout().is_terminal()).then(|| Progress::new(None));
        Listed { output, json, width: width(), left: limit.unwrap_or(u64::MAX), letters: 0, pages: 0, progress }
    }

    fn wants_more(&self) -> bool {
        self.left > 0
    }

    fn add<'l>(&mut self, page: impl Iterator<Item = (&'l str, &'l DeadLetter)>) -> Result<(), Failure> {
        for (namespace, letter) in page.take(usize::try_from(self.left).unwrap_or(usize::MAX)) {
            if self.json {
                self.output.json_of(namespace, letter)?;
            } else {
                if self.letters == 0 {
                    self.output.line(heading())?;
                }
                self.output.line(line(namespace, letter, self.width))?;
            }
            (self.left, self.letters) = (self.left - 1, self.letters + 1);
        }
        self.pages += 1;
        if let Some(progress) = &mut self.progress {
            let (pages, letters) = (plural(self.pages, "page"), plural(self.letters, "dead letter"));
            progress.tell(self.letters, &format!("{pages}, {letters}"));
        }
        Ok(())
    }

    fn end(self) -> Result<(), Failure> {
        match self.letters {
            0 if !self.json => self.output.line("no dead letters"),
            _ => Ok(()),
        }
    }
}

fn state(text: &str) -> Result<DeadLetterState, String> {
    text.parse()
}

fn heading() -> String {
    let (namespace, subscriber) = ("NAMESPACE", "SUBSCRIBER");
    let (sequence, state, event_type) = ("SEQUENCE", "STATE", "TYPE");
    format!(
        "{namespace:<12}  {subscriber:<20}  {sequence:>8}  {state:<9}  {event_type:<20}  TRIES  {:<24}  ERROR",
        "SINCE"
    )
}

/// Formats a letter in columns of a usual width. The widths are not measured, because the whole
/// list may be larger than the memory.
fn line(namespace: &str, letter: &DeadLetter, width: Option<usize>) -> String {
    let front = format!(
        "{:<12}  {:<20}  {:>8}  {:<9}  {:<20}  {:>5}  {:<24}",
        namespace,
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
