//! `emit --due-at` and `--due-in`, and `due`.

use crate::common::Cli;
use serde_json::json;
use uuid::Uuid;

/// Lets what waits be due.
async fn time_passes(cli: &Cli) {
    let due = "UPDATE headwater_private.due_events SET fire_at = clock_timestamp() - interval '1 second'";
    sqlx::query(due).execute(&mut cli.db.session().await).await.unwrap();
}

#[tokio::test]
async fn an_event_waits_until_it_is_due() {
    let cli = Cli::with_shop().await;
    let id = Uuid::now_v7().to_string();
    let at = ["emit", "-n", "shop", "A", "5", "--key", "k", "--id", &id, "--due-at", "2900-12-01T09:00:00+01:00"];
    let said = cli.run(at).ok();
    assert_eq!(said.out, format!("shop: due at 2900-12-01T08:00:00Z, id {id}\n"));
    let said = cli.run(["emit", "-n", "shop", "B", "--due-in", "3d", "--json"]).ok();
    assert_eq!(said.json()["due_in_seconds"], 259_200.0, "{said:?}");
    assert!(cli.shop().is_empty());

    let listed = cli.run(["due", "list", "-n", "shop", "--json"]).ok().json_lines();
    assert_eq!(listed[0]["event"]["event_type"], "B");
    assert_eq!(listed[1]["event"]["id"], json!(id));
    assert_eq!(listed[1]["due_at"], "2900-12-01T08:00:00Z");
    let said = cli.run(["due", "list", "-n", "shop"]).ok();
    assert!(said.out.starts_with("ID "), "{said:?}");
    assert!(
        said.out.lines().nth(2).unwrap().starts_with(&format!("{id}  A     2900-12-01T08:00:00.000Z  k")),
        "{said:?}"
    );

    let said = cli.run(["due", "fire", "-n", "shop"]).ok();
    assert!(said.out.starts_with("fired 0 events; the next is due in 2d23h"), "{said:?}");
    time_passes(&cli).await;
    assert_eq!(cli.run(["due", "fire", "-n", "shop"]).ok().out, "fired 2 events\n");
    assert_eq!(cli.shop(), [("B".into(), json!(null)), ("A".into(), json!(5))]);
    assert_eq!(cli.run(["due", "list", "-n", "shop"]).ok().out, "no events wait to be due\n");
}

#[tokio::test]
async fn a_cancelled_event_is_gone() {
    let cli = Cli::with_shop().await;
    let id = Uuid::now_v7().to_string();
    cli.run(["emit", "-n", "shop", "A", "--id", &id, "--due-in", "1h"]).ok();
    let said = cli.run(["due", "cancel", "-n", "shop", &id]).ok();
    assert_eq!(said.out, format!("shop: event {id} is cancelled\n"));
    cli.run(["due", "cancel", "-n", "shop", &id]).fails(4, "does not wait to be due");
    assert_eq!(
        cli.run(["due", "fire", "--json"]).ok().json(),
        json!({
            "fired": 0, "failed": 0, "next_due_in_seconds": null
        })
    );
}

#[tokio::test]
async fn what_cannot_be_appended_is_shown() {
    let cli = Cli::with_shop().await;
    cli.run(["emit", "-n", "shop", "Large", r#""0123456789""#, "--due-in", "1h"]).ok();
    cli.run(["emit", "-n", "shop", "Small", "--due-in", "1h"]).ok();
    cli.run(["namespace", "set", "shop", "--max-payload-bytes", "5"]).ok();
    time_passes(&cli).await;
    let said =
        cli.run(["due", "fire"]).fails(7, "1 event could not be appended\nhelp: see why with `headwater due list");
    assert!(said.out.starts_with("fired 1 event; the next is due in "), "{said:?}");
    let said = cli.run(["due", "list", "-n", "shop", "--failed"]).ok();
    assert!(said.out.contains("WH004: payload of 12 bytes is larger than the 5"), "{said:?}");
    assert_eq!(cli.shop(), [("Small".into(), json!(null))]);
}

#[tokio::test]
async fn times_that_are_none_are_refused() {
    let cli = Cli::with_shop().await;
    cli.run(["emit", "-n", "shop", "A", "--due-at", "tomorrow"]).fails(2, "--due-at");
    cli.run(["emit", "-n", "shop", "A", "--due-in", "soon"]).fails(2, "is not a duration");
    cli.run(["emit", "-n", "shop", "A", "--due-in", "1h", "--due-at", "2900-12-01T08:00:00Z"])
        .fails(2, "cannot be used");
    cli.run(["due", "list", "-n", "nowhere"]).fails(4, "does not exist");
}
