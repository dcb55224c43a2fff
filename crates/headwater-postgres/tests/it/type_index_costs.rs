//! What the index by type saves, and what it costs namespaces without it: pages and locks, not
//! time.

use crate::common::months::{looked_into, seal, sessions};
use crate::common::{raw, run};
use headwater_core::{Append, EventLog, Index, NamespaceConfig};
use headwater_postgres::LogOptions;
use headwater_testing::TestDatabase;
use sqlx::{AssertSqlSafe, PgConnection};

/// The pages that a statement touches, with all statements of its functions.
async fn pages(session: &mut PgConnection, statement: &str) -> i64 {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT json) {statement}");
    let plan: serde_json::Value = sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(session).await.unwrap();
    let of = |name: &str| plan[0]["Plan"][name].as_i64().unwrap();
    of("Shared Hit Blocks") + of("Shared Read Blocks")
}

/// Tables of the index that the session's transaction has locked.
async fn locked(session: &mut PgConnection) -> Vec<String> {
    let query = "SELECT DISTINCT l.relation::regclass::text FROM pg_locks l
                  WHERE l.pid = pg_backend_pid() AND l.relation::regclass::text ~ '(type_index|index_states)$' ORDER BY 1";
    sqlx::query_scalar(query).fetch_all(session).await.unwrap()
}

#[tokio::test]
async fn one_event_behind_200_000_others_is_found_at_once() {
    let db = TestDatabase::create().await;
    for namespace in ["with", "without"] {
        let index = if namespace == "with" { Index::Types } else { Index::None };
        let log = db.log_with(NamespaceConfig::new(namespace).index(index), LogOptions::default()).await;
        for _ in 0..20 {
            let many = (0..10_000).fold(Append::new(), |append, _| append.event(raw("common")));
            log.append(many).await.unwrap();
        }
        log.append(Append::new().event(raw("rare")).event(raw("common")).event(raw("rare.too"))).await.unwrap();
    }
    for (nth, mut session) in sessions(&db).await.into_iter().enumerate() {
        let mut found = Vec::new();
        for namespace in ["with", "without"] {
            let read = format!("SELECT * FROM headwater.read_log('{namespace}', event_types => '{{rare}}')");
            pages(&mut session, &read).await;
            let reads = pages(&mut session, &read).await;
            let mut claims = Vec::new();
            // The first has the session's plans made.
            for (queue, pattern) in [("first", "rare"), ("second", "rare"), ("third", "rare*")] {
                let queue = format!("{queue}-{nth}");
                run(
                    &mut session,
                    &format!("SELECT headwater.register_subscriber('{namespace}', '{queue}', mode => 'shared')"),
                )
                .await;
                let claim =
                    format!("SELECT * FROM headwater.claim('{namespace}', '{queue}', event_types => '{{{pattern}}}')");
                claims.push(pages(&mut session, &claim).await);
            }
            // What it left behind: another worker asks for another type of it.
            let left =
                format!("SELECT * FROM headwater.claim('{namespace}', 'second-{nth}', event_types => '{{rare.too}}')");
            found.push((reads, claims[1], claims[2], pages(&mut session, &left).await));
        }
        let [(read, claim, pattern, left), (read_all, claim_all, ..)] = found[..] else { panic!("{found:?}") };
        assert!(read <= 150 && claim <= 500 && pattern <= 500 && left <= 500, "{found:?}");
        assert!(read_all > 2_000 && claim_all > 2_000, "{found:?}");
    }
}

#[tokio::test]
async fn a_filtered_read_opens_the_months_that_have_what_is_asked_for() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    db.past_months("shop", 24, 500).await;
    let mut session = db.session().await;
    let rare = "UPDATE headwater_private.events SET event_type = 'rare' WHERE global_sequence IN (1100, 9100);
                SELECT headwater.maintain_namespace('shop')";
    run(&mut session, rare).await;
    assert_eq!(seal(&mut session, "shop").await, 24);
    log.append(Append::new().event(raw("rare"))).await.unwrap();
    run(&mut session, "SELECT headwater.alter_namespace('shop', index => 'types')").await;
    run(&mut session, "SELECT headwater.maintain_index('shop', 1000000)").await;
    run(&mut session, "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared')").await;
    for mut session in sessions(&db).await {
        let read = "SELECT count(*) FROM headwater.read_log('shop', event_types => '{rare}')";
        run(&mut session, "BEGIN").await;
        let found: i64 = sqlx::query_scalar(read).fetch_one(&mut session).await.unwrap();
        assert_eq!((found, looked_into(&mut session).await.len()), (3, 2));
        run(&mut session, "ROLLBACK").await;
        let touched = pages(&mut session, read).await;
        assert!(touched <= 300, "{touched}");
        // The first month is looked into as far as without the index; those between are not opened.
        let claim = "SELECT count(*) FROM headwater.claim('shop', 'work', event_types => '{rare}')";
        for warm in [false, true] {
            run(&mut session, "BEGIN").await;
            let touched = pages(&mut session, claim).await;
            assert!(!warm || touched <= 500, "{touched}");
            let opened = looked_into(&mut session).await;
            assert!(opened.len() <= 4, "{opened:?}");
            run(&mut session, "ROLLBACK").await;
        }
    }
}

#[tokio::test]
async fn who_has_no_index_does_not_pay_for_it() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    db.log_with(NamespaceConfig::new("indexed").index(Index::Types), LogOptions::default()).await;
    log.append(Append::new().event(raw("a"))).await.unwrap();
    let mut session = db.session().await;
    let one = |namespace: &str| {
        format!(
            "SELECT headwater.emit_one('{namespace}', headwater.uuid_v7(), 'a', '1', now(), 1, NULL, NULL, NULL, NULL, NULL, 0)"
        )
    };
    run(&mut session, "BEGIN").await;
    run(&mut session, &one("shop")).await;
    run(
        &mut session,
        "SELECT headwater.emit('shop', 'a'); SELECT headwater.append('shop', 'order-1', '{\"type\": \"a\"}');
         SELECT * FROM headwater.read_log('shop')",
    )
    .await;
    assert_eq!(locked(&mut session).await, Vec::<String>::new());
    // The short ways leave it to append_batch where there is an index.
    let placed: Option<i64> = sqlx::query_scalar(AssertSqlSafe(one("indexed"))).fetch_one(&mut session).await.unwrap();
    assert_eq!(placed, None);
    run(&mut session, "SELECT headwater.emit('indexed', 'a')").await;
    assert_eq!(locked(&mut session).await, ["headwater_private.type_index"]);
    run(&mut session, "ROLLBACK").await;
}
