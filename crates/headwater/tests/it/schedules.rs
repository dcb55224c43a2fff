//! Schedules, fired by nodes: at their time, once however many nodes there are, and without polling
//! for them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Recorder, Shop, until};
use chrono::{DateTime, TimeDelta, Utc};
use futures::TryStreamExt;
use headwater::admin::NamespaceConfig;
use headwater::delivery::StartFrom;
use headwater::node::{NodeBuilder, WakeUpSource};
use headwater::schedule::{RunOutcome, ScheduleState};
use headwater::{Event, Headwater, Json, Namespace, RecordedEvent, Subscription, Task};
use headwater_memory::{MemoryLog, MemorySubscribers};

fn every_second(name: &str) -> Task {
    Task::cron(name, "* * * * * *").emits(name, Json::null())
}

fn once(name: &str, milliseconds: i64) -> Task {
    Task::once(name, Utc::now() + TimeDelta::milliseconds(milliseconds)).emits(name, Json::null())
}

/// Well below the minute after which an unwoken node looks again.
async fn promptly<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("nobody was woken for it")
}

async fn events(namespace: &Namespace) -> Vec<RecordedEvent> {
    namespace.read_all_events_since(0).try_collect().await.unwrap()
}

fn scheduled_at(event: &Event) -> DateTime<Utc> {
    event.headers["scheduled_at"].parse().unwrap()
}

#[tokio::test]
async fn a_schedule_is_fired_at_its_times_and_delivered() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("cleaner");
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone())).start().await.unwrap();
    let made = node.schedule_task(every_second("tick")).await.unwrap();
    assert_eq!(made.state, ScheduleState::Active);
    promptly(recorder.handled(3)).await;
    shop.shop.pause_schedule("tick").await.unwrap();
    let events = events(&shop.shop).await;
    for event in &events {
        let late = event.recorded_at.unwrap() - scheduled_at(event);
        assert!(late >= TimeDelta::zero(), "it came {late} early");
        println!("fired {} µs after it was due", late.num_microseconds().unwrap());
    }
    let due: Vec<_> = events.iter().map(|event| scheduled_at(event).timestamp()).collect();
    assert!(due.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{due:?}");
    let runs = shop.shop.schedule_runs("tick", 100).await.unwrap();
    assert_eq!(runs.len(), events.len());
    assert!(runs.iter().all(|run| run.outcome == RunOutcome::Fired));
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn two_nodes_fire_each_due_time_once_and_one_goes_on_when_the_other_dies() {
    let shop = Shop::open().await;
    let (one, two) = (Recorder::new("one"), Recorder::new("two"));
    let elsewhere = Headwater::connect(&shop.db.url).await.unwrap();
    let there = elsewhere.namespace("shop").await.unwrap();
    let first = shop.shop.node("n1").run(Subscription::of(one.clone())).start().await.unwrap();
    let second = there.node("n2").run(Subscription::of(two.clone())).start().await.unwrap();
    for n in 0..10 {
        shop.shop.schedule_task(every_second(&format!("s{n}"))).await.unwrap();
    }
    promptly(async { tokio::join!(one.handled(20), two.handled(20)) }).await;
    // As a crash: in the middle of whatever it does.
    drop(first);
    let before = events(&shop.shop).await.len();
    promptly(two.handled(before + 20)).await;
    second.shutdown().await.unwrap();

    let events = events(&shop.shop).await;
    let distinct: BTreeSet<_> = events.iter().map(|event| (&event.event_type, scheduled_at(event))).collect();
    assert_eq!(distinct.len(), events.len(), "a due time was fired twice");
    for n in 0..10 {
        let name = format!("s{n}");
        let due: Vec<_> = distinct.iter().filter(|(of, _)| **of == name).map(|(_, due)| due.timestamp()).collect();
        assert!(due.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{name} lost one: {due:?}");
    }
    elsewhere.shutdown().await;
}

#[tokio::test]
async fn a_node_asleep_is_woken_for_a_schedule_that_is_new_or_resumed() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("reminders");
    let node = shop.shop.node("n1").run(Subscription::of(recorder.clone())).start().await.unwrap();
    until(|| async { node.status().listening }).await;
    shop.shop.schedule_task(Task::cron("rarely", "0 0 1 1 *").emits("rarely", Json::null())).await.unwrap();
    shop.shop.schedule_task(once("here", 50)).await.unwrap();
    promptly(recorder.handled(1)).await;
    let by_sql = "SELECT headwater.schedule('shop', 'sql', 'by SQL', due_at => clock_timestamp() + interval '100 ms')";
    sqlx::query(by_sql).execute(&mut shop.db.session().await).await.unwrap();
    promptly(recorder.handled(2)).await;
    let elsewhere = Headwater::connect(&shop.db.url).await.unwrap();
    let there = elsewhere.namespace("shop").await.unwrap();
    there.schedule_task(once("elsewhere", 100)).await.unwrap();
    promptly(recorder.handled(3)).await;
    there.schedule_task(once("paused", 0).paused()).await.unwrap();
    there.resume_schedule("paused").await.unwrap();
    promptly(recorder.handled(4)).await;
    there.run_now("rarely").await.unwrap();
    promptly(recorder.handled(5)).await;
    assert_eq!(recorder.types(), ["here", "by SQL", "elsewhere", "paused", "rarely"]);
    elsewhere.shutdown().await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_node_that_cannot_be_woken_polls_for_schedules() {
    let shop = Shop::open().await;
    let recorder = Recorder::new("reminders");
    let builder = shop.shop.node("n1").run(Subscription::of(recorder.clone())).wake_ups(WakeUpSource::Poll);
    let node = builder.poll(Duration::from_millis(50)).start().await.unwrap();
    let by_sql = "SELECT headwater.schedule('shop', 'sql', 'by SQL', due_at => clock_timestamp() + interval '50 ms')";
    sqlx::query(by_sql).execute(&mut shop.db.session().await).await.unwrap();
    promptly(recorder.handled(1)).await;
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn schedules_are_fired_without_nodes_for_all_namespaces() {
    let shop = Shop::open().await;
    let firing = tokio::spawn({
        let headwater = shop.headwater.clone();
        async move { headwater.keep_firing_due().await }
    });
    shop.headwater.create_namespace(NamespaceConfig::new("bank")).await.unwrap();
    let bank = shop.headwater.namespace("bank").await.unwrap();
    for namespace in [&shop.shop, &bank] {
        namespace.schedule_task(once("a", 100)).await.unwrap();
        promptly(until(|| async { !events(namespace).await.is_empty() })).await;
    }
    assert_eq!(events(&shop.shop).await.len(), 1);
    firing.abort();
}

#[tokio::test]
async fn what_was_due_while_nobody_ran_is_caught_up_with() {
    let shop = Shop::open().await;
    shop.shop.schedule_task(Task::cron("hourly", "@hourly").emits("hourly", Json::null())).await.unwrap();
    let missed = "UPDATE headwater_private.schedules SET next_due_at = date_trunc('hour', now()) - interval '5 hours',
                                                 fire_at = date_trunc('hour', now()) - interval '5 hours'";
    sqlx::query(missed).execute(&mut shop.db.session().await).await.unwrap();
    let recorder = Recorder::new("cleaner");
    let builder = shop.shop.node("n1").run(Subscription::of(recorder.clone()).start_from(StartFrom::Beginning));
    let node = builder.start().await.unwrap();
    promptly(recorder.handled(1)).await;
    let outcomes: Vec<_> = shop.shop.schedule_runs("hourly", 10).await.unwrap().iter().map(|run| run.outcome).collect();
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    assert!(outcomes.contains(&RunOutcome::Fired) && outcomes.contains(&RunOutcome::Skipped), "{outcomes:?}");
    node.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_node_without_postgresql_has_no_schedules() {
    let log = MemoryLog::new("shop");
    let builder = NodeBuilder::new("n1", Arc::new(log.clone()), Arc::new(MemorySubscribers::new(log)));
    let node = builder.run(Subscription::of(Recorder::new("r"))).start().await.unwrap();
    let refused = node.schedule_task(every_second("tick")).await.unwrap_err();
    assert!(refused.to_string().contains("kept in PostgreSQL"), "{refused}");
    node.shutdown().await.unwrap();
}
