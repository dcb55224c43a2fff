//! Laws of namespaces: each is a log of its own.

use std::time::Duration;

use headwater_core::names::MAX_NAMESPACE_BYTES;
use headwater_core::{AdminError, AppendError, Event, Json, LARGEST_MAX_PAYLOAD_BYTES, NamespaceConfig};

use crate::TestLog;
use crate::support::{assert_none, fill, interleaved, stored, stream_of, versions, whole_log};

pub(crate) async fn names_are_checked(log: &TestLog) {
    let too_long = "a".repeat(MAX_NAMESPACE_BYTES + 1);
    for wrong in ["", "1st", "-a", "Orders", "a b", "a.b", "ä", "a\n", "a\0", &too_long] {
        let refused = log.create(NamespaceConfig::new(wrong)).await.map(|_| ());
        assert!(matches!(refused, Err(AdminError::InvalidInput(_))), "{wrong:?}: {refused:?}");
    }
    for right in ["a", "a-b_c-9", &"a".repeat(MAX_NAMESPACE_BYTES)] {
        let made = log.create(NamespaceConfig::new(right)).await.map(|_| ());
        assert!(made.is_ok(), "{right:?}: {made:?}");
    }
}

pub(crate) async fn settings_are_checked(log: &TestLog) {
    let config = || NamespaceConfig::new("other");
    let wrong = [
        config().max_payload_bytes(0),
        config().max_payload_bytes(LARGEST_MAX_PAYLOAD_BYTES + 1),
        config().retention(Duration::ZERO),
        config().metadata(Json::parse("[]").unwrap()),
    ];
    for wrong in wrong {
        let refused = log.create(wrong).await.map(|_| ());
        assert!(matches!(refused, Err(AdminError::InvalidInput(_))), "{refused:?}");
    }
    let right = config().max_payload_bytes(LARGEST_MAX_PAYLOAD_BYTES).metadata(Json::parse("{}").unwrap());
    assert!(log.create(right).await.is_ok());
}

pub(crate) async fn each_has_its_own_events_streams_and_sequence(log: &TestLog) {
    let other = log.create(NamespaceConfig::new("other")).await.unwrap();
    let append = interleaved(&["a", "", "a"]);
    let first = stored(log, append.clone()).await;
    assert_none(whole_log(&other).await);
    assert_eq!(other.event(first.events[0].id).await.unwrap(), None);
    let second = stored(&other, append).await;
    assert_eq!(second, first, "not a retry, and in the same places");
    fill(&other, "b", 1).await;
    assert_none(stream_of(log, "b").await);
    assert_eq!(versions(&fill(log, "b", 1).await), [Some(1)]);
}

pub(crate) async fn the_payload_limit_is_a_setting(log: &TestLog) {
    let small = log.create(NamespaceConfig::new("small").max_payload_bytes(10)).await.unwrap();
    let of = |text: &str| Event::raw("E", Json::parse(text).unwrap());
    stored(&small, of(r#""12345678""#).into()).await;
    let refused = small.append(of(r#""123456789""#).into()).await;
    assert!(matches!(refused, Err(AppendError::PayloadTooLarge { bytes: 11, limit: 10 })), "{refused:?}");
    // Missing data is stored as `null` and counts as such.
    let tiny = log.create(NamespaceConfig::new("tiny").max_payload_bytes(3)).await.unwrap();
    let refused = tiny.append(Event { data: None, ..of("1") }.into()).await;
    assert!(matches!(refused, Err(AppendError::PayloadTooLarge { bytes: 4, limit: 3 })), "{refused:?}");
}

pub(crate) async fn a_log_knows_its_namespace(log: &TestLog) {
    assert_eq!(log.namespace(), "law");
    assert_eq!(log.create(NamespaceConfig::new("other")).await.unwrap().namespace(), "other");
}
