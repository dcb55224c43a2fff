//! `headwater import`: brings the events of another table in.

use clap::{ArgGroup, Args};
use headwater::{ImportField, ImportOptions, ImportProgress, ImportSource};
use serde_json::json;

use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::{Output, grouped, plural};
use crate::progress::Progress;

/// Bring the events of another table into a namespace: an event table of yours, a pgmq queue, message-db
///
/// It can be stopped and run again, also by a kill or a crash: how far it came is stored with each batch, and a run with the same name goes on from there,
/// without losing or doubling an event. In the end what the source has and what was imported are compared, by count and by checksum. Nobody should write to
/// the source meanwhile. `created_at` of an event is the time that the source says; its headers `import` and `source_id` say where it is from.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("from").required(true))]
#[command(after_help = "\
Examples:
  headwater import --namespace shop --from-table public.events --type-column kind --data-column payload --time-column created_at --order-by created_at,id
  headwater import --namespace shop --from-table orders_log --type OrderChanged --stream-column order_id --source-url postgres://old-server/shop
  headwater import --namespace pictures --from-pgmq thumbnails --archive --type-field eventType --data-field payload
  headwater import --namespace accounts --from-message-db")]
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
    /// The columns that order the rows; the id comes last by itself
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
}

impl Import {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let namespace = headwater.namespace(&self.namespace).await?;
        let (name, source) = self.source();
        let options = ImportOptions { name: self.name.clone().unwrap_or(name), source, batch: self.batch };
        let mut progress = Progress::new(None);
        let tell = |at: ImportProgress| {
            let text = format!("imported {} of about {}", grouped(at.events), grouped(at.estimate));
            progress.tell(at.events, &text);
        };
        let imported = namespace.log().import(self.source_url.as_deref(), &options, tell).await;
        drop(progress);
        headwater.shutdown().await;
        let imported = imported?;
        let mut output = Output::new();
        if self.json {
            output.json(&json!({
                "name": options.name, "events": imported.events, "new_events": imported.new_events, "checksum": imported.checksum,
            }))?;
        } else {
            let (all, new) = (plural(imported.events, "event"), grouped(imported.new_events));
            output.line(format_args!("import {}: {all}, {new} of them new, all as in the source", options.name))?;
        }
        output.finish()
    }

    fn source(&self) -> (String, ImportSource) {
        let (name, mut source) = match (&self.from_pgmq, &self.from_message_db, &self.from_table) {
            (Some(queue), _, _) => (format!("pgmq {queue}"), ImportSource::pgmq(queue, self.archive)),
            (_, Some(table), _) => {
                let tables = vec![table.clone()];
                ("message-db".to_owned(), ImportSource { tables, ..ImportSource::message_db() })
            }
            (_, _, table) => {
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
        set(&mut source.time, &self.time_column);
        set(&mut source.key, &self.key_column);
        set(&mut source.actor, &self.actor_column);
        set(&mut source.correlation, &self.correlation_column);
        set(&mut source.causation, &self.causation_column);
        set(&mut source.metadata, &self.metadata_column);
        if !self.order_by.is_empty() {
            source.order_by.clone_from(&self.order_by);
        }
        source.keep_ids = self.keep_ids;
        (name, source)
    }
}
