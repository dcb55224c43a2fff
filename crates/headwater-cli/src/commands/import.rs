//! `headwater import`: imports the events of another table.

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

/// Import the events of another table into a namespace: your own event table, epoch, a pgmq queue,
/// or message-db
///
/// You can stop the import and run it again, also after a kill or a crash. Its progress is stored
/// with each batch, and a run with the same name goes on from there. No event is lost or imported
/// twice. At the end, the source and what was imported are compared, by count and by checksum.
/// `created_at` of an event is the time that the source has. Its headers `import` and `source_id`
/// say where it is from.
///
/// Nobody should write to the source during the import, unless you use --follow. Then a trigger
/// records each new row, and the command imports these rows too, until you have switched the
/// application over and run it with --finish. Checkpoints and dead letters of the old event bus are
/// imported at the end.
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
    /// Import from this table, named as in SQL
    #[arg(long, value_name = "TABLE", group = "from")]
    from_table: Option<String>,
    /// Import from this pgmq queue
    #[arg(long, value_name = "QUEUE", group = "from")]
    from_pgmq: Option<String>,
    /// Import the messages of message-db
    #[arg(long, value_name = "TABLE", group = "from", num_args = 0..=1, default_missing_value = "message_store.messages")]
    from_message_db: Option<String>,
    /// Import the events of epoch, with its checkpoints and dead letters [default: the tables that
    /// exist]
    #[arg(long, value_name = "TABLE", group = "from", num_args = 0..=1, default_missing_value = "")]
    from_epoch: Option<String>,
    /// With --from-pgmq: import the archive too
    #[arg(long, requires = "from_pgmq")]
    archive: bool,
    /// The database of the table [default: the database of the namespace]
    #[arg(long, value_name = "URL", env = "HEADWATER_SOURCE_URL", hide_env_values = true)]
    source_url: Option<String>,
    /// The name of the import, by which a later run goes on with it. The events have it in a header
    /// [default: the table or queue]
    #[arg(long)]
    name: Option<String>,

    /// The column that identifies a row [default: id]
    #[arg(long, value_name = "COLUMN")]
    id_column: Option<String>,
    /// The column with the event's type [default: event_type]
    #[arg(long, value_name = "COLUMN", group = "type_of")]
    type_column: Option<String>,
    /// One type for all events
    #[arg(long = "type", value_name = "TYPE", group = "type_of")]
    constant_type: Option<String>,
    /// The field of the data with the event's type
    #[arg(long, value_name = "FIELD", group = "type_of")]
    type_field: Option<String>,
    /// The column with the data: JSON, or text that holds JSON [default: data]
    #[arg(long, value_name = "COLUMN")]
    data_column: Option<String>,
    /// Import only this field of the data
    #[arg(long, value_name = "FIELD")]
    data_field: Option<String>,
    /// The column with the stream
    #[arg(long, value_name = "COLUMN")]
    stream_column: Option<String>,
    /// The column with the version in the stream, counted from 1. If an event cannot keep its
    /// version, the import fails
    #[arg(long, value_name = "COLUMN", requires = "stream_column")]
    version_column: Option<String>,
    /// The number of the first version of a stream in the source [default: 1; for message-db: 0]
    #[arg(long, value_name = "N")]
    first_version: Option<i64>,
    /// The column with the time at which the event happened
    #[arg(long, value_name = "COLUMN")]
    time_column: Option<String>,
    /// The column with the key
    #[arg(long, value_name = "COLUMN")]
    key_column: Option<String>,
    /// The column with the actor
    #[arg(long, value_name = "COLUMN")]
    actor_column: Option<String>,
    /// The column with the correlation id, a UUID
    #[arg(long, value_name = "COLUMN")]
    correlation_column: Option<String>,
    /// The column with the causation id, a UUID
    #[arg(long, value_name = "COLUMN")]
    causation_column: Option<String>,
    /// The column with more headers: a JSON object
    #[arg(long, value_name = "COLUMN")]
    metadata_column: Option<String>,
    /// The column with the number that checkpoints refer to
    #[arg(long, value_name = "COLUMN")]
    sequence_column: Option<String>,
    /// The columns that order the rows. The id is added as the last one [default: the sequence
    /// column]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    order_by: Vec<String>,
    /// Keep ids that are UUIDs, instead of new ids that are ordered by time. Later appends may be
    /// slower
    #[arg(long)]
    keep_ids: bool,
    /// How many rows are imported in one transaction
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    batch: u32,
    /// Print one JSON object
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
    /// Import rows as they are added, until Ctrl-C. The next run goes on. This creates a trigger
    /// and a table in the source, and needs TRIGGER on the table and CREATE on its schema
    #[arg(long, conflicts_with_all = ["from_pgmq", "finish", "stop_following"])]
    follow: bool,
    /// With --follow: stop when all present rows are imported. The trigger stays
    #[arg(long, requires = "follow")]
    until_caught_up: bool,
    /// Import the last rows, remove the trigger, and import checkpoints and dead letters. Use this
    /// when the application no longer writes to the source
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
    /// A table or view with the checkpoints. A subscriber is created for each
    #[arg(long, value_name = "TABLE")]
    checkpoints_table: Option<String>,
    /// The column with the subscriber
    #[arg(long, value_name = "COLUMN", default_value = "subscriber_id")]
    checkpoint_subscriber_column: String,
    /// The column with the sequence up to which the subscriber has handled everything
    #[arg(long, value_name = "COLUMN", default_value = "last_global_sequence")]
    checkpoint_sequence_column: String,
    /// A table or view with the dead letters
    #[arg(long, value_name = "TABLE")]
    dead_letters_table: Option<String>,
    /// The column with the subscriber
    #[arg(long, value_name = "COLUMN", default_value = "subscriber_id")]
    letter_subscriber_column: String,
    /// The column with the event's id
    #[arg(long, value_name = "COLUMN", default_value = "event_id")]
    letter_event_column: String,
    /// The column with the last error. For this option and the following ones, '' means that there
    /// is no such column
    #[arg(long, value_name = "COLUMN", default_value = "error_message")]
    letter_error_column: String,
    /// The column with the number of attempts
    #[arg(long, value_name = "COLUMN", default_value = "retry_count")]
    letter_attempts_column: String,
    /// The column with the time at which the event became a dead letter
    #[arg(long, value_name = "COLUMN", default_value = "created_at")]
    letter_created_column: String,
    /// The column with the time of the last attempt
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

/// Removes the details of a stage: a stage is announced once, also if its details change.
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
