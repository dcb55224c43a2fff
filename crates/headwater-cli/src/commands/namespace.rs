//! `headwater namespace`: create, list, show, set, set-storage, drop, rename, export, import.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use headwater::admin::{
    Index, IndexState, MonthsMadeBy, NamespaceChanges, NamespaceConfig, NamespaceInfo, Ordering, Storage, TransferError,
};
use headwater::{Headwater, Json};
use serde_json::{Value, json};

use crate::commands::status::{horizon, horizon_json};
use crate::connection::ConnectionArgs;
use crate::duration;
use crate::failure::{Failure, output_failed};
use crate::held;
use crate::output::{Output, grouped, plural, printable};
use crate::progress::Progress;

/// Create, list, show, change, rename, drop, export and import namespaces: isolated logs with their own settings
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
    partitions: Option<MonthsMadeBy>,
    /// shared: its events are in months that it shares with other namespaces; own: it has months of its own, for a
    /// namespace that is much larger than the others [default: shared; own with pg_partman]
    #[arg(long, value_name = "shared|own", value_parser = storage)]
    storage: Option<Storage>,
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

/// Move a namespace to tables of its own, or to those that namespaces share, while it is in use
///
/// Events are copied, then appends wait for a fraction of a second while the namespace is switched over. If it is
/// interrupted, run it again: it goes on where it stopped. To ask for the storage that the namespace still has takes back
/// a move that has not switched yet. Only the owner of Headwater's tables can.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater namespace set-storage shop own
  headwater namespace set-storage shop shared --patience 10m")]
pub(crate) struct SetStorage {
    /// The namespace
    name: String,
    /// shared: its events are in months that it shares with other namespaces; own: it has months of its own
    #[arg(value_name = "shared|own", value_parser = storage)]
    storage: Storage,
    /// How long to try while transactions that append to it are in the way
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    patience: Duration,
}

/// Remove a namespace for good, with all its events, subscribers, dead letters and schedules
///
/// Only the owner of Headwater's tables can. It is refused while nodes of the namespace are alive, unless it is forced.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater namespace drop old-shop --confirm old-shop")]
pub(crate) struct Drop {
    /// The namespace
    name: String,
    /// The name of the namespace again
    #[arg(long, value_name = "NAME")]
    confirm: Option<String>,
    /// Although nodes of it are alive
    #[arg(long)]
    force: bool,
}

/// Give a namespace another name
///
/// Events, subscribers, schedules and grants stay as they are. Programs that run know the old name, so it is refused while
/// nodes live or leases are held.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  headwater namespace rename shop store")]
pub(crate) struct Rename {
    /// The namespace
    name: String,
    /// Its new name
    new_name: String,
    /// Rename it though it is in use: programs lose their leases, and fail until they use the new name
    #[arg(long)]
    force: bool,
}

/// Write a whole namespace as JSON lines
///
/// One snapshot: settings, events with their sequences, versions, ids and times, streams, subscribers with their
/// positions, dead letters, schedules, and events that wait to be due. Nodes, leases, claims and grants are left out: queues begin again after
/// the last event up to which all is settled. What transactions commit that are open now is not in it, so stop
/// producers first if nothing may be missing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater namespace export shop shop.jsonl
  headwater namespace export shop | zstd > shop.jsonl.zst")]
pub(crate) struct Export {
    /// The namespace
    name: String,
    /// A new file [default: standard output]
    file: Option<PathBuf>,
}

/// Make a namespace of an export
///
/// All of it or nothing. The name must not be taken. Schedules go on as they were, so pause them first if the
/// exported namespace still runs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater namespace import shop.jsonl
  zstd -dc shop.jsonl.zst | headwater namespace import - --as shop-copy")]
pub(crate) struct Import {
    /// The file; -: standard input
    file: PathBuf,
    /// The name of the new namespace [default: that of the exported one]
    #[arg(long = "as", value_name = "NAME")]
    new_name: Option<String>,
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
    /// types: keep an index of events by type, so that filtered reads and claims find rare types at once; each event
    /// costs one more row [default: none]
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
                headwater.drop_namespace(&drop.name, drop.force).await?;
                output.line(format_args!("namespace {} is gone", drop.name))?;
            }
            Namespace::SetStorage(set) => set.run(&headwater, &mut output).await?,
            Namespace::Rename(rename) => {
                let info = headwater.rename_namespace(&rename.name, &rename.new_name, rename.force).await?;
                output.line(format_args!("namespace {} is now {}", rename.name, info.name))?;
            }
            Namespace::Export(export) => export.run(&headwater).await?,
            Namespace::Import(import) => import.run(&headwater, &mut output).await?,
            Namespace::Set(set) => {
                let info = headwater.alter_namespace(&set.name, set.changes()?).await?;
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
        let moved = headwater.set_storage(&self.name, self.storage, self.patience, |step| {
            copied += step.events;
            let events = plural(copied, "event");
            match &*step.step {
                "copied" => progress.tell(copied, &format!("copied {events}, about {} to go", grouped(step.behind))),
                "switched" => progress.note(&format!("copied {events}; new events go to the new place")),
                "moved" => progress.note(&format!("moved a past month of {}", plural(step.events, "event"))),
                "dropped" => progress.note("dropped the tables of its own"),
                "undone" => progress.note("took back a move that was begun before"),
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
        let Create { name, ordering, partitions, storage, .. } = self;
        NamespaceConfig { name, ordering, notify, retention, max_payload_bytes, metadata, partitions, storage, index }
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
            eprintln!("warning: {count} may have appended: what is committed from now on is not in the export");
        }
        let mut out: Box<dyn Write> = match &self.file {
            Some(path) => Box::new(File::create_new(path).map_err(|error| failed("create", path, &error))?),
            None => Box::new(std::io::stdout()),
        };
        let mut buffer = BufWriter::with_capacity(256 * 1024, &mut out);
        let written = headwater
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
        let (info, read) = headwater.import_namespace(reader.lines(), self.new_name.as_deref()).await?;
        let (events, rows) = (plural(read.events, "event"), plural(read.rows, "row"));
        if info.storage == Storage::Own {
            let shared = format_args!("headwater namespace set-storage {} shared", info.name);
            eprintln!(
                "it has tables of its own, since shared months of the past take no more events; to share: {shared}"
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
        let namespaces = headwater.namespaces().await?;
        if self.json {
            return namespaces.iter().try_for_each(|info| output.json(&info_json(info)));
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
            ["storage".into(), info.storage.as_str().into()],
            ["index".into(), shown_index(info)],
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

/// What it keeps an index of, and how far that is if reads cannot use it.
fn shown_index(info: &NamespaceInfo) -> String {
    match info.index_state {
        IndexState::None | IndexState::Ready => info.index.as_str().into(),
        state => format!("{} ({})", info.index.as_str(), state.as_str()),
    }
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
        "storage": info.storage.as_str(),
        "index": info.index.as_str(),
        "index_state": info.index_state.as_str(),
    })
}

fn ordering(text: &str) -> Result<Ordering, String> {
    text.parse().map_err(|error: headwater::admin::AdminError| error.to_string())
}

fn partitions(text: &str) -> Result<MonthsMadeBy, String> {
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
