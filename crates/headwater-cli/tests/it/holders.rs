//! Whoever holds appends or deliveries back is named by every command that shows progress.

use std::time::Duration;

use crate::common::{Cli, Said};
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection};

async fn run(session: &mut PgConnection, script: &str) {
    sqlx::raw_sql(AssertSqlSafe(script.to_owned())).execute(session).await.unwrap();
}

async fn pid(session: &mut PgConnection) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(session).await.unwrap()
}

/// Returns the output of a command once a condition holds. Transactions that are open for less than
/// a second are not reported.
fn until(cli: &Cli, args: &[&str], holds: impl Fn(&Said) -> bool) -> Said {
    for _ in 0..200 {
        let said = cli.run(args.iter().copied());
        if holds(&said) {
            return said;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{args:?}: {:#?}", cli.run(args.iter().copied()));
}

const COMMANDS: [&[&str]; 9] = [
    &["status"],
    &["namespace", "show", "shop"],
    &["lag"],
    &["lag", "-n", "shop"],
    &["subscribers", "list", "-n", "shop"],
    &["subscribers", "show", "-n", "shop", "mailer"],
    &["groups", "list", "-n", "shop"],
    &["groups", "show", "-n", "shop", "sorted"],
    &["queue", "-n", "shop"],
];

const IN_JSON: [&[&str]; 7] = [
    &["status", "--json"],
    &["lag", "--json"],
    &["subscribers", "list", "-n", "shop", "--json"],
    &["subscribers", "show", "-n", "shop", "work", "--json"],
    &["groups", "list", "-n", "shop", "--json"],
    &["groups", "show", "-n", "shop", "sorted", "--json"],
    &["queue", "-n", "shop", "work", "--json"],
];

/// The holders in the first line of JSON that a command wrote.
fn held_by(said: &Said) -> Vec<Value> {
    let line: Value = serde_json::from_str(said.out.lines().next().unwrap()).unwrap();
    let of = line["namespaces"].as_array().map_or(&line, |namespaces| &namespaces[0]);
    of["held_by"].as_array().unwrap_or_else(|| panic!("{said:#?}")).clone()
}

const SUBSCRIBERS: &str = "SELECT headwater.register_subscriber('shop', 'mailer');
    SELECT headwater.register_subscriber('shop', 'sorted', mode => 'partitioned', partitions => 2);
    SELECT headwater.register_subscriber('shop', 'work', mode => 'shared');";

#[tokio::test(flavor = "multi_thread")]
async fn an_open_writer_is_named_by_every_command() {
    let cli = Cli::with_shop().await;
    let (mut session, mut writer) = (cli.db.session().await, cli.db.session().await);
    run(&mut session, SUBSCRIBERS).await;
    for args in COMMANDS.iter().chain(&IN_JSON) {
        assert!(!cli.run(args.iter().copied()).ok().out.contains("pg_terminate_backend"));
    }
    run(&mut writer, "SET application_name = 'slow-app'; BEGIN; SELECT headwater.emit('shop', 'slow')").await;
    let pid = pid(&mut writer).await;
    let role: String = sqlx::query_scalar("SELECT session_user::text").fetch_one(&mut session).await.unwrap();
    for args in COMMANDS {
        let said = until(&cli, args, |said| said.out.contains("is held back"));
        let line = said.out.lines().find(|line| line.contains(&format!("pid {pid} "))).unwrap().to_owned();
        assert!(line.starts_with(&format!("  pid {pid} (slow-app, role {role}, open for ")), "{args:?}: {line}");
        assert!(line.ends_with("s) may still commit events above 0"), "{args:?}: {line}");
        assert!(said.out.contains(&format!("\n    to end it: SELECT pg_terminate_backend({pid})\n")), "{said:#?}");
    }
    for args in IN_JSON {
        let holders = held_by(&until(&cli, args, |said| !held_by(said).is_empty()));
        let [holder] = holders.as_slice() else { panic!("{args:?}: {holders:#?}") };
        assert_eq!(
            (&holder["holds"], &holder["pid"], &holder["role"]),
            (&"log".into(), &pid.into(), &role.clone().into())
        );
        assert_eq!(holder["ended_by"], format!("SELECT pg_terminate_backend({pid})"));
    }
    run(&mut session, &format!("SELECT pg_terminate_backend({pid})")).await;
    for args in COMMANDS {
        until(&cli, args, |said| !said.out.contains("is held back"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_a_queue_is_named_where_its_subscriber_is_shown() {
    let cli = Cli::with_shop().await;
    let (mut session, mut worker) = (cli.db.session().await, cli.db.session().await);
    run(&mut session, SUBSCRIBERS).await;
    run(&mut session, "SELECT headwater.emit('shop', 'job')").await;
    run(&mut worker, "SET application_name = 'slow-worker'; BEGIN; SELECT headwater.claim('shop', 'work')").await;
    let pid = pid(&mut worker).await;
    for args in
        [&["status"][..], &["lag"], &["subscribers", "show", "-n", "shop", "work"], &["queue", "-n", "shop", "work"]]
    {
        let said = until(&cli, args, |said| said.out.contains("is held back"));
        let who = format!("pid {pid} (slow-worker, role ");
        assert!(said.out.contains(&who) && said.out.contains("holds the queue of subscriber work"), "{said:#?}");
    }
    assert!(!cli.run(["subscribers", "show", "-n", "shop", "mailer"]).ok().out.contains("is held back"));
    let doctor = cli.run(["doctor", "--json", "--old-writer", "0s"]).json();
    let queue = doctor["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == "queue").cloned();
    assert_eq!(queue.unwrap()["mend"], format!("SELECT pg_terminate_backend({pid})"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_locks_a_table_is_named_instead_of_waited_for() {
    let cli = Cli::with_shop().await;
    let (mut session, mut stranger) = (cli.db.session().await, cli.db.session().await);
    run(&mut session, SUBSCRIBERS).await;
    let schema = "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relname = 'subscribers' AND c.relkind = 'r'";
    let table: String = sqlx::query_scalar(schema).fetch_one(&mut session).await.unwrap();
    run(&mut stranger, &format!("SET application_name = 'locker'; BEGIN; LOCK TABLE {table}")).await;
    let pid = pid(&mut stranger).await;
    let status = cli.run(["status"]).ok();
    assert!(status.out.contains("holds a lock on subscribers"), "{status:#?}");
    for args in [
        &["lag"][..],
        &["subscribers", "list", "-n", "shop"],
        &["groups", "show", "-n", "shop", "sorted"],
        &["queue", "-n", "shop"],
    ] {
        let said = cli.run(args.iter().copied()).fails(5, &format!("pid {pid} (locker, role "));
        assert!(said.err.contains(&format!("to end it: SELECT pg_terminate_backend({pid})")), "{said:#?}");
    }
    let doctor = cli.run(["doctor", "--json"]).json();
    let lock = doctor["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == "table_lock").cloned();
    assert_eq!(lock.unwrap()["mend"], format!("SELECT pg_terminate_backend({pid})"));
}
