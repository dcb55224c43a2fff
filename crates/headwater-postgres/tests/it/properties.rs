//! Properties of the SQL functions, with random values: cron expressions against a naive model that
//! looks at every minute, and names and payloads through every public function.

use std::collections::BTreeSet;

use crate::common::run;
use crate::sql_docs::public;
use chrono::{DateTime, Datelike, Duration, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use futures::TryStreamExt;
use headwater_core::{EventLog, RecordedEvent, StreamQuery};
use headwater_testing::TestDatabase;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;

/// So many random values, of which each run has others; what fails tells its value.
fn some<S: Strategy>(strategy: S, count: usize) -> Vec<S::Value> {
    let mut runner = TestRunner::new(Config::default());
    (0..count).map(|_| strategy.new_tree(&mut runner).expect("the strategy has values").current()).collect()
}

/// A field of a cron expression: its text, its values, and whether it has a wildcard or a step.
type Field = (String, BTreeSet<u32>, bool);

fn field(low: u32, high: u32) -> impl Strategy<Value = Field> + Clone {
    let value = (low..=high).prop_map(|value| (value.to_string(), BTreeSet::from([value]), false));
    let range = (low..=high, low..=high).prop_map(|(a, b)| {
        let (first, last) = (a.min(b), a.max(b));
        (format!("{first}-{last}"), (first..=last).collect(), false)
    });
    let stepped = (low..=high, low..=high, 1_u32..20).prop_map(|(a, b, step)| {
        let (first, last) = (a.min(b), a.max(b));
        (format!("{first}-{last}/{step}"), (first..=last).step_by(step as usize).collect(), true)
    });
    let steps =
        (1_u32..30).prop_map(move |step| (format!("*/{step}"), (low..=high).step_by(step as usize).collect(), true));
    let any = Just(("*".to_owned(), (low..=high).collect::<BTreeSet<u32>>(), true));
    let item = prop_oneof![3 => value, 1 => range, 1 => stepped];
    let list = prop::collection::vec(item, 1..4).prop_map(|items: Vec<Field>| {
        let text = items.iter().map(|item| item.0.as_str()).collect::<Vec<_>>().join(",");
        (text, items.iter().flat_map(|item| item.1.iter().copied()).collect(), items.iter().any(|item| item.2))
    });
    prop_oneof![2 => any, 1 => steps, 4 => list].boxed()
}

#[derive(Debug, Clone)]
struct Expression {
    text: String,
    minutes: BTreeSet<u32>,
    hours: BTreeSet<u32>,
    days: BTreeSet<u32>,
    months: BTreeSet<u32>,
    weekdays: BTreeSet<u32>,
    /// Both days are restricted: one of them is enough.
    either_day: bool,
    fixed_time: bool,
}

impl Expression {
    fn has(&self, local: &DateTime<Tz>) -> bool {
        let by_month = self.days.contains(&local.day());
        let by_week = self.weekdays.contains(&local.weekday().num_days_from_sunday());
        self.minutes.contains(&local.minute())
            && self.hours.contains(&local.hour())
            && self.months.contains(&local.month())
            && if self.either_day { by_month || by_week } else { by_month && by_week }
    }
}

fn expressions() -> impl Strategy<Value = Expression> {
    (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)).prop_map(
        |(minute, hour, day, month, weekday)| {
            let starts_with_a_star = |field: &Field| field.0.starts_with('*');
            Expression {
                text: format!("{} {} {} {} {}", minute.0, hour.0, day.0, month.0, weekday.0),
                either_day: !starts_with_a_star(&day) && !starts_with_a_star(&weekday),
                fixed_time: !minute.2 && !hour.2,
                minutes: minute.1,
                hours: hour.1,
                days: day.1,
                months: month.1,
                weekdays: weekday.1,
            }
        },
    )
}

/// The due times in the `days` days after a moment, found by looking at each minute. A wildcard or
/// step follows the clocks. A fixed time is due when the clocks first show it. If they never show
/// it, it is due at the moment when they continue.
fn naive(expression: &Expression, zone: Tz, after: DateTime<Utc>, days: i64) -> Vec<DateTime<Utc>> {
    let minute = Duration::minutes(1);
    let mut found = Vec::new();
    let mut at = after.with_second(0).unwrap().with_nanosecond(0).unwrap();
    let end = after + Duration::days(days);
    while at < end {
        let before = at.with_timezone(&zone).naive_local();
        at += minute;
        let local = at.with_timezone(&zone);
        let shown_before = || zone.from_local_datetime(&local.naive_local()).earliest().is_some_and(|first| first < at);
        let due = if !expression.fixed_time {
            expression.has(&local)
        } else {
            let mut skipped = before + minute;
            let mut any = false;
            while skipped < local.naive_local() {
                // As a time of UTC: what the clocks would have shown.
                any |= expression.has(&Tz::UTC.from_utc_datetime(&skipped).with_timezone(&Tz::UTC));
                skipped += minute;
            }
            any || expression.has(&local) && !shown_before()
        };
        if due && at > after && at <= end {
            found.push(at);
        }
    }
    found
}

#[tokio::test]
async fn cron_expressions_are_due_when_a_naive_model_says() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    let zones = [
        Tz::UTC,
        Tz::Europe__Copenhagen,
        Tz::America__New_York,
        Tz::Australia__Lord_Howe,
        Tz::Asia__Kathmandu,
        Tz::Pacific__Chatham,
    ];
    // Half of the moments lie within days of a change of clocks somewhere.
    let near_changes = prop_oneof![
        Just(1_774_700_000_i64),
        Just(1_792_850_000),
        Just(1_772_900_000),
        Just(1_775_300_000),
        Just(1_791_000_000)
    ];
    let moments = prop_oneof![
        1_700_000_000_i64..1_900_000_000,
        (near_changes, -200_000_i64..200_000).prop_map(|(at, off)| at + off)
    ];
    let cases = (expressions(), prop::sample::select(zones.to_vec()), moments);
    let mut due_times = 0;
    for (expression, zone, after) in some(cases, 150) {
        let after = Utc.timestamp_opt(after, 0).unwrap();
        let expected = naive(&expression, zone, after, 40);
        let due: Vec<DateTime<Utc>> = sqlx::query_scalar("SELECT due_at FROM headwater.next_runs($1, $2, $3, 200)")
            .bind(&expression.text)
            .bind(zone.name())
            .bind(after)
            .fetch_all(&mut session)
            .await
            .unwrap_or_else(|error| panic!("{expression:?}: {error}"));
        assert!(
            due.is_sorted() && due.iter().all(|due| *due > after),
            "{expression:?} in {zone} after {after}: {due:?}"
        );
        let due: Vec<_> = due.into_iter().filter(|due| *due <= after + Duration::days(40)).collect();
        let expected = &expected[..expected.len().min(200)];
        assert_eq!(due, expected, "{expression:?} in {zone} after {after}");
        due_times += due.len();
    }
    assert!(due_times > 100, "{due_times}");
}

/// What PostgreSQL can hold at all: it has no NUL in texts.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[^\\x00]{0,40}",
        "[ -~]{0,300}",
        "\\PC{500,700}",
        "[a-z]{1,8}",
        "['\"\\\\%_*$;]{1,20}",
        "[\\x01-\\x1f\\x7f]{1,3}",
        "\\{[^\\x00]{0,10}\\}",
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let keys = prop_oneof![
            texts(),
            prop::sample::select(vec!["type", "id", "data", "events", "stream_id", "created_at", "headers"])
                .prop_map(str::to_owned)
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..6).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Every function takes it, or refuses it with one of Headwater's errors.
#[tokio::test]
async fn any_name_and_payload_goes_through_every_function() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    run(
        &mut session,
        "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared'), headwater.register_subscriber('shop', 'reader'),
                headwater.register_subscriber('shop', 'group', mode => 'partitioned', partitions => 2);
         SELECT headwater.emit('shop', 'A', key => 'k') FROM generate_series(1, 10);
         SELECT headwater.schedule('shop', 'daily', 'A', '0 2 * * *')",
    )
    .await;
    run(&mut session, include_str!("extreme_values.sql")).await;
    let functions: Vec<String> = public().into_iter().collect();
    sqlx::query("INSERT INTO called SELECT unnest($1::text[])").bind(&functions).execute(&mut session).await.unwrap();
    run(&mut session, "DELETE FROM extreme").await;
    for (values, of) in [
        (some(texts(), 7), "'text'::regtype, quote_literal(v)"),
        (some(json(), 7).iter().map(Value::to_string).collect(), "'jsonb'::regtype, quote_literal(v)"),
        (some(texts(), 4), "'text[]'::regtype, format('ARRAY[%L, %L]', v, 'A')"),
    ] {
        let insert = format!("INSERT INTO extreme SELECT {of} FROM unnest($1::text[]) v");
        sqlx::query(sqlx::AssertSqlSafe(insert)).bind(values).execute(&mut session).await.unwrap();
    }
    let calls: i32 = sqlx::query_scalar("SELECT pg_temp.try_all()").fetch_one(&mut session).await.unwrap();
    assert!(calls > 500, "{calls}");
    let wrong: Vec<(String, String)> =
        sqlx::query_as("SELECT call, answer FROM wrong").fetch_all(&mut session).await.unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What was taken comes back as it was, by SQL and by the Rust client.
#[tokio::test]
async fn names_and_payloads_come_back_as_they_were() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    let mut session = db.session().await;
    let name = "[^\\x00-\\x1f\\x7f]{1,60}";
    let headers = prop::collection::btree_map("[^\\x00]{0,20}", "[^\\x00]{0,20}", 0..4);
    for (stream, event_type, key, actor, headers, data) in some((name, name, name, name, headers, json()), 60) {
        let event =
            serde_json::json!({ "type": event_type, "key": key, "actor_id": actor, "headers": headers, "data": data });
        let appended: i64 = sqlx::query_scalar("SELECT global_sequence FROM headwater.append('shop', $1, $2)")
            .bind(&stream)
            .bind(&event)
            .fetch_one(&mut session)
            .await
            .unwrap_or_else(|error| panic!("{stream:?} {event}: {error}"));
        let emitted: i64 =
            sqlx::query_scalar("SELECT headwater.emit('shop', $1, $2, key => $3, actor_id => $4, headers => $5)")
                .bind(&event_type)
                .bind(&data)
                .bind(&key)
                .bind(&actor)
                .bind(serde_json::json!(headers))
                .fetch_one(&mut session)
                .await
                .unwrap_or_else(|error| panic!("{event}: {error}"));
        assert_eq!(emitted, appended + 1);
        let stored: Vec<(String, String, String, Option<Value>, Value)> = sqlx::query_as(
            "SELECT event_type, key, actor_id, headers, data FROM headwater.read_log('shop', after_sequence => $1) ORDER BY global_sequence",
        )
        .bind(appended - 1)
        .fetch_all(&mut session)
        .await
        .unwrap();
        let by_rust: Vec<RecordedEvent> =
            log.read_stream(StreamQuery::new(stream.as_str())).try_collect().await.unwrap();
        let by_rust = by_rust.last().unwrap();
        for (stored_type, stored_key, stored_actor, stored_headers, stored_data) in &stored {
            assert_eq!((stored_type, stored_key, stored_actor), (&event_type, &key, &actor));
            assert_eq!(stored_headers.clone().unwrap_or(serde_json::json!({})), serde_json::json!(headers));
            assert_eq!(stored_data, &data);
        }
        assert_eq!(stored.len(), 2);
        assert_eq!(
            (&by_rust.event_type, by_rust.key.as_ref(), by_rust.actor_id.as_ref()),
            (&event_type, Some(&key), Some(&actor))
        );
        assert_eq!(serde_json::from_str::<Value>(by_rust.data_text()).unwrap(), data);
    }
}
