//! Patterns for event types. SQL has the same rule in `headwater.matches_pattern`, and a test
//! compares the two.

use crate::InvalidName;
use crate::names::check_event_type;

/// Which event types a handler is for: `user.created` for one type, `user.*` for all types with
/// this prefix, `*` for all types. A `*` stands for any characters and may be anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventPattern(String);

impl EventPattern {
    /// Checks a pattern.
    pub fn new(pattern: impl Into<String>) -> Result<Self, InvalidName> {
        let pattern = pattern.into();
        check_event_type(&pattern)?;
        Ok(EventPattern(pattern))
    }

    /// The pattern as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern may match more than one type.
    pub fn is_wild(&self) -> bool {
        self.0.contains('*')
    }

    /// Whether an event type matches the pattern.
    pub fn matches(&self, event_type: &str) -> bool {
        matches_pattern(event_type, &self.0)
    }
}

/// Whether an event type matches a pattern, in which `*` stands for any characters.
pub fn matches_pattern(event_type: &str, pattern: &str) -> bool {
    let Some((front, rest)) = pattern.split_once('*') else { return pattern == event_type };
    let Some(event_type) = event_type.strip_prefix(front) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut left) = event_type.strip_suffix(end) else { return false };
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::EventPattern;

    #[test]
    fn a_star_stands_for_any_characters() {
        let cases = [
            ("user.created", "user.created", true),
            ("user.created", "user.created.late", false),
            ("user.*", "user.created", true),
            ("user.*", "user.", true),
            ("user.*", "user", false),
            ("user.*", "users.created", false),
            ("*", "anything", true),
            ("*.created", "user.created", true),
            ("*.created", "user.created.", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "ac", false),
            ("ab*ba", "aba", false),
            ("**", "", true),
            ("a.%_b*", "a.%_bc", true),
            ("a.%_b*", "a.xyb", false),
        ];
        for (pattern, event_type, expected) in cases {
            assert_eq!(EventPattern::new(pattern).unwrap().matches(event_type), expected, "{pattern} {event_type}");
        }
        assert!(EventPattern::new("").is_err());
    }
}
