//! Selects dead letters, and reads them page by page.

use clap::Args;
use headwater::Headwater;
use headwater::delivery::{DeadLetter, DeadLetterQuery, DeadLetterState, OperatorStore, PgSubscribers};

use crate::failure::{Exit, Failure};

/// How many letters are read at once. Each holds a whole event.
const PAGE: u32 = 200;

/// Filters. A letter must match all that are given.
#[derive(Debug, Args)]
pub(super) struct FilterArgs {
    /// Only events of this type
    #[arg(long, value_name = "TYPE")]
    event_type: Option<String>,
    /// Only events of this key, or of this stream if they have no key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Only dead letters with this text in their last error
    #[arg(long, value_name = "TEXT")]
    error_contains: Option<String>,
}

impl FilterArgs {
    pub(super) fn query(&self, subscriber_id: Option<&str>) -> DeadLetterQuery {
        DeadLetterQuery {
            subscriber_id: subscriber_id.map(Into::into),
            event_type: self.event_type.clone(),
            order_key: self.key.clone(),
            error_contains: self.error_contains.clone(),
            ..DeadLetterQuery::default()
        }
    }

    fn is_empty(&self) -> bool {
        self.event_type.is_none() && self.key.is_none() && self.error_contains.is_none()
    }
}

/// Letters of one subscriber: one, some or all.
#[derive(Debug, Args)]
pub(super) struct ChosenArgs {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    pub(super) namespace: String,
    /// The subscriber's id
    #[arg(value_name = "SUBSCRIBER")]
    pub(super) subscriber: String,
    /// The event's global_sequence
    #[arg(value_name = "SEQUENCE", conflicts_with_all = ["all", "FilterArgs"])]
    sequence: Option<u64>,
    /// All dead letters of the subscriber
    #[arg(long, conflicts_with = "FilterArgs")]
    all: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

impl ChosenArgs {
    pub(super) fn query(&self) -> Result<DeadLetterQuery, Failure> {
        if self.sequence.is_none() && !self.all && self.filter.is_empty() {
            return Err(Failure::invalid("no dead letters were chosen").help(
                "name one by its SEQUENCE, or choose some with --event-type, --key or --error-contains, or --all",
            ));
        }
        Ok(DeadLetterQuery { global_sequence: self.sequence, ..self.filter.query(Some(&self.subscriber)) })
    }

    /// Fails if a single letter was named and not found. A filter that finds no letter is not a
    /// failure.
    pub(super) fn none(&self) -> Result<(), Failure> {
        match self.sequence {
            Some(sequence) => Err(not_found(&self.subscriber, sequence, "open dead letter")),
            None => Ok(()),
        }
    }
}

pub(super) fn not_found(subscriber: &str, sequence: u64, what: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("subscriber {subscriber:?} has no {what} {sequence}"))
        .help("list them with `headwater dead-letters list`")
}

pub(super) const ALL_STATES: [DeadLetterState; 5] = [
    DeadLetterState::Dead,
    DeadLetterState::Parked,
    DeadLetterState::Redriving,
    DeadLetterState::Redriven,
    DeadLetterState::Discarded,
];

/// The letters of one subscriber that a query finds, with one page in memory at a time. A page goes
/// on after a sequence, which is a position only within one subscriber.
pub(super) struct Pages<'s> {
    store: &'s PgSubscribers,
    query: DeadLetterQuery,
    done: bool,
}

impl<'s> Pages<'s> {
    pub(super) fn new(store: &'s PgSubscribers, query: DeadLetterQuery) -> Self {
        Pages { store, query: DeadLetterQuery { limit: PAGE, ..query }, done: false }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Vec<DeadLetter>>, Failure> {
        if self.done {
            return Ok(None);
        }
        let page = self.store.dead_letters(&self.query).await?;
        self.done = page.len() < PAGE as usize;
        self.query.after = page.last().map_or(self.query.after, DeadLetter::global_sequence);
        Ok(Some(page))
    }

    pub(super) async fn sequences(mut self) -> Result<Vec<u64>, Failure> {
        let mut all = Vec::new();
        while let Some(page) = self.next().await? {
            all.extend(page.iter().map(DeadLetter::global_sequence));
        }
        Ok(all)
    }
}

/// The letters of all namespaces that a query finds, with one page in memory at a time.
pub(super) struct PagesOfAll<'h> {
    headwater: &'h Headwater,
    query: DeadLetterQuery,
    /// The namespace, subscriber and sequence of the last letter that was read.
    after: Option<(String, String, u64)>,
    done: bool,
}

impl<'h> PagesOfAll<'h> {
    pub(super) fn new(headwater: &'h Headwater, query: DeadLetterQuery) -> Self {
        PagesOfAll { headwater, query: DeadLetterQuery { limit: PAGE, ..query }, after: None, done: false }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Vec<(String, DeadLetter)>>, Failure> {
        if self.done {
            return Ok(None);
        }
        let after = self.after.as_ref().map(|(namespace, id, sequence)| (namespace.as_str(), id.as_str(), *sequence));
        let page = self.headwater.admin().dead_letters(&self.query, after).await?;
        self.done = page.len() < PAGE as usize;
        let place = |(namespace, letter): &(String, DeadLetter)| {
            (namespace.clone(), letter.subscriber_id.clone(), letter.global_sequence())
        };
        self.after = page.last().map(place).or(self.after.take());
        Ok(Some(page))
    }
}
