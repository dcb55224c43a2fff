//! Firing for all namespaces at once, as `headwater up` does: a blocked namespace does not block
//! the others. Two sessions, explicit steps.

use crate::common::{emit, run, types_after};
use headwater_core::{NamespaceConfig, Ordering};
use headwater_postgres::LogOptions;
use headwater_testing::TestDatabase;
use sqlx::{AssertSqlSafe, PgConnection};

/// Fires until nothing is left that a call could fire. A call that took a second leaves the rest to
/// the next call.
async fn fire_all(session: &mut PgConnection, function: &str) {
    let call = format!("SELECT next_due_in = interval '0' FROM headwater.{function}()");
    loop {
        let again: Option<bool> =
            sqlx::query_scalar(AssertSqlSafe(call.clone())).fetch_one(&mut *session).await.unwrap();
        if again != Some(true) {
            return;
        }
    }
}

#[tokio::test]
async fn a_writer_that_holds_a_gapless_namespace_delays_the_others_by_no_more_than_a_look() {
    let db = TestDatabase::create().await;
    let bank = db.log_with(NamespaceConfig::new("bank").ordering(Ordering::Gapless), LogOptions::default()).await;
    let shop = db.log("shop").await;
    let mut session = db.session().await;
    for namespace in ["bank", "shop"] {
        let due = format!(
            "SELECT headwater.emit_at('{namespace}', 'due', clock_timestamp() + interval '1 hour');
             SELECT headwater.schedule('{namespace}', 'hourly', 'scheduled', '0 * * * *')"
        );
        run(&mut session, &due).await;
    }
    let earlier =
        "UPDATE headwater_private.due_events SET due_at = due_at - interval '2 hours', fire_at = fire_at - interval '2 hours';
        UPDATE headwater_private.schedules SET next_due_at = '2026-01-01T10:00:00Z', fire_at = '2026-01-01T10:00:00Z'";
    run(&mut session, earlier).await;
    let mut writer = db.session().await;
    run(&mut writer, "BEGIN").await;
    emit(&mut writer, "bank", "open").await;

    // Else it would wait for the writer, and so for ever.
    run(&mut session, "SET statement_timeout = '30s'; SET lock_timeout = '29s'").await;
    for fire in ["fire_all_due", "fire_all_schedules"] {
        fire_all(&mut session, fire).await;
    }
    assert_eq!(types_after(&shop, 0).await, ["due", "scheduled"]);
    let timeout: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut session).await.unwrap();
    assert_eq!(timeout, "29s", "what the caller set is kept");

    run(&mut writer, "COMMIT").await;
    for fire in ["fire_all_due", "fire_all_schedules"] {
        fire_all(&mut session, fire).await;
    }
    assert_eq!(types_after(&bank, 0).await, ["open", "due", "scheduled"]);
}

/// A call is one transaction: the due events of one tenant, however many, do not delay the commit
/// of the others.
#[tokio::test]
async fn a_call_ends_after_a_second_whatever_is_left() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    let slow = "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.6); RETURN NULL; END $$;
                CREATE TRIGGER slow AFTER DELETE ON headwater_private.due_events FOR EACH STATEMENT EXECUTE FUNCTION dawdle()";
    run(&mut session, slow).await;
    for namespace in ["a", "b", "c", "d"] {
        db.log(namespace).await;
        run(&mut session, &format!("SELECT headwater.emit_at('{namespace}', 'due', now() + interval '1 hour')")).await;
    }
    run(&mut session, "UPDATE headwater_private.due_events SET due_at = now(), fire_at = now()").await;
    let (fired, again): (i32, bool) =
        sqlx::query_as("SELECT fired, next_due_in = interval '0' FROM headwater.fire_all_due()")
            .fetch_one(&mut session)
            .await
            .unwrap();
    assert!((1..4).contains(&fired) && again, "{fired} {again}");
    fire_all(&mut session, "fire_all_due").await;
    let left: i64 =
        sqlx::query_scalar("SELECT count(*) FROM headwater_private.due_events").fetch_one(&mut session).await.unwrap();
    assert_eq!(left, 0);
}
