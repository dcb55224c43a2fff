//! Durations as people type and read them: `90s`, `36h`, `180d`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("w", 7 * 86_400), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// Parses a whole number with a unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration: it is a whole number with s, m, h, d or w, such as 180d");
    let (unit, seconds) = UNITS.iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(wrong)?;
    let number: u64 = text[..text.len() - unit.len()].parse().map_err(|_| wrong())?;
    number.checked_mul(*seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// Like [`parse`], but accepts months too. A month counts as 31 days, so that no event is dropped
/// earlier than asked.
pub(crate) fn parse_retention(text: &str) -> Result<Duration, String> {
    let Some(number) = text.strip_suffix("mo") else { return parse(text) };
    let months: Option<u64> = number.parse().ok();
    let seconds = months.and_then(|months| months.checked_mul(31 * 86_400));
    seconds
        .map(Duration::from_secs)
        .ok_or_else(|| format!("{text:?} is not a duration: it is a whole number with a unit, such as 6mo or 180d"))
}

/// Like [`parse`], but accepts milliseconds too.
pub(crate) fn parse_short(text: &str) -> Result<Duration, String> {
    match text.strip_suffix("ms") {
        Some(number) => number.parse().map(Duration::from_millis).map_err(|_| not_short(text)),
        None => parse(text).map_err(|_| not_short(text)),
    }
}

fn not_short(text: &str) -> String {
    format!("{text:?} is not a duration: it is a whole number with ms, s, m, h, d or w, such as 200ms")
}

/// Formats a duration in the largest unit that gives a whole number. Weeks are not used, because
/// people count retention in days.
pub(crate) fn format(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration.subsec_nanos() > 0 && seconds < 60 {
        return format!("{:.1}s", duration.as_secs_f64());
    }
    let fits = |(_, unit): &&(&str, u64)| seconds >= *unit && seconds.is_multiple_of(*unit);
    let (unit, size) = UNITS[1..].iter().find(fits).unwrap_or(&UNITS[4]);
    format!("{}{unit}", seconds / size)
}

/// Formats an age in its two largest units, or in seconds if it is shorter than a minute.
pub(crate) fn format_age(age: Duration) -> String {
    let seconds = age.as_secs();
    match UNITS[1..].windows(2).find(|pair| seconds >= pair[0].1) {
        Some([(large, large_size), (small, small_size)]) => {
            format!("{}{large}{}{small}", seconds / large_size, seconds % large_size / small_size)
        }
        _ => format!("{:.1}s", age.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        for text in ["1s", "90s", "45m", "36h", "180d"] {
            assert_eq!(format(parse(text).unwrap()), text);
        }
        assert_eq!(parse("2w").unwrap(), parse("14d").unwrap());
        assert_eq!(format(parse("60s").unwrap()), "1m");
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "d", "10", "1.5d", "-1d", "10y", "99999999999999999999d", "9999999999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn retention_may_be_of_months() {
        assert_eq!(format(parse_retention("6mo").unwrap()), "186d");
        assert_eq!(parse_retention("180d").unwrap(), parse("180d").unwrap());
        for text in ["mo", "1.5mo", "6 mo", "99999999999999999999mo"] {
            assert!(parse_retention(text).is_err(), "{text}");
        }
    }

    #[test]
    fn short_ones_may_be_of_milliseconds() {
        assert_eq!(parse_short("200ms").unwrap(), Duration::from_millis(200));
        assert_eq!(parse_short("5m").unwrap(), Duration::from_secs(300));
        for text in ["ms", "1.5ms", "200", "-1ms"] {
            assert!(parse_short(text).unwrap_err().contains("with ms, s, m"), "{text}");
        }
    }

    #[test]
    fn an_age_has_two_units() {
        assert_eq!(format_age(Duration::from_millis(1_250)), "1.2s");
        assert_eq!(format_age(Duration::from_secs(75)), "1m15s");
        assert_eq!(format_age(Duration::from_secs(2 * 86_400 + 3_700)), "2d1h");
    }
}
