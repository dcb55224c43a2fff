//! `#[derive(EventData)]`: names, versions, and payloads without a tag.

use headwater::{DecodeError, EventData as _, Json};
use headwater_derive::EventData;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
#[event(schema_version = 2)]
#[serde(rename_all_fields = "camelCase")]
enum Order {
    Placed {
        #[serde(rename = "id")]
        order_id: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gift_note: Option<String>,
    },
    #[event(type = "order.paid \"in full\"", schema_version = 3)]
    Paid(u64, String),
    Noted(Note),
    Closed,
    Größe {},
    r#Type(()),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note {
    text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
#[event(type = "user.created", schema_version = 4)]
#[serde(rename_all = "camelCase")]
struct UserCreated {
    full_name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
#[event(crate = "headwater_core")]
struct Tick;

fn round_trip<D: headwater::EventData + PartialEq>(data: D, event_type: &str, version: u32, payload: &str) {
    assert_eq!(data.event_type(), event_type);
    assert_eq!(data.schema_version(), version);
    let json = data.encode().unwrap();
    assert_eq!(json.as_str(), payload);
    assert_eq!(D::decode(event_type, version, &json).unwrap(), data);
}

#[test]
fn each_variant_is_an_event_type() {
    let types = ["Placed", "order.paid \"in full\"", "Noted", "Closed", "Größe", "Type"];
    assert_eq!(Order::EVENT_TYPES, types);
    assert_eq!(UserCreated::EVENT_TYPES, ["user.created"]);
}

#[test]
fn payloads_have_no_tag_and_keep_the_attributes_of_fields() {
    round_trip(Order::Placed { order_id: 7, gift_note: None }, "Placed", 2, r#"{"id":7}"#);
    let placed = Order::Placed { order_id: 7, gift_note: Some("}".into()) };
    round_trip(placed, "Placed", 2, r#"{"id":7,"giftNote":"}"}"#);
    round_trip(Order::Paid(5, "EUR".into()), "order.paid \"in full\"", 3, r#"[5,"EUR"]"#);
    round_trip(Order::Noted(Note { text: "x".into() }), "Noted", 2, r#"{"text":"x"}"#);
    round_trip(Order::Closed, "Closed", 2, "null");
    round_trip(Order::Größe {}, "Größe", 2, "{}");
    round_trip(Order::Type(()), "Type", 2, "null");
    round_trip(UserCreated { full_name: "Ada".into() }, "user.created", 4, r#"{"fullName":"Ada"}"#);
    round_trip(Tick, "Tick", 1, "null");
}

#[test]
fn nothing_to_say_may_be_written_as_an_empty_object() {
    let empty = Json::parse("{}").unwrap();
    assert_eq!(Order::decode("Closed", 2, &empty).unwrap(), Order::Closed);
    assert_eq!(Tick::decode("Tick", 1, &empty).unwrap(), Tick);
    assert!(Order::decode("Closed", 2, &Json::parse(r#"{"a":1}"#).unwrap()).is_err());
}

#[test]
fn an_older_version_is_decoded_and_a_newer_one_refused() {
    let json = Json::parse(r#"{"id":7}"#).unwrap();
    assert!(Order::decode("Placed", 1, &json).is_ok());
    let error = Order::decode("Placed", 3, &json).unwrap_err();
    assert_eq!(error, DecodeError::NewerSchema { event_type: "Placed".into(), found: 3, known: 2 });
}

#[test]
fn errors_say_what_and_where() {
    let error = Order::decode("Lost", 1, &Json::null()).unwrap_err();
    assert_eq!(error, DecodeError::UnknownType { event_type: "Lost".into(), expected: Order::EVENT_TYPES });

    // The name of a variant is no event type where another was given.
    assert!(matches!(Order::decode("Paid", 1, &Json::null()), Err(DecodeError::UnknownType { .. })));

    let json = Json::parse(r#"{"id":"seven"}"#).unwrap();
    let Err(DecodeError::Payload { source, .. }) = Order::decode("Placed", 1, &json) else { panic!() };
    assert_eq!(source.offset(), Some(12), "{source}");
    let Err(DecodeError::Payload { source, .. }) = Tick::decode("Tick", 1, &json) else { panic!() };
    assert_eq!(source.reason(), "invalid type: map, expected unit struct Tick");
}

#[test]
fn a_text_that_cannot_be_stored_is_not_encoded() {
    assert!(Order::Noted(Note { text: "\0".into() }).encode().is_err());
    assert!(UserCreated { full_name: "\0".into() }.encode().is_err());
}
