//! What the tests of sealed months share.

use headwater_testing::TestDatabase;
use sqlx::PgConnection;

use crate::common::run;

/// The leaves of past months that a new session has looked into.
pub(crate) async fn looked_into(session: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT s.relname::text FROM pg_stat_xact_user_tables s
          WHERE s.relname ~ '^events_[0-9]{6}$' AND s.relname < 'events_' || to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')
            AND coalesce(s.seq_scan, 0) + coalesce(s.idx_scan, 0) > 0
          ORDER BY 1",
    )
    .fetch_all(session)
    .await
    .unwrap()
}

/// A session whose plans are made for the values at hand, and one whose plans are made for all.
pub(crate) async fn sessions(db: &TestDatabase) -> [PgConnection; 2] {
    let (mut custom, mut generic) = (db.session().await, db.session().await);
    run(&mut custom, "SET plan_cache_mode = force_custom_plan").await;
    run(&mut generic, "SET plan_cache_mode = force_generic_plan").await;
    [custom, generic]
}

pub(crate) async fn seal(session: &mut PgConnection, namespace: &str) -> i32 {
    sqlx::query_scalar("SELECT headwater.seal_months($1)").bind(namespace).fetch_one(session).await.unwrap()
}
