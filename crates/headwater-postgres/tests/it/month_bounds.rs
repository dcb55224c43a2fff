//! Where months begin and end, and that none is missing: whatever the session's settings, and
//! whatever happened to the tables.

use crate::common::{emit, run, sqlstate_of};
use headwater_postgres::DoctorOptions;
use headwater_testing::TestDatabase;
use sqlx::PgConnection;

const HOSTILE: [&str; 3] = [
    "SET datestyle = 'SQL'; SET timezone = 'Asia/Shanghai'",
    "SET datestyle = 'German, DMY'; SET timezone = 'America/St_Johns'",
    "SET datestyle = 'Postgres, MDY'; SET timezone = 'Pacific/Kiritimati'",
];

/// The leaves of a namespace: their names, and how far their bounds are from the months' in UTC.
async fn leaves(session: &mut PgConnection) -> Vec<String> {
    run(session, "SET datestyle = 'ISO'; SET timezone = 'UTC'").await;
    sqlx::query_scalar(
        "SELECT CASE WHEN l.starts_at = date_trunc('month', l.starts_at) AND l.ends_at = l.starts_at + interval '1 month'
                     THEN to_char(l.starts_at, 'YYYY-MM') ELSE l.starts_at || ' to ' || l.ends_at END
           FROM headwater_private.leaves(1) l",
    )
    .fetch_all(session)
    .await
    .unwrap()
}

/// So many months from this one on.
async fn months(session: &mut PgConnection, count: i32) -> Vec<String> {
    let months = "SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + i * interval '1 month', 'YYYY-MM')
                    FROM generate_series(0, $1 - 1) i";
    sqlx::query_scalar(months).bind(count).fetch_all(session).await.unwrap()
}

#[tokio::test]
async fn months_begin_in_utc_whatever_a_session_has_set() {
    for settings in HOSTILE {
        let db = TestDatabase::create().await;
        let (mut hostile, mut plain) = (db.session().await, db.session().await);
        run(&mut hostile, settings).await;
        run(&mut hostile, "SELECT headwater.create_namespace('shop')").await;
        assert_eq!(leaves(&mut plain).await, months(&mut plain, 3).await, "{settings}");
        run(&mut plain, "SELECT headwater.maintain_namespace('shop', now() + interval '3 months')").await;
        assert_eq!(leaves(&mut plain).await, months(&mut plain, 6).await, "{settings}");
        run(&mut hostile, "SELECT headwater.maintain('shop', now() + interval '6 months')").await;
        assert_eq!(leaves(&mut plain).await, months(&mut plain, 9).await, "{settings}");
        run(&mut hostile, settings).await;
        let seen =
            "SELECT array_agg(extract(epoch FROM starts_at)::bigint ORDER BY starts_at) FROM headwater.months('shop')";
        let by_hostile: Vec<i64> = sqlx::query_scalar(seen).fetch_one(&mut hostile).await.unwrap();
        let by_plain: Vec<i64> = sqlx::query_scalar(seen).fetch_one(&mut plain).await.unwrap();
        assert_eq!(by_hostile, by_plain, "{settings}");
    }
}

/// A day of retention is a day of UTC. A session whose clocks change meanwhile does not see the
/// retention end an hour earlier.
#[tokio::test]
async fn how_long_a_month_is_kept_does_not_depend_on_a_time_zone() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    run(&mut session, "SELECT headwater.alter_namespace('shop', retention => interval '5 months 3 days')").await;
    let due = "SELECT array_agg(extract(epoch FROM due_at)::bigint ORDER BY starts_at) FROM headwater.months('shop')";
    let mut seen = Vec::new();
    for zone in ["UTC", "Europe/Copenhagen", "America/St_Johns", "Pacific/Apia"] {
        run(&mut session, &format!("SET timezone = '{zone}'")).await;
        seen.push(sqlx::query_scalar::<_, Vec<i64>>(due).fetch_one(&mut session).await.unwrap());
    }
    seen.dedup();
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[tokio::test]
async fn maintenance_far_ahead_leaves_no_month_out() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    run(&mut session, "SELECT headwater.maintain('shop', at => now() + interval '300 days')").await;
    let there = leaves(&mut session).await;
    assert_eq!(there, months(&mut session, there.len() as i32).await);
    assert!(there.len() > 11, "{there:?}");
    for at in ["'infinity'", "'-infinity'", "now() + interval '11 years'"] {
        let call = format!("SELECT headwater.maintain('shop', at => {at})");
        assert_eq!(sqlstate_of(&mut session, &call).await, "WH002", "{at}");
    }
}

/// Maintenance makes what is missing up to `leaves_until`: a skipped month, a dropped month, a
/// detached month, and the rest of a month whose leaf has other bounds.
#[tokio::test]
async fn maintenance_mends_missing_months() {
    let breaks = [
        "UPDATE headwater_private.namespaces SET leaves_until = leaves_until + interval '7 months'",
        "DO $$ BEGIN EXECUTE (SELECT 'DROP TABLE headwater_private.' || leaf FROM headwater_private.leaves(1) OFFSET 1 LIMIT 1); END $$",
        "DO $$ BEGIN EXECUTE (SELECT 'ALTER TABLE headwater_private.events DETACH PARTITION headwater_private.' || leaf FROM headwater_private.leaves(1) LIMIT 1); END $$",
    ];
    for broken in breaks {
        let db = TestDatabase::create().await;
        db.log("shop").await;
        let mut session = db.session().await;
        emit(&mut session, "shop", "before").await;
        run(&mut session, broken).await;
        let missing = db.database.diagnose(&DoctorOptions::default()).await.unwrap();
        assert!(missing.iter().any(|finding| finding.check == "missing_month"), "{broken}: {missing:?}");
        run(&mut session, "SELECT headwater.maintain('shop')").await;
        let there = leaves(&mut session).await;
        assert_eq!(there, months(&mut session, there.len() as i32).await, "{broken}");
        let missing = db.database.diagnose(&DoctorOptions::default()).await.unwrap();
        assert!(!missing.iter().any(|finding| finding.check == "missing_month"), "{broken}: {missing:?}");
        let after = emit(&mut session, "shop", "after").await;
        assert_eq!(after, 2, "{broken}");
        let stored: i64 =
            sqlx::query_scalar("SELECT count(*) FROM headwater_private.events").fetch_one(&mut session).await.unwrap();
        assert_eq!(stored, 2, "{broken}");
    }
}

#[tokio::test]
async fn the_rest_of_a_month_is_made_around_a_leaf_with_other_bounds() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    run(
        &mut session,
        "SET timezone = 'UTC';
         CREATE TEMP TABLE moved AS SELECT * FROM headwater_private.leaves(1) OFFSET 1;
         DO $$ DECLARE l record; BEGIN
             FOR l IN SELECT * FROM moved LOOP
                 EXECUTE format('ALTER TABLE headwater_private.events DETACH PARTITION headwater_private.%I', l.leaf);
             END LOOP;
             FOR l IN SELECT * FROM moved LOOP
                 EXECUTE format('ALTER TABLE headwater_private.events ATTACH PARTITION headwater_private.%I FOR VALUES FROM (%L) TO (%L)', l.leaf,
                                l.starts_at + interval '14 hours', l.ends_at + interval '3 hours');
             END LOOP;
         END $$",
    )
    .await;
    run(&mut session, "SELECT headwater.maintain('shop')").await;
    let holes: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM headwater_private.namespaces n, headwater_private.missing_months(n.namespace_id, n.sealed_before, n.leaves_until)",
    )
    .fetch_one(&mut session)
    .await
    .unwrap();
    assert_eq!(holes, 0);
    assert_eq!(leaves(&mut session).await.len(), 5);
    // All have their indexes.
    let indexes: Vec<i64> = sqlx::query_scalar(
        "SELECT count(i.indexrelid) FROM headwater_private.leaves(1) l LEFT JOIN pg_index i ON i.indrelid = l.leaf_id GROUP BY l.leaf",
    )
    .fetch_all(&mut session)
    .await
    .unwrap();
    assert_eq!(indexes, [5; 5]);
}
