//! Reads pages of the log with the same SELECT on one connection, and decodes them into the same
//! [`RecordedEvent`].

use headwater::log::StreamId;
use headwater::{Event, Json, RecordedEvent};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgRow, PgTypeInfo, PgValueRef, Postgres};
use sqlx::{PgConnection, Row};

use crate::read::Seen;
use crate::server::BenchServer;

const PAGE: i64 = 1_000;

/// A reader that pages by sequence and proves no holes.
#[derive(Debug)]
pub(crate) struct BareSelect<'a> {
    conn: &'a mut PgConnection,
    namespace_id: i32,
}

impl<'a> BareSelect<'a> {
    pub(crate) fn new(server: &BenchServer, conn: &'a mut PgConnection) -> Self {
        BareSelect { conn, namespace_id: server.namespace_id() }
    }

    pub(crate) async fn read(self) -> anyhow::Result<Seen> {
        let (mut seen, mut after) = (Seen::default(), 0);
        loop {
            let rows = sqlx::query(include_str!("../../sql/bare_select.sql"))
                .bind(self.namespace_id)
                .bind(after)
                .bind(PAGE)
                .fetch_all(&mut *self.conn)
                .await?;
            let events = rows.iter().map(event).collect::<Result<Vec<RecordedEvent>, _>>()?;
            let Some(last) = events.last() else { return Ok(seen) };
            after = i64::from(last.sequence());
            for event in events {
                seen.note(&event)?;
            }
        }
    }
}

/// jsonb as its text. One version byte precedes the text.
struct Jsonb(Json);

impl sqlx::Type<Postgres> for Jsonb {
    fn type_info() -> PgTypeInfo {
        <sqlx::types::Json<()> as sqlx::Type<Postgres>>::type_info()
    }
}

impl sqlx::Decode<'_, Postgres> for Jsonb {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(Jsonb(Json::from_trusted(std::str::from_utf8(&value.as_bytes()?[1..])?)))
    }
}

fn event(row: &PgRow) -> Result<RecordedEvent, sqlx::Error> {
    let headers = row.try_get::<Option<Jsonb>, _>(11)?.map(|Jsonb(json)| json.decode()).transpose();
    let event = Event {
        global_sequence: Some(row.try_get::<i64, _>(0)? as u64),
        id: row.try_get(1)?,
        stream_id: row.try_get::<Option<String>, _>(2)?.map(StreamId::from),
        stream_version: row.try_get::<Option<i64>, _>(3)?.map(|version| version as u64),
        event_type: row.try_get(4)?,
        schema_version: row.try_get::<i32, _>(5)? as u32,
        data: Some(row.try_get::<Jsonb, _>(6)?.0),
        key: row.try_get(7)?,
        actor_id: row.try_get(8)?,
        correlation_id: row.try_get(9)?,
        causation_id: row.try_get(10)?,
        headers: headers.map_err(|error| sqlx::Error::Decode(error.into()))?.unwrap_or_default(),
        created_at: row.try_get(12)?,
        recorded_at: row.try_get(13)?,
        transaction_id: Some(row.try_get::<i64, _>(14)? as u64),
    };
    RecordedEvent::new(event).map_err(|error| sqlx::Error::Decode(error.into()))
}
