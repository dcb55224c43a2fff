//! `schedules`.

use crate::common::Cli;
use serde_json::{Value, json};

/// Makes what is scheduled due, since a time.
async fn due_since(cli: &Cli, time: &str) {
    let due = "UPDATE headwater_private.schedules SET next_due_at = $1::timestamptz, fire_at = $1::timestamptz";
    sqlx::query(due).bind(time).execute(&mut cli.db.session().await).await.unwrap();
}

async fn fire_at(cli: &Cli, time: &str) {
    let fire = "SELECT headwater.fire_schedules('shop', at => $1::timestamptz)";
    sqlx::query(fire).bind(time).execute(&mut cli.db.session().await).await.unwrap();
}

const CREATE: [&str; 11] = [
    "schedules",
    "create",
    "-n",
    "shop",
    "cleanup",
    "maintenance.cleanup",
    r#"{"keep": 30}"#,
    "--cron",
    "0 2 * * *",
    "--timezone",
    "Europe/Copenhagen",
];

#[tokio::test]
async fn a_schedule_is_made_shown_fired_and_deleted() {
    let cli = Cli::with_shop().await;
    assert_eq!(cli.run(["schedules", "list", "-n", "shop"]).ok().out, "no schedules\n");
    let said = cli.run(CREATE).ok();
    assert!(said.out.starts_with("shop: schedule cleanup is active, due next: 20"), "{said:?}");
    assert!(said.out.contains(" 02:00:00 +0"), "in its time zone: {said:?}");

    due_since(&cli, "2026-03-29T01:00:00Z").await;
    let listed = cli.run(["schedules", "list", "-n", "shop"]).ok().out;
    let expected =
        "shop       cleanup   active  0 2 * * *  Europe/Copenhagen  maintenance.cleanup  2026-03-29 03:00:00 +02:00  -";
    assert_eq!(listed.lines().nth(1).unwrap(), expected);
    fire_at(&cli, "2026-03-29T01:00:10Z").await;
    assert_eq!(cli.shop(), [("maintenance.cleanup".into(), json!({ "keep": 30 }))]);

    let shown = cli.run(["schedules", "show", "-n", "shop", "cleanup", "--next", "2", "--json"]).ok().json();
    assert_eq!(shown["cron"], "0 2 * * *");
    assert_eq!(shown["missed"], "fire_once");
    assert_eq!(shown["last_due_at"], "2026-03-29T03:00:00+02:00");
    assert_eq!(shown["next_runs"], json!(["2026-03-30T02:00:00+02:00", "2026-03-31T02:00:00+02:00"]));
    assert_eq!(shown["runs"][0]["outcome"], "fired");
    assert_eq!(shown["runs"][0]["global_sequence"], 1);
    let shown = cli.run(["schedules", "show", "-n", "shop", "cleanup"]).ok().out;
    for text in [
        "time zone     Europe/Copenhagen",
        "missed        fire the last",
        "triggered by  nodes",
        r#"event         maintenance.cleanup {"keep": 30}"#,
        "  2026-04-03 02:00:00 +02:00",
        "  2026-03-29 03:00:00 +02:00  fired",
    ] {
        assert!(shown.contains(text), "expected {text:?} in\n{shown}");
    }

    assert_eq!(cli.run(["schedules", "run", "-n", "shop", "cleanup"]).ok().out, "shop: global_sequence 2\n");
    assert_eq!(cli.run(["schedules", "run", "-n", "shop", "cleanup", "--json"]).ok().json()["global_sequence"], 3);
    assert_eq!(cli.shop().len(), 3);
    cli.run(["schedules", "delete", "-n", "shop", "cleanup"]).fails(2, "repeat it with --yes");
    assert_eq!(
        cli.run(["schedules", "delete", "-n", "shop", "cleanup", "--yes"]).ok().out,
        "schedule cleanup is deleted\n"
    );
    cli.run(["schedules", "show", "-n", "shop", "cleanup"]).fails(4, "schedule \"cleanup\" does not exist");
}

#[tokio::test]
async fn a_schedule_is_paused_and_resumed() {
    let cli = Cli::with_shop().await;
    cli.run(CREATE).ok();
    assert_eq!(cli.run(["schedules", "pause", "-n", "shop", "cleanup"]).ok().out, "schedule cleanup is paused\n");
    due_since(&cli, "2026-01-01T01:00:00Z").await;
    assert!(cli.run(["due", "fire", "-n", "shop"]).ok().out.starts_with("fired 0 events"));
    // Making it again does not undo it.
    assert!(cli.run(CREATE).ok().out.contains("is paused"));
    let said = cli.run(["schedules", "resume", "-n", "shop", "cleanup"]).ok();
    assert!(said.out.starts_with("schedule cleanup goes on, due next: 20"), "{said:?}");
    assert!(cli.shop().is_empty());
}

#[tokio::test]
async fn due_fire_fires_schedules_too() {
    let cli = Cli::with_shop().await;
    let once = ["schedules", "create", "-n", "shop", "sale", "SaleBegins", "--at", "2026-01-01T09:00:00+01:00"];
    let made = cli.run(once.into_iter().chain(["--stream", "sales", "--key", "k", "--json"])).ok().json();
    assert_eq!(made["due_at"], "2026-01-01T08:00:00Z");
    assert_eq!(cli.run(["due", "fire"]).ok().out, "fired 1 event\n");
    let event = cli.run(["read", "-n", "shop", "--json"]).ok().json();
    assert_eq!((&event["stream_id"], &event["key"]), (&json!("sales"), &json!("k")));
    assert_eq!(event["headers"]["scheduled_at"], "2026-01-01T08:00:00.000000Z");
    let listed = cli.run(["schedules", "list", "-n", "shop"]).ok().out;
    assert!(listed.contains("ended  once at 2026-01-01 08:00:00 UTC"), "{listed}");
}

#[tokio::test]
async fn a_schedule_that_fails_says_why() {
    let cli = Cli::with_shop().await;
    cli.run(CREATE).ok();
    cli.run(["namespace", "set", "shop", "--max-payload-bytes", "5"]).ok();
    due_since(&cli, "2026-01-01T01:00:00Z").await;
    cli.run(["due", "fire"]).fails(7, "1 event could not be appended");
    let listed: Value = cli.run(["schedules", "list", "-n", "shop", "--json"]).ok().json();
    assert_eq!((&listed["state"], &listed["failures"]), (&json!("failing"), &json!(1)));
    let shown = cli.run(["schedules", "show", "-n", "shop", "cleanup"]).ok().out;
    assert!(shown.contains("try 1: WH004: payload of 12 bytes is larger than the 5"), "{shown}");
}

#[tokio::test]
async fn an_expression_is_previewed() {
    let cli = Cli::new().await;
    let preview = ["schedules", "preview", "30 2 * * *", "--timezone", "Europe/Copenhagen"];
    let from = ["--after", "2026-03-28T12:00:00Z", "--count", "2"];
    let said = cli.run(preview.into_iter().chain(from)).ok();
    assert_eq!(said.out, "2026-03-29 03:00:00 +02:00\n2026-03-30 02:30:00 +02:00\n");
    let said = cli.run(preview.into_iter().chain(from).chain(["--json"])).ok();
    assert_eq!(said.json_lines()[0], "2026-03-29T03:00:00+02:00");
    assert_eq!(cli.run(["schedules", "preview", "0 0 30 2 *"]).ok().out, "never\n");
    let wrong = "invalid cron expression '61 * * * *': minute '61' is not 0 to 59";
    cli.run(["schedules", "preview", "61 * * * *"]).fails(2, wrong);
    cli.run(["schedules", "preview", "@daily", "--timezone", "Mars/Base"]).fails(2, "unknown time zone 'Mars/Base'");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let cli = Cli::with_shop().await;
    let create = |more: &'static [&'static str]| {
        ["schedules", "create", "-n", "shop", "a", "A"].into_iter().chain(more.iter().copied())
    };
    cli.run(create(&[])).fails(2, "--cron");
    cli.run(create(&["--cron", "@daily", "--at", "2026-01-01T08:00:00Z"])).fails(2, "cannot be used");
    cli.run(create(&["--cron", "@daily", "--missed-limit", "5"])).fails(2, "--missed fire-all");
    cli.run(create(&["--cron", "0 0 30 2 *"])).fails(2, "is never due");
    cli.run(create(&["--cron", "@daily", "--pg-cron"])).fails(2, "pg_cron is not installed");
    cli.run(create(&["--cron", "@daily", "--missed", "fire-all", "--missed-limit", "5"])).ok();
    let made = cli.run(["schedules", "list", "-n", "shop", "--json"]).ok().json();
    assert_eq!(made["missed"], json!({ "fire_all": { "limit": 5 } }));
    for command in ["show", "run", "pause", "resume"] {
        cli.run(["schedules", command, "-n", "shop", "b"]).fails(4, "schedule \"b\" does not exist");
    }
    cli.run(["schedules", "list", "-n", "nowhere"]).fails(4, "does not exist");
}
