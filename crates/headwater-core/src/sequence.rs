//! Numbers that the database counts.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A number that the database counts from 0 and keeps as a bigint: a place in the log, a position,
/// a horizon, the version of a stream.
///
/// The database's integers are signed and Rust's counters are not. Each conversion between the two
/// goes through this type, so a number that only one side can hold is an error and never another
/// number.
///
/// A sequence compares with a plain `u64` on its right:
///
/// ```
/// use headwater_core::Sequence;
///
/// let place = Sequence::try_from(41_u64)?;
/// assert!(place == 41 && place < 42);
/// assert_eq!(place.next().map(Sequence::get), Some(42));
/// assert_eq!(Sequence::default().previous(), None);
/// # Ok::<_, headwater_core::InvalidSequence>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Sequence(u64);

/// A number that is no [`Sequence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid sequence {value}: a sequence is 0 to {max}", max = Sequence::MAX)]
pub struct InvalidSequence {
    /// The number.
    pub value: i128,
}

impl Sequence {
    /// The highest sequence, which is the highest bigint.
    pub const MAX: Sequence = Sequence(i64::MAX.unsigned_abs());

    /// The sequence that is nearest to a bound. Use it only for a bound that is compared and not
    /// stored: a bound above [`Sequence::MAX`] is beyond every event, and so is `MAX`.
    pub fn saturating(bound: u64) -> Self {
        Sequence(bound).min(Sequence::MAX)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sequence after this one. `None`: this is [`Sequence::MAX`].
    pub fn next(self) -> Option<Self> {
        (self < Sequence::MAX).then(|| Sequence(self.0 + 1))
    }

    /// The sequence before this one. `None`: this is 0.
    pub fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(Sequence)
    }
}

impl PartialEq<u64> for Sequence {
    fn eq(&self, other: &u64) -> bool {
        self.0 == *other
    }
}

impl PartialOrd<u64> for Sequence {
    fn partial_cmp(&self, other: &u64) -> Option<Ordering> {
        Some(self.0.cmp(other))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<i64> for Sequence {
    type Error = InvalidSequence;

    fn try_from(value: i64) -> Result<Self, InvalidSequence> {
        u64::try_from(value).map(Sequence).map_err(|_| InvalidSequence { value: value.into() })
    }
}

impl TryFrom<u64> for Sequence {
    type Error = InvalidSequence;

    fn try_from(value: u64) -> Result<Self, InvalidSequence> {
        let sequence = Sequence(value);
        if sequence > Sequence::MAX { Err(InvalidSequence { value: value.into() }) } else { Ok(sequence) }
    }
}

impl From<Sequence> for u64 {
    fn from(sequence: Sequence) -> u64 {
        sequence.0
    }
}

impl From<Sequence> for i64 {
    fn from(sequence: Sequence) -> i64 {
        // The same number: no sequence is above `MAX`.
        sequence.0.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_sides_can_hold_stays_the_same_number() {
        for (signed, unsigned) in [(0_i64, 0_u64), (1, 1), (i64::MAX, i64::MAX.unsigned_abs())] {
            let sequence = Sequence::try_from(signed).unwrap();
            assert_eq!(Sequence::try_from(unsigned), Ok(sequence));
            assert_eq!((i64::from(sequence), u64::from(sequence)), (signed, unsigned));
            assert_eq!(sequence.to_string(), signed.to_string());
        }
        assert_eq!(Sequence::default(), Sequence::try_from(0_u64).unwrap());
    }

    #[test]
    fn what_only_one_side_can_hold_is_an_error_that_names_it() {
        let error = Sequence::try_from(-1_i64).unwrap_err();
        assert_eq!(error.to_string(), "invalid sequence -1: a sequence is 0 to 9223372036854775807");
        let error = Sequence::try_from(u64::MAX).unwrap_err();
        assert_eq!(error.to_string(), "invalid sequence 18446744073709551615: a sequence is 0 to 9223372036854775807");
        assert_eq!(Sequence::try_from(i64::MIN), Err(InvalidSequence { value: i64::MIN.into() }));
        assert!(Sequence::try_from(i64::MAX.unsigned_abs() + 1).is_err());
    }

    #[test]
    fn a_bound_beyond_every_event_is_the_highest() {
        assert_eq!(Sequence::saturating(u64::MAX), Sequence::MAX);
        assert_eq!(Sequence::saturating(i64::MAX.unsigned_abs() + 1), Sequence::MAX);
        assert_eq!(u64::from(Sequence::saturating(7)), 7);
    }

    #[test]
    fn it_compares_with_numbers_that_only_one_side_can_hold() {
        let seven = Sequence::saturating(7);
        assert!(seven == 7 && seven != 8 && seven < 8 && seven > 6 && seven <= 7 && seven >= 7);
        assert!(Sequence::MAX < u64::MAX && Sequence::MAX != u64::MAX);
        assert_eq!((seven.get(), Sequence::MAX.get()), (7, i64::MAX.unsigned_abs()));
    }

    #[test]
    fn neighbours_end_where_the_database_ends() {
        let seven = Sequence::saturating(7);
        assert_eq!((seven.previous(), seven.next()), (Some(Sequence::saturating(6)), Some(Sequence::saturating(8))));
        assert_eq!((Sequence::default().previous(), Sequence::MAX.next()), (None, None));
        assert_eq!(Sequence::MAX.previous().and_then(Sequence::next), Some(Sequence::MAX));
    }

    #[test]
    fn as_json_it_is_a_number_in_range() {
        assert_eq!(serde_json::to_string(&Sequence::MAX).unwrap(), "9223372036854775807");
        assert_eq!(serde_json::from_str::<Sequence>("9223372036854775807").unwrap(), Sequence::MAX);
        for refused in ["-1", "9223372036854775808", "18446744073709551615", "1.5", "\"1\""] {
            assert!(serde_json::from_str::<Sequence>(refused).is_err(), "{refused}");
        }
    }
}
