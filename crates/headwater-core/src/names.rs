//! The rules for names. SQL has the same rules in `headwater.check_*`, and a test compares the two.

/// The longest name of a namespace, in bytes. The NOTIFY channel includes the name, and a channel
/// has at most 63 bytes.
pub const MAX_NAMESPACE_BYTES: usize = 48;
/// The longest stream id, in bytes: it must fit into an index entry.
pub const MAX_STREAM_ID_BYTES: usize = 512;
/// The longest event type, in bytes.
pub const MAX_EVENT_TYPE_BYTES: usize = 255;
/// The longest subscriber id or node name, in bytes.
pub const MAX_SUBSCRIBER_ID_BYTES: usize = 255;
/// The longest key or actor id, in bytes.
pub const MAX_KEY_BYTES: usize = 512;

/// A name that breaks the rule for its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} {value:?}: {rule}")]
pub struct InvalidName {
    /// What the name was for: `namespace`, `stream_id`, `event_type`, `key`, `actor_id`.
    pub what: &'static str,
    /// The name that was given, cut after 80 characters.
    pub value: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

impl InvalidName {
    fn new(what: &'static str, value: &str, rule: &'static str) -> Self {
        InvalidName { what, value: value.chars().take(80).collect(), rule }
    }
}

/// Checks the name of a namespace.
pub fn check_namespace(name: &str) -> Result<(), InvalidName> {
    let mut bytes = name.bytes();
    let starts_well = bytes.next().is_some_and(|b| b.is_ascii_lowercase());
    let goes_on_well = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
    if starts_well && goes_on_well && name.len() <= MAX_NAMESPACE_BYTES {
        return Ok(());
    }
    Err(InvalidName::new(
        "namespace",
        name,
        "a namespace is 1 to 48 characters, lowercase letters, digits, '-' and '_', and starts with a letter",
    ))
}

/// Checks a stream id.
pub fn check_stream_id(name: &str) -> Result<(), InvalidName> {
    let rule = "a stream id is 1 to 512 bytes without control characters";
    check_text("stream_id", name, MAX_STREAM_ID_BYTES, rule)
}

/// Checks an event type.
pub fn check_event_type(name: &str) -> Result<(), InvalidName> {
    let rule = "an event type is 1 to 255 bytes without control characters";
    check_text("event_type", name, MAX_EVENT_TYPE_BYTES, rule)
}

/// Checks a partition key.
pub fn check_key(name: &str) -> Result<(), InvalidName> {
    let rule = "a key is 1 to 512 bytes without control characters";
    check_text("key", name, MAX_KEY_BYTES, rule)
}

/// Checks a subscriber's id.
pub fn check_subscriber_id(name: &str) -> Result<(), InvalidName> {
    let rule = "a subscriber id is 1 to 255 bytes without control characters";
    check_text("subscriber_id", name, MAX_SUBSCRIBER_ID_BYTES, rule)
}

/// Checks the name of a node.
pub fn check_node(name: &str) -> Result<(), InvalidName> {
    let rule = "a node's name is 1 to 255 bytes without control characters";
    check_text("node", name, MAX_SUBSCRIBER_ID_BYTES, rule)
}

/// Checks an actor id.
pub fn check_actor_id(name: &str) -> Result<(), InvalidName> {
    let rule = "an actor id is 1 to 512 bytes without control characters";
    check_text("actor_id", name, MAX_KEY_BYTES, rule)
}

fn check_text(what: &'static str, name: &str, most: usize, rule: &'static str) -> Result<(), InvalidName> {
    // Only ASCII control characters: SQL's [[:cntrl:]] sees exactly these in every locale.
    if name.is_empty() || name.len() > most || name.bytes().any(|b| b.is_ascii_control()) {
        return Err(InvalidName::new(what, name, rule));
    }
    Ok(())
}
