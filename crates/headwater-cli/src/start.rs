//! Places in a log as people type them: `beginning`, `now`, a global_sequence, a time.

use chrono::DateTime;
use headwater::Namespace;
use headwater::delivery::{OperatorStore, StartFrom};

use crate::failure::Failure;

/// How the help writes such a place.
pub(crate) const PLACE: &str = "beginning|now|SEQUENCE|TIME";

pub(crate) fn parse(text: &str) -> Result<StartFrom, String> {
    match text {
        "beginning" => return Ok(StartFrom::Beginning),
        "now" => return Ok(StartFrom::Now),
        _ => {}
    }
    if let Ok(sequence) = text.parse() {
        return Ok(StartFrom::After(sequence));
    }
    DateTime::parse_from_rfc3339(text).map(|time| StartFrom::Time(time.to_utc())).map_err(|_| {
        "it is beginning, now, a global_sequence (to start after it), or a time such as 2026-01-31T12:00:00Z".into()
    })
}

/// Returns the position of a subscriber that begins at this place.
pub(crate) async fn position(namespace: &Namespace, place: StartFrom) -> Result<u64, Failure> {
    Ok(match place {
        StartFrom::Beginning => 0,
        StartFrom::Now => namespace.horizon().await?.horizon,
        StartFrom::After(sequence) => sequence,
        StartFrom::Time(time) => namespace.subscribers().position_at(time).await?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_words_sequences_and_times() {
        assert_eq!(parse("beginning"), Ok(StartFrom::Beginning));
        assert_eq!(parse("now"), Ok(StartFrom::Now));
        assert_eq!(parse("17"), Ok(StartFrom::After(17)));
        let time = DateTime::parse_from_rfc3339("2026-01-31T12:00:00+01:00").unwrap().to_utc();
        assert_eq!(parse("2026-01-31T12:00:00+01:00"), Ok(StartFrom::Time(time)));
        for text in ["", "soon", "-1", "2026-01-31", "2026-01-31T12:00:00"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
