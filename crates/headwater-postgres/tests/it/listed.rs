//! What is listed of all namespaces, and the states of projections: each caller sees what it was
//! granted, in order, page by page.

use crate::common::run;
use headwater_core::{DeadLetterQuery, NamespaceConfig, StateStore};
use headwater_postgres::{GrantKind, LogOptions, PgStateStore};
use headwater_testing::TestDatabase;
use sqlx::AssertSqlSafe;

/// `bank` and `shop`, with the same things in each.
async fn two() -> TestDatabase {
    let db = TestDatabase::create().await;
    for name in ["shop", "bank"] {
        db.log_with(NamespaceConfig::new(name), LogOptions::default()).await;
        run(
            &mut db.session().await,
            &format!(
                "SELECT headwater.emit('{name}', 'paid') FROM generate_series(1, 5);
                 SELECT headwater.register_subscriber('{name}', s, mode => 'shared') FROM unnest('{{a,b}}'::text[]) s;
                 SELECT headwater.nack('{name}', s, c.claim_id, permanent => true, error => 'no')
                   FROM unnest('{{a,b}}'::text[]) s, LATERAL (SELECT DISTINCT c.claim_id FROM headwater.claim('{name}', s) c) c;
                 SELECT headwater.register_subscriber('{name}', 'group', mode => 'partitioned', partitions => 4);
                 SELECT headwater.register_subscriber('{name}', 'totals');
                 SELECT headwater.schedule('{name}', n, 'tick', '0 2 * * *') FROM unnest('{{x,y}}'::text[]) n"
            ),
        )
        .await;
    }
    db
}

#[tokio::test]
async fn lists_of_all_namespaces_are_in_order_and_whole() {
    let db = two().await;
    let query = DeadLetterQuery { limit: 3, ..DeadLetterQuery::default() };
    let mut all: Vec<(String, String, u64)> = Vec::new();
    loop {
        let after = all.last().map(|(namespace, id, sequence)| (namespace.as_str(), id.as_str(), *sequence));
        let page = db.database.dead_letters_of_all(&query, after).await.unwrap();
        assert!(page.len() <= 3);
        if page.is_empty() {
            break;
        }
        let place = |(namespace, letter): (String, headwater_core::DeadLetter)| {
            (namespace, letter.subscriber_id.clone(), letter.global_sequence())
        };
        all.extend(page.into_iter().map(place));
    }
    let each = |namespace: &'static str| {
        ["a", "b"].into_iter().flat_map(move |id| (1..=5).map(move |at| (namespace.to_owned(), id.to_owned(), at)))
    };
    assert_eq!(all, each("bank").chain(each("shop")).collect::<Vec<_>>());
    let only = DeadLetterQuery { subscriber_id: Some("b".into()), event_type: Some("paid".into()), ..query };
    let found = db.database.dead_letters_of_all(&only, Some(("bank", "b", 4))).await.unwrap();
    let places: Vec<_> =
        found.iter().map(|(namespace, letter)| (namespace.as_str(), letter.global_sequence())).collect();
    assert_eq!(places, [("bank", 5), ("shop", 1), ("shop", 2)]);

    let groups = db.database.groups_of_all().await.unwrap();
    let shown: Vec<_> = groups
        .iter()
        .map(|group| (group.namespace.as_str(), group.partitions, group.owned, group.lag_events))
        .collect();
    assert_eq!(shown, [("bank", 4, 0, 5), ("shop", 4, 0, 5)]);
    let schedules = db.database.schedules_of_all().await.unwrap();
    let names: Vec<_> =
        schedules.iter().map(|(namespace, schedule)| format!("{namespace}.{}", schedule.name)).collect();
    assert_eq!(names, ["bank.x", "bank.y", "shop.x", "shop.y"]);
    let queues = db.database.all_queues().await.unwrap();
    let names: Vec<_> = queues.iter().map(|queue| format!("{}.{}", queue.namespace, queue.subscriber_id)).collect();
    assert_eq!(names, ["bank.a", "bank.b", "shop.a", "shop.b"]);
    assert_eq!(db.database.queues("shop", Some("a")).await.unwrap(), [queues[2].clone()]);
}

#[tokio::test]
async fn states_are_listed_and_read_by_who_was_granted_their_namespace() {
    let db = two().await;
    for name in ["shop", "bank"] {
        let log = db.database.open_log(name, LogOptions::default()).await.unwrap();
        let states: PgStateStore<u32> = PgStateStore::new(db.database.clone(), log.info(), "totals");
        for id in ["c", "a", "b"] {
            states.put(id, Some(7)).await.unwrap();
        }
        // It holds the place of one that is being made, and is none.
        run(
            &mut db.session().await,
            "INSERT INTO headwater_private.states (namespace_id, owner, state_id) SELECT namespace_id, 'totals', 'aa' FROM headwater_private.namespaces
             ON CONFLICT DO NOTHING;
             SELECT headwater.put_state(1, 'totals', 'b', '8', partition => 0, global_sequence => 3)",
        )
        .await;
        let page = states.list(None, 2).await.unwrap();
        assert_eq!(page.iter().map(|state| state.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let rest = states.list(Some("b"), 2).await.unwrap();
        assert_eq!(rest.iter().map(|state| (state.id.as_str(), state.state)).collect::<Vec<_>>(), [("c", 7)]);
        let wrong: PgStateStore<String> = PgStateStore::new(db.database.clone(), log.info(), "totals");
        let failed: Result<_, Box<dyn std::error::Error>> = async { Ok(wrong.list(None, 1).await?) }.await;
        assert!(failed.is_err(), "it is an error as others are");
    }
    let mut session = db.session().await;
    let changed: (serde_json::Value, i64) = sqlx::query_as(
        "SELECT state, sequence FROM headwater.projection_states WHERE namespace = 'shop' AND projection = 'totals' AND id = 'b'",
    )
    .fetch_one(&mut session)
    .await
    .unwrap();
    assert_eq!(changed, (serde_json::json!(8), 3));
    let count = "SELECT count(*) FROM headwater.projection_states";
    let rows: i64 = sqlx::query_scalar(count).fetch_one(&mut session).await.unwrap();
    assert_eq!(rows, 6);

    for (kind, seen) in [(GrantKind::Consumer, 3), (GrantKind::Admin, 3), (GrantKind::Producer, 0)] {
        let role = db.role().await;
        db.database.grant("bank", &role.name, kind).await.unwrap();
        let mut session = role.session().await;
        let rows: i64 = sqlx::query_scalar(count).fetch_one(&mut session).await.unwrap();
        assert_eq!(rows, seen, "{kind:?}");
        let others = format!("{count} WHERE namespace = 'shop'");
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(others)).fetch_one(&mut session).await.unwrap();
        assert_eq!(rows, 0);
        drop(session);
        db.database.revoke("bank", &role.name, None).await.unwrap();
        db.drop_role(role).await;
    }
}

/// What a namespace has in it, from before there was a check or by a server of another version,
/// must not keep the others from being listed.
#[tokio::test]
async fn no_time_of_a_schedule_breaks_the_list_of_all() {
    let db = two().await;
    run(
        &mut db.session().await,
        "UPDATE headwater_private.schedules
            SET cron_expression = NULL, due_at = '9999-12-31 23:59:59+00', next_due_at = '9999-12-31 23:59:59+00',
                last_due_at = '0001-01-01 00:00:00+00', timezone = CASE name WHEN 'x' THEN 'Pacific/Kiritimati' ELSE 'America/New_York' END",
    )
    .await;
    let schedules = db.database.schedules_of_all().await.unwrap();
    let times = |at: usize| {
        let (_, schedule) = &schedules[at];
        (schedule.next_due_at.unwrap().to_string(), schedule.last_due_at.unwrap().to_utc().to_string())
    };
    assert_eq!(times(0), ("+10000-01-01 13:59:59 +14:00".into(), "0001-01-01 00:00:00 UTC".into()));
    assert_eq!(times(1), ("9999-12-31 18:59:59 -05:00".into(), "0001-01-01 00:00:00 UTC".into()));
    assert_eq!(schedules.len(), 4);
}
