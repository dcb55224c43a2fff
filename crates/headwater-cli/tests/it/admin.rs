//! `migrate`, `status`, `namespace`, and what all commands share.

use std::io::{BufRead, BufReader};

use crate::common::{Cli, Said, command};
use headwater_testing::TestDatabase;
use serde_json::json;

#[tokio::test]
async fn a_database_is_migrated_once() {
    let cli = Cli { db: TestDatabase::create_empty().await };
    let not_migrated = "the database has no Headwater in it yet [WH010]\nhelp: run `headwater migrate`";
    for args in [&["read", "-n", "shop"][..], &["emit", "-n", "shop", "A"], &["namespace", "list"], &["status"]] {
        cli.run(args.iter().copied()).fails(6, not_migrated);
    }
    let status = cli.run(["status"]);
    assert!(status.out.contains("\nschema     not migrated\n"), "{status:?}");
    assert_eq!(cli.run(["status", "--json"]).json()["schema_version"], 0);

    let first = cli.run(["migrate"]).ok().out;
    let version = first.strip_prefix("migrated to schema version ").unwrap().trim();
    assert_eq!(cli.run(["migrate"]).ok().out, format!("schema version {version}, nothing to do\n"));
    assert_eq!(cli.run(["status", "--json"]).ok().json()["schema_version"].to_string(), version);
    cli.run(["namespace", "create", "shop"]).ok();
}

#[tokio::test]
async fn a_newer_database_is_left_alone() {
    let cli = Cli::new().await;
    let newer = "INSERT INTO headwater.migrations (version, name, checksum) VALUES (999, 'later', '')";
    sqlx::raw_sql(newer).execute(&mut cli.db.session().await).await.unwrap();
    for args in [&["migrate"][..], &["namespace", "list"], &["status"]] {
        cli.run(args.iter().copied()).fails(6, "[WH008]\nhelp: use a newer headwater");
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_reached_is_told_with_3() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = |url: String| -> Said { command().args(["status", "--database-url", &url]).output().unwrap().into() };
    let begin = std::time::Instant::now();
    run(format!("postgres://secret:secret@{nobody}/db"))
        .fails(3, &format!("failed to connect to {nobody}/db: Connection refused"))
        .fails(3, "\nhelp: ");
    assert!(begin.elapsed().as_secs() < 5, "a refusal is no reason to wait");
    let db = TestDatabase::create_empty().await;
    let said = run(format!("{}_missing", db.url)).fails(3, "does not exist");
    assert!(!said.err.contains("secret"), "{said:?}");
    run("nonsense".into()).fails(2, "invalid database url");
}

#[tokio::test]
async fn status_shows_server_schema_and_namespaces() {
    let cli = Cli::with_shop().await;
    cli.run(["namespace", "create", "ledger", "--ordering", "gapless"]).ok();
    cli.run(["emit", "-n", "shop", "A"]).ok();
    let mut writer = cli.db.session().await;
    let begin = "SET application_name = 'slow-app'; BEGIN; SELECT headwater.emit('shop', 'Slow')";
    sqlx::raw_sql(begin).execute(&mut writer).await.unwrap();

    let said = cli.run(["status", "--json"]).ok();
    let status = said.json();
    let server = &status["server"];
    assert!(server["version"].is_string() && server["address"].is_string() && server["started_at"].is_string());
    assert_eq!(server["wal_level"], "logical");
    // The server for tests is not: that is said, and warned of.
    assert_eq!(server["durable"], false);
    assert!(said.err.starts_with("warning: fsync or synchronous_commit is off"), "{said:?}");
    let [ledger, shop] = &status["namespaces"].as_array().unwrap()[..] else { panic!("two namespaces") };
    let expected =
        json!({"name": "ledger", "ordering": "gapless", "head": 0, "horizon": 0, "pending_writers": [], "held_by": []});
    assert_eq!(ledger, &expected);
    assert_eq!((&shop["head"], &shop["horizon"]), (&json!(2), &json!(1)));
    assert_eq!(shop["pending_writers"][0]["application_name"], "slow-app");

    let said = cli.run(["status"]).ok();
    assert!(said.out.contains("\ndurable    NO\n"), "{said:?}");
    assert!(said.out.contains("\nshop is held back:\n  pid "), "{said:?}");
    assert!(said.out.contains("(slow-app, role "), "{said:?}");
    assert!(said.out.contains(") may still commit events above 1\n"), "{said:?}");
    let shown = cli.run(["namespace", "show", "shop"]).ok();
    assert!(shown.out.contains("\nhorizon      1\n\nshop is held back:\n  pid "), "{shown:?}");
}

#[tokio::test]
async fn a_namespace_is_created_shown_and_changed() {
    let cli = Cli::new().await;
    assert_eq!(cli.run(["namespace", "list", "--json"]).ok().out, "");
    let create = [
        "namespace",
        "create",
        "shop",
        "--ordering",
        "gapless",
        "--notify",
        "false",
        "--retention",
        "180d",
        "--max-payload-bytes",
        "2000",
        "--metadata",
        r#"{"owner": "ada"}"#,
    ];
    cli.run(create).ok();
    cli.run(create).ok();
    cli.run(["namespace", "create", "shop"]).ok();
    let shown = cli.run(["namespace", "show", "shop", "--json"]).ok().json();
    let expected = json!({
        "name": "shop", "id": shown["id"], "ordering": "gapless", "notify": false, "retention_seconds": 180 * 86_400,
        "max_payload_bytes": 2000, "metadata": {"owner": "ada"}, "created_at": shown["created_at"],
        "head": 0, "horizon": 0, "pending_writers": [], "months_made_by": "built-in",
            "storage": "shared", "index": "none", "index_state": "none",
    });
    assert_eq!(shown, expected);

    cli.run(["namespace", "set", "shop", "--keep-for-ever", "--notify", "true", "--metadata", "{}"]).ok();
    let listed = cli.run(["namespace", "list", "--json"]).ok().json_lines();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["retention_seconds"], &listed[0]["notify"]), (&json!(null), &json!(true)));
    assert_eq!((&listed[0]["max_payload_bytes"], &listed[0]["metadata"]), (&json!(2000), &json!({})));
    let list = cli.run(["namespace", "list"]).ok();
    assert!(list.out.lines().nth(1).unwrap().starts_with("shop       gapless   for ever   2000"), "{list:?}");
    let show = cli.run(["namespace", "show", "shop"]).ok();
    assert!(show.out.contains("\nretention    for ever\n"), "{show:?}");

    cli.run(["namespace", "set", "shop", "--index", "types"]).ok();
    let shown = cli.run(["namespace", "show", "shop", "--json"]).ok().json();
    assert_eq!((&shown["index"], &shown["index_state"]), (&json!("types"), &json!("ready")));
    assert!(cli.run(["namespace", "show", "shop"]).ok().out.contains("\nindex        types\n"));
    assert!(cli.run(["namespace", "list"]).ok().out.contains(" INDEX "));
    cli.run(["namespace", "set", "shop", "--index", "none"]).ok();
    cli.run(["namespace", "create", "shop", "--index", "types"]).fails(2, "[WH003]");
    cli.run(["namespace", "create", "audit", "--index", "types"]).ok();
    cli.run(["namespace", "set", "shop", "--index", "all"]).fails(2, "it is none or types");
}

#[tokio::test]
async fn a_namespace_is_moved_to_other_storage() {
    let cli = Cli::with_shop().await;
    cli.run(["emit", "--namespace", "shop", "OrderPlaced"]).ok();
    let moved = cli.run(["namespace", "set-storage", "shop", "own"]).ok();
    assert_eq!(moved.out, "namespace shop: storage own\n");
    assert_eq!(cli.run(["namespace", "show", "shop", "--json"]).ok().json()["storage"], "own");
    assert_eq!(cli.run(["namespace", "set-storage", "shop", "own"]).ok().out, moved.out);
    cli.run(["namespace", "set-storage", "shop", "shared"]).ok();
    assert_eq!(cli.run(["namespace", "show", "shop", "--json"]).ok().json()["head"], 1);
    cli.run(["namespace", "set-storage", "shop", "elsewhere"]).fails(2, "storage");
    cli.run(["namespace", "set-storage", "nobody", "own"]).fails(4, "[WH001]");
}

#[tokio::test]
async fn a_namespace_that_cannot_be_is_refused() {
    let cli = Cli::with_shop().await;
    cli.run(["namespace", "create", "Shop"]).fails(2, "[WH002]");
    cli.run(["namespace", "create", "shop", "--ordering", "gapless"]).fails(2, "[WH003]\nhelp: see them with");
    cli.run(["namespace", "create", "x", "--ordering", "random"]).fails(2, "it is sequence or gapless");
    cli.run(["namespace", "create", "x", "--months-made-by", "pg_cron"]).fails(2, "it is built-in or pg_partman");
    cli.run(["namespace", "create", "x", "--months-made-by", "pg_partman"]).fails(2, "[WH034]");
    cli.run(["namespace", "create", "x", "--retention", "180"]).fails(2, "a whole number with s, m, h, d or w");
    cli.run(["namespace", "create", "x", "--retention", "0d"]).fails(2, "[WH002]");
    cli.run(["namespace", "create", "x", "--max-payload-bytes", "0"]).fails(2, "[WH002]");
    cli.run(["namespace", "create", "x", "--metadata", "[]"]).fails(2, "[WH002]");
    cli.run(["namespace", "create", "x", "--metadata", "{"]).fails(2, "invalid JSON");
    cli.run(["namespace", "set", "shop"]).fails(2, "nothing to change");
    cli.run(["namespace", "set", "shop", "--retention", "1d", "--keep-for-ever"]).fails(2, "cannot be used with");
    cli.run(["namespace", "set", "nope", "--notify", "true"]).fails(4, "[WH001]");
    cli.run(["namespace", "show", "nope"]).fails(4, "[WH001]");
}

#[tokio::test]
async fn a_closed_pipe_ends_quietly_with_success() {
    let cli = Cli::with_shop().await;
    let lines: String =
        (0..20_000).map(|n| format!("{{\"type\":\"A\",\"data\":\"{n}{}\"}}\n", "x".repeat(100))).collect();
    cli.feed(["append", "-n", "shop", "--file", "-"], &lines).ok();
    for args in [&["read", "-n", "shop", "--json"][..], &["read", "-n", "shop"]] {
        let mut child = cli.spawn(args.iter().copied());
        let mut line = String::new();
        BufReader::with_capacity(100, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Said = child.wait_with_output().unwrap().into();
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    }
}

#[test]
fn help_and_version_need_no_database() {
    let said = |args: &[&str]| -> Said { command().args(args).output().unwrap().into() };
    assert!(said(&["--version"]).ok().out.starts_with("headwater "));
    let help = said(&["--help"]).ok().out;
    assert!(help.contains("Exit codes:") && help.contains("130  interrupted"), "{help}");
    let commands = [
        &["up"][..],
        &["migrate"],
        &["status"],
        &["emit"],
        &["append"],
        &["read"],
        &["namespace", "create"],
        &["namespace", "list"],
        &["namespace", "show"],
        &["namespace", "set"],
        &["consume"],
        &["subscribers", "list"],
        &["subscribers", "show"],
        &["subscribers", "pause"],
        &["subscribers", "resume"],
        &["subscribers", "set-types"],
        &["subscribers", "reset"],
        &["subscribers", "remove"],
        &["lag"],
        &["dead-letters", "list"],
        &["dead-letters", "show"],
        &["dead-letters", "redrive"],
        &["dead-letters", "discard"],
        &["audit"],
    ];
    for command in commands {
        let help = said(&[command, &["--help"]].concat()).ok().out;
        assert!(help.contains("\nExample"), "{command:?} has examples");
    }
    said(&["status", "--log", "headwater=nonsense=x"]).fails(2, "invalid log filter");
    assert_eq!(said(&["nonsense"]).code, Some(2));
}

#[tokio::test]
async fn a_url_may_name_several_hosts() {
    let cli = Cli::with_shop().await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (user, place) = cli.db.url.split_once('@').unwrap();
    let several = format!("{user}@{nobody},{place}?target_session_attrs=read-write");
    let said: Said = command().args(["status", "--json", "--database-url", &several]).output().unwrap().into();
    assert_eq!(said.ok().json()["namespaces"][0]["name"], "shop");
    // Only one of them reaches that far.
    let wrong = several.replace("read-write", "standby");
    let said: Said = command().args(["status", "--database-url", &wrong]).output().unwrap().into();
    said.fails(2, "Headwater writes, so it is read-write, primary or any");
}
