//! JSON text: what is accepted, what is refused and where, and that nothing is changed on the way.

use headwater_core::Json;
use proptest::prelude::*;
use serde_json::{Value, json};

fn refusal(text: impl Into<String>) -> String {
    Json::parse(text).unwrap_err().to_string()
}

#[test]
fn keeps_the_text_as_it_was_given() {
    let text = r#"{"b": 1.10, "a": 12345678901234567890123456789.5, "a": 1E5}"#;
    assert_eq!(Json::parse(format!(" \n{text}\t")).unwrap().as_str(), text);
    assert_eq!(text.parse::<Json>().unwrap().into_string(), text);
    assert_eq!(format!("{:?}", Json::null()), "null");
}

#[test]
fn refuses_what_is_not_json_and_says_where() {
    assert_eq!(refusal(r#"{"a": tru}"#), "invalid JSON at byte 9: expected ident");
    assert_eq!(refusal("[1,\n 2,\n x]"), "invalid JSON at byte 9: expected value");
    assert_eq!(refusal("[1, 2"), "invalid JSON at byte 5: EOF while parsing a list");
    assert_eq!(refusal(""), "invalid JSON at byte 0: EOF while parsing a value");
    assert_eq!(refusal("1 2"), "invalid JSON at byte 2: trailing characters");
    // Whitespace to Unicode, but not to JSON.
    assert!(Json::parse("\u{a0}1").is_err());
}

#[test]
fn refuses_what_jsonb_refuses() {
    assert_eq!(refusal(r#"["ok", "a\u0000"]"#), r"invalid JSON at byte 9: \u0000 cannot be stored");
    for lone in [r#""\ud800""#, r#""\udc00""#, r#""\ud800x""#, r#""\ud800\ud800""#, r#""\uDFFF\ud800""#] {
        assert!(refusal(lone).ends_with("lone surrogate escape cannot be stored"), "{lone}");
    }
    for number in ["1e131072", "-10E131071", "1e-16384", "0.1e-16383", "1e99999999999999999999"] {
        assert!(refusal(number).contains("range of PostgreSQL's numeric"), "{number}");
    }
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(Json::parse(nested(1_000)).is_ok());
    assert_eq!(refusal(nested(1_001)), "invalid JSON at byte 1000: nested deeper than 1000 levels");
}

#[test]
fn accepts_what_only_looks_refused() {
    for text in [
        r#""\\u0000""#,
        r#""\ud83d\ude00""#,
        r#""\u0001\"\\""#,
        "1e131071",
        "1e-16383",
        "-0.0",
        r#""[[[ 1e999999""#,
        r#"{"a]":[{}]}"#,
    ] {
        assert_eq!(Json::parse(text).unwrap().as_str(), text);
    }
}

#[test]
fn encode_refuses_nul_and_decode_says_where_it_does_not_fit() {
    let error = Json::encode(&["a\0b"]).unwrap_err();
    assert_eq!(error.to_string(), r"failed to encode as JSON at byte 3: \u0000 cannot be stored");
    assert_eq!(Json::encode("a\\u0000").unwrap().as_str(), r#""a\\u0000""#);

    let error = Json::parse("[1, true]").unwrap().decode::<Vec<u8>>().unwrap_err();
    assert_eq!(error.offset(), Some(7));
    assert_eq!(error.reason(), "invalid type: boolean `true`, expected u8");
}

#[test]
fn a_value_that_cannot_be_stored_is_found_by_validate() {
    assert!(Json::from(json!({ "a": [1, null] })).validate().is_ok());
    assert!(Json::from(json!("\0")).validate().is_err());
}

#[test]
fn is_embedded_raw() {
    let json = Json::parse(r#"{"b":1.10,"a":[ ]}"#).unwrap();
    let text = serde_json::to_string(&vec![json.clone()]).unwrap();
    assert_eq!(text, r#"[{"b":1.10,"a":[ ]}]"#);
    assert_eq!(serde_json::from_str::<Vec<Json>>(&text).unwrap(), [json]);
    assert!(serde_json::from_str::<Vec<Json>>(r#"["\u0000"]"#).is_err());
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has none", |f| f.is_finite()).prop_map(Value::from),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".*", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || holds_nul(value)),
        _ => false,
    }
}

proptest! {
    #[test]
    fn every_value_round_trips_unless_it_holds_nul(value in any_value()) {
        match Json::encode(&value) {
            Ok(json) => {
                prop_assert!(!holds_nul(&value));
                prop_assert_eq!(Json::parse(json.as_str()).unwrap(), json.clone());
                prop_assert_eq!(serde_json::from_str::<Value>(json.as_str()).unwrap(), json.decode::<Value>().unwrap());
                prop_assert_eq!(Json::from(value), json);
            }
            Err(_) => prop_assert!(holds_nul(&value)),
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in r#"[\[\]{}"\\uUdD0-9eE.+\-,: a]{0,40}"#) {
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert!(is_json || Json::parse(text.as_str()).is_err());
        let _ = Json::from_trusted(text).validate();
    }
}
