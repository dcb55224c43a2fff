//! `consume --partitions`: processes that share the partitions of a subscriber.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::common::{Cli, Consumer};
use headwater::delivery::partition_of;
use rustix::process::Signal;
use serde_json::{Value, json};
use sqlx::raw_sql;
use tempfile::TempDir;

/// What the commands of all processes handled, in the order in which they did.
struct Witness {
    _folder: TempDir,
    file: PathBuf,
    exec: String,
}

impl Witness {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("handled");
        let exec = format!("echo $HEADWATER_GLOBAL_SEQUENCE >> {}", file.display());
        Witness { _folder: folder, file, exec }
    }

    fn process(&self, cli: &Cli, node: &str, partitions: &str) -> Consumer {
        // A long lease: only sessions tell who is gone.
        let args = ["--partitions", partitions, "--exec", &self.exec, "--lease", "1h", "--node", node];
        cli.consume("g", &args)
    }

    /// Each event was handled, and the events of a key in order, no matter which process handled
    /// them. After a crash, some may have come again.
    fn is_complete_and_in_order(&self, cli: &Cli) {
        let keys = keys(cli);
        let mut seen = BTreeSet::new();
        let mut last: BTreeMap<&str, u64> = BTreeMap::new();
        for line in std::fs::read_to_string(&self.file).unwrap().lines() {
            let sequence = line.parse().unwrap();
            if seen.insert(sequence) {
                let before = last.insert(&keys[&sequence], sequence).unwrap_or_default();
                assert!(before < sequence, "{sequence} of {} after {before}", keys[&sequence]);
            }
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), keys.into_keys().collect::<Vec<_>>());
    }
}

/// The keys of the events of `shop`, by sequence.
fn keys(cli: &Cli) -> BTreeMap<u64, String> {
    let events = cli.run(["read", "-n", "shop", "--json"]).ok().json_lines();
    let key = |event: &Value| (event["global_sequence"].as_u64().unwrap(), event["key"].as_str().unwrap().to_owned());
    events.iter().map(key).collect()
}

/// How many partitions each node has.
fn shares(group: &Value) -> BTreeMap<String, usize> {
    let members = group["members"].as_array().unwrap().iter();
    let share =
        |member: &Value| (member["node"].as_str().unwrap().to_owned(), member["partitions"].as_array().unwrap().len());
    members.map(share).collect()
}

#[track_caller]
fn until_shared(cli: &Cli, expected: &[(&str, usize)]) {
    let expected: BTreeMap<_, _> = expected.iter().map(|(node, share)| (node.to_string(), *share)).collect();
    cli.group_until("g", |group| shares(group) == expected);
}

#[track_caller]
fn until_caught_up(cli: &Cli) {
    let head = *keys(cli).last_key_value().unwrap().0;
    cli.group_until("g", |group| group["position"] == head);
}

#[tokio::test]
async fn processes_share_partitions_and_one_that_is_killed_is_replaced() {
    let cli = Cli::with_shop().await;
    let witness = Witness::new();
    let a = witness.process(&cli, "a", "4");
    a.says("has 4 of 4 partitions: 0-3; 1 member in the group");
    let b = witness.process(&cli, "b", "4");
    b.says("has 2 of 4 partitions: ");
    a.says("has 2 of 4 partitions: ");
    until_shared(&cli, &[("a", 2), ("b", 2)]);
    cli.emit_keyed(60, 12);
    until_caught_up(&cli);
    cli.emit_keyed(60, 12);
    a.stop(Signal::KILL);
    b.says("has 4 of 4 partitions: 0-3; 1 member in the group");
    until_caught_up(&cli);
    witness.is_complete_and_in_order(&cli);
    b.stop(Signal::TERM).ok();
    let left = cli.group_until("g", |group| group["members"] == json!([]));
    assert!(
        left["partitions"].as_array().unwrap().iter().all(|partition| partition["owner"] == json!(null)),
        "{left:#}"
    );
    cli.run(["audit", "-n", "shop"]).ok();
}

#[tokio::test]
async fn each_process_prints_the_events_of_its_partitions() {
    let cli = Cli::with_shop().await;
    let start = |node: &str| cli.consume("g", &["--partitions", "3", "--node", node]);
    let (a, b) = (start("a"), start("b"));
    cli.group_until("g", |group| {
        let mut shares: Vec<_> = shares(group).into_values().collect();
        shares.sort_unstable();
        shares == [1, 2]
    });
    cli.emit_keyed(90, 30);
    until_caught_up(&cli);
    let printed = [a, b].map(|process| process.stop(Signal::TERM).ok().sequences());
    let keys = keys(&cli);
    let partition = |sequence: &u64| partition_of(&keys[sequence], 3);
    let [of_a, of_b] = printed.each_ref().map(|printed| printed.iter().map(partition).collect::<BTreeSet<_>>());
    assert!(of_a.is_disjoint(&of_b) && of_a.len() + of_b.len() == 3, "{of_a:?} {of_b:?}");
    for printed in &printed {
        for number in 0..3 {
            let its: Vec<_> = printed.iter().filter(|sequence| partition(sequence) == number).collect();
            assert!(its.is_sorted(), "partition {number}: {its:?}");
        }
    }
    let mut all = printed.concat();
    all.sort_unstable();
    assert_eq!(all, keys.into_keys().collect::<Vec<_>>());
}

#[tokio::test]
async fn the_number_of_partitions_changes_while_they_run() {
    let cli = Cli::with_shop().await;
    let witness = Witness::new();
    let (a, b) = (witness.process(&cli, "a", "3"), witness.process(&cli, "b", "3"));
    cli.group_until("g", |group| shares(group).values().sum::<usize>() == 3 && shares(group).len() == 2);
    cli.emit_keyed(100, 20);
    let said = cli.run(["groups", "resize", "-n", "shop", "g", "--partitions", "8", "--wait"]).ok();
    assert_eq!(said.out, "group g had 3 and has 8 partitions now\n");
    cli.emit_keyed(50, 20);
    until_shared(&cli, &[("a", 4), ("b", 4)]);
    a.says("has 4 of 8 partitions: ");
    b.says("has 4 of 8 partitions: ");
    let resize = ["groups", "resize", "-n", "shop", "g", "--partitions", "2", "--json"];
    let begun = cli.run(resize).ok().json();
    assert_eq!((&begun["from"], &begun["to"], &begun["done"]), (&json!(8), &json!(2), &json!(false)), "{begun}");
    let done = cli.run(resize.into_iter().chain(["--wait"])).ok().json();
    assert_eq!((&done["to"], &done["done"], &done["change"]), (&json!(2), &json!(true), &json!(null)), "{done}");
    until_shared(&cli, &[("a", 1), ("b", 1)]);
    a.says("has 1 of 2 partitions: ");
    b.says("has 1 of 2 partitions: ");
    until_caught_up(&cli);
    witness.is_complete_and_in_order(&cli);
    cli.run(["audit", "-n", "shop"]).ok();
    a.stop(Signal::TERM).ok();
    b.stop(Signal::TERM).ok();
}

#[tokio::test]
async fn more_processes_than_partitions_stand_by() {
    let cli = Cli::with_shop().await;
    let start = |node: &str| cli.consume("g", &["--partitions", "1", "--node", node]);
    let a = start("a");
    a.says("has 1 of 1 partition: 0; 1 member in the group");
    let b = start("b");
    b.says("standing by: has none of 1 partition; 2 members in the group");
    assert_eq!(a.stop(Signal::TERM).ok().out, "");
    b.says("has 1 of 1 partition: 0; 1 member in the group");
    cli.run(["subscribers", "remove", "-n", "shop", "g", "--yes"]).fails(5, "in use by node 'b'");
    cli.run(["subscribers", "remove", "-n", "shop", "g", "--yes", "--force"]).ok();
    b.wait().fails(4, "it was removed: subscriber \"g\" does not exist");
}

#[tokio::test]
async fn partitions_are_assigned_by_hand() {
    let cli = Cli::with_shop().await;
    cli.emit_keyed(60, 30);
    let keys = keys(&cli);
    let of = |wanted: &[u32]| -> BTreeSet<u64> {
        keys.iter().filter(|(_, key)| wanted.contains(&partition_of(key, 4))).map(|(sequence, _)| *sequence).collect()
    };
    let by_hand = |ids: &[&str]| {
        let ids = ids.iter().flat_map(|id| ["--partition-id", id]);
        cli.consume_all("g", &["--partitions", "4"].into_iter().chain(ids).collect::<Vec<_>>())
    };
    // It does not wait for partitions that are not its own.
    assert_eq!(by_hand(&["0", "2"]).ok().sequences().into_iter().collect::<BTreeSet<_>>(), of(&[0, 2]));
    let positions: Vec<_> = cli.group_until("g", |_| true)["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|partition| partition["position"].as_u64().unwrap())
        .collect();
    assert_eq!(positions, [60, 0, 60, 0]);
    let three = cli.consume("g", &["--partitions", "4", "--partition-id", "3", "--node", "three"]);
    three.says("has 1 of 4 partitions: 3");
    let second = cli.consume("g", &["--partitions", "4", "--partition-id", "3"]);
    second.says("standing by: has none of 4 partitions; node three has 3");
    cli.group_until("g", |group| group["partitions"][3]["position"] == 60);
    assert_eq!(three.stop(Signal::TERM).ok().sequences().into_iter().collect::<BTreeSet<_>>(), of(&[3]));
    second.says("has 1 of 4 partitions: 3");
    assert_eq!(second.stop(Signal::TERM).ok().out, "");
    assert_eq!(by_hand(&["1"]).ok().sequences().into_iter().collect::<BTreeSet<_>>(), of(&[1]));
    let member = cli.consume("g", &["--partitions", "4", "--node", "member"]);
    member.says("has 4 of 4 partitions: 0-3");
    let mixed = cli.consume("g", &["--partitions", "4", "--partition-id", "1"]);
    mixed.says("other processes take shares of this group's partitions, without --partition-id: member");
}

#[tokio::test]
async fn a_group_in_one_process_ends_by_itself() {
    let cli = Cli::with_shop().await;
    cli.emit_keyed(80, 20);
    let some = cli.run(["consume", "-n", "shop", "-s", "g", "--partitions", "8", "--count", "13"]).ok();
    let mut all = some.sequences();
    assert_eq!(all.len(), 13, "no more than asked for, though partitions go on side by side");
    // What is handled counts, though it is to be written only in a minute.
    let begin = Instant::now();
    let rest = cli.consume_all("g", &["--partitions", "8", "--checkpoint", "100000/60s"]).ok();
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    all.extend(rest.sequences());
    all.sort_unstable();
    assert_eq!(all, keys(&cli).into_keys().collect::<Vec<_>>());
    assert_eq!(cli.consume_all("g", &["--partitions", "8"]).ok().out, "");
    assert_eq!(cli.show("g")["position"], 80);
}

#[tokio::test]
async fn what_holds_a_group_is_said_once() {
    let cli = Cli::with_shop().await;
    let mut writer = cli.db.session().await;
    raw_sql("BEGIN; SELECT headwater.emit('shop', 'Slow')").execute(&mut writer).await.unwrap();
    cli.emit_keyed(10, 10);
    let process = cli.consume("g", &["--partitions", "2", "--hold-for", "forever"]);
    let said = process.says("held: global_sequence 1 to 1 may still be committed by pid ");
    assert!(said.contains("(partitions "), "{said}");
    raw_sql("COMMIT").execute(&mut writer).await.unwrap();
    assert_eq!((0..11).map(|_| process.sequence()).collect::<BTreeSet<_>>(), (1..=11).collect());
    cli.run(["subscribers", "pause", "-n", "shop", "g"]).ok();
    process.says("paused: `headwater subscribers resume` lets it go on");
    assert_eq!(cli.group_until("g", |group| group["paused"] == true)["partitions"][1]["state"], "paused");
    cli.emit_keyed(1, 1);
    cli.run(["subscribers", "resume", "-n", "shop", "g"]).ok();
    process.says("has 2 of 2 partitions: 0-1");
    assert_eq!(process.sequence(), 12);
    process.stop(Signal::TERM).ok();
}

#[tokio::test]
async fn wrong_partitions_are_refused() {
    let cli = Cli::with_shop().await;
    cli.emit_keyed(4, 4);
    cli.consume_all("single", &[]).ok();
    cli.consume_all("g", &["--partitions", "4"]).ok();
    let consume = |subscriber: &str, args: &[&str]| cli.consume_all(subscriber, args);
    consume("single", &["--partitions", "2"])
        .fails(5, "subscriber \"single\" is exclusive, not partitioned [WH013]\nhelp: consume it without --partitions");
    consume("g", &[]).fails(
        5,
        "subscriber \"g\" is partitioned, not exclusive [WH013]\nhelp: it is a group: consume it with --partitions 4",
    );
    for number in ["0", "1025", "-1", "many"] {
        consume("g", &[&format!("--partitions={number}")]).fails(2, "--partitions <N>");
    }
    consume("g", &["--partitions", "4", "--single-instance"]).fails(2, "cannot be used with '--single-instance'");
    consume("g", &["--partition-id", "1"]).fails(2, "--partitions <N>");
    consume("g", &["--partitions", "4", "--partition-id", "1024"]).fails(2, "--partition-id <I>");
    consume("g", &["--partitions", "9", "--partition-id", "4"])
        .fails(2, "invalid --partition-id 4: the group has 4 partitions\nhelp: it is 0 to 3");
    consume("new", &["--partitions", "2", "--partition-id", "2"]).fails(2, "the group has 2 partitions");
    consume("g", &["--partitions", "4", "--partition-id", "1", "--partition-id", "1"]).fails(2, "stands once");
    // Another number is no mistake: the group's own counts.
    let said = consume("g", &["--partitions", "9"]).ok();
    assert!(said.err.contains("the group has 4 partitions, not 9: --partitions is for new groups"), "{said:?}");
    assert_eq!(cli.show("g")["partitions"], 4);
}

/// The log ends with its last event, even if later sequences were handed out. Waiting for these
/// would never end, and showing them would look like a stall.
#[tokio::test]
async fn sequences_that_were_rolled_back_at_the_end_are_not_waited_for_nor_shown() {
    let cli = Cli::with_shop().await;
    cli.emit_keyed(20, 5);
    let mut session = cli.db.session().await;
    let aborted = "BEGIN; SELECT headwater.emit('shop', 'A', '1') FROM generate_series(1, 30); ROLLBACK";
    raw_sql(aborted).execute(&mut session).await.unwrap();
    let said = cli.consume_all("g", &["--partitions", "4"]).ok();
    assert_eq!(said.out.lines().count(), 20, "{said:?}");
    assert_eq!(cli.consume_all("alone", &[]).ok().out.lines().count(), 20);

    let status = cli.run(["status", "--json"]).ok().json();
    let shop = &status["namespaces"][0];
    assert_eq!((&shop["head"], &shop["horizon"]), (&json!(20), &json!(20)), "{shop}");
    let shown = cli.run(["namespace", "show", "shop", "--json"]).ok().json();
    assert_eq!((&shown["head"], &shown["horizon"]), (&json!(20), &json!(20)), "{shown}");
    let beyond = cli.run(["subscribers", "reset", "-n", "shop", "alone", "--to", "25", "--yes"]);
    beyond.fails(2, "25 is beyond the log, which ends at 20");

    // What is open is shown as what it is.
    raw_sql("BEGIN; SELECT headwater.emit('shop', 'A', '1')").execute(&mut session).await.unwrap();
    cli.emit_keyed(1, 1);
    let status = cli.run(["status", "--json"]).ok().json();
    let shop = &status["namespaces"][0];
    assert_eq!((&shop["head"], &shop["horizon"]), (&json!(52), &json!(50)), "{shop}");
    assert_eq!(shop["pending_writers"].as_array().unwrap().len(), 1);
    raw_sql("ROLLBACK").execute(&mut session).await.unwrap();
}
