//! Numbers that the database counts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number that the database counts from 0 and keeps as a bigint: a place in the log, a position, a horizon, the version of a stream.
///
/// The database's integers are signed and Rust's counters are not. Each conversion between the two goes through this type, so a
/// number that only one side can hold is an error and never another number.
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

    /// The sequence that is nearest to a bound. Use it only for a bound that is compared and not stored: a bound above
    /// [`Sequence::MAX`] is beyond every event, and so is `MAX`.
    pub fn saturating(bound: u64) -> Self {
        Sequence(bound).min(Sequence::MAX)
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
    fn as_json_it_is_a_number_in_range() {
        assert_eq!(serde_json::to_string(&Sequence::MAX).unwrap(), "9223372036854775807");
        assert_eq!(serde_json::from_str::<Sequence>("9223372036854775807").unwrap(), Sequence::MAX);
        for refused in ["-1", "9223372036854775808", "18446744073709551615", "1.5", "\"1\""] {
            assert!(serde_json::from_str::<Sequence>(refused).is_err(), "{refused}");
        }
    }
}
