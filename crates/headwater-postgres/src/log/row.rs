//! Converts rows to events, and JSON to and from jsonb without parsing it in between.

use chrono::{DateTime, TimeDelta, Utc};
use headwater_core::{Event, Json, ReadError, RecordedEvent, StreamId};
use sqlx::Row;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgRow, PgTypeInfo, PgValueFormat, PgValueRef, Postgres};

use crate::database::error::read_error;
use crate::database::number::{PgCount, PgSequence};

/// A [`Json`] as jsonb.
pub(crate) struct PgJson(pub(crate) Json);

pub(crate) fn json(json: &Json) -> PgJson {
    PgJson(json.clone())
}

/// The binary form of jsonb is its text behind one byte: the version of that form.
const JSONB_VERSION: u8 = 1;

impl sqlx::Type<Postgres> for PgJson {
    fn type_info() -> PgTypeInfo {
        <sqlx::types::Json<()> as sqlx::Type<Postgres>>::type_info()
    }
}

impl sqlx::Encode<'_, Postgres> for PgJson {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.push(JSONB_VERSION);
        buffer.extend_from_slice(self.0.as_str().as_bytes());
        Ok(IsNull::No)
    }
}

impl sqlx::Decode<'_, Postgres> for PgJson {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let bytes = match (value.format(), value.as_bytes()?) {
            (PgValueFormat::Binary, [JSONB_VERSION, text @ ..]) => text,
            (PgValueFormat::Binary, other) => return Err(format!("unknown jsonb version {:?}", other.first()).into()),
            (PgValueFormat::Text, text) => text,
        };
        Ok(PgJson(Json::from_trusted(std::str::from_utf8(bytes)?)))
    }
}

/// A timestamptz. The driver's own type adds without a check, and PostgreSQL has times that it
/// cannot hold, such as `infinity`.
struct PgTime(DateTime<Utc>);

impl sqlx::Type<Postgres> for PgTime {
    fn type_info() -> PgTypeInfo {
        <DateTime<Utc> as sqlx::Type<Postgres>>::type_info()
    }
}

impl sqlx::Decode<'_, Postgres> for PgTime {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        if value.format() == PgValueFormat::Text {
            return <DateTime<Utc> as sqlx::Decode<Postgres>>::decode(value).map(PgTime);
        }
        // Microseconds since 2000.
        let micros = <i64 as sqlx::Decode<Postgres>>::decode(value)?;
        let epoch = DateTime::from_timestamp(946_684_800, 0).unwrap_or_default();
        let time = epoch.checked_add_signed(TimeDelta::microseconds(micros));
        time.map(PgTime).ok_or_else(|| format!("a time {micros} µs after 2000 is out of range").into())
    }
}

/// Reads an event from a row with the columns of `sql/log/log_page.query.sql`, by position: looking
/// up names would cost time for every row.
pub(crate) fn event(row: &PgRow) -> Result<RecordedEvent, ReadError> {
    decode(row).map_err(read_error)
}

fn decode(row: &PgRow) -> Result<RecordedEvent, sqlx::Error> {
    let PgJson(data) = column(row, 6)?;
    let headers = column::<Option<PgJson>>(row, 11)?;
    let event = Event {
        global_sequence: Some(column::<PgSequence>(row, 0)?.0),
        id: column(row, 1)?,
        stream_id: column::<Option<String>>(row, 2)?.map(StreamId::from),
        stream_version: column::<Option<PgSequence>>(row, 3)?.map(|version| version.0),
        event_type: column(row, 4)?,
        schema_version: column::<PgCount>(row, 5)?.0,
        data: (data.as_str() != "null").then_some(data),
        key: column(row, 7)?,
        actor_id: column(row, 8)?,
        correlation_id: column(row, 9)?,
        causation_id: column(row, 10)?,
        headers: match headers {
            Some(PgJson(headers)) => headers.decode().map_err(|error| sqlx::Error::Decode(Box::new(error)))?,
            None => Default::default(),
        },
        created_at: column::<PgTime>(row, 12)?.0,
        recorded_at: column::<Option<PgTime>>(row, 13)?.map(|time| time.0),
        transaction_id: Some(column::<PgSequence>(row, 14)?.0),
    };
    RecordedEvent::new(event).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

/// Reads a column, and trusts the type that the statement gives it: the driver would check it again
/// for every row.
fn column<'r, T: sqlx::Decode<'r, Postgres>>(row: &'r PgRow, index: usize) -> Result<T, sqlx::Error> {
    row.try_get_unchecked(index)
}
