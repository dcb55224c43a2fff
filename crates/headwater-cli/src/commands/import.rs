//! `headwater import`: brings the events of another table in.

use clap::{ArgGroup, Args};
use headwater::Namespace;
use headwater::admin::{
    ImportCheckpoints, ImportDeadLetters, ImportField, ImportFollow, ImportOptions, ImportProgress, ImportSource,
    ImportStage, Imported,
};
use serde_json::json;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::{Output, grouped, plural};
use crate::progress::Progress;

/// Bring the events of another table into a namespace: an event table of yours, epoch, a pgmq queue, message-db
///
/// It can be stopped and run again, also by a kill or a crash: how far it came is stored with each batch, and a run with the same name goes on from there,
/// without losing or doubling an event. In the end what the source has and what was imported are compared, by count and by checksum. `created_at` of an event is
/// the time that the source says; its headers `import` and `source_id` say where it is from.
///
/// Nobody should write to the source meanwhile, unless you --follow it: then a trigger notes each new row, and the command imports these rows too, until you
/// have switched the application over and --finish. Checkpoints and dead letters of the old event bus are carried over in the end.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("from").required(true))]
#[command(after_help = "\
Examples:
  headwater import --namespace shop --from-table public.events --type-column kind --data-column payload --time-column created_at --order-by created_at,id
  headwater import --namespace shop --from-table orders_log --type OrderChanged --stream-column order_id --source-url postgres://old-server/shop
  headwater import --namespace pictures --from-pgmq thumbnails --archive --type-field eventType --data-field payload
  headwater import --namespace accounts --from-message-db
  headwater import --namespace shop --from-epoch --follow      # while the application still writes
  headwater import --namespace shop --from-epoch --finish      # when it does not any more")]
pub(crate) struct Import {
    /// The namespace
    #[arg(short, long)]
    namespace: String,
    /// A table, as SQL names it
    #[arg(long, value_name = "TABLE", group = "from")]
    from_table: Option<String>,
    /// A queue of pgmq's
    #[arg(long, value_name = "QUEUE", group = "from")]
    from_pgmq: Option<String>,
    /// The messages of message-db
    #[arg(long, value_name = "TABLE", group = "from", num_args = 0..=1, default_missing_value = "message_store.messages")]
    from_message_db: Option<String>,
    /// The events of epoch, with its checkpoints and dead letters [default: the tables that are there]
    #[arg(long, value_name = "TABLE", group = "from", num_args = 0..=1, default_missing_value = "")]
    from_epoch: Option<String>,
    /// With --from-pgmq: the archive too
    #[arg(long, requires = "from_pgmq")]
    archive: bool,
    /// The database that the table is in [default: that of the namespace]
    #[arg(long, value_name = "URL", env = "HEADWATER_SOURCE_URL", hide_env_values = true)]
    source_url: Option<String>,
    /// The name of the import: to go on with it, and in the header of its events [default: the table or queue]
    #[arg(long)]
    name: Option<String>,

    /// A column that tells rows apart [default: id]
    #[arg(long, value_name = "COLUMN")]
    id_column: Option<String>,
    /// The type of the events [default: event_type]
    #[arg(long, value_name = "COLUMN", group = "type_of")]
    type_column: Option<String>,
    /// The type of all events
    #[arg(long = "type", value_name = "TYPE", group = "type_of")]
    constant_type: Option<String>,
    /// The field of the data that has the type
    #[arg(long, value_name = "FIELD", group = "type_of")]
    type_field: Option<String>,
    /// The data: JSON, or text that holds JSON [default: data]
    #[arg(long, value_name = "COLUMN")]
    data_column: Option<String>,
    /// Only this field of the data
    #[arg(long, value_name = "FIELD")]
    data_field: Option<String>,
    /// The stream
    #[arg(long, value_name = "COLUMN")]
    stream_column: Option<String>,
    /// The version in the stream, from 1 on: it must be kept, or the import fails
    #[arg(long, value_name = "COLUMN", requires = "stream_column")]
    version_column: Option<String>,
    /// What the first version of a stream is called in the source [default: 1; of message-db: 0]
    #[arg(long, value_name = "N")]
    first_version: Option<i64>,
    /// When the event happened
    #[arg(long, value_name = "COLUMN")]
    time_column: Option<String>,
    /// The key
    #[arg(long, value_name = "COLUMN")]
    key_column: Option<String>,
    /// The actor
    #[arg(long, value_name = "COLUMN")]
    actor_column: Option<String>,
    /// The correlation, a UUID
    #[arg(long, value_name = "COLUMN")]
    correlation_column: Option<String>,
    /// The causation, a UUID
    #[arg(long, value_name = "COLUMN")]
    causation_column: Option<String>,
    /// More headers: a JSON object
    #[arg(long, value_name = "COLUMN")]
    metadata_column: Option<String>,
    /// The number by which checkpoints say how far they are
    #[arg(long, value_name = "COLUMN")]
    sequence_column: Option<String>,
    /// The columns that order the rows; the id comes last by itself [default: the sequence column]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    order_by: Vec<String>,
    /// Keep ids that are UUIDs, instead of making new ones that are ordered by time: later appends may be slower
    #[arg(long)]
    keep_ids: bool,
    /// Rows of one transaction
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    batch: u32,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    follow: Follow,
    #[command(flatten)]
    carried: Carried,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "While the application still writes")]
struct Follow {
    /// Import rows as they are added, until Ctrl-C; the next run goes on. Makes a trigger and a table in the source: needs TRIGGER on the table, and CREATE on its schema
    #[arg(long, conflicts_with_all = ["from_pgmq", "finish", "stop_following"])]
    follow: bool,
    /// With --follow: end when the rows that are there are imported; the trigger stays
    #[arg(long, requires = "follow")]
    until_caught_up: bool,
    /// The application does not write to the source any more: import the last rows, remove the trigger, carry over checkpoints and dead letters
    #[arg(long, conflicts_with_all = ["from_pgmq", "stop_following"])]
    finish: bool,
    /// Remove the trigger and its table without importing the last rows
    #[arg(long)]
    stop_following: bool,
}

impl Follow {
    fn wanted(&self) -> Option<ImportFollow> {
        match self {
            Follow { finish: true, .. } => Some(ImportFollow::Finish),
            Follow { until_caught_up: true, .. } => Some(ImportFollow::UntilCaughtUp),
            Follow { follow: true, .. } => Some(ImportFollow::Forever),
            _ => None,
        }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Checkpoints and dead letters of the old event bus")]
struct Carried {
    /// A table or view with its checkpoints: a subscriber is made for each
    #[arg(long, value_name = "TABLE")]
    checkpoints_table: Option<String>,
    /// The subscriber
    #[arg(long, value_name = "COLUMN", default_value = "subscriber_id")]
    checkpoint_subscriber_column: String,
    /// The sequence up to which the subscriber has handled everything
    #[arg(long, value_name = "COLUMN", default_value = "last_global_sequence")]
    checkpoint_sequence_column: String,
    /// A table or view with its dead letters
    #[arg(long, value_name = "TABLE")]
    dead_letters_table: Option<String>,
    /// The subscriber
    #[arg(long, value_name = "COLUMN", default_value = "subscriber_id")]
    letter_subscriber_column: String,
    /// The id of the event
    #[arg(long, value_name = "COLUMN", default_value = "event_id")]
    letter_event_column: String,
    /// The last error; of this and the following, '' says that there is none
    #[arg(long, value_name = "COLUMN", default_value = "error_message")]
    letter_error_column: String,
    /// How often it was tried
    #[arg(long, value_name = "COLUMN", default_value = "retry_count")]
    letter_attempts_column: String,
    /// When it became a dead letter
    #[arg(long, value_name = "COLUMN", default_value = "created_at")]
    letter_created_column: String,
    /// When it was tried last
    #[arg(long, value_name = "COLUMN", default_value = "last_retry_at")]
    letter_updated_column: String,
}

impl Carried {
    fn checkpoints(&self, found: Option<ImportCheckpoints>) -> Option<ImportCheckpoints> {
        let table = self.checkpoints_table.clone().or_else(|| found.map(|found| found.table))?;
        Some(ImportCheckpoints {
            table,
            subscriber: self.checkpoint_subscriber_column.clone(),
            sequence: self.checkpoint_sequence_column.clone(),
        })
    }

    fn dead_letters(&self, found: Option<ImportDeadLetters>) -> Option<ImportDeadLetters> {
        let table = self.dead_letters_table.clone().or_else(|| found.map(|found| found.table))?;
        let optional = |column: &String| (!column.is_empty()).then(|| column.clone());
        Some(ImportDeadLetters {
            table,
            subscriber: self.letter_subscriber_column.clone(),
            event: self.letter_event_column.clone(),
            error: optional(&self.letter_error_column),
            attempts: optional(&self.letter_attempts_column),
            created: optional(&self.letter_created_column),
            updated: optional(&self.letter_updated_column),
        })
    }
}

impl Import {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let namespace = headwater.namespace(&self.namespace).await?;
        let done = self.import(&namespace).await;
        headwater.shutdown().await;
        done
    }

    async fn import(&self, namespace: &Namespace) -> Result<(), Failure> {
        let (log, source_url) = (namespace.log(), self.source_url.as_deref());
        let options = self.options(namespace).await?;
        let mut progress = Progress::new(None);
        let mut last_stage = None;
        let tell = |at: ImportProgress| {
            if last_stage != Some(stage_only(at.stage)) {
                last_stage = Some(stage_only(at.stage));
                let is_forever = options.follow == Some(ImportFollow::Forever);
                if let Some(text) = said_of(at.stage).filter(|_| is_forever || at.stage != ImportStage::Following) {
                    progress.note(&text);
                }
            }
            let text = format!("imported {} of about {}", grouped(at.events), grouped(at.estimate));
            progress.tell(at.events, &text);
        };
        if self.follow.stop_following {
            let stopped = log.stop_following(source_url, &options, tell).await;
            drop(progress);
            return self.say_stopped(&options.name, stopped?);
        }
        let imported = log.import(source_url, &options, tell).await;
        drop(progress);
        self.say(&options, &imported?)
    }

    async fn options(&self, namespace: &Namespace) -> Result<ImportOptions, Failure> {
        let found = match &self.from_epoch {
            Some(table) => {
                let table = Some(table.as_str()).filter(|table| !table.is_empty());
                Some(namespace.log().epoch_import(self.source_url.as_deref(), table).await?)
            }
            None => None,
        };
        let (name, source) = self.source(found.as_ref().map(|found| &found.source));
        let (checkpoints, letters) = found.map(|found| (found.checkpoints, found.dead_letters)).unwrap_or_default();
        Ok(ImportOptions {
            batch: self.batch,
            follow: self.follow.wanted(),
            checkpoints: self.carried.checkpoints(checkpoints),
            dead_letters: self.carried.dead_letters(letters),
            ..ImportOptions::new(self.name.clone().unwrap_or(name), source)
        })
    }

    fn say_stopped(&self, name: &str, stopped: bool) -> Result<(), Failure> {
        let mut output = Output::new();
        if self.json {
            output.json(&json!({ "name": name, "stopped": stopped }))?;
        } else if stopped {
            output.line(format_args!("import {name} does not follow its table any more: the trigger is removed"))?;
        } else {
            output.line(format_args!("import {name} did not follow its table"))?;
        }
        output.finish()
    }

    fn say(&self, options: &ImportOptions, imported: &Imported) -> Result<(), Failure> {
        let mut output = Output::new();
        let name = &options.name;
        if self.json {
            let subscribers = imported.subscribers.iter().map(|subscriber| {
                json!({
                    "subscriber_id": subscriber.subscriber_id, "position": subscriber.position,
                    "late_events": subscriber.late_events, "is_new": subscriber.is_new,
                })
            });
            output.json(&json!({
                "name": name, "events": imported.events, "new_events": imported.new_events, "checksum": imported.checksum,
                "followed_events": imported.followed_events, "subscribers": subscribers.collect::<Vec<_>>(),
                "dead_letters": imported.dead_letters, "dead_letters_without_event": imported.dead_letters_without_event,
            }))?;
            return output.finish();
        }
        let (all, new) = (plural(imported.events, "event"), grouped(imported.new_events));
        let followed = match imported.followed_events {
            0 => String::new(),
            followed => format!("{} added while it followed, ", grouped(followed)),
        };
        output.line(format_args!("import {name}: {all}, {new} of them new, {followed}all as in the source"))?;
        for subscriber in &imported.subscribers {
            let (id, position) = (&subscriber.subscriber_id, subscriber.position);
            let late = match subscriber.late_events {
                0 => String::new(),
                late => format!(", and gets {} again that the old bus may have passed", plural(late, "event")),
            };
            let is_new = if subscriber.is_new { "goes on after" } else { "was there, and stays at" };
            output.line(format_args!("subscriber {id} {is_new} {position}{late}"))?;
        }
        if options.dead_letters.is_some() && imported.subscribers.len() as u64 + imported.dead_letters > 0 {
            output.line(format_args!("{} carried over", plural(imported.dead_letters, "dead letter")))?;
        }
        if imported.dead_letters_without_event > 0 {
            let letters = plural(imported.dead_letters_without_event, "dead letter");
            output.line(format_args!("{letters} left out: the events are not in the source any more"))?;
        }
        output.finish()
    }

    fn source(&self, epoch: Option<&ImportSource>) -> (String, ImportSource) {
        let (name, mut source) = match (epoch, &self.from_pgmq, &self.from_message_db, &self.from_table) {
            (Some(epoch), ..) => ("epoch".to_owned(), epoch.clone()),
            (_, Some(queue), ..) => (format!("pgmq {queue}"), ImportSource::pgmq(queue, self.archive)),
            (_, _, Some(table), _) => {
                let tables = vec![table.clone()];
                ("message-db".to_owned(), ImportSource { tables, ..ImportSource::message_db() })
            }
            (_, _, _, table) => {
                let table = table.clone().unwrap_or_default();
                (table.clone(), ImportSource::table(table))
            }
        };
        let set = |field: &mut Option<String>, given: &Option<String>| {
            if given.is_some() {
                field.clone_from(given);
            }
        };
        if let Some(id) = &self.id_column {
            source.id.clone_from(id);
        }
        let types = [
            self.type_column.clone().map(ImportField::Column),
            self.constant_type.clone().map(ImportField::Constant),
            self.type_field.clone().map(ImportField::DataField),
        ];
        if let Some(given) = types.into_iter().flatten().next() {
            source.event_type = given;
        }
        set(&mut source.data, &self.data_column);
        set(&mut source.data_field, &self.data_field);
        set(&mut source.stream, &self.stream_column);
        if self.version_column.is_some() {
            source.version.clone_from(&self.version_column);
            source.version_from = 1;
        }
        if let Some(first) = self.first_version {
            source.version_from = first;
        }
        set(&mut source.time, &self.time_column);
        set(&mut source.key, &self.key_column);
        set(&mut source.actor, &self.actor_column);
        set(&mut source.correlation, &self.correlation_column);
        set(&mut source.causation, &self.causation_column);
        set(&mut source.metadata, &self.metadata_column);
        if let Some(sequence) = &self.sequence_column {
            source.order_by = vec![sequence.clone()];
            source.sequence = Some(sequence.clone());
        }
        if !self.order_by.is_empty() {
            source.order_by.clone_from(&self.order_by);
        }
        source.keep_ids = self.keep_ids;
        (name, source)
    }
}

/// A stage is said once, also when its details change.
fn stage_only(stage: ImportStage) -> ImportStage {
    match stage {
        ImportStage::Waiting { pid, .. } => ImportStage::Waiting { pid, seconds: 0 },
        stage => stage,
    }
}

fn said_of(stage: ImportStage) -> Option<String> {
    match stage {
        ImportStage::Waiting { pid: 0, .. } => {
            Some("waiting for a prepared transaction that has written to the table".into())
        }
        ImportStage::Waiting { pid, seconds } => Some(format!(
            "waiting for a transaction that has written to the table: process {pid}, open for {seconds} s"
        )),
        ImportStage::Following => Some(
            "following: new rows are imported as they come. Stop it at any time, and run it again; when the application does not write to the table any more, run it with --finish"
                .into(),
        ),
        ImportStage::SwitchedOver => {
            Some("all rows are imported, and the trigger is removed: the application may write to Headwater".into())
        }
        ImportStage::Verifying => Some("comparing what was imported with the source".into()),
        _ => None,
    }
}
