//! `emit`, `append` of one event, and `read`.

use crate::common::Cli;
use serde_json::json;
use uuid::Uuid;

#[tokio::test]
async fn data_comes_from_an_argument_a_file_or_standard_input() {
    let cli = Cli::with_shop().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"from\": \"file\"}\n").unwrap();
    let at_file = format!("@{}", file.path().display());
    cli.run(["emit", "-n", "shop", "A", r#"{"from": "argument"}"#]).ok();
    cli.run(["emit", "-n", "shop", "B", &at_file]).ok();
    cli.feed(["emit", "-n", "shop", "C", "-"], " [1, 2.50]\n").ok();
    cli.run(["emit", "-n", "shop", "D", "-5"]).ok();
    let said = cli.run(["emit", "-n", "shop", "E"]).ok();
    assert!(said.out.starts_with("shop: global_sequence 5, id "), "{said:?}");
    let [a, b, c, d, e] = &cli.shop()[..] else { panic!("five events") };
    assert_eq!(a, &("A".into(), json!({"from": "argument"})));
    assert_eq!(b, &("B".into(), json!({"from": "file"})));
    assert_eq!(c, &("C".into(), json!([1, 2.5])));
    assert_eq!(d, &("D".into(), json!(-5)));
    assert_eq!(e, &("E".into(), json!(null)));
}

#[tokio::test]
async fn every_field_of_an_event_can_be_set() {
    let cli = Cli::with_shop().await;
    let [id, correlation, causation] = [(); 3].map(|()| Uuid::now_v7().to_string());
    let emit = [
        "emit",
        "-n",
        "shop",
        "OrderPlaced",
        r#"{"total": 5}"#,
        "--json",
        "--key",
        "k",
        "--actor-id",
        "ada",
        "--id",
        &id,
        "--correlation-id",
        &correlation,
        "--causation-id",
        &causation,
        "--header",
        "a=b",
        "--header",
        "c=d=e",
        "--schema-version",
        "3",
    ];
    let first = cli.run(emit).ok().json();
    assert_eq!(first, json!({"id": id, "global_sequence": 1, "stream_version": null, "retried": false}));
    let again = cli.run(emit).ok().json();
    assert_eq!(again, json!({"id": id, "global_sequence": 1, "stream_version": null, "retried": true}));

    let event = cli.run(["read", "-n", "shop", "--id", &id, "--json"]).ok().json();
    let expected = json!({
        "id": id, "event_type": "OrderPlaced", "schema_version": 3, "data": {"total": 5}, "global_sequence": 1,
        "key": "k", "actor_id": "ada", "correlation_id": correlation, "causation_id": causation,
        "headers": {"a": "b", "c": "d=e"},
        "created_at": event["created_at"], "recorded_at": event["recorded_at"],
        "transaction_id": event["transaction_id"],
    });
    assert_eq!(event, expected);
    cli.run(["emit", "-n", "shop", "Other", "--id", &id]).fails(2, "[WH005]");
}

#[tokio::test]
async fn a_stream_is_appended_to_at_the_version_expected() {
    let cli = Cli::with_shop().await;
    let append = |expect: &str| cli.run(["append", "-n", "shop", "-s", "order-1", "Step", "--expect", expect]);
    append("exists").fails(5, "help: read the stream again");
    append("no-stream").ok();
    append("no-stream").fails(5, "stream \"order-1\" is at version 1, expected no stream [WH007]");
    append("1").ok();
    append("1").fails(5, "is at version 2, expected version 1 [WH007]");
    append("exists").ok();
    let said = append("any").ok();
    assert!(said.out.contains(", stream_version 4, id "), "{said:?}");
    append("soon").fails(2, "it is any, no-stream, exists, or a version");
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_2() {
    let cli = Cli::with_shop().await;
    cli.run(["emit", "-n", "shop", "A", "{nope}"]).fails(2, "help: DATA is JSON");
    cli.run(["emit", "-n", "shop", "A", r#""\u0000""#]).fails(2, "cannot be stored");
    cli.run(["emit", "-n", "shop", "A", "@/no/such/file"]).fails(2, "failed to read /no/such/file");
    cli.run(["emit", "-n", "shop", ""]).fails(2, "[WH002]");
    cli.run(["emit", "-n", "shop", "A", "--id", "7"]).fails(2, "--id");
    cli.run(["emit", "-n", "shop", "A", "--header", "novalue"]).fails(2, "a header is NAME=VALUE");
    cli.run(["append", "-n", "shop", "A"]).fails(2, "--stream");
    cli.run(["append", "-n", "shop", "-s", "s", "A", "--file", "-"]).fails(2, "cannot be used with");
    cli.run(["read", "-n", "shop", "-s", "s", "--after", "1"]).fails(2, "cannot be used with");
    cli.run(["read", "-n", "shop", "--gaps", "--type", "A"]).fails(2, "cannot be used with");
    assert_eq!(cli.shop(), []);
}

#[tokio::test]
async fn what_is_not_there_is_told_with_4() {
    let cli = Cli::with_shop().await;
    let nil = Uuid::nil().to_string();
    let missing = "namespace \"nope\" does not exist [WH001]\nhelp: create it with `headwater namespace create nope`";
    cli.run(["emit", "-n", "nope", "A"]).fails(4, missing);
    cli.run(["append", "-n", "nope", "-s", "s", "A"]).fails(4, missing);
    cli.run(["append", "-n", "nope", "--file", "/dev/null"]).fails(4, missing);
    cli.run(["read", "-n", "nope"]).fails(4, missing);
    cli.run(["read", "-n", "shop", "--id", &nil]).fails(4, "has no event");
    cli.run(["read", "-n", "shop", "--causation", &nil]).fails(4, "has no event");
    assert_eq!(cli.run(["read", "-n", "shop", "--stream", "nope"]).ok().out, "", "a stream without events is no error");
}

#[tokio::test]
async fn a_stream_is_read_by_version_type_and_direction() {
    let cli = Cli::with_shop().await;
    let lines: String =
        (1..=9).map(|n| format!("{{\"type\":\"T{}\",\"stream\":\"s\",\"data\":{n}}}\n", n % 2)).collect();
    cli.feed(["append", "-n", "shop", "--file", "-"], &lines).ok();
    let read = |args: &[&str]| {
        let all = ["read", "-n", "shop", "-s", "s", "--json"].into_iter().chain(args.iter().copied());
        let lines = cli.run(all).ok().json_lines();
        lines.iter().map(|line| line["data"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(read(&["--from-version", "3", "--to-version", "5"]), [3, 4, 5]);
    assert_eq!(read(&["--backwards", "--limit", "2"]), [9, 8]);
    assert_eq!(read(&["--type", "T0", "--limit", "2"]), [2, 4]);
    assert_eq!(read(&["--type", "T0", "--type", "T1"]).len(), 9);
}

#[tokio::test]
async fn the_log_is_read_by_sequence_type_prefix_and_direction() {
    let cli = Cli::with_shop().await;
    let lines: String =
        (1..=9).map(|n| format!("{{\"type\":\"T{}\",\"stream\":\"s{}\",\"data\":{n}}}\n", n % 2, n % 3)).collect();
    cli.feed(["append", "-n", "shop", "--file", "-"], &lines).ok();
    let read = |args: &[&str]| {
        let all = ["read", "-n", "shop", "--json"].into_iter().chain(args.iter().copied());
        let lines = cli.run(all).ok().json_lines();
        lines.iter().map(|line| line["data"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(read(&[]), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(read(&["--after", "3", "--up-to", "6"]), [4, 5, 6]);
    assert_eq!(read(&["--after", "3", "--limit", "2"]), [4, 5]);
    assert_eq!(read(&["--backwards", "--limit", "2"]), [9, 8]);
    assert_eq!(read(&["--type", "T0"]), [2, 4, 6, 8]);
    assert_eq!(read(&["--stream-prefix", "s1"]), [1, 4, 7]);
    assert_eq!(read(&["--type", "T0", "--stream-prefix", "s", "--backwards", "--limit", "1"]), [8]);
    assert!(read(&["--limit", "0"]).is_empty());
}

#[tokio::test]
async fn correlations_and_causes_are_followed() {
    let cli = Cli::with_shop().await;
    let [first, second] = [(); 2].map(|()| Uuid::now_v7().to_string());
    cli.run(["emit", "-n", "shop", "First", "--id", &first]).ok();
    let caused = ["--causation-id", &first, "--correlation-id", &first];
    cli.run(["emit", "-n", "shop", "Second", "--id", &second].into_iter().chain(caused)).ok();
    cli.run(["emit", "-n", "shop", "Third", "--causation-id", &second, "--correlation-id", &first]).ok();
    cli.run(["emit", "-n", "shop", "Stranger"]).ok();
    let types = |args: [&str; 2]| {
        let lines = cli.run(["read", "-n", "shop", "--json"].into_iter().chain(args)).ok().json_lines();
        lines.iter().map(|line| line["event_type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(types(["--causation", &second]), ["First", "Second", "Third"]);
    assert_eq!(types(["--correlation", &first]), ["Second", "Third"]);
}

#[tokio::test]
async fn people_read_aligned_lines() {
    let cli = Cli::with_shop().await;
    cli.run(["append", "-n", "shop", "-s", "order-1", "OrderPlaced", r#"{"total": 5}"#]).ok();
    cli.run(["emit", "-n", "shop", "Loud", r#""\u009b31m""#]).ok();
    cli.feed(["emit", "-n", "shop", "Louder", "-"], "\"\u{9b}31m\"").ok();
    let said = cli.run(["read", "-n", "shop"]).ok();
    let lines: Vec<_> = said.out.lines().collect();
    let at = |line: &str, what: &str| line.find(what).unwrap_or_else(|| panic!("{what:?} in {line:?}"));
    assert_eq!(at(lines[0], "order-1@1"), at(lines[1], "-  "));
    assert_eq!(at(lines[0], "OrderPlaced"), at(lines[1], "Loud"));
    assert!(lines[0].ends_with(r#"{"total": 5}"#), "{said:?}");
    assert!(!said.out.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
}

#[tokio::test]
async fn gaps_are_shown_with_who_holds_them() {
    let cli = Cli::with_shop().await;
    let mut writer = cli.db.session().await;
    let sql = |text: &'static str| sqlx::raw_sql(text);
    sql("SET application_name = 'slow-app'").execute(&mut writer).await.unwrap();
    sql("BEGIN; SELECT headwater.emit('shop', 'Gone'); ROLLBACK").execute(&mut writer).await.unwrap();
    sql("BEGIN; SELECT headwater.emit('shop', 'Slow')").execute(&mut writer).await.unwrap();
    cli.run(["emit", "-n", "shop", "Quick"]).ok();

    let lines = cli.run(["read", "-n", "shop", "--gaps", "--json"]).ok().json_lines();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert_eq!(lines[0], json!({"gap": {"first": 1, "last": 1, "state": "permanent"}}));
    let pending = &lines[1]["gap"];
    assert_eq!((&pending["first"], &pending["last"], &pending["state"]), (&json!(2), &json!(2), &json!("pending")));
    let who = &pending["writers"][0];
    assert_eq!(who["application_name"], "slow-app");
    assert!(who["pid"].is_u64() && who["age_seconds"].is_f64() && who["started_at"].is_string(), "{who}");

    let said = cli.run(["read", "-n", "shop", "--gaps"]).ok();
    assert!(said.out.contains("       1  gap, permanent"), "{said:?}");
    assert!(said.out.contains("       2  gap, pending: pid ") && said.out.contains("(slow-app), its"), "{said:?}");
    let said = cli.run(["read", "-n", "shop", "--json"]).ok();
    assert_eq!(said.out, "");
    assert!(said.err.starts_with("note: the log is held back above 1: pid "), "{said:?}");
    let filtered = cli.run(["read", "-n", "shop", "--type", "Quick"]).ok();
    assert!(filtered.err.starts_with("note: the log is held back above 1: pid "), "{filtered:?}");

    sql("COMMIT").execute(&mut writer).await.unwrap();
    let types: Vec<_> = cli.shop().into_iter().map(|(event_type, _)| event_type).collect();
    assert_eq!(types, ["Slow", "Quick"]);
}
