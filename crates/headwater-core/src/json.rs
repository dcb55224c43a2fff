//! JSON as text: the data of an event, passed through without being parsed into values.

use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::jsonb::check_storable;

/// A JSON document kept as text, exactly as it was given. Number precision and key order survive.
///
/// Two documents are equal if their texts are equal. PostgreSQL's jsonb orders keys and spaces in
/// its own way. A document from a database means the same but may have another text, so compare
/// decoded values.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Box<str>);

/// Text is not JSON that can be stored, or JSON and a Rust type do not fit each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{doing}{}: {reason}", .at.map(|at| format!(" at byte {at}")).unwrap_or_default())]
pub struct JsonError {
    doing: &'static str,
    at: Option<usize>,
    reason: String,
}

impl JsonError {
    /// An error of your own, for [`EventData`](crate::EventData) that you implement by hand.
    pub fn custom(reason: impl fmt::Display) -> Self {
        JsonError { doing: "unsuitable JSON", at: None, reason: reason.to_string() }
    }

    /// The place of the error in the text, in bytes, if it has one place.
    pub fn offset(&self) -> Option<usize> {
        self.at
    }

    /// What is wrong.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    fn new(doing: &'static str, at: Option<usize>, reason: impl Into<String>) -> Self {
        JsonError { doing, at, reason: reason.into() }
    }

    fn from_serde(doing: &'static str, error: &serde_json::Error, text: &str) -> Self {
        let at = match error.line() {
            0 => None,
            _ if error.is_eof() => Some(text.len()),
            line => {
                let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
                Some(start + error.column().saturating_sub(1))
            }
        };
        let mut reason = error.to_string();
        // The line and column say the same as the offset.
        if let Some(place) = reason.rfind(" at line ").filter(|_| at.is_some()) {
            reason.truncate(place);
        }
        JsonError { doing, at, reason }
    }

    /// Moves the offset back by `bytes`, for text that stood inside a longer one.
    fn shifted_back(mut self, bytes: usize) -> Self {
        self.at = self.at.map(|at| at.saturating_sub(bytes));
        self
    }
}

impl Json {
    /// Checks that PostgreSQL's jsonb accepts `text`, and keeps it without outer whitespace.
    ///
    /// Besides malformed JSON, jsonb refuses `\u0000`, lone surrogate escapes, numbers beyond the
    /// range of `numeric` and very deep nesting (here: 1,000 levels). The size has no limit.
    pub fn parse(text: impl Into<String>) -> Result<Json, JsonError> {
        let text = text.into();
        check(&text)?;
        let trimmed = text.trim_matches(is_json_space);
        Ok(if trimmed.len() == text.len() { Json(text.into_boxed_str()) } else { Json(trimmed.into()) })
    }

    /// Takes text that is known to be valid, such as the output of a database.
    #[doc(hidden)]
    pub fn from_trusted(text: impl Into<Box<str>>) -> Json {
        Json(text.into())
    }

    /// Encodes a value. Fails if a string in it holds U+0000, which PostgreSQL cannot store.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Json, JsonError> {
        encode_text(value).map(|text| Json(text.into_boxed_str()))
    }

    /// Decodes the document.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        decode_text(&self.0)
    }

    /// The document `null`.
    pub fn null() -> Json {
        Json("null".into())
    }

    /// Whether this is the document `null`.
    pub fn is_null(&self) -> bool {
        &*self.0 == "null"
    }

    /// Repeats the checks of [`parse`](Json::parse). The conversion from [`serde_json::Value`]
    /// cannot fail, so it lets through documents that only PostgreSQL refuses.
    pub fn validate(&self) -> Result<(), JsonError> {
        check(&self.0)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, owned, without a copy.
    pub fn into_string(self) -> String {
        self.0.into_string()
    }

    /// Length of the text in bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the text is empty, which no valid JSON is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The JSON of one enum variant's content: serde's externally tagged form without the tag.
    pub(crate) fn encode_variant<T: Serialize + ?Sized>(value: &T, tag: &str) -> Result<Json, JsonError> {
        let text = encode_text(value)?;
        let quoted = |text: &str| text.strip_prefix('"')?.strip_prefix(tag)?.strip_prefix('"').map(str::len);
        if quoted(&text) == Some(0) {
            return Ok(Json::null());
        }
        let content = text.strip_prefix('{').and_then(|rest| {
            let rest = &rest[rest.len() - quoted(rest)?..];
            rest.strip_prefix(':')?.strip_suffix('}')
        });
        content.map(|content| Json(content.into())).ok_or_else(|| {
            JsonError::custom(format!(
                "variant {tag} did not serialize as serde's externally tagged form {{\"{tag}\":…}}"
            ))
        })
    }

    /// Reverses [`Json::encode_variant`]. Offsets of errors count from the start of the content.
    pub(crate) fn decode_variant<T: DeserializeOwned>(&self, tag: &str, is_unit: bool) -> Result<T, JsonError> {
        // SQL callers write `{}` as often as `null` when there is nothing to say.
        if is_unit && matches!(&*self.0, "null" | "{}") {
            return decode_text(&format!("\"{tag}\""));
        }
        let before = format!("{{\"{tag}\":");
        let text = [&before, &*self.0, "}"].concat();
        decode_text(&text).map_err(|error| error.shifted_back(before.len()))
    }
}

fn encode_text<T: Serialize + ?Sized>(value: &T) -> Result<String, JsonError> {
    const DOING: &str = "failed to encode as JSON";
    let text = serde_json::to_string(value).map_err(|error| JsonError::from_serde(DOING, &error, ""))?;
    check_storable(&text).map_err(|(at, reason)| JsonError::new(DOING, Some(at), reason))?;
    Ok(text)
}

fn decode_text<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    serde_json::from_str(text).map_err(|error| JsonError::from_serde("failed to decode JSON", &error, text))
}

fn check(text: &str) -> Result<(), JsonError> {
    const DOING: &str = "invalid JSON";
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| JsonError::from_serde(DOING, &error, text))?;
    check_storable(text).map_err(|(at, reason)| JsonError::new(DOING, Some(at), reason))
}

fn is_json_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Json {
    type Err = JsonError;

    fn from_str(text: &str) -> Result<Json, JsonError> {
        Json::parse(text)
    }
}

/// The conversion cannot fail, so `json!` can be passed anywhere. An append finds what PostgreSQL
/// refuses.
impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Json {
        Json(value.to_string().into_boxed_str())
    }
}

/// Embeds the text unchanged. Formats other than serde_json's lose the structure of the text.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0).map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// Takes the text unchanged. Works only with serde_json.
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let text: Box<str> = Box::<RawValue>::deserialize(deserializer)?.into();
        check_storable(&text).map_err(|(_, reason)| D::Error::custom(reason))?;
        Ok(Json(text))
    }
}
