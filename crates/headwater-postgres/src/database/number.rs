//! Numbers to and from PostgreSQL, whose integers are signed while ours are not. Nothing is cast: a
//! number that the other side cannot hold is an error.

use headwater_core::{InvalidSequence, Sequence};
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgHasArrayType, PgRow, PgTypeInfo, PgValueRef, Postgres};
use sqlx::{ColumnIndex, Row};

/// A bigint that is a [`Sequence`]. A negative one cannot be decoded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PgSequence(pub(crate) u64);

impl sqlx::Type<Postgres> for PgSequence {
    fn type_info() -> PgTypeInfo {
        <i64 as sqlx::Type<Postgres>>::type_info()
    }
}

impl PgHasArrayType for PgSequence {
    fn array_type_info() -> PgTypeInfo {
        <i64 as PgHasArrayType>::array_type_info()
    }
}

impl sqlx::Decode<'_, Postgres> for PgSequence {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let number = <i64 as sqlx::Decode<Postgres>>::decode(value)?;
        Ok(PgSequence(Sequence::try_from(number)?.into()))
    }
}

/// An integer that counts. A negative one cannot be decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PgCount(pub(crate) u32);

impl sqlx::Type<Postgres> for PgCount {
    fn type_info() -> PgTypeInfo {
        <i32 as sqlx::Type<Postgres>>::type_info()
    }
}

impl sqlx::Decode<'_, Postgres> for PgCount {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let number = <i32 as sqlx::Decode<Postgres>>::decode(value)?;
        let count = u32::try_from(number).map_err(|_| format!("invalid count {number}: a count is never negative"))?;
        Ok(PgCount(count))
    }
}

/// Reads a sequence from a column.
pub(crate) fn sequence(row: &PgRow, column: impl ColumnIndex<PgRow>) -> Result<u64, sqlx::Error> {
    row.try_get(column).map(|PgSequence(sequence)| sequence)
}

/// Reads a sequence from a column that may be NULL.
pub(crate) fn sequence_or_null(row: &PgRow, column: impl ColumnIndex<PgRow>) -> Result<Option<u64>, sqlx::Error> {
    let sequence: Option<PgSequence> = row.try_get(column)?;
    Ok(sequence.map(|PgSequence(sequence)| sequence))
}

/// Reads sequences from an array column.
pub(crate) fn sequences(row: &PgRow, column: impl ColumnIndex<PgRow>) -> Result<Vec<u64>, sqlx::Error> {
    let sequences: Vec<PgSequence> = row.try_get(column)?;
    Ok(sequences.into_iter().map(|PgSequence(sequence)| sequence).collect())
}

/// Reads a count from a column.
pub(crate) fn count(row: &PgRow, column: impl ColumnIndex<PgRow>) -> Result<u32, sqlx::Error> {
    row.try_get(column).map(|PgCount(count)| count)
}

/// Converts a sequence to be stored.
pub(crate) fn bigint(sequence: u64) -> Result<i64, InvalidSequence> {
    Sequence::try_from(sequence).map(i64::from)
}

/// Converts sequences to be stored.
pub(crate) fn bigints(sequences: impl IntoIterator<Item = u64>) -> Result<Vec<i64>, InvalidSequence> {
    sequences.into_iter().map(bigint).collect()
}

/// Converts a sequence that is only compared, never stored. A value above what the database can
/// hold lies beyond everything in it.
pub(crate) fn bound(sequence: u64) -> i64 {
    Sequence::saturating(sequence).into()
}

/// Converts a count to an integer. A count above what the database can hold exceeds every limit,
/// and so does the highest integer.
pub(crate) fn int(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

/// Converts a duration to milliseconds. A duration that the database cannot hold is longer than
/// anything waits.
pub(crate) fn milliseconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_database_cannot_hold_is_an_error_or_the_highest_bound() {
        let highest = i64::MAX.unsigned_abs();
        assert_eq!((bigint(0), bigint(highest)), (Ok(0), Ok(i64::MAX)));
        assert_eq!(bigint(highest + 1), Err(InvalidSequence { value: i128::from(highest) + 1 }));
        assert_eq!(bigints([1, u64::MAX]), Err(InvalidSequence { value: u64::MAX.into() }));
        assert_eq!((bound(highest), bound(highest + 1), bound(u64::MAX)), (i64::MAX, i64::MAX, i64::MAX));
        assert_eq!((int(7_u32), int(u32::MAX), int(usize::MAX)), (7, i32::MAX, i32::MAX));
    }
}
