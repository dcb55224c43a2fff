//! docs/sql.md: it names every public function with its signature, and its examples run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::run;
use crate::migrations::sql_files;
use headwater_testing::TestDatabase;

pub(crate) fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md")).unwrap()
}

/// What stands in the page's blocks of a language.
pub(crate) fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence)
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .map(|block| block.trim().to_owned())
        .collect()
}

/// Functions whose files say that they are public.
pub(crate) fn public() -> BTreeSet<String> {
    let (functions, _) = sql_files();
    let public = functions.into_iter().filter(|file| file.text.contains("\n-- Public: in docs/sql.md.\n"));
    let names = public.map(|file| file.name);
    // Two files hold the two forms of headwater.append.
    names.map(|name| if name == "append_streams" { "append".into() } else { name }).collect()
}

#[tokio::test]
async fn the_page_has_every_public_function_with_its_signature() {
    let db = TestDatabase::create().await;
    let signatures = "SELECT format('headwater.%s(%s) → %s', p.proname,
                               regexp_replace(pg_get_function_arguments(p.oid), '(, )?caller headwater.caller DEFAULT CURRENT_USER', ''), pg_get_function_result(p.oid))
                        FROM pg_proc p WHERE p.pronamespace = 'headwater'::regnamespace AND p.proname = ANY ($1)";
    // Types by the names that they have outside of the schema.
    let mut session = db.session().await;
    run(&mut session, "SET search_path = pg_catalog").await;
    let public: Vec<String> = public().into_iter().collect();
    assert!(public.len() > 30, "{public:?}");
    let there: Vec<String> = sqlx::query_scalar(signatures).bind(&public).fetch_all(&mut session).await.unwrap();
    let there: BTreeSet<String> = there.into_iter().collect();
    let documented: BTreeSet<String> = blocks(&page(), "text").into_iter().collect();
    assert_eq!(documented, there);
}

#[tokio::test]
async fn the_examples_of_the_page_run() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    let page = page();
    let examples = blocks(&page, "sql");
    assert!(examples.len() > 30, "{}", examples.len());
    for example in &examples {
        run(&mut session, example).await;
    }
    // Each function has an example that calls it.
    let all = examples.join("\n");
    for name in public() {
        assert!(all.contains(&format!("headwater.{name}(")), "no example calls {name}");
    }
}

/// In psql, each statement is sent by itself: so they are here, in one session.
#[tokio::test]
async fn the_readme_runs_top_to_bottom() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let examples = blocks(&readme, "sql");
    assert_eq!(examples.len(), 1, "{examples:?}");
    let without_comments: Vec<_> =
        examples[0].lines().map(|line| line.split(" -- ").next().unwrap_or_default()).collect();
    let statements = without_comments.join("\n");
    for statement in statements.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        run(&mut session, statement).await;
    }
    // What it shows is done, not only understood.
    let done = "SELECT array_agg(event_type ORDER BY global_sequence), (SELECT shipped FROM orders),
                       (SELECT count(*) FROM headwater_private.claims) FROM headwater.read_log('shop')";
    let done: (Vec<String>, bool, i64) = sqlx::query_as(done).fetch_one(&mut session).await.unwrap();
    assert_eq!(done, (["Placed", "Shipped", "parcel.handed_over"].map(String::from).to_vec(), true, 1));
}

#[tokio::test]
async fn the_event_log_by_its_other_name() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    let append = "SELECT headwater.append_event_log('shop', 'user.created', '{\"userId\": 1}', 'api-1',
                      '018f0000-0000-7000-8000-000000000001', '{\"messageId\": 7, \"of\": \"signup\", \"none\": null}')";
    let sequence: i64 = sqlx::query_scalar(append).fetch_one(&mut session).await.unwrap();
    let stored = "SELECT data::text, headers FROM headwater_private.events WHERE global_sequence = $1";
    let (data, headers): (String, serde_json::Value) =
        sqlx::query_as(stored).bind(sequence).fetch_one(&mut session).await.unwrap();
    assert_eq!(data, "{\"userId\": 1}");
    let expected = serde_json::json!({
        "messageId": "7", "of": "signup", "producer_node_id": "api-1", "scheduled_task_id": "018f0000-0000-7000-8000-000000000001",
        "metadata": "{\"none\": null, \"messageId\": 7}"
    });
    assert_eq!(headers, expected);
    let bare = "SELECT headwater.append_event_log('shop', 'a', NULL, NULL)";
    sqlx::query_scalar::<_, i64>(bare).fetch_one(&mut session).await.unwrap();
    let wrong = "SELECT headwater.append_event_log('shop', 'a', NULL, NULL, p_metadata => '[]')";
    assert_eq!(crate::common::sqlstate_of(&mut session, wrong).await, "WH002");
    let names: (String, String) = sqlx::query_as(
        "SELECT headwater.queue_name_for_namespace('my-demo'), headwater.dead_letter_queue_name_for_namespace('demo')",
    )
    .fetch_one(&mut session)
    .await
    .unwrap();
    assert_eq!(names, ("core_events_my_demo".into(), "core_events_demo_dlq".into()));
}

#[tokio::test]
async fn monitors_see_what_they_were_granted_and_count_no_events() {
    let db = TestDatabase::create().await;
    let mut owner = db.session().await;
    for namespace in ["bank", "shop"] {
        db.log(namespace).await;
        let fill = format!(
            "SELECT headwater.register_subscriber('{namespace}', 'work', mode => 'shared');
             SELECT headwater.emit('{namespace}', 'A') FROM generate_series(1, 5);
             SELECT headwater.nack('{namespace}', 'work', c.claim_id, permanent => true) FROM headwater.claim('{namespace}', 'work', 1) c;
             SELECT headwater.claim('{namespace}', 'work', 2);
             SELECT headwater.register_subscriber('{namespace}', 'group', mode => 'partitioned', partitions => 2);
             UPDATE headwater_private.subscribers SET position = 3 WHERE subscriber_id = 'group' AND partition = 1"
        );
        run(&mut owner, &fill).await;
    }
    let role = db.role().await;
    db.database.grant("shop", &role.name, headwater_postgres::GrantKind::Consumer).await.unwrap();
    let lag = "SELECT namespace, subscriber_id, lag_events, dead_letters FROM headwater.subscriber_lag ORDER BY 1, 2";
    let partitions = "SELECT namespace, partition, position, lag_events FROM headwater.partition_lag WHERE subscriber_id = 'group' ORDER BY 1, 2";
    let queues = "SELECT namespace, waiting, claims, in_flight FROM headwater.queue_metrics ORDER BY 1";
    let letters = "SELECT namespace, state, letters FROM headwater.dead_letter_counts";
    let shop_lag = ("shop".to_owned(), "work".to_owned(), 2_i64, 1_i64);
    let shop_queue = ("shop".to_owned(), 2_i64, 1_i64, 2_i64);
    let shop_letters = ("shop".to_owned(), "dead".to_owned(), 1_i64);
    for (session, namespaces) in [(&mut owner, 2), (&mut role.session().await, 1)] {
        let lag: Vec<(String, String, i64, i64)> = sqlx::query_as(lag).fetch_all(&mut *session).await.unwrap();
        assert_eq!((lag.len(), lag.last()), (2 * namespaces, Some(&shop_lag)));
        let partitions: Vec<(String, i32, i64, i64)> =
            sqlx::query_as(partitions).fetch_all(&mut *session).await.unwrap();
        let shop_partitions = [("shop".to_owned(), 0, 0, 5), ("shop".to_owned(), 1, 3, 2)];
        assert_eq!((partitions.len(), &partitions[partitions.len() - 2..]), (2 * namespaces, &shop_partitions[..]));
        let queues: Vec<(String, i64, i64, i64)> = sqlx::query_as(queues).fetch_all(&mut *session).await.unwrap();
        assert_eq!((queues.len(), queues.last()), (namespaces, Some(&shop_queue)));
        let letters: Vec<(String, String, i64)> = sqlx::query_as(letters).fetch_all(&mut *session).await.unwrap();
        assert_eq!((letters.len(), letters.last()), (namespaces, Some(&shop_letters)));
    }
    // A producer has no subscribers to see.
    let producer = db.role().await;
    db.database.grant("shop", &producer.name, headwater_postgres::GrantKind::Producer).await.unwrap();
    let seen = sqlx::query(lag).fetch_all(&mut producer.session().await).await.unwrap();
    assert_eq!(seen.len(), 0);
    let seen = sqlx::query(partitions).fetch_all(&mut producer.session().await).await.unwrap();
    assert_eq!(seen.len(), 0);
}

/// What the page has about retention is enough to see a month go, without a node.
#[tokio::test]
async fn the_examples_of_retention_take_months_away() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.past_months("shop", 4, 3).await;
    db.keep_months("shop", 2).await;
    let mut session = db.session().await;
    let page = page();
    let section = page.split("\n## Retention\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    for example in blocks(section, "sql") {
        run(&mut session, &example).await;
    }
    let state = "SELECT count(*) FILTER (WHERE trimmed_at IS NOT NULL AND events = 3), count(dropped_at) FROM headwater.months('shop')";
    let trimmed: (i64, i64) = sqlx::query_as(state).fetch_one(&mut session).await.unwrap();
    assert_eq!(trimmed, (2, 0));
    // Retire, detach, drop and note, of each.
    for _ in 0..2 * 4 {
        let next = "SELECT coalesce(statement, 'SELECT headwater.note_dropped(''shop'')') FROM headwater.drop_steps('shop') LIMIT 1";
        let statement: String = sqlx::query_scalar(next).fetch_one(&mut session).await.unwrap();
        run(&mut session, &statement).await;
    }
    let dropped: (i64, i64) = sqlx::query_as(state).fetch_one(&mut session).await.unwrap();
    assert_eq!(dropped, (2, 2));
}
