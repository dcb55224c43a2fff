//! The SQL texts that read a source and its notes, made once from the templates in `sql/import/`.

use std::collections::HashMap;

use futures::TryStreamExt;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};

use super::batch::{Batch, imported};
use super::{ImportError, ImportField, ImportOptions, ImportSource};
use crate::database::number::sequence;
use crate::sql;

/// A table of the source.
pub(super) struct Table {
    /// Its name, quoted where needed.
    pub(super) name: String,
    /// Its schema, quoted where needed.
    pub(super) schema: String,
    /// Its columns with their types.
    pub(super) types: HashMap<String, String>,
    /// Whether a trigger can note each new row.
    pub(super) followable: bool,
    estimate: u64,
}

impl Table {
    /// Looks up a table, and checks that it has these columns.
    pub(super) async fn find<'a>(
        conn: &mut PgConnection,
        table: &str,
        mut columns: impl Iterator<Item = &'a str>,
    ) -> Result<Self, ImportError> {
        let rows =
            sqlx::query(sql::import::SOURCE_COLUMNS).bind(table).fetch_all(conn).await.map_err(ImportError::source)?;
        let Some(first) = rows.first() else {
            return Err(ImportError::Invalid(format!("there is no table {table:?} in the source")));
        };
        let types: HashMap<String, String> = rows.iter().map(|row| (row.get("name"), row.get("type"))).collect();
        if let Some(missing) = columns.find(|column| !types.contains_key(*column)) {
            let mut there: Vec<_> = types.keys().map(String::as_str).collect();
            there.sort_unstable();
            return Err(ImportError::Invalid(format!(
                "table {table:?} has no column {missing:?}: it has {}",
                there.join(", ")
            )));
        }
        Ok(Table {
            name: first.get("table_name"),
            schema: first.get("schema_name"),
            followable: first.get("followable"),
            estimate: sequence(first, "estimate").map_err(ImportError::source)?,
            types,
        })
    }
}

/// The statements that read a source.
pub(super) struct Reader {
    first_page: String,
    next_page: String,
    checksum: String,
    keep_ids: bool,
    /// About how many rows the source has.
    pub(super) estimate: u64,
    /// The first table of the source.
    pub(super) table: Table,
    /// The statements for the notes, if the source is followed.
    pub(super) notes: Option<NoteTexts>,
}

/// The statements for the notes of a table that is followed.
pub(super) struct NoteTexts {
    /// The name of the table of notes, as SQL has it.
    pub(super) table: String,
    /// The name of the trigger.
    pub(super) trigger: String,
    pub(super) make: String,
    pub(super) drop_trigger: String,
    pub(super) drop: String,
    pub(super) keep: String,
    last: String,
    page: String,
    rest: String,
    forget: String,
}

impl Reader {
    /// With a token, rows that have a note are left out.
    pub(super) async fn new(
        conn: &mut PgConnection,
        options: &ImportOptions,
        token: Option<&str>,
    ) -> Result<Self, ImportError> {
        let source = &options.source;
        let mut tables = Vec::new();
        for table in &source.tables {
            tables.push(Table::find(conn, table, source.columns()).await?);
        }
        let estimate = tables.iter().map(|table| table.estimate).sum();
        let names: Vec<String> = tables.iter().map(|table| table.name.clone()).collect();
        let table = tables.pop().ok_or_else(|| ImportError::Invalid("the source names no table".into()))?;
        let texts = Texts { source, tables: &names, types: &table.types, token, schema: &table.schema };
        Ok(Reader {
            first_page: texts.page("true", options.batch),
            next_page: texts.page(&texts.after(), options.batch),
            checksum: texts.fill(sql::import::SOURCE_CHECKSUM),
            notes: token.map(|token| texts.notes(token, options.batch)),
            keep_ids: source.keep_ids,
            estimate,
            table,
        })
    }

    /// Reads the rows after a cursor; `None`: there are no more rows.
    pub(super) async fn page(
        &self,
        conn: &mut PgConnection,
        cursor: Option<&[String]>,
        import: &str,
    ) -> Result<Option<Batch>, ImportError> {
        let text = if cursor.is_some() { &self.next_page } else { &self.first_page };
        let query = sqlx::query(AssertSqlSafe(text.clone()));
        let query = if let Some(cursor) = cursor { query.bind(cursor) } else { query };
        let mut rows = query.fetch(conn);
        let mut batch = Batch::default();
        while let Some(row) = rows.try_next().await.map_err(ImportError::source)? {
            let (event, cursor) = imported(&row, import, self.keep_ids)?;
            batch.add(event);
            batch.cursor = Some(cursor);
            if batch.is_full() {
                break;
            }
        }
        Ok(batch.cursor.is_some().then_some(batch))
    }

    /// Returns how many rows there are, and the sum of their hashes.
    pub(super) async fn checksum(&self, conn: &mut PgConnection) -> Result<(u64, String), ImportError> {
        let query = sqlx::query(AssertSqlSafe(self.checksum.clone()));
        let row = query.fetch_one(conn).await.map_err(ImportError::source)?;
        if row.get::<i64, _>("unordered") > 0 {
            return Err(unordered(String::new()));
        }
        Ok((sequence(&row, "events").map_err(ImportError::source)?, row.get("checksum")))
    }

    /// Reads the rows that have a note, up to a cursor (`None`: all of them), in one batch; `None`:
    /// no row has a note.
    pub(super) async fn noted(
        &self,
        conn: &mut PgConnection,
        notes: &NoteTexts,
        up_to: Option<&[String]>,
        import: &str,
    ) -> Result<Option<Batch>, ImportError> {
        let text = if up_to.is_some() { &notes.page } else { &notes.rest };
        let query = sqlx::query(AssertSqlSafe(text.clone()));
        let query = if let Some(cursor) = up_to { query.bind(cursor) } else { query };
        let mut rows = query.fetch(conn);
        let mut batch = Batch::default();
        while let Some(row) = rows.try_next().await.map_err(ImportError::source)? {
            batch.notes.push(row.get("note"));
            if !row.get::<bool, _>("gone") {
                batch.add(imported(&row, import, self.keep_ids)?.0);
            }
            if batch.is_full() {
                break;
            }
        }
        Ok((!batch.notes.is_empty()).then_some(batch))
    }

    /// Returns the last row that has a note.
    pub(super) async fn last_noted(
        conn: &mut PgConnection,
        notes: &NoteTexts,
    ) -> Result<Option<Vec<String>>, ImportError> {
        let last = sqlx::query_scalar::<_, Vec<Option<String>>>(AssertSqlSafe(notes.last.clone()));
        let Some(last) = last.fetch_optional(conn).await.map_err(ImportError::source)? else { return Ok(None) };
        let id = last.last().cloned().flatten().unwrap_or_default();
        last.into_iter().collect::<Option<Vec<String>>>().map(Some).ok_or_else(|| unordered(id))
    }

    pub(super) async fn forget(conn: &mut PgConnection, notes: &NoteTexts, which: &[i64]) -> Result<(), ImportError> {
        let query = sqlx::query(AssertSqlSafe(notes.forget.clone())).bind(which);
        query.execute(conn).await.map_err(ImportError::source)?;
        Ok(())
    }
}

fn unordered(id: String) -> ImportError {
    ImportError::Row { id, reason: "a column by which rows are ordered is NULL".into() }
}

/// Fills the templates. Everything that is put in is an identifier or a constant, quoted, or a type
/// that the database named.
pub(super) struct Texts<'a> {
    pub(super) source: &'a ImportSource,
    pub(super) tables: &'a [String],
    pub(super) types: &'a HashMap<String, String>,
    pub(super) schema: &'a str,
    pub(super) token: Option<&'a str>,
}

impl Texts<'_> {
    fn page(&self, after: &str, limit: u32) -> String {
        self.fill(sql::import::SOURCE_PAGE).replace("{after}", after).replace("{limit}", &limit.to_string())
    }

    fn notes(&self, token: &str, limit: u32) -> NoteTexts {
        let order: Vec<String> = self.order().map(identifier).collect();
        let of = |prefix: &str, suffix: &str| {
            order.iter().map(|column| format!("{prefix}{column}{suffix}")).collect::<Vec<_>>().join(", ")
        };
        let typed: Vec<String> =
            self.order().map(|column| format!("{} {}", identifier(column), self.types[column])).collect();
        let up_to = format!("({}) <= ({})", of("noted.", ""), self.values());
        let function = format!("{}.{}", self.schema, identifier(&format!("headwater_note_{token}")));
        let trigger = format!("headwater_note_{token}");
        let table = self.notes_table(token);
        let fill = |template: &str| {
            self.fill(template)
                .replace("{notes}", &table)
                .replace("{typed}", &typed.join(", "))
                .replace("{columns}", &of("", ""))
                .replace("{new}", &of("NEW.", ""))
                .replace("{noted_cursor}", &of("noted.", "::text"))
                .replace("{noted_order}", &of("noted.", ""))
                .replace("{noted_order_down}", &of("noted.", " DESC"))
                .replace("{id_column}", &identifier(&self.source.id))
                .replace("{function}", &function)
                .replace("{trigger}", &identifier(&trigger))
                .replace("{table}", self.tables.first().map(String::as_str).unwrap_or_default())
        };
        let page = |up_to: &str, limit: u32| {
            fill(sql::import::NOTES_PAGE).replace("{up_to}", up_to).replace("{limit}", &limit.to_string())
        };
        NoteTexts {
            make: fill(sql::import::NOTES_MAKE),
            drop_trigger: fill(sql::import::TRIGGER_DROP),
            drop: fill(sql::import::NOTES_DROP),
            keep: fill(sql::import::NOTES_KEEP),
            last: fill(sql::import::NOTES_LAST),
            page: page(&up_to, limit),
            // One more than a batch: a reader that gets this many rows knows that there may be
            // more.
            rest: page("true", limit + 1),
            forget: fill(sql::import::NOTES_FORGET),
            trigger,
            table,
        }
    }

    fn notes_table(&self, token: &str) -> String {
        format!("{}.{}", self.schema, identifier(&format!("headwater_notes_{token}")))
    }

    pub(super) fn fill(&self, template: &str) -> String {
        let source = self.source;
        let order: Vec<String> = self.order().map(of_source).collect();
        let text = |column: &Option<String>| {
            column.as_deref().map_or("NULL::text".into(), |c| format!("{}::text", of_source(c)))
        };
        let uuid = |column: &Option<String>| {
            column.as_deref().map_or("NULL::uuid".into(), |c| format!("{}::text::uuid", of_source(c)))
        };
        let number = |column: &Option<String>| {
            column.as_deref().map_or("NULL::bigint".into(), |c| format!("{}::bigint", of_source(c)))
        };
        let version = source
            .version
            .as_deref()
            .map(|column| format!("{}::bigint + {}", of_source(column), 1 - source.version_from));
        let unordered: Vec<String> = order.iter().map(|column| format!("{column} IS NULL")).collect();
        let texts: Vec<String> = order.iter().map(|column| format!("{column}::text")).collect();
        template
            .replace("{fields}", sql::import::SOURCE_FIELDS)
            .replace("{id}", &of_source(&source.id))
            .replace("{event_type}", &self.event_type())
            .replace("{data}", &self.data())
            .replace("{stream}", &text(&source.stream))
            .replace("{version}", version.as_deref().unwrap_or("NULL::bigint"))
            .replace("{time}", &self.time())
            .replace("{key}", &text(&source.key))
            .replace("{actor}", &text(&source.actor))
            .replace("{correlation}", &uuid(&source.correlation))
            .replace("{causation}", &uuid(&source.causation))
            .replace("{metadata}", &text(&source.metadata))
            .replace("{sequence}", &number(&source.sequence))
            .replace("{cursor}", &texts.join(", "))
            .replace("{order}", &order.join(", "))
            .replace("{unordered}", &unordered.join(" OR "))
            .replace("{not_noted}", &self.not_noted())
            .replace("{from}", &self.from())
    }

    /// A row and its note are written together, so a row without a note is older than the trigger.
    fn not_noted(&self) -> String {
        let Some(token) = self.token else { return "true".into() };
        let same = self.order().map(|column| format!("noted.{} = {}", identifier(column), of_source(column)));
        let same: Vec<String> = same.collect();
        format!("NOT EXISTS (SELECT FROM {} noted WHERE {})", self.notes_table(token), same.join(" AND "))
    }

    fn order(&self) -> impl Iterator<Item = &str> {
        let id = (!self.source.order_by.contains(&self.source.id)).then_some(&self.source.id);
        self.source.order_by.iter().chain(id).map(String::as_str)
    }

    /// A condition for the rows behind the cursor, which is the first parameter.
    fn after(&self) -> String {
        let columns: Vec<String> = self.order().map(of_source).collect();
        format!("({}) > ({})", columns.join(", "), self.values())
    }

    /// The cursor in the first parameter, as values of the columns.
    fn values(&self) -> String {
        let values =
            self.order().enumerate().map(|(nth, column)| format!("($1::text[])[{}]::{}", nth + 1, self.types[column]));
        values.collect::<Vec<_>>().join(", ")
    }

    fn event_type(&self) -> String {
        match &self.source.event_type {
            ImportField::Column(column) => format!("{}::text", of_source(column)),
            ImportField::Constant(text) => format!("{}::text", constant(text)),
            ImportField::DataField(field) => format!("{} ->> {}", self.whole_data(), constant(field)),
        }
    }

    fn data(&self) -> String {
        match &self.source.data_field {
            Some(field) => format!("({} -> {})::text", self.whole_data(), constant(field)),
            None => {
                self.source.data.as_deref().map_or("NULL::text".into(), |column| format!("{}::text", of_source(column)))
            }
        }
    }

    fn whole_data(&self) -> String {
        self.source.data.as_deref().map_or("NULL::jsonb".into(), |column| format!("{}::text::jsonb", of_source(column)))
    }

    fn time(&self) -> String {
        self.source.time.as_deref().map_or("NULL::timestamptz".into(), |column| as_time("source", column, self.types))
    }

    /// Selects only the needed columns of each table, because the tables may have other columns
    /// too.
    fn from(&self) -> String {
        let [table] = self.tables else {
            let mut columns: Vec<String> = self.source.columns().map(identifier).collect();
            columns.sort_unstable();
            columns.dedup();
            let parts = self.tables.iter().map(|table| format!("SELECT {} FROM {table}", columns.join(", ")));
            return format!("({}) AS source", parts.collect::<Vec<_>>().join(" UNION ALL "));
        };
        format!("{table} AS source")
    }
}

/// Converts a column to a point in time. A time without a zone is UTC.
pub(super) fn as_time(alias: &str, column: &str, types: &HashMap<String, String>) -> String {
    let is_without_zone = types[column].starts_with("timestamp") && types[column].ends_with("without time zone");
    let column = format!("{alias}.{}", identifier(column));
    if is_without_zone { format!("{column} AT TIME ZONE 'UTC'") } else { format!("{column}::timestamptz") }
}

/// Names a column of the source with its alias: ORDER BY would take a bare name for a column of the
/// result.
fn of_source(name: &str) -> String {
    format!("source.{}", identifier(name))
}

pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a constant, even where a backslash has a meaning.
fn constant(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
