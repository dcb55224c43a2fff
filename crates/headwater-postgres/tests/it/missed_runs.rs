//! What a schedule does after a time in which nobody fired it, compared with a walk through all its
//! due times.

use chrono::{DateTime, TimeDelta, TimeZone, Utc};
use headwater_testing::TestDatabase;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

type Time = DateTime<Utc>;

struct Case {
    schedule: serde_json::Value,
    after: Time,
    at: Time,
    ends_at: Option<Time>,
    missed: &'static str,
    limit: usize,
}

fn case(random: &mut StdRng) -> Case {
    let (cron, longest) = [
        ("*/7 * * * * *", 600),
        ("*/5 * * * *", 40_000),
        ("30 2 * * *", 1_000_000),
        ("0 1,2,3 * * *", 1_000_000),
        ("15 */2 * * 1-5", 600_000),
    ][random.random_range(0..5)];
    let timezone = ["UTC", "Europe/Copenhagen", "Australia/Lord_Howe"][random.random_range(0..3)];
    let missed = ["fire_once", "fire_all", "skip"][random.random_range(0..3)];
    let limit = random.random_range(1..8);
    // Around the days on which clocks are changed.
    let begin = [(2026, 3, 27), (2026, 10, 23), (2026, 4, 3), (2026, 10, 2)][random.random_range(0..4)];
    let begin = Utc.with_ymd_and_hms(begin.0, begin.1, begin.2, 12, 0, 0).unwrap();
    let after = begin + TimeDelta::seconds(random.random_range(0..3 * 86_400));
    let at = after + TimeDelta::milliseconds(random.random_range(0..longest * 1_000));
    let ends_at = random.random_bool(0.3).then(|| after + TimeDelta::seconds(random.random_range(0..2 * longest)));
    let schedule = json!({
        "cron_expression": cron, "timezone": timezone, "missed": missed, "missed_limit": limit, "ends_at": ends_at,
    });
    Case { schedule, after, at, ends_at, missed, limit }
}

#[tokio::test]
async fn a_plan_is_what_a_walk_through_all_due_times_says() {
    let seed = std::env::var("HEADWATER_SEED").ok().map_or_else(rand::random, |seed| seed.parse().unwrap());
    println!("HEADWATER_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    let walk = "
        WITH RECURSIVE s AS (
            SELECT jsonb_populate_record(NULL::headwater_private.schedules, $1) AS s
        ), walk AS (
            SELECT 1 AS n, headwater_private.cron_next((s.s).cron_expression, (s.s).timezone, $2) AS due FROM s
            UNION ALL
            SELECT w.n + 1, headwater_private.cron_after(headwater_private.cron_fields((s.s).cron_expression), (s.s).timezone, w.due) FROM walk w, s WHERE w.due <= $3
        )
        SELECT array_agg(w.due ORDER BY w.n) FROM walk w";
    let plan = "
        SELECT p.due, p.skipped_from, p.skipped_until, p.next_due_at
          FROM headwater_private.plan_runs(jsonb_populate_record(NULL::headwater_private.schedules, $1), $2) p";
    let (mut fired, mut skipped) = (0, 0);
    for _ in 0..300 {
        let mut case = case(&mut random);
        let mut due: Vec<Time> = sqlx::query_scalar(walk)
            .bind(&case.schedule)
            .bind(case.after)
            .bind(case.at)
            .fetch_one(&mut session)
            .await
            .unwrap();
        let next = due.pop().filter(|next| case.ends_at.is_none_or(|end| *next <= end));
        if due.is_empty() || case.ends_at.is_some_and(|end| due[0] > end) {
            continue;
        }
        case.schedule["next_due_at"] = json!(due[0]);
        due.retain(|due| case.ends_at.is_none_or(|end| *due <= end));
        let on_time = due.split_off(due.partition_point(|due| *due < case.at - TimeDelta::seconds(120)));
        let keep = match case.missed {
            "fire_all" => case.limit.min(due.len()),
            "fire_once" if on_time.is_empty() => 1,
            _ => 0,
        };
        let kept = due.split_off(due.len() - keep);
        let expected =
            (kept.into_iter().chain(on_time).collect::<Vec<_>>(), due.first().copied(), due.last().copied(), next);
        let planned: (Vec<Time>, Option<Time>, Option<Time>, Option<Time>) =
            sqlx::query_as(plan).bind(&case.schedule).bind(case.at).fetch_one(&mut session).await.unwrap();
        assert_eq!(planned, expected, "{} at {}", case.schedule, case.at);
        fired += expected.0.len();
        skipped += usize::from(expected.1.is_some());
    }
    assert!(fired > 100 && skipped > 20, "{fired} fired, {skipped} skipped: the cases say little");
}
