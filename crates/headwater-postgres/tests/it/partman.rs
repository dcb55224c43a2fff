//! Namespaces whose partitions pg_partman makes: the same log, the same retention. Without the
//! extension they are refused.

use crate::common::{raw, run, sqlstate_of, types_after};
use headwater_core::{
    AdminError, EventLog, GroupStore, MonthsMadeBy, NamespaceConfig, OperatorStore, StartFrom, SubscriberConfig,
    SubscriberMode,
};
use headwater_postgres::{LogOptions, PgLog, PgSubscribers, SubscribersOptions};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;

/// Whether pg_partman is available on this server. `scripts/test` installs it where Debian has it;
/// other servers of the matrix lack it.
async fn available(session: &mut PgConnection) -> bool {
    let there = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_partman')";
    sqlx::query_scalar(there).fetch_one(session).await.unwrap()
}

async fn shop(db: &TestDatabase, session: &mut PgConnection) -> PgLog {
    run(session, "CREATE SCHEMA partman; CREATE EXTENSION pg_partman SCHEMA partman").await;
    let config = NamespaceConfig::new("shop").months_made_by(MonthsMadeBy::PgPartman);
    db.log_with(config, LogOptions::default()).await
}

/// The leaves, as months counted from this one, with the number of indexes of each: up to two
/// months ahead. pg_partman's own maintenance rounds, so it makes a third month in the second half
/// of a month.
async fn leaves(session: &mut PgConnection) -> Vec<(i32, i64)> {
    sqlx::query_as(
        "SELECT (extract(year FROM age(l.starts_at, date_trunc('month', now(), 'UTC'))) * 12
                 + extract(month FROM age(l.starts_at, date_trunc('month', now(), 'UTC'))))::int,
                (SELECT count(*) FROM pg_index i WHERE i.indrelid = l.leaf_id)
           FROM headwater_private.leaves(1) l
          WHERE l.starts_at <= date_trunc('month', now(), 'UTC') + interval '2 months'
          ORDER BY l.starts_at",
    )
    .fetch_all(session)
    .await
    .unwrap()
}

#[tokio::test]
async fn without_the_extension_a_namespace_of_it_is_refused() {
    let db = TestDatabase::create().await;
    let config = NamespaceConfig::new("shop").months_made_by(MonthsMadeBy::PgPartman);
    let refused = db.database.create_namespace(&config).await;
    assert!(matches!(refused, Err(AdminError::NoPartman(_))), "{refused:?}");
    let mut session = db.session().await;
    assert_eq!(
        sqlstate_of(&mut session, "SELECT headwater.create_namespace('shop', months_made_by => 'pg_partman')").await,
        "WH034"
    );
    assert!(db.database.namespaces().await.unwrap().is_empty(), "nothing of it stays");
}

#[tokio::test]
async fn it_makes_the_months_of_utc_with_our_indexes_and_no_default() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    if !available(&mut session).await {
        return;
    }
    run(&mut session, "SET timezone = 'Pacific/Auckland'").await;
    let log = shop(&db, &mut session).await;
    run(&mut session, "SET timezone = 'UTC'").await;
    assert_eq!(leaves(&mut session).await, [(0, 5), (1, 5), (2, 5)]);
    let config: (String, bool, Option<String>) = sqlx::query_as(
        "SELECT automatic_maintenance, infinite_time_partitions, retention FROM partman.part_config WHERE parent_table = 'headwater_private.events_n1'",
    )
    .fetch_one(&mut session)
    .await
    .unwrap();
    assert_eq!(config, ("off".into(), true, None), "its own runs pass it by, and drop nothing");
    log.append(raw("stored").into()).await.unwrap();
    assert_eq!(types_after(&log, 0).await, ["stored"]);

    // Two months later, by its own maintenance.
    run(
        &mut session,
        "DO $$ DECLARE leaf text; BEGIN
             FOR leaf IN SELECT l.leaf FROM headwater_private.leaves(1) l WHERE l.starts_at > now() LOOP EXECUTE 'DROP TABLE headwater_private.' || leaf; END LOOP;
         END $$;
         UPDATE headwater_private.namespaces SET leaves_until = date_trunc('month', now(), 'UTC')",
    )
    .await;
    db.database.maintain("shop", false).await.unwrap();
    assert_eq!(leaves(&mut session).await, [(0, 5), (1, 5), (2, 5)]);
    let named: bool =
        sqlx::query_scalar("SELECT bool_and(l.leaf ~ '^events_n1_p[0-9]') FROM headwater_private.leaves(1) l")
            .fetch_one(&mut session)
            .await
            .unwrap();
    assert!(named, "pg_partman made them");
}

#[tokio::test]
async fn what_it_made_is_sealed_trimmed_and_dropped_under_our_rule() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    if !available(&mut session).await {
        return;
    }
    let log = shop(&db, &mut session).await;
    db.past_months("shop", 3, 3).await;
    db.keep_months("shop", 1).await;
    let store =
        PgSubscribers::new(db.database.clone(), log.info().clone(), SubscribersOptions { session_locks: false });
    let slow = SubscriberConfig::new("slow", StartFrom::Beginning, SubscriberMode::Exclusive);
    store.register(&slow).await.unwrap();
    let held = db.database.maintain("shop", false).await.unwrap();
    assert_eq!((held.sealed, held.trimmed.len()), (3, 0));
    run(&mut session, "SELECT partman.run_maintenance('headwater_private.events_n1'), partman.run_maintenance()").await;
    assert_eq!(leaves(&mut session).await.len(), 6, "pg_partman drops nothing by itself");
    store.reset("slow", 9).await.unwrap();
    let done = db.database.maintain("shop", false).await.unwrap();
    assert_eq!((done.trimmed.len(), done.dropped.len(), done.left.len()), (2, 2, 0), "{done:?}");
    assert_eq!(leaves(&mut session).await.len(), 4);
}

#[tokio::test]
async fn when_it_is_gone_or_fails_the_months_are_made_without_it() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    if !available(&mut session).await {
        return;
    }
    let log = shop(&db, &mut session).await;
    run(
        &mut session,
        "DROP EXTENSION pg_partman CASCADE;
         DO $$ DECLARE leaf text; BEGIN
             FOR leaf IN SELECT l.leaf FROM headwater_private.leaves(1) l LOOP EXECUTE 'DROP TABLE headwater_private.' || leaf; END LOOP;
         END $$;
         SELECT headwater_private.create_leaf(1, now());
         UPDATE headwater_private.namespaces SET leaves_until = date_trunc('month', now(), 'UTC')",
    )
    .await;
    log.append(raw("stored all the same").into()).await.unwrap();
    assert_eq!(leaves(&mut session).await, [(0, 5), (1, 5), (2, 5)]);
}

/// No registry that the tests can install from has 5.x. So the call is checked against its
/// documented signature.
#[test]
fn the_call_of_5_x_has_its_arguments() {
    let function = include_str!("../../sql/retention/partman_months.sql");
    let call =
        function.split("ELSE 'SELECT %I.create_parent(").nth(1).and_then(|rest| rest.split(")'").next()).unwrap();
    let names: Vec<_> = call.split(',').map(|argument| argument.trim().split(" => ").next().unwrap()).collect();
    let known = [
        "p_parent_table",
        "p_control",
        "p_interval",
        "p_type",
        "p_epoch",
        "p_premake",
        "p_start_partition",
        "p_default_table",
        "p_automatic_maintenance",
        "p_constraint_cols",
        "p_template_table",
        "p_jobmon",
        "p_date_trunc_interval",
    ];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    assert!(
        call.contains("p_type => ''range''")
            && call.contains("p_interval => ''1 month''")
            && call.contains("p_default_table => false")
    );
}
