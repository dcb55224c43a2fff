//! `dead-letters`.

use crate::common::{Cli, Consumer, Said};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Fails for ever while the file is not there.
fn needs(file: &std::path::Path) -> String {
    format!("[ -e {} ] || {{ echo \"no file for $HEADWATER_GLOBAL_SEQUENCE\" >&2; exit 65; }}", file.display())
}

fn letters(cli: &Cli, args: &[&str]) -> Vec<Value> {
    let list = ["dead-letters", "list", "-n", "shop", "--json"];
    cli.run(list.iter().chain(args).copied()).ok().json_lines()
}

fn sequences(cli: &Cli, args: &[&str]) -> Vec<u64> {
    letters(cli, args).iter().map(|letter| letter["event"]["global_sequence"].as_u64().unwrap()).collect()
}

fn redrive(cli: &Cli, args: &[&str]) -> Said {
    cli.run(["dead-letters", "redrive", "-n", "shop"].iter().chain(args).copied())
}

fn discard(cli: &Cli, args: &[&str]) -> Said {
    cli.run(["dead-letters", "discard", "-n", "shop"].iter().chain(args).copied())
}

#[tokio::test]
async fn letters_are_listed_by_what_they_are() {
    let cli = Cli::with_shop().await;
    assert_eq!(cli.run(["dead-letters", "list", "-n", "shop"]).ok().out, "no dead letters\n");
    for (event_type, key) in [("A", "x"), ("B", "x"), ("A", "y")] {
        cli.run(["emit", "-n", "shop", event_type, "--key", key, r#"{"n": 1}"#]).ok();
    }
    cli.consume_all("m", &["--exec", "echo bad $HEADWATER_EVENT_TYPE >&2; exit 65"]).ok();
    cli.consume_all("k", &["--exec", "exit 65", "--event-type", "B"]).ok();
    assert_eq!(sequences(&cli, &[]), [2, 1, 2, 3], "by subscriber, then by sequence");
    assert_eq!(sequences(&cli, &["--subscriber", "m"]), [1, 2, 3]);
    assert_eq!(sequences(&cli, &["-s", "m", "--event-type", "A"]), [1, 3]);
    assert_eq!(sequences(&cli, &["-s", "m", "--key", "x"]), [1, 2]);
    assert_eq!(sequences(&cli, &["--error-contains", "bad B"]), [2]);
    assert_eq!(sequences(&cli, &["--limit", "2"]), [2, 1]);
    assert_eq!(sequences(&cli, &["--state", "parked", "--state", "redriven"]), [0; 0]);
    let text = cli.run(["dead-letters", "list", "-n", "shop", "-s", "m"]).ok().out;
    assert!(text.starts_with("NAMESPACE ") && text.lines().count() == 4, "{text}");
    assert!(text.lines().nth(1).unwrap().ends_with("  the command exited with 65: bad A"), "{text}");

    let list = |args: &[&str]| cli.run(["dead-letters", "list", "-n", "shop"].iter().chain(args).copied());
    list(&["--state", "gone"]).fails(2, "it is dead, parked, redriving, redriven or discarded");
    list(&["-s", "nope"]).fails(4, "[WH012]");
    let show = |args: &[&str]| cli.run(["dead-letters", "show", "-n", "shop"].iter().chain(args).copied());
    let shown = show(&["m", "1", "--json"]).ok().json();
    assert_eq!((&shown["event"]["data"], &shown["state"]), (&json!({"n": 1}), &json!("dead")));
    assert_eq!(shown["attempts"][0]["errors"], json!(["the command exited with 65: bad A"]));
    let text = show(&["m", "1"]).ok().out;
    assert!(text.contains("\n    \"event_type\": \"A\",\n"), "{text}");
    assert!(text.contains("\nattempt 1 at ") && text.contains("\n  the command exited with 65: bad A\n"), "{text}");
    show(&["m", "9"]).fails(4, "subscriber \"m\" has no dead letter 9");
    show(&["nope", "1"]).fails(4, "[WH012]");
}

#[tokio::test]
async fn a_list_goes_on_beyond_a_page() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=450);
    cli.consume_all("m", &["--exec", "exit 65", "--checkpoint", "1000/1s", "--concurrency", "4", "--log", "off"]).ok();
    assert_eq!(sequences(&cli, &[]), (1..=450).collect::<Vec<_>>());
    assert_eq!(sequences(&cli, &["--limit", "250"]), (1..=250).collect::<Vec<_>>());
    let said = discard(&cli, &["m", "--all", "--reason", "a test", "--yes"]).ok();
    assert_eq!(said.out, "450 dead letters discarded\n");
}

#[tokio::test]
async fn letters_are_delivered_again() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=4);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let consumer = cli.consume("m", &["--exec", &needs(&file), "--log", "off"]);
    cli.show_until("m", |shown| shown["dead_letters"] == 4 && shown["position"] == 4);

    let again = redrive(&cli, &["m", "1"]).fails(7, "1 of 1 failed again");
    let expected =
        "1 dead letter delivered again: 0 handled, 1 failed again, 0 wait behind one that did, 0 discarded\n";
    assert_eq!(again.out, expected);
    let letter = &letters(&cli, &[])[0];
    assert_eq!((&letter["state"], letter["attempts"].as_array().unwrap().len()), (&json!("dead"), 2));

    std::fs::write(&file, "").unwrap();
    let said = redrive(&cli, &["m", "2"]).ok();
    assert!(said.out.starts_with("1 dead letter delivered again: 1 handled, 0 failed again"), "{said:?}");
    let said = redrive(&cli, &["m", "--error-contains", "file for 3"]).ok();
    assert!(said.out.starts_with("1 dead letter delivered again: 1 handled"), "{said:?}");
    assert_eq!(sequences(&cli, &[]), [1, 4]);
    let said = redrive(&cli, &["m", "--all"]).ok();
    assert!(said.out.starts_with("2 dead letters delivered again: 2 handled"), "{said:?}");
    assert_eq!(redrive(&cli, &["m", "--all"]).ok().out, "no dead letters to deliver again\n");
    assert_eq!(sequences(&cli, &["--state", "redriven"]), [1, 2, 3, 4]);
    redrive(&cli, &["m", "1"]).fails(4, "has no open dead letter 1");
    redrive(&cli, &["m"]).fails(2, "no dead letters were chosen");
    redrive(&cli, &["m", "1", "--all"]).fails(2, "cannot be used with");
    redrive(&cli, &["nope", "--all"]).fails(4, "[WH012]");
    assert_eq!(cli.show("m")["dead_letters"], 0);
    consumer.stop(Signal::TERM).ok();
    cli.run(["audit", "-n", "shop"]).ok();
}

#[tokio::test]
async fn a_parked_key_is_delivered_again_in_order() {
    let cli = Cli::with_shop().await;
    for key in ["a", "a", "b", "a"] {
        cli.run(["emit", "-n", "shop", "A", "--key", key]).ok();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let script = format!("[ $HEADWATER_GLOBAL_SEQUENCE = 3 ] || {}; echo $HEADWATER_GLOBAL_SEQUENCE", needs(&file));
    let consumer = cli.consume("m", &["--exec", &script, "--on-exhaustion", "park-key", "--log", "off"]);
    assert_eq!(consumer.line(), "3");
    cli.show_until("m", |shown| shown["dead_letters"] == 3);
    let said = redrive(&cli, &["m", "1"]).fails(7, "3 of 3 failed again");
    assert!(said.out.contains("0 handled, 1 failed again, 2 wait behind one that did"), "{said:?}");
    std::fs::write(&file, "").unwrap();
    let said = redrive(&cli, &["m", "--key", "a"]).ok();
    assert!(said.out.contains("3 handled, 0 failed again"), "{said:?}");
    assert_eq!([consumer.line(), consumer.line(), consumer.line()], ["1", "2", "4"]);
    // The key is free again.
    cli.run(["emit", "-n", "shop", "A", "--key", "a"]).ok();
    assert_eq!(consumer.line(), "5");
}

#[tokio::test]
async fn that_nobody_delivers_is_said() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=2);
    cli.consume_all("m", &["--exec", "exit 65", "--log", "off"]).ok();
    let said = redrive(&cli, &["m", "1", "--no-wait"]).ok();
    assert_eq!(said.out, "1 dead letter will be delivered again\n");
    assert_eq!(sequences(&cli, &["--state", "redriving"]), [1]);
    let waiting = Consumer::start(cli.command(["dead-letters", "redrive", "-n", "shop", "m", "--all"]));
    waiting.says("note: no process has subscriber m: its dead letters are delivered when one starts");
    let consumer = cli.consume("m", &["--exec", "echo $HEADWATER_GLOBAL_SEQUENCE"]);
    assert_eq!([consumer.line(), consumer.line()], ["1", "2"]);
    assert!(waiting.wait().ok().out.starts_with("2 dead letters delivered again: 2 handled"));
}

#[tokio::test]
async fn letters_are_discarded_with_a_reason() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=3);
    cli.consume_all("m", &["--exec", "exit 65", "--log", "off"]).ok();
    discard(&cli, &["m", "2", "--reason", "a test"])
        .fails(2, "not confirmed: 1 dead letter of subscriber m will never be delivered");
    discard(&cli, &["m", "2", "--yes"]).fails(2, "--reason");
    assert_eq!(discard(&cli, &["m", "2", "--reason", "a test", "--yes"]).ok().out, "1 dead letter discarded\n");
    assert_eq!(sequences(&cli, &[]), [1, 3]);
    let kept = &letters(&cli, &["--state", "discarded"])[0];
    assert_eq!((&kept["event"]["global_sequence"], &kept["reason"]), (&json!(2), &json!("a test")));
    let text = cli.run(["dead-letters", "show", "-n", "shop", "m", "2"]).ok().out;
    assert!(text.contains("\nstate          discarded\n") && text.contains("\nreason         a test\n"), "{text}");
    discard(&cli, &["m", "2", "--reason", "again", "--yes"]).fails(4, "has no open dead letter 2");
    discard(&cli, &["m", "--reason", "x", "--yes"]).fails(2, "no dead letters were chosen");
    let none = discard(&cli, &["m", "--event-type", "Z", "--reason", "x", "--yes"]).ok();
    assert_eq!(none.out, "no dead letters to discard\n");
}
