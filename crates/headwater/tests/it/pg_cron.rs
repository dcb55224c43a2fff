//! Schedules with pg_cron as a trigger, on a server that has it: they fire while no node runs, and
//! no node fires them a second time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::Recorder;
use futures::TryStreamExt;
use headwater::admin::NamespaceConfig;
use headwater::schedule::ScheduleError;
use headwater::{Headwater, Json, Namespace, RecordedEvent, Subscription, Task};
use headwater_embedded::Server;
use sqlx::{AssertSqlSafe, PgPool, Row};

/// The programs of a server that has pg_cron, which Debian packages for its own.
fn bin_dir() -> PathBuf {
    let homes = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|home| home.path());
    let mut with_cron: Vec<_> = homes.filter(|home| home.join("lib/pg_cron.so").exists()).collect();
    with_cron.sort();
    with_cron.pop().expect("no server has pg_cron: scripts/test installs it").join("bin")
}

fn start(bin_dir: &Path) -> Server {
    let builder = Server::builder().bin_dir(bin_dir).setting("shared_preload_libraries", "pg_cron");
    let builder = builder.setting("cron.database_name", "headwater").setting("cron.use_background_workers", "on");
    builder.start().expect("failed to start a server with pg_cron")
}

fn every_minute(name: &str) -> Task {
    Task::cron(name, "* * * * *").emits(name, Json::null()).with_pg_cron()
}

async fn due_times(namespace: &Namespace) -> Vec<(String, String)> {
    let events: Vec<RecordedEvent> = namespace.read_all_events_since(0).try_collect().await.unwrap();
    let mut due: Vec<_> =
        events.iter().map(|event| (event.event_type.clone(), event.headers["scheduled_at"].clone())).collect();
    due.sort();
    due
}

async fn text(pool: &PgPool, query: &str) -> Vec<String> {
    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_all(pool).await.unwrap()
}

#[tokio::test]
async fn pg_cron_fires_without_nodes_and_never_twice_own_server() {
    let server = start(&bin_dir());
    let headwater = Headwater::connect(&server.url("headwater")).await.unwrap();
    let pool = headwater.pool();
    headwater.migrate().await.unwrap();
    for name in ["shop", "bank"] {
        headwater.create_namespace(NamespaceConfig::new(name)).await.unwrap();
    }
    let shop = headwater.namespace("shop").await.unwrap();
    let bank = headwater.namespace("bank").await.unwrap();
    let missing = shop.schedule_task(every_minute("early")).await.unwrap_err();
    assert!(
        matches!(&missing, ScheduleError::PgCronUnavailable(message) if message.contains("not installed")),
        "{missing:?}"
    );
    sqlx::query("CREATE EXTENSION pg_cron").execute(pool).await.unwrap();

    // Nobody but pg_cron fires for the shop; for the bank, a node does too.
    let utc = shop.schedule_task(every_minute("utc")).await.unwrap();
    shop.schedule_task(every_minute("zoned").timezone("Asia/Kathmandu")).await.unwrap();
    let paused = shop.schedule_task(every_minute("paused").paused()).await.unwrap();
    assert_eq!((paused.job_id, paused.pg_cron), (None, true), "a paused schedule has no job");
    let once_at = chrono::Utc::now() + chrono::TimeDelta::seconds(1);
    bank.schedule_task(every_minute("both")).await.unwrap();
    let recorder = Recorder::new("r");
    let node = bank.node("n1").run(Subscription::of(recorder.clone())).start().await.unwrap();
    assert!(utc.job_id.is_some() && utc.pg_cron);

    // What pg_cron is told: the expression itself where it means the same there, else every minute.
    let moment = "2900-01-01T10:20:30Z".parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    let cases = [
        ("own", Task::cron("own", "30 2 * * MON-FRI"), "30 2 * * MON-FRI"),
        ("second", Task::cron("second", "0 */5 3 1 * *"), "*/5 3 1 * *"),
        ("named", Task::cron("named", "@Daily"), "@daily"),
        ("zone", Task::cron("zone", "30 2 * * *").timezone("Europe/Copenhagen"), "* * * * *"),
        ("seconds", Task::cron("seconds", "*/10 0 3 * * *"), "* * * * *"),
        ("last", Task::cron("last", "0 3 L * *"), "* * * * *"),
        ("nth", Task::cron("nth", "0 3 * * FRI#2"), "* * * * *"),
        ("weekend", Task::cron("weekend", "0 3 * * SAT-SUN"), "* * * * *"),
        // Every hour, from the full minute after its time on: also when the server was down then.
        ("moment", Task::once("moment", moment), "21 * * * *"),
    ];
    for (name, task, expected) in cases {
        let made = shop.schedule_task(task.emits(name, Json::null()).with_pg_cron()).await.unwrap();
        let job = format!(
            "SELECT schedule || '|' || jobname || '|' || command FROM cron.job WHERE jobid = {}",
            made.job_id.unwrap()
        );
        let command = format!("SELECT headwater.run_scheduled_task('{}')", made.task_id);
        assert_eq!(text(pool, &job).await, [format!("{expected}|shop_{name}_{}|{command}", made.task_id)]);
        shop.delete_schedule(name).await.unwrap();
        assert!(text(pool, &job).await.is_empty(), "{name}: the job goes with its schedule");
    }
    // Changed, it keeps its job; left to nodes, it loses it.
    let long = "a name of more than the 63 bytes that a job's name can have, and with 'quotes' in it";
    let made = shop.schedule_task(every_minute(long)).await.unwrap();
    let changed = shop.schedule_task(Task { cron: Some("7 * * * *".into()), ..every_minute(long) }).await.unwrap();
    assert_eq!((changed.task_id, changed.job_id), (made.task_id, made.job_id));
    let jobs = format!("SELECT schedule FROM cron.job WHERE jobid = {}", made.job_id.unwrap());
    assert_eq!(text(pool, &jobs).await, ["7 * * * *"]);
    let left = shop.schedule_task(Task { pg_cron: false, ..every_minute(long) }).await.unwrap();
    assert_eq!(left.job_id, None);
    assert!(text(pool, &jobs).await.is_empty());
    shop.delete_schedule(long).await.unwrap();
    // Paused, it loses its job; resumed, it has one again. So it is with the schedule made anew.
    let made = shop.schedule_task(every_minute("rests")).await.unwrap();
    let jobs = format!("SELECT schedule FROM cron.job WHERE command LIKE '%{}%'", made.task_id);
    let now_has = |expected: &'static [&'static str], job_id: Option<i64>| {
        let jobs = &jobs;
        async move {
            assert_eq!(text(pool, jobs).await, expected);
            assert_eq!(job_id.is_some(), !expected.is_empty());
        }
    };
    for _ in 0..2 {
        shop.pause_schedule("rests").await.unwrap();
        now_has(&[], shop.schedule("rests").await.unwrap().job_id).await;
    }
    for _ in 0..2 {
        shop.resume_schedule("rests").await.unwrap();
        now_has(&["* * * * *"], shop.schedule("rests").await.unwrap().job_id).await;
    }
    now_has(&[], shop.schedule_task(every_minute("rests").paused()).await.unwrap().job_id).await;
    now_has(&[], shop.schedule_task(every_minute("rests")).await.unwrap().job_id).await;
    shop.delete_schedule("rests").await.unwrap();
    // A job that finds its schedule ended, or gone, removes itself.
    let once = Task::once("once", once_at).emits("once", Json::null()).with_pg_cron();
    let once = shop.schedule_task(once).await.unwrap();
    let gone = shop.schedule_task(every_minute("gone")).await.unwrap();
    sqlx::query("DELETE FROM headwater_private.schedules WHERE name = 'gone'").execute(pool).await.unwrap();
    let run = |task_id: uuid::Uuid| format!("SELECT headwater.run_scheduled_task('{task_id}')");
    assert_eq!(text(pool, &run(gone.task_id)).await, ["gone"]);
    // Wherever the clock is by now: what is not due yet is not fired.
    crate::common::until(|| async { text(pool, &run(once.task_id)).await != ["nothing due"] }).await;
    assert_eq!(text(pool, &run(once.task_id)).await, ["ended"]);
    let jobs =
        format!("SELECT jobname FROM cron.job WHERE jobid IN ({}, {})", once.job_id.unwrap(), gone.job_id.unwrap());
    assert!(text(pool, &jobs).await.is_empty());

    // The next full minute, or the one after that.
    let ran = "SELECT count(DISTINCT jobid) FROM cron.job_run_details WHERE status = 'succeeded'";
    let fired = async {
        loop {
            let jobs: i64 = sqlx::query_scalar(ran).fetch_one(pool).await.unwrap();
            let types =
                due_times(&shop).await.into_iter().map(|(name, _)| name).collect::<std::collections::BTreeSet<_>>();
            if jobs == 3 && types.len() == 3 && !due_times(&bank).await.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(130), fired).await.expect("pg_cron fired nothing for two minutes");
    let shops = due_times(&shop).await;
    let banks = due_times(&bank).await;
    for due in [&shops, &banks] {
        assert!(due.windows(2).all(|pair| pair[0] != pair[1]), "fired twice: {due:?}");
    }
    assert!(shops.iter().all(|(name, _)| name != "paused"), "{shops:?}");
    assert!(shops.iter().filter(|(name, _)| name != "once").all(|(_, due)| due.ends_with(":00.000000Z")), "{shops:?}");
    recorder.handled(banks.len()).await;
    let failed = "SELECT return_message FROM cron.job_run_details WHERE status = 'failed'";
    assert!(text(pool, failed).await.is_empty());

    // In a database where pg_cron does not run, it cannot be used.
    sqlx::query("CREATE DATABASE other").execute(pool).await.unwrap();
    let other = Headwater::connect(&server.url("other")).await.unwrap();
    other.migrate().await.unwrap();
    other.create_namespace(NamespaceConfig::new("shop")).await.unwrap();
    let refused = other.namespace("shop").await.unwrap().schedule_task(every_minute("a")).await.unwrap_err();
    assert!(refused.to_string().contains("pg_cron runs in database 'headwater', not in 'other'"), "{refused}");
    other.shutdown().await;
    node.shutdown().await.unwrap();
    let left = sqlx::query("SELECT count(*) FROM cron.job").fetch_one(pool).await.unwrap();
    // One a schedule, but for the paused one.
    assert_eq!(left.get::<i64, _>(0), 3);
    headwater.shutdown().await;
}
