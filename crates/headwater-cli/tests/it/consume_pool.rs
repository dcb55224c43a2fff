//! `consume`: crashes, and several processes with the same subscriber.

use std::collections::BTreeSet;

use crate::common::{Cli, Consumer};
use rustix::process::Signal;
use serde_json::json;

const EVENTS: u64 = 400;

/// Kills a consumer without warning after some lines; returns all that it wrote.
fn killed_after(consumer: Consumer, lines: usize) -> Vec<u64> {
    let mut wrote: Vec<_> = (0..lines).map(|_| consumer.sequence()).collect();
    wrote.extend(consumer.stop(Signal::KILL).sequences());
    wrote
}

fn nothing_lost(cli: &Cli, args: &[&str], at_most_again: usize) {
    let subscriber = format!("m{at_most_again}");
    let mut all = Vec::new();
    for lines in [1, 30, 100] {
        all.extend(killed_after(cli.consume(&subscriber, args), lines));
    }
    let last = cli.consume_all(&subscriber, args).ok();
    all.extend(last.sequences());
    assert_eq!(all.iter().copied().collect::<BTreeSet<_>>(), (1..=EVENTS).collect());
    let again = all.len() - EVENTS as usize;
    assert!(again <= 3 * at_most_again, "{again} came again");
    assert_eq!(cli.show(&subscriber)["position"], EVENTS);
}

#[tokio::test]
async fn a_killed_consumer_loses_nothing() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=EVENTS);
    nothing_lost(&cli, &["--checkpoint", "every"], 1);
    // A flush at most.
    nothing_lost(&cli, &[], EVENTS as usize);
    nothing_lost(&cli, &["--batch-size", "50"], 50);
    nothing_lost(&cli, &["--checkpoint", "25/60s"], 25);
    cli.run(["audit", "-n", "shop"]).ok();
}

#[tokio::test]
async fn another_process_takes_over_at_once_when_one_is_killed() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=1);
    let a = cli.consume("m", &["--node", "a", "--lease", "1h"]);
    assert_eq!(a.sequence(), 1);
    let b = cli.consume("m", &["--node", "b", "--lease", "1h"]);
    b.says("standing by: node a has the subscriber");
    let c = cli.consume("m", &["--node", "c", "--lease", "1h"]);
    c.says("standing by: node a has the subscriber");
    let first = cli.show("m");
    assert_eq!(first["owner"]["node"], "a");
    cli.emit(2..=2);
    assert_eq!(a.sequence(), 2);
    // Written, before it is killed: else it may come again.
    cli.show_until("m", |shown| shown["position"] == 2);
    assert_eq!(a.stop(Signal::KILL).out, "");

    cli.emit(3..=3);
    let owner = cli.show_until("m", |shown| shown["position"] == 3)["owner"]["node"].clone();
    let (next, other) = if owner == "b" { (b, c) } else { (c, b) };
    assert_eq!(next.sequence(), 3);
    next.says("took over after position");
    // One that ends in order hands over at once, too.
    next.stop(Signal::TERM).ok();
    cli.emit(4..=4);
    assert_eq!(other.sequence(), 4);
    assert_eq!(other.stop(Signal::TERM).ok().out, "");
    assert!(cli.show("m")["term"].as_u64() > first["term"].as_u64(), "each takeover begins a term");
}

#[tokio::test]
async fn without_session_locks_the_lease_decides() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=1);
    let args = ["--no-session-locks", "--lease", "2s"];
    let a = cli.consume("m", &[&args[..], &["--node", "a"]].concat());
    assert_eq!(a.sequence(), 1);
    let b = cli.consume("m", &[&args[..], &["--node", "b"]].concat());
    b.says("standing by: node a has the subscriber");
    cli.show_until("m", |shown| shown["position"] == 1);
    a.stop(Signal::KILL);
    cli.emit(2..=2);
    assert_eq!(b.sequence(), 2);
}

#[tokio::test]
async fn a_stale_owner_moves_nothing() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=2);
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let slow = format!(
        "echo $HEADWATER_GLOBAL_SEQUENCE; [ $HEADWATER_GLOBAL_SEQUENCE = 1 ] || until [ -e {} ]; do sleep 0.01; done",
        go.display()
    );
    let a = cli.consume("m", &["--node", "a", "--lease", "2s", "--exec", &slow]);
    assert_eq!([a.line(), a.line()], ["1", "2"]);
    let b = cli.consume("m", &["--node", "b", "--lease", "2s"]);
    b.says("standing by: node a has the subscriber");

    // In the middle of event 2, its owner freezes. Its session stays open, but its lease ends.
    a.signal(Signal::STOP);
    assert_eq!(b.sequence(), 2);
    cli.emit(3..=4);
    assert_eq!([b.sequence(), b.sequence()], [3, 4]);
    let before = cli.show_until("m", |shown| shown["position"] == 4);
    assert_eq!(before["owner"]["node"], "b");

    // It wakes up, finishes event 2, and may not say so.
    std::fs::write(&go, "").unwrap();
    a.signal(Signal::CONT);
    a.says("standing by: node b has the subscriber");
    let after = cli.show("m");
    assert_eq!((&after["position"], &after["term"]), (&json!(4), &before["term"]));
    assert_eq!(after["owner"], before["owner"]);
    cli.emit(5..=5);
    assert_eq!(b.sequence(), 5);
    cli.show_until("m", |shown| shown["position"] == 5);
    assert_eq!(a.stop(Signal::TERM).ok().out, "", "it handles nothing any more");
    b.stop(Signal::TERM).ok();
    cli.run(["audit", "-n", "shop", "-s", "m"]).ok();
}

#[tokio::test]
async fn lost_connections_lose_nothing() {
    let cli = Cli::with_shop().await;
    let consumer = cli.consume("m", &["--node", "a", "--log", "off"]);
    let mut session = cli.db.session().await;
    for event in 1..=5 {
        cli.emit(event..=event);
        assert_eq!(consumer.sequence(), event);
        cli.show_until("m", |shown| shown["position"] == event);
        let lost = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE datname = current_database() AND pid <> pg_backend_pid()";
        sqlx::raw_sql(lost).execute(&mut session).await.unwrap();
    }
    assert_eq!(consumer.stop(Signal::TERM).ok().out, "");
    let shown = cli.show("m");
    assert_eq!((&shown["position"], &shown["owner"]), (&json!(5), &json!(null)));
}
