//! `subscribers` and `lag`.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::common::{Cli, HEADWATER, Said};
use rustix::process::Signal;
use serde_json::json;
use sqlx::raw_sql;

#[tokio::test]
async fn subscribers_are_listed_and_shown() {
    let cli = Cli::with_shop().await;
    assert_eq!(cli.run(["subscribers", "list", "-n", "shop", "--json"]).ok().out, "");
    cli.emit(1..=3);
    cli.run(["consume", "-n", "shop", "-s", "behind", "--count", "1"]).ok();
    let running = cli.consume("running", &["--node", "n1"]);
    assert_eq!([(); 3].map(|()| running.sequence()), [1, 2, 3]);
    cli.show_until("running", |shown| shown["state"] == "live" && shown["position"] == 3);

    let lines = cli.run(["subscribers", "list", "-n", "shop", "--json"]).ok().json_lines();
    let [behind, shown] = &lines[..] else { panic!("two: {lines:?}") };
    assert_eq!((&behind["subscriber_id"], &behind["state"]), (&json!("behind"), &json!("no_owner")));
    assert_eq!((&behind["position"], &behind["lag_events"]), (&json!(1), &json!(2)));
    assert!(behind["lag_seconds"].as_f64().unwrap() > 0.0, "{behind}");
    assert_eq!((&shown["owner"]["node"], &shown["lag_seconds"]), (&json!("n1"), &json!(0.0)));
    assert!(shown["term"].as_u64() > Some(0), "{shown}");
    assert!(shown["owner"]["incarnation"].is_string() && shown["rate"].is_number(), "{shown}");

    let list = cli.run(["subscribers", "list", "-n", "shop"]).ok().out;
    let row = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
    let rows: Vec<_> = list.lines().map(row).collect();
    assert_eq!(rows[1][..8], ["shop", "behind", "exclusive", "no_owner", "-", &behind["term"].to_string(), "-", "1"]);
    assert_eq!(rows[2][..6], ["shop", "running", "exclusive", "live", "n1", &shown["term"].to_string()]);
    assert_eq!((&shown["mode"], &shown["partitions"]), (&json!("exclusive"), &json!(1)));
    let text = cli.run(["subscribers", "show", "-n", "shop", "behind"]).ok().out;
    assert!(text.contains("\nposition      1\nbehind        2 sequences, "), "{text}");
    running.stop(Signal::TERM).ok();
    cli.run(["subscribers", "show", "-n", "shop", "nope"]).fails(4, "[WH012]\nhelp: list the subscribers with");
    cli.run(["subscribers", "list", "-n", "nope"]).fails(4, "[WH001]");
}

#[tokio::test]
async fn what_holds_a_subscriber_is_named() {
    let cli = Cli::with_shop().await;
    let mut writer = cli.db.session().await;
    let begin = "SET application_name = 'slow-app'; BEGIN; SELECT headwater.emit('shop', 'Slow')";
    raw_sql(begin).execute(&mut writer).await.unwrap();
    cli.run(["emit", "-n", "shop", "Quick"]).ok();
    let strict = cli.consume("strict", &["--hold-for", "forever"]);
    let said = strict.says("held: global_sequence 1 to 1 may still be committed by pid ");
    assert!(said.contains("(slow-app"), "{said}");
    let shown = cli.show_until("strict", |shown| shown["state"] == "held");
    assert!(shown["detail"].as_str().unwrap().contains("(slow-app"), "{shown:#}");
    let list = cli.run(["subscribers", "list", "-n", "shop"]).ok().out;
    assert!(list.contains("\nstrict is held: global_sequence 1 to 1 may still be committed by pid "), "{list}");

    // One that does not hold goes on, and has the gap in its ledger.
    let eager = cli.consume("eager", &["--hold-for", "0"]);
    assert_eq!(eager.sequence(), 2);
    assert_eq!(cli.show_until("eager", |shown| shown["position"] == 2)["pending_gaps"], json!([[1, 1]]));
    let text = cli.run(["subscribers", "show", "-n", "shop", "eager"]).ok().out;
    assert!(text.contains("\npending gaps  1\n"), "{text}");

    raw_sql("COMMIT").execute(&mut writer).await.unwrap();
    assert_eq!([strict.sequence(), strict.sequence()], [1, 2]);
    assert_eq!(eager.sequence(), 1, "late, but not lost");
    cli.show_until("eager", |shown| shown["pending_gaps"] == json!([]));
}

#[tokio::test]
async fn a_running_subscriber_is_paused_and_resumed() {
    let cli = Cli::with_shop().await;
    let consumer = cli.consume("m", &[]);
    cli.emit(1..=1);
    assert_eq!(consumer.sequence(), 1);
    let said = cli.run(["subscribers", "pause", "-n", "shop", "m"]).ok();
    assert_eq!(said.out, "subscriber m is paused\n");
    consumer.says("paused: ");
    cli.emit(2..=2);
    assert_eq!(cli.show("m")["state"], "paused");
    cli.run(["subscribers", "resume", "-n", "shop", "m"]).ok();
    assert_eq!(consumer.sequence(), 2);
    for command in ["pause", "resume"] {
        cli.run(["subscribers", command, "-n", "shop", "nope"]).fails(4, "[WH012]");
    }
}

#[tokio::test]
async fn a_reset_says_what_will_happen_and_moves_a_running_subscriber() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=5);
    let consumer = cli.consume("m", &["--node", "n1"]);
    assert_eq!([(); 5].map(|()| consumer.sequence()), [1, 2, 3, 4, 5]);
    cli.show_until("m", |shown| shown["position"] == 5);
    let reset = |to: &str, yes: &[&str]| {
        cli.run(["subscribers", "reset", "-n", "shop", "m", "--to", to].iter().chain(yes).copied())
    };
    reset("2", &[])
        .fails(2, "subscriber m moves from 5 to 2: 3 sequences (3 to 5) will come again; node n1 runs it")
        .fails(2, "help: repeat it with --yes");
    assert_eq!(cli.show("m")["position"], 5);
    assert_eq!(reset("2", &["--yes"]).ok().out, "subscriber m was at 5 and goes on after 2\n");
    assert_eq!([(); 3].map(|()| consumer.sequence()), [3, 4, 5]);
    cli.show_until("m", |shown| shown["position"] == 5);
    consumer.stop(Signal::TERM).ok();

    reset("beginning", &["--yes"]).ok();
    reset("now", &[]).fails(2, "moves from 0 to 5: 5 sequences (1 to 5) will be skipped, and never delivered");
    reset("4", &["--yes"]).ok();
    assert_eq!(cli.consume_all("m", &[]).ok().sequences(), [5]);
    reset("2001-01-01T00:00:00Z", &["--yes"]).ok();
    assert_eq!(cli.show("m")["position"], 0);
    reset("now", &["--yes"]).ok();
    assert_eq!(cli.show("m")["position"], 5);
    reset("6", &["--yes"]).fails(2, "6 is beyond the log, which ends at 5");
    reset("soon", &["--yes"]).fails(2, "it is beginning, now");
    cli.run(["subscribers", "reset", "-n", "shop", "nope", "--to", "0", "--yes"]).fails(4, "[WH012]");
    cli.run(["audit", "-n", "shop"]).ok();
}

#[tokio::test]
async fn in_a_terminal_it_asks() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=2);
    cli.consume_all("m", &[]).ok();
    let answer = |answer: &str| -> Said {
        let reset = format!("{HEADWATER} subscribers reset -n shop m --to beginning");
        let mut command = Command::new("script");
        command.args(["-qec", &reset, "/dev/null"]).env("DATABASE_URL", &cli.db.url).env_remove("RUST_LOG");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(answer.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    };
    let no = answer("n\n");
    assert_eq!(no.code, Some(2), "{no:?}");
    assert!(no.out.contains("2 sequences (1 to 2) will come again\r\ngo on? [y/N] "), "{no:?}");
    assert!(no.out.contains("not confirmed: nothing was done"), "{no:?}");
    assert_eq!(cli.show("m")["position"], 2);
    let yes = answer("y\n");
    assert_eq!(yes.code, Some(0), "{yes:?}");
    assert_eq!(cli.show("m")["position"], 0);
}

#[tokio::test]
async fn a_subscriber_in_use_is_removed_by_force_only() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=1);
    let consumer = cli.consume("m", &["--node", "n1"]);
    assert_eq!(consumer.sequence(), 1);
    let remove = |args: &[&str]| cli.run(["subscribers", "remove", "-n", "shop", "m"].iter().chain(args).copied());
    remove(&["--yes"]).fails(5, "is in use by node").fails(5, "--force");
    remove(&["--force"])
        .fails(2, "subscriber m is forgotten: its position 1, 0 dead letters and all its states; node n1");
    assert_eq!(remove(&["--force", "--yes"]).ok().out, "subscriber m is removed\n");
    consumer.wait().fails(4, "it was removed: subscriber \"m\" does not exist");
    remove(&["--yes"]).fails(4, "[WH012]");
    cli.consume_all("m", &[]).ok();
    remove(&[]).fails(2, "not confirmed");
    remove(&["--yes"]).ok();
}

#[tokio::test]
async fn the_types_that_a_queue_takes_are_changed() {
    let cli = Cli::with_shop().await;
    let emit = |event_type: &str| cli.run(["emit", "-n", "shop", event_type]).ok();
    let set =
        |id: &str, args: &[&str]| cli.run(["subscribers", "set-types", "-n", "shop", id].iter().chain(args).copied());
    emit("OrderPlaced");
    emit("OrderShipped");
    let handled = cli.consume_all("work", &["--shared", "--event-type", "OrderPlaced"]).ok();
    assert_eq!(handled.sequences(), [1]);
    assert_eq!(cli.show("work")["event_types"], json!(["OrderPlaced"]));

    let said = set("work", &["--types", "UserCreated,Order*"]).ok().out;
    assert_eq!(said, "subscriber work takes UserCreated, Order* (before: OrderPlaced)\n");
    assert_eq!(cli.show("work")["event_types"], json!(["Order*", "UserCreated"]));
    emit("OrderShipped");
    emit("Tick");
    let handled = cli.consume_all("work", &["--shared", "--event-type", "Order*"]).ok();
    assert_eq!(handled.sequences(), [3], "what was settled before stays settled");

    let said = set("work", &["--all-types"]).ok().out;
    assert_eq!(said, "subscriber work takes all event types (before: Order*, UserCreated)\n");
    assert_eq!(cli.show("work")["event_types"], json!(null));
    // A worker of all types adds all.
    set("work", &["--types", "Order*"]).ok();
    emit("Tick");
    assert_eq!(cli.consume_all("work", &["--shared"]).ok().sequences(), [5]);
    assert_eq!(cli.show("work")["event_types"], json!(null));
    let said = set("work", &["--types", "*"]).ok().out;
    assert_eq!(said, "subscriber work takes all event types (before: all event types)\n");

    cli.consume_all("single", &[]).ok();
    let no_queue = "subscriber \"single\" is exclusive, not shared: it is not a queue [WH013]\nhelp: list the queues";
    set("single", &["--all-types"]).fails(5, no_queue);
    set("nobody", &["--all-types"]).fails(4, "[WH012]");
    set("work", &["--types", ""]).fails(2, "[WH002]");
    set("work", &[]).fails(2, "--types");
    set("work", &["--types", "A", "--all-types"]).fails(2, "cannot be used with");
}

#[tokio::test]
async fn lag_is_shown_once_or_again_and_again() {
    let cli = Cli::with_shop().await;
    cli.run(["namespace", "create", "ledger"]).ok();
    cli.emit(1..=1200);
    cli.run(["consume", "-n", "shop", "-s", "m", "--count", "100", "--checkpoint", "100/1s"]).ok();
    cli.run(["consume", "-n", "ledger", "-s", "other", "--until-caught-up"]).ok();
    let lines = cli.run(["lag", "--json"]).ok().json_lines();
    let [other, m] = &lines[..] else { panic!("two: {lines:?}") };
    assert_eq!(
        (&other["namespace"], &other["lag_events"], &other["lag_seconds"]),
        (&json!("ledger"), &json!(0), &json!(0.0))
    );
    assert_eq!((&m["namespace"], &m["subscriber_id"], &m["position"]), (&json!("shop"), &json!("m"), &json!(100)));
    assert_eq!(m["lag_events"], 1100);
    assert!(m["lag_seconds"].as_f64().unwrap() > 0.0, "{m}");
    let table = cli.run(["lag", "-n", "shop"]).ok().out;
    let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..5], ["shop", "m", "no_owner", "100", "1,100"]);

    let watch = crate::common::Consumer::start(cli.command(["lag", "-n", "shop", "--watch", "--interval", "50ms"]));
    let line = watch.line();
    assert!(line.contains("  shop  m  no_owner  1,100 behind for "), "{line}");
    cli.consume_all("m", &["--checkpoint", "1000/1s"]).ok();
    while !watch.line().contains("  0 behind for 0.0s") {}
    assert_eq!(watch.stop(Signal::INT).code, Some(130));
    cli.run(["lag", "-n", "nope"]).fails(4, "[WH001]");

    // Each partition has its own.
    cli.consume_all("g", &["--partitions", "2", "--partition-id", "1"]).ok();
    let lines = cli.run(["lag", "-n", "shop", "--json"]).ok().json_lines();
    let g = lines.iter().find(|line| line["subscriber_id"] == "g").unwrap();
    let of = |partition: &serde_json::Value| {
        (partition["partition"].clone(), partition["position"].clone(), partition["lag_events"].clone())
    };
    let partitions: Vec<_> = g["partitions"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(partitions, [(json!(0), json!(0), json!(1200)), (json!(1), json!(1200), json!(0))]);
    assert_eq!(lines.iter().find(|line| line["subscriber_id"] == "m").unwrap()["partitions"], json!([]));
    let table = cli.run(["lag", "-n", "shop", "--partitions"]).ok().out;
    let rows: Vec<Vec<_>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["shop", "g", "0", "-", "no_owner", "0", "1,200"]);
    assert_eq!(rows[1], ["shop", "g", "1", "-", "no_owner", "1200", "0"]);
    assert_eq!(rows[2], ["shop", "m", "-", "-", "no_owner", "1200", "0"]);
    cli.run(["lag", "--interval", "1s"]).fails(2, "--watch");
}
