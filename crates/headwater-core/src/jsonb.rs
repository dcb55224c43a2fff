//! Finds valid JSON that PostgreSQL's jsonb refuses, before it can fail an append that others
//! share.

/// The deepest accepted nesting. PostgreSQL parses jsonb recursively, so its stack sets a limit:
/// about 10,000 levels with the default `max_stack_depth`. An append must not fail at that limit.
const MAX_DEPTH: usize = 1_000;
/// The most digits that PostgreSQL's `numeric` holds before the decimal point.
const MAX_INTEGER_DIGITS: i64 = 131_072;
/// The most digits that PostgreSQL's `numeric` holds after the decimal point.
const MAX_FRACTION_DIGITS: i64 = 16_383;

/// The place in the text, and the reason.
type Refusal = (usize, &'static str);

/// Finds the first part of valid JSON that jsonb refuses. For text that is not JSON, the answer has
/// no meaning.
pub(crate) fn check_storable(text: &str) -> Result<(), Refusal> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        at = match byte {
            b'"' => after_string(bytes, at + 1)?,
            b'-' | b'0'..=b'9' => after_number(bytes, at)?,
            b'[' | b'{' if depth == MAX_DEPTH => return Err((at, "nested deeper than 1000 levels")),
            b'[' | b'{' => {
                depth += 1;
                at + 1
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at + 1
            }
            _ => at + 1,
        };
    }
    Ok(())
}

fn after_string(bytes: &[u8], mut at: usize) -> Result<usize, Refusal> {
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'"' => return Ok(at + 1),
            b'\\' => match escaped_unit(bytes, at) {
                Some(0) => return Err((at, "\\u0000 cannot be stored")),
                Some(0xD800..=0xDBFF) if matches!(escaped_unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) => 12,
                Some(0xD800..=0xDFFF) => return Err((at, "lone surrogate escape cannot be stored")),
                Some(_) => 6,
                None => 2,
            },
            _ => 1,
        };
    }
    Ok(at)
}

/// The UTF-16 unit of the escape `\uXXXX` at `at`, if one is there.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn after_number(bytes: &[u8], start: usize) -> Result<usize, Refusal> {
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut at = start + usize::from(bytes[start] == b'-');
    let integer = digits(at);
    at += integer;
    let mut fraction = 0;
    if bytes.get(at) == Some(&b'.') {
        fraction = digits(at + 1);
        at += 1 + fraction;
    }
    let mut exponent = 0_i64;
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let negative = bytes.get(at + 1) == Some(&b'-');
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
        let end = at + digits(at);
        let digit =
            |sum: i64, b: &u8| sum.saturating_mul(10).saturating_add(i64::from(b - b'0')).min(i64::from(i32::MAX));
        exponent = bytes[at..end].iter().fold(0, digit) * if negative { -1 } else { 1 };
        at = end;
    }
    let signed = |digits: usize| i64::try_from(digits).unwrap_or(i64::MAX);
    if signed(integer).saturating_add(exponent) > MAX_INTEGER_DIGITS
        || signed(fraction).saturating_sub(exponent) > MAX_FRACTION_DIGITS
    {
        return Err((start, "number beyond the range of PostgreSQL's numeric"));
    }
    Ok(at)
}
