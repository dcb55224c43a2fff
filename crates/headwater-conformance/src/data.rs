//! Laws of data: any JSON keeps its meaning.

use headwater_core::{Event, Json};
use serde_json::{Value, json};

use crate::TestLog;
use crate::support::{event, invalid, stored, whole_log};

/// Appends and reads back one payload.
async fn read_back(log: &TestLog, data: Json) -> Option<Json> {
    let given = Event::raw("Happened", data);
    stored(log, given.clone().into()).await;
    log.event(given.id).await.expect("the event must be readable").expect("the event is stored").into_data()
}

pub(crate) async fn every_kind_of_json_survives(log: &TestLog) {
    for data in
        [json!(true), json!(0), json!(-1.5), json!(""), json!("text"), json!([]), json!({}), json!([null, {"a": [1]}])]
    {
        let read = read_back(log, data.clone().into()).await.map(|json| json.decode::<Value>());
        assert_eq!(read, Some(Ok(data)));
    }
}

pub(crate) async fn no_data_and_null_are_the_same(log: &TestLog) {
    assert_eq!(read_back(log, Json::null()).await, None);
    assert_eq!(read_back(log, Json::parse(" null\n").unwrap()).await, None);
    let without = Event { data: None, ..event("Happened") };
    stored(log, without.into()).await;
    assert!(whole_log(log).await.iter().all(|event| event.data.is_none()));
}

pub(crate) async fn numbers_keep_every_digit(log: &TestLog) {
    for number in ["18446744073709551615", "-9223372036854775808", "123456789012345678901234567890.10", "0.1", "1.50"] {
        assert_eq!(read_back(log, Json::parse(number).unwrap()).await.as_ref().map(Json::as_str), Some(number));
    }
}

pub(crate) async fn all_of_unicode_survives(log: &TestLog) {
    for text in
        ["ü", "e\u{301}", "\u{1}\u{1f}\u{7f}", "\u{fffd}\u{ffff}", "😀\u{10ffff}", "\u{2028}", "\"\\/\u{8}\u{c}\r"]
    {
        let data = json!({ text: text });
        let read = read_back(log, data.clone().into()).await.map(|json| json.decode::<Value>());
        assert_eq!(read, Some(Ok(data)));
    }
    let escaped = Json::parse(r#""\u00fc \ud83d\ude00""#).unwrap();
    assert_eq!(read_back(log, escaped).await.map(|json| json.decode::<String>()), Some(Ok("ü 😀".into())));
}

pub(crate) async fn formatting_does_not_matter(log: &TestLog) {
    let data = Json::parse("{ \"b\" : 1,\n\t\"a\":[ 1 , 2 ], \"b\": 2 }").unwrap();
    let read = read_back(log, data).await.map(|json| json.decode::<Value>());
    assert_eq!(read, Some(Ok(json!({ "a": [1, 2], "b": 2 }))));
}

pub(crate) async fn deep_nesting_survives(log: &TestLog) {
    let deep = "[".repeat(1_000) + &"]".repeat(1_000);
    assert_eq!(read_back(log, Json::parse(&*deep).unwrap()).await.as_ref().map(Json::as_str), Some(&*deep));
}

/// [`Json::parse`] finds these documents, but the conversion from [`Value`] does not. The append
/// must then say what is wrong.
pub(crate) async fn what_cannot_be_stored_is_refused(log: &TestLog) {
    assert!(Json::parse(r#""\u0000""#).is_err());
    assert!(Json::parse(r#""\ud800""#).is_err());
    assert!(Json::encode("\0").is_err());
    for data in [json!("\0"), json!({ "a\0": 1 }), json!(["fine", { "deep": "a\0b" }])] {
        invalid(log.append(Event::raw("Happened", data).into()).await);
    }
    // The bad event fails alone, even if it is sent together with others.
    let bad = Event::raw("Happened", json!("\0"));
    let (good, refused, also_good) = tokio::join!(
        log.append(event("Good").into()),
        log.append(bad.into()),
        log.append(event("Good").in_stream("a").into()),
    );
    invalid(refused);
    assert!(good.is_ok() && also_good.is_ok(), "{good:?} {also_good:?}");
    assert_eq!(whole_log(log).await.len(), 2);
}
