//! Laws of registration: a new subscriber begins where it was told, and an existing one stays where
//! it is.

use chrono::{DateTime, TimeDelta, Utc};
use headwater_core::{RecordedEvent, StartFrom, SubscriberConfig, SubscriberMode};

use super::TestSubscribers;
use super::support::{invalid, sequence, settled};
use crate::support::whole_log;

/// How many of these events are ahead of a subscriber.
async fn ahead(test: &TestSubscribers, subscriber_id: &str, events: &[RecordedEvent]) -> usize {
    let position = test.first().position(subscriber_id).await.unwrap().position;
    events.iter().filter(|event| sequence(event) > position).count()
}

pub(crate) async fn the_beginning_is_before_the_first_event(test: &TestSubscribers) {
    let events = test.append(2).await;
    test.first().start("s", StartFrom::Beginning).await;
    assert_eq!(ahead(test, "s", &events).await, 2);
    assert_eq!(test.first().position("s").await.unwrap().position, 0);
}

pub(crate) async fn now_is_after_what_is_stored(test: &TestSubscribers) {
    test.first().start("early", StartFrom::Now).await;
    let before = test.append(2).await;
    test.first().start("late", StartFrom::Now).await;
    let after = test.append(1).await;
    assert_eq!((ahead(test, "early", &before).await, ahead(test, "early", &after).await), (2, 1));
    assert_eq!((ahead(test, "late", &before).await, ahead(test, "late", &after).await), (0, 1));
}

pub(crate) async fn after_is_just_there(test: &TestSubscribers) {
    let events = test.append(3).await;
    let last = sequence(&events[2]) + 1_000;
    test.hand_out(last).await;
    for start in [0, sequence(&events[1]), last] {
        let subscriber_id = format!("after-{start}");
        test.first().start(&subscriber_id, StartFrom::After(start)).await;
        assert_eq!(test.second().position(&subscriber_id).await.unwrap().position, start);
    }
}

pub(crate) async fn a_time_is_before_the_first_event_recorded_then(test: &TestSubscribers) {
    test.append(2).await;
    let earlier = whole_log(&test.log).await[1].recorded_at.unwrap();
    // Append until the clock has moved on.
    let time = loop {
        let recorded_at = test.append(1).await[0].recorded_at.unwrap();
        if recorded_at > earlier {
            break recorded_at;
        }
    };
    test.append(2).await;
    let events = whole_log(&test.log).await;
    let long_ago = DateTime::<Utc>::UNIX_EPOCH;
    let far_ahead = Utc::now() + TimeDelta::days(400);
    for (subscriber_id, time) in [("then", time), ("long-ago", long_ago), ("far-ahead", far_ahead)] {
        let due = events.iter().filter(|event| event.recorded_at >= Some(time)).count();
        test.first().start(subscriber_id, StartFrom::Time(time)).await;
        assert_eq!(ahead(test, subscriber_id, &events).await, due, "{subscriber_id}");
        let position = test.first().position_at(time).await.unwrap();
        assert_eq!(events.iter().filter(|event| sequence(event) > position).count(), due, "{subscriber_id}");
    }
}

pub(crate) async fn one_that_is_there_stays_as_it_is(test: &TestSubscribers) {
    let events = test.append(3).await;
    let fence = test.first().begin_and_own("s").await;
    test.first().advance(&fence, &settled(0, &events[..2])).await.unwrap();
    for start_from in [StartFrom::Beginning, StartFrom::Now, StartFrom::After(0)] {
        let before = test.first().subscriber("s").await.unwrap();
        test.second().start("s", start_from).await;
        let after = test.first().subscriber("s").await.unwrap();
        assert_eq!((after.position, after.term, after.owner), (before.position, before.term, before.owner));
    }
    assert_eq!(ahead(test, "s", &events).await, 1);
}

pub(crate) async fn ids_are_checked(test: &TestSubscribers) {
    for subscriber_id in ["", "a\nb", "a\0", "\u{7f}", &"x".repeat(256), &"ä".repeat(128)] {
        let config = SubscriberConfig::new(subscriber_id, StartFrom::Beginning, SubscriberMode::default());
        invalid(subscriber_id, test.first().register(&config).await);
    }
    for subscriber_id in ["x", "projection:order-totals", "größe ☃ 'quoted' \"twice\"", &"x".repeat(255)] {
        test.first().begin(subscriber_id).await;
        assert_eq!(test.first().subscriber(subscriber_id).await.unwrap().subscriber_id, subscriber_id);
    }
    assert_eq!(test.first().subscribers().await.unwrap().len(), 4);
}

pub(crate) async fn ids_are_compared_byte_by_byte(test: &TestSubscribers) {
    let ids = ["A", "B", "a", "a ", "b", "ä"];
    for subscriber_id in ids.iter().rev() {
        test.first().begin(subscriber_id).await;
    }
    let listed = test.first().subscribers().await.unwrap();
    assert_eq!(listed.iter().map(|info| info.subscriber_id.as_str()).collect::<Vec<_>>(), ids);
}

pub(crate) async fn each_namespace_has_its_own(test: &TestSubscribers) {
    let other = test.beside("other").await;
    let fence = test.first().begin_and_own("s").await;
    assert!(other.first().subscribers().await.unwrap().is_empty());
    other.second().begin("s").await;
    other.second().own("s").await;
    let events = test.append(1).await;
    test.first().advance(&fence, &settled(0, &events)).await.unwrap();
    assert_eq!(other.first().position("s").await.unwrap().position, 0);
}

/// An event before the start may still be in flight. The caller that chose the start cannot have
/// seen it.
pub(crate) async fn what_is_to_come_before_a_start_is_in_the_ledger(test: &TestSubscribers) {
    let last = sequence(&test.append(2).await[1]);
    test.hand_out(last + 3).await;
    test.first().start("s", StartFrom::After(last + 3)).await;
    assert_eq!(test.first().position("s").await.unwrap().pending_gaps.ranges(), [(last + 1, last + 3)]);
    test.first().start("t", StartFrom::After(last)).await;
    assert!(test.first().position("t").await.unwrap().pending_gaps.is_empty());
}
