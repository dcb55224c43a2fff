//! `headwater namespace`: create, list, show, set, set-storage, drop, rename, export, import.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use headwater::admin::{
    Index, IndexState, MonthsMadeBy, NamespaceChanges, NamespaceConfig, NamespaceInfo, Ordering, Storage, TransferError,
};
use headwater::{Headwater, Json};
use serde::Serialize;
use serde_json::Value;

use crate::commands::status::{horizon, horizon_json};
use crate::connection::ConnectionArgs;
use crate::duration;
use crate::failure::{Failure, output_failed};
use crate::held;
use crate::output::{Output, grouped, plural, printable};
use crate::progress::Progress;

/// Create, list, show, change, rename, drop, export and import namespaces: isolated logs with their
/// own settings
#[derive(Debug, Subcommand)]
pub(crate) enum Namespace {
    Create(Create),
    List(List),
    Show(Show),
    Set(Set),
    SetStorage(SetStorage),
    Drop(Drop),
    Rename(Rename),
    Export(Export),
    Import(Import),
}

/// Create a namespace, or accept the one that exists
///
/// If the namespace exists, a setting that you give and that differs is an error. A setting that
/// you leave out stays as it is, or takes its default in a new namespace.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater namespace create shop
  headwater namespace create ledger --ordering gapless --retention 120mo --metadata '{\"owner\": \"finance\"}'")]
pub(crate) struct Create {
    /// The name: 1 to 48 characters. Lowercase letters, digits, - and _, starting with a letter
    name: String,
    /// sequence: writers never wait for each other, and a rollback leaves a gap. gapless: no gaps,
    /// but writers wait for each other [default: sequence]
    #[arg(long, value_name = "sequence|gapless", value_parser = ordering)]
    ordering: Option<Ordering>,
    /// Who makes the coming months. built-in: Headwater. pg_partman: the extension, which must be
    /// installed in the database [default: built-in]
    #[arg(long, value_name = "built-in|pg_partman", value_parser = months_made_by)]
    months_made_by: Option<MonthsMadeBy>,
    /// shared: its events are in months that it shares with other namespaces. own: it has its own
    /// months, for a namespace that is much larger than the others [default: shared; own with
    /// pg_partman]
    #[arg(long, value_name = "shared|own", value_parser = storage)]
    storage: Option<Storage>,
    #[command(flatten)]
    settings: Settings,
}

/// List the namespaces
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater namespace list --json | jq -r .name")]
pub(crate) struct List {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Show a namespace: its settings, how far its log goes, and who holds it back
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater namespace show shop --json | jq .horizon")]
pub(crate) struct Show {
    /// The namespace
    name: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Change settings of a namespace. Settings that are left out stay as they are
///
/// Applications that have the namespace open see the new settings when they open it again. The
/// ordering cannot be changed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater namespace set shop --retention 90d
  headwater namespace set shop --index types
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

/// Move a namespace to its own tables, or to the shared tables, while it is in use
///
/// The events are copied first. Then appends wait for a fraction of a second while the namespace is
/// switched over. If the command is interrupted, run it again: it goes on where it stopped. To
/// cancel a move that has not switched over yet, ask for the storage that the namespace still has.
/// Only the owner of Headwater's tables can do this.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater namespace set-storage shop own
  headwater namespace set-storage shop shared --patience 10m")]
pub(crate) struct SetStorage {
    /// The namespace
    name: String,
    /// shared: its events are in months that it shares with other namespaces. own: it has its own
    /// months
    #[arg(value_name = "shared|own", value_parser = storage)]
    storage: Storage,
    /// How long to try while transactions that append to the namespace are in the way
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    patience: Duration,
}

/// Remove a namespace for good, with all its events, subscribers, dead letters and schedules
///
/// Only the owner of Headwater's tables can do this. While nodes of the namespace are alive, it is
/// refused unless you give --force.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater namespace drop old-shop --confirm old-shop")]
pub(crate) struct Drop {
    /// The namespace
    name: String,
    /// The name of the namespace again
    #[arg(long, value_name = "NAME")]
    confirm: Option<String>,
    /// Remove the namespace even if its nodes are alive
    #[arg(long)]
    force: bool,
}

/// Give a namespace another name
///
/// Events, subscribers, schedules and grants stay as they are. Running programs know only the old
/// name, so the command is refused while nodes are alive or leases are held.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater namespace rename shop store")]
pub(crate) struct Rename {
    /// The namespace
    name: String,
    /// Its new name
    new_name: String,
    /// Rename the namespace even if it is in use. Programs lose their leases, and fail until they
    /// use the new name
    #[arg(long)]
    force: bool,
}

/// Write a whole namespace as JSON lines
///
/// The export is one snapshot. It has the settings, the events with their sequences, versions, ids
/// and times, the streams, the subscribers with their positions, the dead letters, the schedules,
/// and the events that are not due yet. Nodes, leases, claims and grants are left out, so a queue
/// begins again after the last event up to which everything is settled. Events of transactions that
/// are open now are not in the export. Stop producers first if nothing may be missing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater namespace export shop shop.jsonl
  headwater namespace export shop | zstd > shop.jsonl.zst")]
pub(crate) struct Export {
    /// The namespace
    name: String,
    /// The file to create [default: standard output]
    file: Option<PathBuf>,
}

/// Create a namespace from an export
///
/// Imports everything or nothing. The name must not be taken. Schedules go on as they were: if the
/// exported namespace is still in use, pause its schedules first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater namespace import shop.jsonl
  zstd -dc shop.jsonl.zst | headwater namespace import - --as shop-copy")]
pub(crate) struct Import {
    /// The file, or - for standard input
    file: PathBuf,
    /// The name of the new namespace [default: the name of the exported namespace]
    #[arg(long = "as", value_name = "NAME")]
    new_name: Option<String>,
}

#[derive(Debug, Args)]
struct Settings {
    /// Whether SQL callers wake readers in their own transaction. false makes concurrent SQL
    /// writers faster
    #[arg(long, value_name = "true|false")]
    notify: Option<bool>,
    /// How long events are kept, such as 6mo or 180d: at least a month. A month counts as 31 days
    /// [default: for ever]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_retention)]
    retention: Option<Duration>,
    /// The largest payload that an event may have
    #[arg(long, value_name = "N")]
    max_payload_bytes: Option<u32>,
    /// Your own notes about the namespace: a JSON object
    #[arg(long, value_name = "JSON", value_parser = metadata)]
    metadata: Option<Json>,
    /// types: keep an index of events by type, so that filtered reads and claims find rare types at
    /// once. Each event then costs one more row [default: none]
    #[arg(long, value_name = "none|types", value_parser = index)]
    index: Option<Index>,
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
            Namespace::Drop(drop) => {
                drop.check()?;
                headwater.admin().drop_namespace(&drop.name, drop.force).await?;
                output.line(format_args!("namespace {} is gone", drop.name))?;
            }
            Namespace::SetStorage(set) => set.run(&headwater, &mut output).await?,
            Namespace::Rename(rename) => {
                let info = headwater.admin().rename_namespace(&rename.name, &rename.new_name, rename.force).await?;
                output.line(format_args!("namespace {} is now {}", rename.name, info.name))?;
            }
            Namespace::Export(export) => export.run(&headwater).await?,
            Namespace::Import(import) => import.run(&headwater, &mut output).await?,
            Namespace::Set(set) => {
                let info = headwater.admin().alter_namespace(&set.name, set.changes()?).await?;
                output.line(format_args!("namespace {}: {}", info.name, summary(&info)))?;
            }
        }
        headwater.shutdown().await;
        output.finish()
    }
}

impl SetStorage {
    async fn run(&self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let mut progress = Progress::new(None);
        let mut copied = 0;
        let admin = headwater.admin();
        let moved = admin.set_storage(&self.name, self.storage, self.patience, |step| {
            copied += step.events;
            let events = plural(copied, "event");
            match &*step.step {
                "copied" => progress.tell(copied, &format!("copied {events}, about {} to go", grouped(step.behind))),
                "switched" => progress.note(&format!("copied {events}; new events go to the new place")),
                "moved" => progress.note(&format!("moved a past month of {}", plural(step.events, "event"))),
                "dropped" => progress.note("dropped the namespace's own tables"),
                "undone" => progress.note("cancelled a move that had begun earlier"),
                _ => {}
            }
        });
        let info = moved.await?;
        drop(progress);
        output.line(format_args!("namespace {}: storage {}", info.name, info.storage.as_str()))
    }
}

impl Create {
    fn config(self) -> NamespaceConfig {
        let Settings { notify, retention, max_payload_bytes, metadata, index } = self.settings;
        let Create { name, ordering, months_made_by, storage, .. } = self;
        NamespaceConfig {
            name,
            ordering,
            notify,
            retention,
            max_payload_bytes,
            metadata,
            months_made_by,
            storage,
            index,
        }
    }
}

impl Set {
    fn changes(&self) -> Result<NamespaceChanges, Failure> {
        let Settings { notify, retention, max_payload_bytes, metadata, index } = &self.settings;
        let retention = if self.keep_for_ever { Some(None) } else { retention.map(Some) };
        let changes = NamespaceChanges {
            notify: *notify,
            retention,
            max_payload_bytes: *max_payload_bytes,
            metadata: metadata.clone(),
            index: *index,
        };
        if changes == NamespaceChanges::default() {
            return Err(Failure::invalid("nothing to change was given").help("see `headwater namespace set --help`"));
        }
        Ok(changes)
    }
}

impl Drop {
    fn check(&self) -> Result<(), Failure> {
        if self.confirm.as_ref() == Some(&self.name) {
            return Ok(());
        }
        let what = format!("not confirmed: this removes namespace {} with all its events, for good", self.name);
        Err(Failure::invalid(what).help(format!("repeat it with --confirm {}", self.name)))
    }
}

impl Export {
    async fn run(self, headwater: &Headwater) -> Result<(), Failure> {
        let writers = headwater.namespace(&self.name).await?.horizon().await?.writers;
        if !writers.is_empty() {
            let count = plural(writers.len() as u64, "open transaction");
            eprintln!("warning: {count} may have appended: events that commit from now on are not in the export");
        }
        let mut out: Box<dyn Write> = match &self.file {
            Some(path) => Box::new(File::create_new(path).map_err(|error| failed("create", path, &error))?),
            None => Box::new(std::io::stdout()),
        };
        let mut buffer = BufWriter::with_capacity(256 * 1024, &mut out);
        let written = headwater
            .admin()
            .export_namespace(&self.name, |line| {
                buffer.write_all(line.as_bytes())?;
                buffer.write_all(b"\n")
            })
            .await;
        let written = match (written, &self.file) {
            (Err(TransferError::File(error)), None) => return Err(output_failed(error)),
            (written, _) => written?,
        };
        match (buffer.flush(), &self.file) {
            (Err(error), Some(path)) => return Err(failed("write", path, &error)),
            (Err(error), None) => return Err(output_failed(error)),
            (Ok(()), _) => {}
        }
        eprintln!("exported {}, and {} more", plural(written.events, "event"), plural(written.rows, "row"));
        Ok(())
    }
}

impl Import {
    async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let reader: Box<dyn BufRead> = if self.file == Path::new("-") {
            Box::new(std::io::stdin().lock())
        } else {
            let file = File::open(&self.file).map_err(|error| failed("open", &self.file, &error))?;
            Box::new(BufReader::with_capacity(256 * 1024, file))
        };
        let (info, read) = headwater.admin().import_namespace(reader.lines(), self.new_name.as_deref()).await?;
        let (events, rows) = (plural(read.events, "event"), plural(read.rows, "row"));
        if info.storage == Storage::Own {
            let shared = format_args!("headwater namespace set-storage {} shared", info.name);
            eprintln!(
                "it has its own tables, because past shared months take no more events; to share tables: {shared}"
            );
        }
        output.line(format_args!("namespace {} is there: {events}, and {rows} more", info.name))
    }
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::invalid(format!("failed to {what} {}: {error}", path.display()))
}

impl List {
    async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let namespaces = headwater.admin().namespaces().await?;
        if self.json {
            return namespaces.iter().try_for_each(|info| output.json(&InfoJson::of(info)));
        }
        let heading =
            ["NAMESPACE", "ORDERING", "RETENTION", "MAX PAYLOAD", "NOTIFY", "INDEX", "CREATED"].map(String::from);
        let rows = namespaces.iter().map(|info| {
            [
                info.name.clone(),
                info.ordering.as_str().into(),
                info.retention.map_or("for ever".into(), duration::format),
                info.max_payload_bytes.to_string(),
                info.notify.to_string(),
                shown_index(info),
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
            return output.json(&InfoJson { horizon: Some(horizon_json(&horizon)), ..InfoJson::of(info) });
        }
        output.table(&[
            ["namespace".into(), info.name.clone()],
            ["ordering".into(), info.ordering.as_str().into()],
            ["retention".into(), info.retention.map_or("for ever".into(), duration::format)],
            ["max payload".into(), format!("{} bytes", info.max_payload_bytes)],
            ["notify".into(), info.notify.to_string()],
            ["metadata".into(), printable(info.metadata.as_str())],
            ["months by".into(), info.months_made_by.as_str().into()],
            ["storage".into(), info.storage.as_str().into()],
            ["index".into(), shown_index(info)],
            ["created".into(), info.created_at.format("%F %T UTC").to_string()],
            ["head".into(), horizon.head.to_string()],
            ["horizon".into(), horizon.horizon.to_string()],
        ])?;
        held::print(output, &self.name, &headwater.admin().holders(Some(&self.name)).await?)
    }
}

fn summary(info: &NamespaceInfo) -> String {
    let kept = info.retention.map_or("for ever".into(), |retention| format!("for {}", duration::format(retention)));
    let (ordering, notify, bytes) = (info.ordering.as_str(), info.notify, info.max_payload_bytes);
    format!("ordering {ordering}, events kept {kept}, payloads up to {bytes} bytes, notify {notify}")
}

/// The index that the namespace keeps, with its state if reads cannot use it yet.
fn shown_index(info: &NamespaceInfo) -> String {
    match info.index_state {
        IndexState::None | IndexState::Ready => info.index.as_str().into(),
        state => format!("{} ({})", info.index.as_str(), state.as_str()),
    }
}

/// A namespace as JSON. Its metadata goes to the output as it is, which `json!` would parse.
#[derive(Serialize)]
struct InfoJson<'i> {
    name: &'i str,
    id: i32,
    ordering: &'static str,
    notify: bool,
    retention_seconds: Option<u64>,
    max_payload_bytes: u32,
    metadata: &'i Json,
    created_at: DateTime<Utc>,
    months_made_by: &'static str,
    storage: &'static str,
    index: &'static str,
    index_state: &'static str,
    /// The fields of the horizon, if they are shown.
    #[serde(flatten)]
    horizon: Option<Value>,
}

impl InfoJson<'_> {
    fn of(info: &NamespaceInfo) -> InfoJson<'_> {
        InfoJson {
            name: &info.name,
            id: info.id,
            ordering: info.ordering.as_str(),
            notify: info.notify,
            retention_seconds: info.retention.map(|retention| retention.as_secs()),
            max_payload_bytes: info.max_payload_bytes,
            metadata: &info.metadata,
            created_at: info.created_at,
            months_made_by: info.months_made_by.as_str(),
            storage: info.storage.as_str(),
            index: info.index.as_str(),
            index_state: info.index_state.as_str(),
            horizon: None,
        }
    }
}

fn ordering(text: &str) -> Result<Ordering, String> {
    text.parse().map_err(|error: headwater::admin::AdminError| error.to_string())
}

fn months_made_by(text: &str) -> Result<MonthsMadeBy, String> {
    text.parse().map_err(|error: headwater::admin::AdminError| error.to_string())
}

fn storage(text: &str) -> Result<Storage, String> {
    text.parse().map_err(|error: headwater::admin::AdminError| error.to_string())
}

fn index(text: &str) -> Result<Index, String> {
    text.parse().map_err(|error: headwater::admin::AdminError| error.to_string())
}

fn metadata(text: &str) -> Result<Json, String> {
    Json::parse(text).map_err(|error| error.to_string())
}
