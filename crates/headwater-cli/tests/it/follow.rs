//! `read --follow`: the log as it grows.

use crate::common::{Cli, Consumer};
use rustix::process::Signal;

fn follow(cli: &Cli, args: &[&str]) -> Consumer {
    Consumer::start(cli.command(["read", "-n", "shop", "--follow"].into_iter().chain(args.iter().copied())))
}

#[tokio::test]
async fn it_prints_what_is_there_and_then_what_comes() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=3);
    let follower = follow(&cli, &["--json"]);
    let first = follower.line();
    let read = cli.run(["read", "-n", "shop", "--limit", "1", "--json"]).ok().out;
    assert_eq!(Some(first.as_str()), read.lines().next(), "an event is written as without --follow");
    assert_eq!([follower.sequence(), follower.sequence()], [2, 3]);
    cli.emit(4..=4);
    assert_eq!(follower.sequence(), 4);
    let stopped = follower.stop(Signal::TERM).ok();
    assert_eq!((stopped.out.as_str(), stopped.err.as_str()), ("", "stopped at 4: go on with --after 4\n"));

    cli.emit(5..=5);
    let follower = follow(&cli, &["--after", "4"]);
    let line = follower.line();
    assert!(line.trim_start().starts_with("5  ") && line.ends_with("A                     5"), "{line:?}");
    let stopped = follower.stop(Signal::INT).ok();
    assert_eq!(stopped.err, "stopped at 5: go on with --after 5\n");
}

#[tokio::test]
async fn it_says_who_holds_the_log_and_keeps_the_order() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=1);
    let mut writer = cli.db.session().await;
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut writer).await.unwrap();
    sqlx::raw_sql("BEGIN; SELECT headwater.emit('shop', 'Slow')").execute(&mut writer).await.unwrap();
    cli.emit(3..=3);
    let follower = follow(&cli, &["--json"]);
    assert_eq!(follower.sequence(), 1);
    follower.says(&format!("note: the log is held back above 1: pid {pid}"));
    sqlx::raw_sql("COMMIT").execute(&mut writer).await.unwrap();
    follower.says("note: the log goes on after 1");
    assert_eq!([follower.sequence(), follower.sequence()], [2, 3]);
    follower.stop(Signal::TERM).ok();
}

#[tokio::test]
async fn it_ends_after_a_limit_and_filters() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=3);
    cli.run(["emit", "-n", "shop", "B"]).ok();
    let said = cli.run(["read", "-n", "shop", "--follow", "--type", "B*", "--limit", "1", "--json"]).ok();
    assert_eq!((said.sequences(), said.err.as_str()), (vec![4], "stopped at 4: go on with --after 4\n"));
    cli.run(["read", "-n", "shop", "--follow", "--stream", "s"]).fails(2, "--follow");
    cli.run(["read", "-n", "shop", "--follow", "--after", "100"]).fails(5, "position 100 is not in this log");
}

#[tokio::test]
async fn consume_fires_what_is_due_only_when_it_is_asked_to() {
    let cli = Cli::with_shop().await;
    cli.run(["emit", "-n", "shop", "Due", "--due-in", "1h"]).ok();
    let due = "UPDATE headwater_private.due_events SET fire_at = clock_timestamp() - interval '1 second'";
    sqlx::query(due).execute(&mut cli.db.session().await).await.unwrap();
    let consumer = cli.consume("m", &[]);
    cli.emit(1..=1);
    assert_eq!(consumer.sequence(), 1);
    consumer.stop(Signal::TERM).ok();
    assert_eq!(cli.run(["due", "list", "-n", "shop", "--json"]).ok().json_lines().len(), 1, "it still waits");
    let consumer = cli.consume("m", &["--fire-due", "--maintain"]);
    assert!(consumer.line().contains(r#""event_type":"Due""#));
    consumer.stop(Signal::TERM).ok();
}
