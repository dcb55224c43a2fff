//! `headwater namespace`: create, list, show, set.

use std::time::Duration;

use clap::{Args, Subcommand};
use headwater::{Headwater, Json, NamespaceChanges, NamespaceConfig, NamespaceInfo, Ordering, Partitions};
use serde_json::{Value, json};

use crate::commands::status::{horizon, horizon_json};
use crate::connection::ConnectionArgs;
use crate::duration;
use crate::failure::Failure;
use crate::held;
use crate::output::{Output, printable};

/// Create, list, show and change namespaces: isolated logs with their own settings
#[derive(Debug, Subcommand)]
pub(crate) enum Namespace {
    Create(Create),
    List(List),
    Show(Show),
    Set(Set),
}

/// Create a namespace, or accept the one that is there
///
/// A setting that is given but differs from what is there is an error; one that is left out takes its default, or
/// stays as it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater namespace create shop
  headwater namespace create ledger --ordering gapless --retention 120mo --metadata '{\"owner\": \"finance\"}'")]
pub(crate) struct Create {
    /// 1 to 48 characters: lowercase letters, digits, - and _, starting with a letter
    name: String,
    /// sequence: writers never wait for each other, a rollback leaves a gap; gapless: no gaps, writers wait [default:
    /// sequence]
    #[arg(long, value_name = "sequence|gapless", value_parser = ordering)]
    ordering: Option<Ordering>,
    /// Who makes the partitions of coming months; pg_partman must be installed in the database [default: built-in]
    #[arg(long, value_name = "built-in|pg_partman", value_parser = partitions)]
    partitions: Option<Partitions>,
    #[command(flatten)]
    settings: Settings,
}

/// List the namespaces
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater namespace list --json | jq -r .name")]
pub(crate) struct List {
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// Show a namespace: its settings, how far its log goes, and who holds it back
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater namespace show shop --json | jq .horizon")]
pub(crate) struct Show {
    /// The namespace
    name: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Change settings of a namespace; those left out stay
///
/// Applications that have the namespace open see the new settings when they open it again. The ordering cannot be
/// changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater namespace set shop --retention 90d
  headwater namespace set shop --keep-for-ever --max-payload-bytes 4194304")]
pub(crate) struct Set {
    /// The namespace
    name: String,
    #[command(flatten)]
    settings: Settings,
    /// Keep events for ever: no retention
    #[arg(long, conflicts_with = "retention")]
    keep_for_ever: bool,
}

#[derive(Debug, Args)]
struct Settings {
    /// Whether SQL callers wake readers from within their transaction; false makes concurrent SQL writers faster
    #[arg(long, value_name = "true|false")]
    notify: Option<bool>,
    /// How long events are kept, as 6mo or 180d, a month at least; without it, for ever. A month counts as 31 days
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_retention)]
    retention: Option<Duration>,
    /// The largest payload of an event
    #[arg(long, value_name = "N")]
    max_payload_bytes: Option<u32>,
    /// Whatever you want to note: a JSON object
    #[arg(long, value_name = "JSON", value_parser = metadata)]
    metadata: Option<Json>,
}

impl Namespace {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let mut output = Output::new();
        match self {
            Namespace::Create(create) => {
                let info = headwater.create_namespace(create.config()).await?;
                output.line(format_args!("namespace {} is there: {}", info.name, summary(&info)))?;
            }
            Namespace::List(list) => list.run(&headwater, &mut output).await?,
            Namespace::Show(show) => show.run(&headwater, &mut output).await?,
            Namespace::Set(set) => {
                let info = headwater.alter_namespace(&set.name, set.changes()?).await?;
                output.line(format_args!("namespace {}: {}", info.name, summary(&info)))?;
            }
        }
        headwater.shutdown().await;
        output.finish()
    }
}

impl Create {
    fn config(self) -> NamespaceConfig {
        let Settings { notify, retention, max_payload_bytes, metadata } = self.settings;
        let (ordering, partitions) = (self.ordering, self.partitions);
        NamespaceConfig { name: self.name, ordering, notify, retention, max_payload_bytes, metadata, partitions }
    }
}

impl Set {
    fn changes(&self) -> Result<NamespaceChanges, Failure> {
        let Settings { notify, retention, max_payload_bytes, metadata } = &self.settings;
        let retention = if self.keep_for_ever { Some(None) } else { retention.map(Some) };
        let changes = NamespaceChanges {
            notify: *notify,
            retention,
            max_payload_bytes: *max_payload_bytes,
            metadata: metadata.clone(),
        };
        if changes == NamespaceChanges::default() {
            return Err(Failure::invalid("nothing to change was given").help("see `headwater namespace set --help`"));
        }
        Ok(changes)
    }
}

impl List {
    async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let namespaces = headwater.namespaces().await?;
        if self.json {
            return namespaces.iter().try_for_each(|info| output.json(&info_json(info)));
        }
        let heading = ["NAMESPACE", "ORDERING", "RETENTION", "MAX PAYLOAD", "NOTIFY", "CREATED"].map(String::from);
        let rows = namespaces.iter().map(|info| {
            [
                info.name.clone(),
                info.ordering.as_str().into(),
                info.retention.map_or("for ever".into(), duration::format),
                info.max_payload_bytes.to_string(),
                info.notify.to_string(),
                info.created_at.format("%F %T UTC").to_string(),
            ]
        });
        output.table(&[heading].into_iter().chain(rows).collect::<Vec<_>>())
    }
}

impl Show {
    async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let namespace = headwater.namespace(&self.name).await?;
        let (info, horizon) = (namespace.info(), horizon(headwater, &self.name).await?);
        if self.json {
            let mut value = info_json(info);
            if let (Value::Object(all), Value::Object(of_horizon)) = (&mut value, horizon_json(&horizon)) {
                all.extend(of_horizon);
            }
            return output.json(&value);
        }
        output.table(&[
            ["namespace".into(), info.name.clone()],
            ["ordering".into(), info.ordering.as_str().into()],
            ["retention".into(), info.retention.map_or("for ever".into(), duration::format)],
            ["max payload".into(), format!("{} bytes", info.max_payload_bytes)],
            ["notify".into(), info.notify.to_string()],
            ["metadata".into(), printable(info.metadata.as_str())],
            ["partitions".into(), info.partitions.as_str().into()],
            ["created".into(), info.created_at.format("%F %T UTC").to_string()],
            ["head".into(), horizon.head.to_string()],
            ["horizon".into(), horizon.horizon.to_string()],
        ])?;
        held::print(output, &self.name, &headwater.holders(Some(&self.name)).await?)
    }
}

fn summary(info: &NamespaceInfo) -> String {
    let kept = info.retention.map_or("for ever".into(), |retention| format!("for {}", duration::format(retention)));
    let (ordering, notify, bytes) = (info.ordering.as_str(), info.notify, info.max_payload_bytes);
    format!("ordering {ordering}, events kept {kept}, payloads up to {bytes} bytes, notify {notify}")
}

fn info_json(info: &NamespaceInfo) -> Value {
    json!({
        "name": info.name,
        "id": info.id,
        "ordering": info.ordering.as_str(),
        "notify": info.notify,
        "retention_seconds": info.retention.map(|retention| retention.as_secs()),
        "max_payload_bytes": info.max_payload_bytes,
        "metadata": info.metadata,
        "created_at": info.created_at,
        "partitions": info.partitions.as_str(),
    })
}

fn ordering(text: &str) -> Result<Ordering, String> {
    text.parse().map_err(|error: headwater::AdminError| error.to_string())
}

fn partitions(text: &str) -> Result<Partitions, String> {
    text.parse().map_err(|error: headwater::AdminError| error.to_string())
}

fn metadata(text: &str) -> Result<Json, String> {
    Json::parse(text).map_err(|error| error.to_string())
}
