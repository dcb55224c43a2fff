//! Laws of lineage: which events belong together, and which led to which.

use futures::TryStreamExt;
use headwater_core::{Append, Event, RecordedEvent};
use uuid::Uuid;

use crate::TestLog;
use crate::support::{assert_none, event, ids, sequences, stored, types};

fn caused_by(cause: Uuid, event_type: &str) -> Event {
    event(event_type).into_builder().causation_id(cause).build().expect("it has a type")
}

fn correlated(correlation_id: Uuid, event_type: &str) -> Event {
    event(event_type).into_builder().correlation_id(correlation_id).build().expect("it has a type")
}

async fn store(log: &TestLog, events: &[&Event]) -> Vec<u64> {
    let append = events.iter().map(|event| (*event).clone()).fold(Append::new(), Append::event);
    sequences(&stored(log, append).await)
}

async fn chain(log: &TestLog, id: Uuid) -> Vec<RecordedEvent> {
    log.causation_chain(id, 100).await.expect("the chain must be readable")
}

/// ```text
/// root ─┬─ left ─── leaf ─── fruit
///       └─ right ── thorn
/// ```
async fn tree(log: &TestLog) -> [Event; 6] {
    let root = event("root");
    let left = caused_by(root.id, "left").in_stream("a");
    let right = caused_by(root.id, "right");
    let leaf = caused_by(left.id, "leaf");
    let thorn = caused_by(right.id, "thorn").in_stream("b");
    let fruit = caused_by(leaf.id, "fruit");
    store(log, &[&event("stranger"), &root, &left]).await;
    store(log, &[&right, &leaf]).await;
    store(log, &[&thorn, &event("stranger"), &fruit]).await;
    [root, left, right, leaf, thorn, fruit]
}

pub(crate) async fn correlated_events_come_in_order(log: &TestLog) {
    let [one, two] = [Uuid::now_v7(), Uuid::now_v7()];
    let (a, b, c) = (correlated(one, "A").in_stream("s"), correlated(two, "B"), correlated(one, "C"));
    store(log, &[&a, &b]).await;
    store(log, &[&event("E"), &c]).await;
    assert_eq!(ids(&log.correlated(one, 0, 10).await.unwrap()), [a.id, c.id]);
    assert_eq!(ids(&log.correlated(two, 0, 10).await.unwrap()), [b.id]);
    assert_none(log.correlated(Uuid::now_v7(), 0, 10).await.unwrap());
    let all: Vec<RecordedEvent> = log.read_correlated(one).try_collect().await.unwrap();
    assert_eq!(ids(&all), [a.id, c.id]);
    // `correlated` returns the event like every other read.
    assert_eq!(log.correlated(two, 0, 10).await.unwrap().pop(), log.event(b.id).await.unwrap());
}

pub(crate) async fn correlated_events_are_paged_by_sequence(log: &TestLog) {
    let correlation = Uuid::now_v7();
    let given: Vec<Event> = (0..5).map(|_| correlated(correlation, "E")).collect();
    let at = store(log, &given.iter().collect::<Vec<_>>()).await;
    let page = async |after, limit| ids(&log.correlated(correlation, after, limit).await.unwrap());
    assert_eq!(page(0, 2).await, ids(&given[..2]));
    assert_eq!(page(at[1], 2).await, ids(&given[2..4]));
    assert_eq!(page(at[3], 2).await, ids(&given[4..]));
    assert_none(page(at[4], 2).await);
    assert_none(page(0, 0).await);
    assert_eq!(page(0, u32::MAX).await, ids(&given));
}

pub(crate) async fn a_chain_holds_causes_and_effects_but_no_siblings(log: &TestLog) {
    let [_, left, right, leaf, ..] = tree(log).await;
    assert_eq!(types(&chain(log, left.id).await), ["root", "left", "leaf", "fruit"]);
    assert_eq!(types(&chain(log, right.id).await), ["root", "right", "thorn"]);
    assert_eq!(types(&chain(log, leaf.id).await), ["root", "left", "leaf", "fruit"]);
}

pub(crate) async fn a_chain_from_its_first_and_last_events(log: &TestLog) {
    let [root, _, _, _, thorn, fruit] = tree(log).await;
    assert_eq!(types(&chain(log, root.id).await), ["root", "left", "right", "leaf", "thorn", "fruit"]);
    assert_eq!(types(&chain(log, thorn.id).await), ["root", "right", "thorn"]);
    assert_eq!(types(&chain(log, fruit.id).await), ["root", "left", "leaf", "fruit"]);
}

pub(crate) async fn a_chain_is_cut_after_the_limit(log: &TestLog) {
    let [root, ..] = tree(log).await;
    assert_eq!(types(&log.causation_chain(root.id, 3).await.unwrap()), ["root", "left", "right"]);
    assert_none(log.causation_chain(root.id, 0).await.unwrap());
    assert_eq!(log.causation_chain(root.id, u32::MAX).await.unwrap().len(), 6);
}

pub(crate) async fn a_cause_that_is_not_stored_ends_the_chain(log: &TestLog) {
    let first = caused_by(Uuid::now_v7(), "first");
    let second = caused_by(first.id, "second");
    store(log, &[&first, &second]).await;
    assert_eq!(types(&chain(log, second.id).await), ["first", "second"]);
    assert_none(chain(log, Uuid::now_v7()).await);
}

pub(crate) async fn a_command_has_effects_without_being_stored(log: &TestLog) {
    let command = Uuid::now_v7();
    let (first, second) = (caused_by(command, "first"), caused_by(command, "second"));
    let third = caused_by(second.id, "third");
    store(log, &[&first, &second, &third]).await;
    assert_eq!(types(&chain(log, command).await), ["first", "second", "third"]);
}

pub(crate) async fn a_circle_of_causes_ends(log: &TestLog) {
    let [a, b, own] = [Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7()];
    let with_id = |id: Uuid, event: Event| Event { id, ..event };
    let (first, second) = (with_id(a, caused_by(b, "first")), with_id(b, caused_by(a, "second")));
    store(log, &[&first, &second, &with_id(own, caused_by(own, "own"))]).await;
    assert_eq!(types(&chain(log, a).await), ["first", "second"]);
    assert_eq!(types(&chain(log, b).await), ["first", "second"]);
    assert_eq!(types(&chain(log, own).await), ["own"]);
}
