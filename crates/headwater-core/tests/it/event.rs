//! Events: building them, changing their data type, and that no field is lost on any way.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use headwater_core::{DecodeError, Event, EventBuilderError, EventData as _, Json, NotInSubset, StreamId};
use headwater_derive::{EventData, subset_enum};
use proptest::option;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

#[subset_enum(OrderEvent, OrderPlaced, OrderClosed)]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
#[event(crate = "headwater_core")]
enum TestEventData {
    #[event(type = "order.placed", schema_version = 2)]
    OrderPlaced {
        item: String,
        count: u32,
    },
    OrderClosed,
    UserCreated(Option<String>),
}

fn placed() -> TestEventData {
    TestEventData::OrderPlaced { item: "tea".into(), count: 2 }
}

#[test]
fn event_builder_with_global_sequence() {
    let event = Event::<TestEventData>::builder()
        .stream_id(Uuid::new_v4())
        .event_type("Test".to_string())
        .global_sequence(42)
        .build()
        .unwrap();
    assert_eq!(event.global_sequence, Some(42));
}

#[test]
fn event_builder_without_global_sequence_defaults_to_none() {
    let event =
        Event::<TestEventData>::builder().stream_id(Uuid::new_v4()).event_type("Test".to_string()).build().unwrap();
    assert_eq!(event.global_sequence, None);
}

#[test]
fn event_into_builder_preserves_global_sequence() {
    let original = Event { global_sequence: Some(100), ..Event::from(placed()) };
    let rebuilt = original.into_builder().build().unwrap();
    assert_eq!(rebuilt.global_sequence, Some(100));
}

#[test]
fn to_subset_event_preserves_global_sequence() {
    let event = Event { global_sequence: Some(100), ..Event::from(placed()) };
    let subset = event.to_subset_event::<OrderEvent>().unwrap();
    assert_eq!(subset.global_sequence, Some(100));
}

#[test]
fn to_superset_event_preserves_global_sequence() {
    let event = Event { global_sequence: Some(100), ..Event::from(OrderEvent::OrderClosed) };
    let superset = event.to_superset_event::<TestEventData>();
    assert_eq!(superset.global_sequence, Some(100));
}

#[test]
fn an_event_outside_the_subset_is_an_error() {
    let error = Event::from(TestEventData::UserCreated(None)).to_subset_event::<OrderEvent>().unwrap_err();
    assert_eq!(error, NotInSubset { event_type: "UserCreated".into(), subset: "OrderEvent" });
}

#[test]
fn an_event_needs_a_type() {
    let error = Event::<TestEventData>::builder().build().unwrap_err();
    assert_eq!(error, EventBuilderError::MissingEventType);
    assert_eq!(Event::builder().json(json!(1)).build().unwrap_err(), EventBuilderError::MissingEventType);
}

#[test]
fn data_brings_its_type_unless_one_is_set() {
    let event = Event::builder().data(placed()).build().unwrap();
    assert_eq!((event.event_type.as_str(), event.schema_version), ("order.placed", 2));

    let before = Event::builder().event_type("mine").schema_version(7).data(placed()).build().unwrap();
    let after = Event::builder().data(placed()).event_type("mine").schema_version(7).build().unwrap();
    for event in [before, after] {
        assert_eq!((event.event_type.as_str(), event.schema_version), ("mine", 7));
    }

    let other = event.into_builder().data(TestEventData::OrderClosed).build().unwrap();
    assert_eq!((other.event_type.as_str(), other.schema_version), ("OrderClosed", 1));
}

#[test]
fn a_new_event_has_what_its_data_says() {
    let event = Event::from(placed());
    assert_eq!((event.event_type.as_str(), event.schema_version), ("order.placed", 2));
    assert_eq!(event.id.get_version_num(), 7);
    assert_eq!(event.created_at.timestamp_subsec_nanos() % 1_000, 0);
}

#[test]
fn causation_starts_and_continues_a_correlation() {
    let first = Event::from(placed());
    let second = Event::builder().data(TestEventData::OrderClosed).caused_by(&first).build().unwrap();
    assert_eq!((second.causation_id, second.correlation_id), (Some(first.id), Some(first.id)));
    let third = Event::builder().json(json!(1)).event_type("c").caused_by(&second).build().unwrap();
    assert_eq!((third.causation_id, third.correlation_id), (Some(second.id), Some(first.id)));
}

#[test]
fn headers_are_added_and_replaced() {
    let builder = Event::<Json>::builder().event_type("e").header("a", "1").headers([("b", "2")]);
    let event = builder.header("c", "3").traceparent("00-x").build().unwrap();
    let expected = [("b", "2"), ("c", "3"), ("traceparent", "00-x")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(event.headers, BTreeMap::from(expected));
}

#[test]
fn without_data_what_null_makes_is_decoded_and_the_rest_stays_erased() {
    let erased = |event_type: &str| Event::<Json>::builder().event_type(event_type).build().unwrap();
    let decode = |event: Event| event.decode::<TestEventData>().map(|event| event.data);
    assert_eq!(decode(erased("OrderClosed")), Ok(Some(TestEventData::OrderClosed)));
    assert_eq!(decode(erased("UserCreated")), Ok(Some(TestEventData::UserCreated(None))));
    assert_eq!(decode(erased("order.placed")), Ok(None));
    assert!(matches!(decode(erased("Nothing")), Err(DecodeError::UnknownType { .. })));
    assert!(matches!(decode(Event::raw("order.placed", Json::null())), Err(DecodeError::Payload { .. })));
    assert_eq!(Event::from(TestEventData::OrderClosed).encode().unwrap().data, None);
    assert_eq!(erased("x").data_text(), "null");
}

#[test]
fn json_input_may_be_short_and_must_be_known() {
    let event: Event = serde_json::from_str(r#"{"type": "a", "stream": "s", "data": {"x": 1.10}}"#).unwrap();
    assert_eq!((event.event_type.as_str(), event.schema_version), ("a", 1));
    assert_eq!(event.stream_id, Some(StreamId::from("s")));
    assert_eq!(event.data_text(), r#"{"x": 1.10}"#);
    assert_eq!(event.id.get_version_num(), 7);

    let error = serde_json::from_str::<Event>(r#"{"type": "a", "stream_ident": "s"}"#).unwrap_err().to_string();
    assert!(error.starts_with("unknown field `stream_ident`, expected one of `id`"), "{error}");
    let error = serde_json::from_str::<Event>(r#"{"data": 1}"#).unwrap_err().to_string();
    assert!(error.starts_with("missing field `event_type`"), "{error}");
}

#[test]
fn json_output_leaves_out_what_is_not_there() {
    let event = Event { id: Uuid::nil(), created_at: DateTime::UNIX_EPOCH, ..Event::raw("a", json!(1)) };
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(
        text,
        r#"{"id":"00000000-0000-0000-0000-000000000000","event_type":"a","schema_version":1,"data":1,"created_at":"1970-01-01T00:00:00Z"}"#
    );
}

fn any_data() -> impl Strategy<Value = TestEventData> {
    prop_oneof![
        ("[^\0]*", any::<u32>()).prop_map(|(item, count)| TestEventData::OrderPlaced { item, count }),
        Just(TestEventData::OrderClosed),
        option::of("[^\0]*").prop_map(TestEventData::UserCreated),
    ]
}

fn any_time() -> impl Strategy<Value = DateTime<Utc>> {
    (0..4_000_000_000_000_000_i64).prop_map(|micros| DateTime::from_timestamp_micros(micros).unwrap())
}

fn any_uuid() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

prop_compose! {
    /// Most of them with every field set: what is set and lost is what these tests look for.
    fn any_event()(
        (id, data, event_type, schema_version) in (any_uuid(), any_data(), option::of(".+"), any::<u32>()),
        stream in option::weighted(0.9, (".+", any::<u64>())),
        place in option::weighted(0.9, (any::<u64>(), any_time(), any::<u64>())),
        names in option::weighted(0.9, (".+", ".+")),
        causes in option::weighted(0.9, (any_uuid(), any_uuid())),
        headers in prop::collection::btree_map(".+", ".*", 0..4),
        created_at in any_time(),
    ) -> Event<TestEventData> {
        Event {
            id,
            stream_id: stream.as_ref().map(|(name, _)| name.into()),
            stream_version: stream.map(|(_, version)| version),
            event_type: event_type.unwrap_or_else(|| data.event_type().to_owned()),
            schema_version,
            data: Some(data),
            global_sequence: place.map(|(sequence, ..)| sequence),
            key: names.clone().map(|(key, _)| key),
            actor_id: names.map(|(_, actor)| actor),
            correlation_id: causes.map(|(correlation, _)| correlation),
            causation_id: causes.map(|(_, causation)| causation),
            headers,
            created_at,
            recorded_at: place.map(|(_, at, _)| at),
            transaction_id: place.map(|(.., transaction)| transaction),
        }
    }
}

proptest! {
    #[test]
    fn a_builder_loses_nothing(event in any_event()) {
        prop_assert_eq!(event.clone().into_builder().build().unwrap(), event.clone());
        let named = event.clone().into_builder().event_type("t").schema_version(3).build().unwrap();
        prop_assert_eq!(named, Event { event_type: "t".into(), schema_version: 3, ..event });
    }

    #[test]
    fn each_setter_sets_its_field(event in any_event()) {
        let mut builder = Event::builder()
            .id(event.id)
            .event_type(event.event_type.as_str())
            .schema_version(event.schema_version)
            .headers(event.headers.clone())
            .created_at(event.created_at)
            .data(event.data.clone().unwrap());
        if let (Some(stream), Some(version)) = (&event.stream_id, event.stream_version) {
            builder = builder.stream_id(stream).stream_version(version);
        }
        if let (Some(at), Some(transaction)) = (event.recorded_at, event.transaction_id) {
            builder = builder.global_sequence(event.global_sequence.unwrap()).recorded_at(at).transaction_id(transaction);
        }
        if let (Some(key), Some(actor)) = (&event.key, &event.actor_id) {
            builder = builder.key(key).actor_id(actor);
        }
        if let (Some(correlation), Some(causation)) = (event.correlation_id, event.causation_id) {
            builder = builder.correlation_id(correlation).causation_id(causation);
        }
        prop_assert_eq!(builder.build().unwrap(), event);
    }

    #[test]
    fn a_subset_and_its_superset_lose_nothing(event in any_event()) {
        match event.to_subset_event::<OrderEvent>() {
            Ok(subset) => prop_assert_eq!(subset.to_superset_event::<TestEventData>(), event),
            Err(_) => prop_assert!(matches!(event.data, Some(TestEventData::UserCreated(_)))),
        }
    }

    #[test]
    fn encode_and_decode_lose_nothing(event in any_event()) {
        let data = event.data.clone().unwrap();
        let event = Event { event_type: data.event_type().into(), schema_version: data.schema_version(), ..event };
        let encoded = event.clone().encode().unwrap();
        prop_assert_eq!(encoded.decode_ref::<TestEventData>().unwrap(), event.clone());
        prop_assert_eq!(encoded.decode::<TestEventData>().unwrap(), event);
    }

    #[test]
    fn serde_loses_nothing(event in any_event()) {
        let text = serde_json::to_string(&event).unwrap();
        prop_assert_eq!(serde_json::from_str::<Event<TestEventData>>(&text).unwrap(), event.clone());
        let encoded = event.encode().unwrap();
        let text = serde_json::to_string(&encoded).unwrap();
        prop_assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), encoded.clone());
        // Through a tree too, whose order of keys may be another.
        let again: Event = serde_json::from_value(serde_json::to_value(&encoded).unwrap()).unwrap();
        let value = |event: &Event| event.data.as_ref().map(|data| data.decode::<serde_json::Value>().unwrap());
        prop_assert_eq!(value(&again), value(&encoded));
        prop_assert_eq!(Event { data: None, ..again }, Event { data: None, ..encoded });
    }
}
