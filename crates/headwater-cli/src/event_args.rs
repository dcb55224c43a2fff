//! The options that describe one event.

use std::io::Read;
use std::path::Path;

use clap::Args;
use headwater::{Event, Json};
use uuid::Uuid;

use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct EventArgs {
    /// The event's key: subscribers handle events with the same key in order
    #[arg(long)]
    key: Option<String>,
    /// Who caused the event
    #[arg(long)]
    actor_id: Option<String>,
    /// The id that all events with the same first cause share (a UUID)
    #[arg(long, value_name = "UUID")]
    correlation_id: Option<Uuid>,
    /// The event or command that led to this one (a UUID)
    #[arg(long, value_name = "UUID")]
    causation_id: Option<Uuid>,
    /// A header to pass on with the event, such as traceparent=00-…; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The event's id (a UUID). An event that is sent again with the same id is stored only once
    /// [default: a new id]
    #[arg(long, value_name = "UUID")]
    id: Option<Uuid>,
    /// The schema version of the event's data [default: 1]
    #[arg(long, value_name = "N")]
    schema_version: Option<u32>,
}

impl EventArgs {
    /// Builds the event. `data` is what the user typed: JSON, `@file`, or `-` for standard input.
    pub(crate) fn event(self, event_type: &str, data: Option<&str>) -> Result<Event, Failure> {
        let mut event = Event::builder().event_type(event_type).headers(self.headers);
        if let Some(data) = data {
            event = event.json(json(data)?);
        }
        if let Some(key) = self.key {
            event = event.key(key);
        }
        if let Some(actor_id) = self.actor_id {
            event = event.actor_id(actor_id);
        }
        if let Some(id) = self.correlation_id {
            event = event.correlation_id(id);
        }
        if let Some(id) = self.causation_id {
            event = event.causation_id(id);
        }
        if let Some(id) = self.id {
            event = event.id(id);
        }
        if let Some(version) = self.schema_version {
            event = event.schema_version(version);
        }
        event.build().map_err(Failure::unexpected)
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("a header is NAME=VALUE".into()),
    }
}

/// Reads JSON from an argument: the JSON itself, `@file`, or `-` for standard input.
pub(crate) fn json(argument: &str) -> Result<Json, Failure> {
    let (text, origin) = if argument == "-" {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::invalid(format!("failed to read standard input: {error}")))?;
        (text, Some("standard input"))
    } else if let Some(path) = argument.strip_prefix('@') {
        let text = std::fs::read_to_string(Path::new(path));
        (text.map_err(|error| Failure::invalid(format!("failed to read {path}: {error}")))?, Some(path))
    } else {
        (argument.to_owned(), None)
    };
    Json::parse(text).map_err(|error| match origin {
        Some(origin) => Failure::from(error).at(origin),
        None => Failure::from(error).at("DATA").help(
            "DATA is JSON in single quotes, such as '{\"total\": 5}' or '\"text\"', @FILE, or - for standard input",
        ),
    })
}
