//! Names of streams.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::names::{self, InvalidName};

/// The name of a stream: 1 to 512 bytes without control characters.
///
/// It is made from any string or UUID without a check. [`validate`](StreamId::validate) runs when
/// events are appended, and a wrong name is then an error like any other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamId(String);

impl StreamId {
    /// Checks the name.
    pub fn validate(&self) -> Result<(), InvalidName> {
        names::check_stream_id(&self.0)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, owned.
    pub fn into_string(self) -> String {
        self.0
    }
}

/// Shows the text itself: an error that names a stream is for people.
impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for StreamId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for StreamId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for StreamId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<String> for StreamId {
    fn from(name: String) -> Self {
        StreamId(name)
    }
}

impl From<&str> for StreamId {
    fn from(name: &str) -> Self {
        StreamId(name.to_owned())
    }
}

impl From<&String> for StreamId {
    fn from(name: &String) -> Self {
        StreamId(name.clone())
    }
}

impl From<Uuid> for StreamId {
    fn from(id: Uuid) -> Self {
        StreamId(id.to_string())
    }
}

impl From<&StreamId> for StreamId {
    fn from(id: &StreamId) -> Self {
        id.clone()
    }
}

impl From<StreamId> for String {
    fn from(id: StreamId) -> Self {
        id.0
    }
}

impl PartialEq<str> for StreamId {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for StreamId {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_checked_only_when_asked() {
        assert!(StreamId::from("order-1").validate().is_ok());
        assert!(StreamId::from(Uuid::now_v7()).validate().is_ok());
        assert!(StreamId::from("ü".repeat(256)).validate().is_ok());
        for wrong in ["".to_owned(), "a\0b".to_owned(), "a\nb".to_owned(), "ü".repeat(257)] {
            assert!(StreamId::from(&wrong).validate().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn is_a_plain_string_in_json() {
        let id = StreamId::from("order-1");
        assert_eq!(serde_json::to_string(&id).unwrap(), r#""order-1""#);
        assert_eq!(serde_json::from_str::<StreamId>(r#""order-1""#).unwrap(), id);
        assert_eq!(id, "order-1");
    }
}
