//! Append requests as the arrays that `headwater.append_batch` takes, and its result as the answers
//! to these requests.

use chrono::{DateTime, Utc};
use headwater_core::{Append, AppendError, Appended, Event, ExpectedVersion, Placed};
use sqlx::postgres::{PgHasArrayType, PgRow, Postgres};
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::database::error::{append_error, sqlstate};
use crate::database::number::{PgSequence, bound, int};
use crate::sql;

/// The answer to one request.
#[derive(Debug)]
pub(crate) enum Answer {
    Done(Result<Appended, AppendError>),
    /// It failed, but its events are stored already. Sent alone, it gets the answer of the first
    /// time.
    SendAlone,
}

/// How a batch is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchOptions {
    /// Wake readers from within the transaction.
    pub(crate) notify: bool,
    /// Give up after waiting this long for a lock.
    pub(crate) patience_ms: Option<i32>,
    /// Whether events without streams may take the short way: as the owner of the tables, in a
    /// namespace with a sequence, outside of the caller's transaction.
    pub(crate) short_way: bool,
}

/// Appends `requests` in one statement, and returns their answers in order. An error concerns the
/// whole batch.
pub(crate) async fn append_batch(
    conn: &mut PgConnection,
    namespace: &str,
    requests: &[&Append],
    options: BatchOptions,
) -> Result<Vec<Answer>, sqlx::Error> {
    let batch = Batch::new(requests);
    if options.short_way && batch.writes.is_empty() {
        match batch.bind_emit(namespace, options).fetch_all(&mut *conn).await {
            Ok(rows) => {
                let sequences: Vec<Option<PgSequence>> =
                    rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
                if !matches!(sequences[..], [] | [None]) {
                    return batch.answers(requests, &Reply { sequences, ..Reply::default() });
                }
            }
            // 23505: one of the events is stored already, and the function finds out which requests
            // are retries. 2200H: the namespace was moved to other storage while the statement ran,
            // and its old sequence hands out nothing any more.
            Err(error) if matches!(sqlstate(&error), Some("23505" | "2200H")) => {}
            Err(error) => return Err(error),
        }
    }
    let row = batch.bind(namespace, options).fetch_one(conn).await?;
    batch.answers(requests, &Reply::try_from(&row)?)
}

/// Appends one request in the caller's transaction.
pub(crate) async fn append_one(
    conn: &mut PgConnection,
    namespace: &str,
    request: &Append,
    options: BatchOptions,
) -> Result<Appended, AppendError> {
    let answers = append_batch(conn, namespace, &[request], options).await.map_err(append_error)?;
    match answers.into_iter().next() {
        Some(Answer::Done(result)) => result,
        answer => unreachable!("one request has one answer of its own, not {answer:?}"),
    }
}

/// A column in which most batches have no value. The whole column is then NULL, which costs nothing
/// to send.
struct Sparse<T> {
    values: Vec<Option<T>>,
    used: bool,
}

impl<T> Sparse<T> {
    fn new(capacity: usize) -> Self {
        Sparse { values: Vec::with_capacity(capacity), used: false }
    }

    fn push(&mut self, value: Option<T>) {
        self.used |= value.is_some();
        self.values.push(value);
    }

    fn array(&self) -> Option<&[Option<T>]> {
        self.used.then_some(&self.values)
    }
}

struct Batch<'a> {
    request: Vec<i32>,
    event_id: Vec<Uuid>,
    event_type: Vec<&'a str>,
    data: Vec<&'a str>,
    stream_id: Sparse<&'a str>,
    write: Sparse<i32>,
    write_offset: Sparse<i32>,
    schema_version: Vec<i32>,
    key: Sparse<&'a str>,
    actor_id: Sparse<&'a str>,
    correlation_id: Sparse<Uuid>,
    causation_id: Sparse<Uuid>,
    headers: Sparse<String>,
    created_at: Vec<DateTime<Utc>>,
    writes: Vec<StreamWrite<'a>>,
}

struct StreamWrite<'a> {
    request: usize,
    stream_id: &'a str,
    count: usize,
    expected: ExpectedVersion,
}

impl<'a> Batch<'a> {
    fn new(requests: &[&'a Append]) -> Self {
        let events = requests.iter().map(|request| request.events().len()).sum();
        let mut batch = Batch {
            request: Vec::with_capacity(events),
            event_id: Vec::with_capacity(events),
            event_type: Vec::with_capacity(events),
            data: Vec::with_capacity(events),
            stream_id: Sparse::new(events),
            write: Sparse::new(events),
            write_offset: Sparse::new(events),
            schema_version: Vec::with_capacity(events),
            key: Sparse::new(events),
            actor_id: Sparse::new(events),
            correlation_id: Sparse::new(events),
            causation_id: Sparse::new(events),
            headers: Sparse::new(events),
            created_at: Vec::with_capacity(events),
            writes: Vec::new(),
        };
        // How many events of this batch each stream has so far: an event's offset counts across
        // requests.
        let mut lengths = std::collections::HashMap::new();
        for (index, request) in requests.iter().enumerate() {
            let first_write = batch.writes.len();
            let writes = request.writes();
            let places: std::collections::HashMap<&str, usize> =
                writes.iter().enumerate().map(|(place, write)| (write.stream_id.as_ref(), place)).collect();
            batch.writes.extend(writes.iter().map(|write| StreamWrite {
                request: index,
                stream_id: write.stream_id,
                count: write.count,
                expected: write.expected,
            }));
            for event in request.events() {
                let stream_id = event.stream_id.as_deref();
                batch.push(index, event);
                batch.write.push(stream_id.map(|stream| int(first_write + places[stream] + 1)));
                batch.write_offset.push(stream_id.map(|stream| {
                    let length = lengths.entry(stream).or_insert(0);
                    *length += 1;
                    *length
                }));
            }
        }
        batch
    }

    fn push(&mut self, request: usize, event: &'a Event) {
        self.request.push(int(request + 1));
        self.event_id.push(event.id);
        self.event_type.push(&event.event_type);
        self.data.push(event.data.as_ref().map_or("null", |data| data.as_str()));
        self.stream_id.push(event.stream_id.as_deref());
        self.schema_version.push(int(event.schema_version));
        self.key.push(event.key.as_deref());
        self.actor_id.push(event.actor_id.as_deref());
        self.correlation_id.push(event.correlation_id);
        self.causation_id.push(event.causation_id);
        self.headers.push(
            (!event.headers.is_empty())
                .then(|| serde_json::to_string(&event.headers).expect("a map of strings is always JSON")),
        );
        self.created_at.push(event.created_at);
    }

    fn bind<'q>(
        &'q self,
        namespace: &'q str,
        options: BatchOptions,
    ) -> sqlx::query::Query<'q, Postgres, sqlx::postgres::PgArguments> {
        let several = self.request.last() != Some(&1);
        sqlx::query(sql::log::APPEND_BATCH)
            .bind(namespace)
            .bind(several.then_some(&self.request))
            .bind(&self.event_id)
            .bind(&self.event_type)
            .bind(&self.data)
            .bind(self.stream_id.array())
            .bind(self.write.array())
            .bind(self.write_offset.array())
            .bind(self.schema_versions())
            .bind(self.key.array())
            .bind(self.actor_id.array())
            .bind(self.correlation_id.array())
            .bind(self.causation_id.array())
            .bind(self.headers.array())
            .bind(&self.created_at)
            .bind(self.per_write(|write| int(write.request + 1)))
            .bind(self.per_write(|write| write.stream_id))
            .bind(self.per_write(|write| int(write.count)))
            .bind(self.per_write(|write| match write.expected {
                ExpectedVersion::Any => None,
                ExpectedVersion::NoStream => Some(0),
                ExpectedVersion::Exists => Some(-1),
                // No stream reaches 2^63 events: a higher version is a conflict, as it should be.
                ExpectedVersion::Exact(version) => Some(bound(version)),
            }))
            .bind(options.notify)
            .bind(options.patience_ms)
    }

    fn bind_emit<'q>(
        &'q self,
        namespace: &'q str,
        options: BatchOptions,
    ) -> sqlx::query::Query<'q, Postgres, sqlx::postgres::PgArguments> {
        if self.event_id.len() == 1 {
            return sqlx::query(sql::log::EMIT_ONE)
                .bind(namespace)
                .bind(self.event_id[0])
                .bind(self.event_type[0])
                .bind(self.data[0])
                .bind(self.created_at[0])
                .bind(self.schema_version[0])
                .bind(self.key.values[0])
                .bind(self.actor_id.values[0])
                .bind(self.correlation_id.values[0])
                .bind(self.causation_id.values[0])
                .bind(self.headers.values[0].as_deref())
                .bind(options.patience_ms.unwrap_or(0));
        }
        sqlx::query(sql::log::EMIT_BATCH)
            .bind(namespace)
            .bind(&self.event_id)
            .bind(&self.event_type)
            .bind(&self.data)
            .bind(&self.created_at)
            .bind(self.schema_versions())
            .bind(self.key.array())
            .bind(self.actor_id.array())
            .bind(self.correlation_id.array())
            .bind(self.causation_id.array())
            .bind(self.headers.array())
            .bind(options.patience_ms.unwrap_or(0))
    }

    /// `None`: each version is 1.
    fn schema_versions(&self) -> Option<&[i32]> {
        self.schema_version.iter().any(|version| *version != 1).then_some(&self.schema_version)
    }

    fn per_write<T>(&self, value: impl FnMut(&StreamWrite<'a>) -> T) -> Option<Vec<T>>
    where
        T: PgHasArrayType,
    {
        (!self.writes.is_empty()).then(|| self.writes.iter().map(value).collect())
    }

    fn answers(&self, requests: &[&Append], reply: &Reply) -> Result<Vec<Answer>, sqlx::Error> {
        let mut at = 0;
        let answers = requests.iter().enumerate().map(|(index, request)| {
            let events = at..at + request.events().len();
            at = events.end;
            if reply.echoes.contains(&int(index + 1)) {
                return Answer::SendAlone;
            }
            if !reply.retried && !reply.succeeded.get(index).copied().unwrap_or(true) {
                return Answer::Done(Err(self.conflict(index, reply)));
            }
            let placed = events.map(|event| Placed {
                id: self.event_id[event],
                global_sequence: reply.sequences[event].unwrap_or_default().0,
                stream_version: self.version(event, reply),
            });
            Answer::Done(Ok(Appended { events: placed.collect(), retried: reply.retried }))
        });
        Ok(answers.collect())
    }

    fn version(&self, event: usize, reply: &Reply) -> Option<u64> {
        if reply.retried {
            return reply.versions[event].map(|PgSequence(version)| version);
        }
        let (write, offset) = (self.write.values[event]?, self.write_offset.values[event]?);
        let PgSequence(base) = reply.bases[usize::try_from(write).ok()? - 1];
        Some(base + u64::try_from(offset).ok()?)
    }

    fn conflict(&self, request: usize, reply: &Reply) -> AppendError {
        let mut writes = self.writes.iter().zip(&reply.bases).filter(|(write, _)| write.request == request);
        match writes.find(|(write, actual)| !write.expected.allows(actual.0)) {
            Some((write, actual)) => {
                AppendError::Conflict { stream_id: write.stream_id.into(), expected: write.expected, actual: actual.0 }
            }
            None => unreachable!("a request fails only by a write that conflicts"),
        }
    }
}

/// The result of `headwater.append_batch`.
#[derive(Default)]
struct Reply {
    sequences: Vec<Option<PgSequence>>,
    bases: Vec<PgSequence>,
    succeeded: Vec<bool>,
    retried: bool,
    versions: Vec<Option<PgSequence>>,
    echoes: Vec<i32>,
}

impl TryFrom<&PgRow> for Reply {
    type Error = sqlx::Error;

    fn try_from(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Reply {
            sequences: row.try_get::<Option<_>, _>(0)?.unwrap_or_default(),
            bases: row.try_get::<Option<_>, _>(1)?.unwrap_or_default(),
            succeeded: row.try_get::<Option<_>, _>(2)?.unwrap_or_default(),
            retried: row.try_get(3)?,
            versions: row.try_get::<Option<_>, _>(4)?.unwrap_or_default(),
            echoes: row.try_get::<Option<_>, _>(5)?.unwrap_or_default(),
        })
    }
}
