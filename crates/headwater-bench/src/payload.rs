//! The payloads of the events, which are the same for every contender.

use headwater::{Event, Json};
use serde_json::value::RawValue;

/// The type of the events.
pub(crate) const EVENT_TYPE: &str = "OrderPlaced";
/// The type of every second event, in logs with two types.
pub(crate) const OTHER_TYPE: &str = "OrderPaid";
/// Number of different payloads, which are used in turn.
const DIFFERENT: u64 = 1024;

/// Payloads of about 200 bytes of JSON each.
#[derive(Debug)]
pub(crate) struct Payloads(Vec<Payload>);

#[derive(Debug)]
struct Payload {
    json: Json,
    /// The same text, in the type that sqlx needs.
    raw: Box<RawValue>,
}

impl Payloads {
    pub(crate) fn new() -> Self {
        Payloads((0..DIFFERENT).map(|number| Payload::new(&text(number))).collect())
    }

    fn get(&self, number: u64) -> &Payload {
        &self.0[(number % DIFFERENT) as usize]
    }

    /// The payload with this number.
    pub(crate) fn text(&self, number: u64) -> &str {
        self.get(number).json.as_str()
    }

    /// Returns the payload for a jsonb parameter, which takes the text as it is.
    pub(crate) fn jsonb(&self, number: u64) -> sqlx::types::Json<&RawValue> {
        sqlx::types::Json(&self.get(number).raw)
    }

    /// Returns a new event.
    pub(crate) fn event(&self, number: u64) -> Event {
        Event::raw(EVENT_TYPE, self.get(number).json.clone())
    }

    pub(crate) fn texts(&self) -> Vec<&str> {
        self.0.iter().map(|payload| payload.json.as_str()).collect()
    }
}

impl Payload {
    fn new(text: &str) -> Self {
        Payload {
            json: Json::parse(text).expect("a payload is JSON"),
            raw: RawValue::from_string(text.to_owned()).expect("a payload is JSON"),
        }
    }
}

fn text(number: u64) -> String {
    // A multiplicative hash: varied, and the same in every run.
    let mixed = |salt: u64| (number + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    format!(
        concat!(
            r#"{{"order_id":"ord-{:010}","customer_id":"cus-{:08}","currency":"EUR","total_cents":{},"#,
            r#""items":[{{"sku":"SKU-{:05}","quantity":{}}},{{"sku":"SKU-{:05}","quantity":{}}}],"#,
            r#""channel":"web","express":{}}}"#
        ),
        mixed(1),
        mixed(2),
        mixed(3) % 100_000,
        mixed(4) % 100_000,
        mixed(5) % 9 + 1,
        mixed(6) % 100_000,
        mixed(7) % 9 + 1,
        mixed(8) % 2 == 0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_about_200_bytes() {
        for text in Payloads::new().texts() {
            assert!((180..=220).contains(&text.len()), "{} bytes: {text}", text.len());
        }
    }
}
