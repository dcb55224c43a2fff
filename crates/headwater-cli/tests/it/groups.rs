//! `groups`: list, show, resize.

use crate::common::{Cli, Consumer};
use rustix::process::Signal;
use serde_json::json;

fn row(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

#[tokio::test]
async fn groups_are_listed_and_shown() {
    let cli = Cli::with_shop().await;
    assert_eq!(cli.run(["groups", "list", "-n", "shop", "--json"]).ok().out, "");
    cli.emit_keyed(30, 10);
    cli.consume_all("single", &[]).ok();
    cli.run(["consume", "-n", "shop", "-s", "idle", "--partitions", "3", "--count", "1"]).ok();
    let a = cli.consume("g", &["--partitions", "2", "--node", "a"]);
    cli.group_until("g", |group| {
        let live = |number: usize| group["partitions"][number]["state"] == "live";
        group["position"] == 30 && live(0) && live(1)
    });

    let lines = cli.run(["groups", "list", "-n", "shop", "--json"]).ok().json_lines();
    let [g, idle] = &lines[..] else { panic!("two: {lines:?}") };
    assert_eq!((&g["subscriber_id"], &g["members"], &g["owned"]), (&json!("g"), &json!(1), &json!(2)));
    assert_eq!((&g["partitions"], &g["lag_events"], &g["resize_to"]), (&json!(2), &json!(0), &json!(null)));
    assert_eq!((&idle["members"], &idle["partitions"], &idle["owned"]), (&json!(0), &json!(3), &json!(0)));
    assert!(idle["lag_events"].as_u64() > Some(0) && idle["lag_seconds"].as_f64() > Some(0.0), "{idle}");
    let list = cli.run(["groups", "list", "-n", "shop"]).ok().out;
    let rows: Vec<_> = list.lines().map(row).collect();
    assert_eq!(
        rows[0],
        ["NAMESPACE", "GROUP", "MEMBERS", "PARTITIONS", "OWNED", "POSITION", "BEHIND", "FOR", "CHANGE"]
    );
    assert_eq!(rows[1], ["shop", "g", "1", "2", "2", "30", "0", "0.0s", "-"]);
    assert_eq!(rows[2][..5], ["shop", "idle", "0", "3", "0"]);

    let shown = cli.run(["groups", "show", "-n", "shop", "g", "--json"]).ok().json();
    let [member] = &shown["members"].as_array().unwrap()[..] else { panic!("one: {shown:#}") };
    assert_eq!((&member["node"], &member["by_hand"]), (&json!("a"), &json!(false)));
    assert_eq!((&member["partitions"], &shown["change"]), (&json!([0, 1]), &json!(null)));
    let partition = &shown["partitions"][1];
    assert_eq!((&partition["partition"], &partition["owner"]["node"]), (&json!(1), &json!("a")));
    assert_eq!((&partition["position"], &partition["lag_events"]), (&json!(30), &json!(0)));
    assert!(partition["term"].as_u64() > Some(0) && partition["lease_left_seconds"].is_number(), "{partition}");
    let text = cli.run(["groups", "show", "-n", "shop", "g"]).ok().out;
    assert!(text.starts_with("group         g\npartitions    2, 2 owned\nmembers       1\n"), "{text}");
    let rows: Vec<_> = text.lines().map(row).collect();
    let of = |number: &str| rows.iter().find(|row| row.len() == 8 && row[0] == number).unwrap();
    assert_eq!(of("PARTITION")[1..], ["OWNER", "TERM", "LEASE", "POSITION", "BEHIND", "GAPS", "STATE"]);
    assert_eq!((&of("1")[1][..], &of("1")[4..]), ("a", &["30", "0", "0", "live"].map(String::from)[..]));
    assert!(text.ends_with("MEMBER  PARTITIONS\na       0-1\n"), "{text}");

    let mode = |id: &str| (cli.show(id)["mode"].clone(), cli.show(id)["partitions"].clone());
    assert_eq!((mode("g"), mode("single")), ((json!("partitioned"), json!(2)), (json!("exclusive"), json!(1))));
    let text = cli.run(["subscribers", "show", "-n", "shop", "g"]).ok().out;
    assert!(text.contains("\nmode          partitioned, 2 partitions\n"), "{text}");
    let list = cli.run(["subscribers", "list", "-n", "shop"]).ok().out;
    assert_eq!(row(list.lines().nth(1).unwrap())[..4], ["shop", "g", "partitioned", "live"]);
    a.stop(Signal::TERM).ok();
}

#[tokio::test]
async fn a_change_says_what_it_waits_for() {
    let cli = Cli::with_shop().await;
    cli.emit_keyed(40, 10);
    // By hand, a process keeps its partitions until it is stopped.
    let by_hand = cli.consume("g", &["--partitions", "2", "--partition-id", "0", "--node", "hand"]);
    cli.group_until("g", |group| group["partitions"][0]["position"] == 40);
    let resize = |args: &[&str]| cli.run(["groups", "resize", "-n", "shop", "g"].iter().chain(args).copied());
    let said = resize(&["--partitions", "3"]).ok();
    let waits = "1 of 2 partitions are to be given up by their owners: 0 at 40 (node hand)";
    assert_eq!(said.out, format!("group g changes from 2 to 3 partitions: {waits}\n"));
    resize(&["--partitions", "4"])
        .fails(5, "is being changed to 3 partitions already")
        .fails(5, "[WH013]\nhelp: see what it waits for with `headwater groups show -n shop g`");
    let text = cli.run(["groups", "show", "-n", "shop", "g"]).ok().out;
    assert!(text.contains("\nchange        to 3 partitions\nbarrier       not known yet\n"), "{text}");
    assert!(text.contains(&format!("\nwaits         {waits}\n")), "{text}");
    assert!(text.ends_with("MEMBER  PARTITIONS\nhand    0 (by hand)\n"), "{text}");
    let list = cli.run(["groups", "list", "-n", "shop"]).ok().out;
    assert!(list.lines().nth(1).unwrap().ends_with("  to 3 partitions"), "{list}");

    let wait = ["groups", "resize", "-n", "shop", "g", "--partitions", "3", "--wait"];
    let waiting = Consumer::start(cli.command(wait));
    waiting.says(waits);
    waiting.says("note: a process with --partition-id gives its partitions up when it is stopped");
    by_hand.stop(Signal::TERM).ok();
    waiting.says("1 of 2 partitions have not come to the barrier, 40: 1 at 0 (no owner)");
    waiting.says("note: no process of the group is running: it goes on when one starts");
    let change = cli.group_until("g", |group| group["change"]["barrier"] == 40)["change"].clone();
    assert_eq!((&change["to"], &change["waits_for"]), (&json!(3), &json!("barrier")));
    assert_eq!(change["partitions"], json!([1]));
    // One that drains it without being a member: whoever waits takes the last step.
    cli.consume_all("g", &["--partitions", "2", "--partition-id", "1"]).ok();
    assert_eq!(waiting.wait().ok().out, "group g had 2 and has 3 partitions now\n");
    assert_eq!(resize(&["--partitions", "3"]).ok().out, "group g has 3 partitions already\n");
    // Nobody runs it and it stands even: done at once.
    assert_eq!(resize(&["--partitions", "1"]).ok().out, "group g had 3 and has 1 partition now\n");
    cli.run(["audit", "-n", "shop"]).ok();
}

#[tokio::test]
async fn who_waits_for_a_change_may_go_and_hears_when_it_is_dropped() {
    let cli = Cli::with_shop().await;
    let frozen = cli.consume("g", &["--partitions", "2", "--lease", "1h"]);
    frozen.says("has 2 of 2 partitions: 0-1");
    // Alive, so far as anybody can tell, and giving nothing up.
    frozen.signal(Signal::STOP);
    let wait = ["groups", "resize", "-n", "shop", "g", "--partitions", "3", "--wait"];
    let waiting = Consumer::start(cli.command(wait));
    waiting.says("2 of 2 partitions are to be given up by their owners: 0 at 0 (node ");
    assert_eq!(waiting.stop(Signal::INT).code, Some(130));
    assert_eq!(cli.group_until("g", |_| true)["change"]["to"], 3, "it goes on without whoever waited");
    let waiting = Consumer::start(cli.command(wait));
    waiting.says("are to be given up");
    cli.run(["subscribers", "reset", "-n", "shop", "g", "--to", "beginning", "--yes"]).ok();
    waiting
        .wait()
        .fails(5, "the change to 3 partitions was dropped meanwhile\nhelp: a reset or another change drops it");
    assert_eq!(cli.group_until("g", |_| true)["change"], json!(null));
}

#[tokio::test]
async fn what_is_no_group_is_refused() {
    let cli = Cli::with_shop().await;
    cli.consume_all("single", &[]).ok();
    let no_group =
        "subscriber \"single\" is exclusive, not partitioned: it is not a group [WH013]\nhelp: list the groups";
    cli.run(["groups", "show", "-n", "shop", "single"]).fails(5, no_group);
    cli.run(["groups", "resize", "-n", "shop", "single", "--partitions", "2"]).fails(5, no_group);
    cli.run(["groups", "show", "-n", "shop", "nope"]).fails(4, "subscriber \"nope\" does not exist [WH012]");
    cli.run(["groups", "resize", "-n", "shop", "nope", "--partitions", "2"]).fails(4, "[WH012]");
    cli.run(["groups", "list", "-n", "nope"]).fails(4, "[WH001]");
    cli.run(["groups", "show", "-n", "nope", "g"]).fails(4, "[WH001]");
    for number in ["0", "1025", "-1", "x"] {
        let partitions = format!("--partitions={number}");
        cli.run(["groups", "resize", "-n", "shop", "single", &partitions]).fails(2, "--partitions <N>");
    }
    cli.run(["groups", "resize", "-n", "shop", "single"]).fails(2, "--partitions <N>");
    assert_eq!(cli.run(["groups", "list", "-n", "shop", "--json"]).ok().out, "");
}
