//! `append --file`.

use std::collections::HashMap;
use std::io::Write;

use crate::common::{Cli, Said};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use uuid::Uuid;

/// Lines with ids, of three streams, whose data counts from `first`.
fn lines(first: u32, count: u32) -> Vec<String> {
    let line = |n| json!({"type": "Counted", "id": Uuid::now_v7(), "stream": format!("s{}", n % 3), "data": n});
    (first..first + count).map(|n| line(n).to_string()).collect()
}

fn append(cli: &Cli, lines: &[String]) -> Said {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.join("\n")).unwrap();
    cli.run(["append", "-n", "shop", "--json", "--file", file.path().to_str().unwrap()])
}

fn counted(cli: &Cli) -> Vec<u64> {
    cli.shop().into_iter().map(|(_, data)| data.as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_file_is_stored_in_its_order() {
    let cli = Cli::with_shop().await;
    let lines = lines(0, 2_500);
    let summary = append(&cli, &lines).ok().json();
    assert_eq!((&summary["events"], &summary["stored"]), (&json!(2_500), &json!(2_500)));
    assert_eq!(summary["last_global_sequence"], 2_500);
    assert!(summary["seconds"].is_f64() && summary["events_per_second"].is_u64(), "{summary}");
    assert_eq!(counted(&cli), (0..2_500).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_file_is_stored_once_however_often_it_is_run() {
    let cli = Cli::with_shop().await;
    let mut lines = lines(0, 1_500);
    append(&cli, &lines).ok();
    let again = append(&cli, &lines).ok().json();
    assert_eq!((&again["stored"], &again["already_stored"]), (&json!(0), &json!(1_500)));
    // With more lines in the middle of what was the last batch, and at the end.
    lines.extend(self::lines(1_500, 700));
    let grown = append(&cli, &lines).ok().json();
    assert_eq!((&grown["stored"], &grown["already_stored"]), (&json!(700), &json!(1_500)));
    assert_eq!(counted(&cli), (0..2_200).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_bad_line_is_named_and_all_before_it_is_stored() {
    let cli = Cli::with_shop().await;
    let mut lines = lines(0, 1_300);
    let good = std::mem::replace(&mut lines[1_200], r#"{"type": "Counted", "daat": 1}"#.into());
    append(&cli, &lines)
        .fails(2, "line 1201: unknown field `daat`")
        .fails(2, "help: 1,200 events are stored, all of the lines before it; the file can be run again");
    assert_eq!(counted(&cli), (0..1_200).collect::<Vec<_>>());
    lines[1_200] = good;
    assert_eq!(append(&cli, &lines).ok().json()["stored"], 100);
    assert_eq!(counted(&cli), (0..1_300).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_only_the_log_refuses_is_named_by_its_line_too() {
    let cli = Cli::with_shop().await;
    let first = lines(0, 10);
    append(&cli, &first).ok();
    let bad = [
        (json!({"type": "", "data": 1}), "invalid event_type"),
        (json!({"type": "A", "stream": "", "data": 1}), "invalid stream_id"),
        (json!({"type": "A", "data": "x".repeat(1_100_000)}), "[WH004]"),
        (json!({"type": "Other", "id": first[3].split('"').nth(5).unwrap(), "data": 1}), "[WH005]"),
    ];
    let mut stored = 10;
    for (bad, saying) in bad {
        let mut lines = lines(stored, 40);
        lines[33] = bad.to_string();
        append(&cli, &lines).fails(2, "error: line 34: ").fails(2, saying).fails(2, "help: 33 events are stored");
        assert_eq!(cli.shop().len() as u32, stored + 33);
        stored += 33;
    }
}

#[tokio::test]
async fn a_line_that_stands_there_twice_is_stored_once() {
    let cli = Cli::with_shop().await;
    let mut lines = lines(0, 20);
    lines.insert(11, lines[4].clone());
    let summary = append(&cli, &lines).ok().json();
    assert_eq!((&summary["stored"], &summary["already_stored"]), (&json!(20), &json!(1)));
    assert_eq!(counted(&cli), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_expected_version_holds_from_batch_to_batch() {
    let cli = Cli::with_shop().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let line = |n| json!({"type": "A", "id": Uuid::now_v7(), "data": n}).to_string();
    let text: Vec<_> = (0..2_500).map(line).collect();
    std::fs::write(file.path(), text.join("\n")).unwrap();
    let path = file.path().to_str().unwrap();
    let append = |expect| cli.run(["append", "-n", "shop", "-s", "one", "--expect", expect, "--file", path]);
    append("7").fails(5, "line 1: stream \"one\" is at version 0, expected version 7 [WH007]");
    append("no-stream").ok();
    let again = append("no-stream").ok();
    assert!(again.out.contains("2,500 events (2,500 of them were there already)"), "{again:?}");
    let last = cli.run(["read", "-n", "shop", "-s", "one", "--backwards", "--limit", "1", "--json"]).ok().json();
    assert_eq!((&last["stream_version"], &last["data"]), (&json!(2_500), &json!(2_499)));

    std::fs::write(file.path(), (0..10).map(line).collect::<Vec<_>>().join("\n")).unwrap();
    append("2499").fails(5, "is at version 2500, expected version 2499");
    append("2500").ok();
    cli.run(["append", "-n", "shop", "--expect", "1", "--file", path]).fails(2, "--stream");
}

#[tokio::test]
async fn unordered_keeps_the_order_of_each_stream() {
    let cli = Cli::with_shop().await;
    let text = lines(0, 9_000).join("\n");
    let said = cli.feed(["append", "-n", "shop", "--unordered", "--file", "-"], &text).ok();
    assert!(said.out.starts_with("appended 9,000 events in "), "{said:?}");
    let mut streams: HashMap<u64, Vec<u64>> = HashMap::new();
    counted(&cli).into_iter().for_each(|n| streams.entry(n % 3).or_default().push(n));
    for (stream, seen) in streams {
        assert_eq!(seen, (0..9_000).filter(|n| n % 3 == stream).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn what_is_read_can_be_appended_elsewhere() {
    let cli = Cli::with_shop().await;
    append(&cli, &lines(0, 50)).ok();
    let read = cli.run(["read", "-n", "shop", "--json"]).ok().out;
    cli.run(["namespace", "create", "copy"]).ok();
    cli.feed(["append", "-n", "copy", "--file", "-"], &read).ok();
    let copy = cli.run(["read", "-n", "copy", "--json"]).ok().json_lines();
    let original: Vec<serde_json::Value> = read.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (copy, original) in copy.iter().zip(&original) {
        for field in ["id", "stream_id", "stream_version", "event_type", "data", "created_at"] {
            assert_eq!(copy[field], original[field]);
        }
    }
    assert_eq!(copy.len(), 50);
}

#[tokio::test]
async fn nothing_to_append_is_no_error() {
    let cli = Cli::with_shop().await;
    let said = cli.feed(["append", "-n", "shop", "--file", "-"], "\n \n\n").ok();
    assert_eq!(said.out, "no events: every line is blank\n");
    cli.run(["append", "-n", "shop", "--file", "/no/such/file"]).fails(2, "failed to read /no/such/file");
    cli.run(["append", "-n", "shop", "--file", "/"]).fails(2, "it is a folder");
}

/// A pipe whose other end waits is stored as far as it came, and an interrupt says how far that is.
#[tokio::test]
async fn a_live_pipe_is_stored_as_it_comes_and_can_be_interrupted() {
    let cli = Cli::with_shop().await;
    let mut child = cli.spawn(["append", "-n", "shop", "--file", "-"]);
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", lines(0, 3).join("\n")).unwrap();
    while counted(&cli).len() < 3 {}
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let said: Said = child.wait_with_output().unwrap().into();
    said.fails(130, "error: interrupted\nhelp: 3 events are stored");
    drop(input);
}
