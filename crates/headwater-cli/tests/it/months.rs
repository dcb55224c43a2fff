//! `headwater months`, and what retention shows elsewhere.

use crate::common::Cli;
use serde_json::json;

/// With `shop`, which has 6 past months of 3 events, 1 to 18. The first is due.
async fn old_shop() -> Cli {
    let cli = Cli::new().await;
    cli.run(["namespace", "create", "shop", "--retention", "6mo"]).ok();
    cli.db.past_months("shop", 6, 3).await;
    cli.db.keep_months("shop", 5).await;
    cli
}

#[tokio::test]
async fn months_are_listed_and_those_that_are_due_go() {
    let cli = old_shop().await;
    let open = cli.run(["months", "list", "-n", "shop"]).ok();
    assert!(open.out.starts_with("MONTH"), "{open:?}");
    assert_eq!(open.out.matches("  open  ").count(), 9, "{open:?}");
    let done = cli.run(["months", "maintain", "-n", "shop"]).ok();
    assert!(done.out.starts_with("6 months sealed\n"), "{done:?}");
    assert_eq!(
        (done.out.matches(": 3 events\n").count(), done.out.matches("dropped events_").count()),
        (1, 1),
        "{done:?}"
    );
    let months = cli.run(["months", "list", "-n", "shop", "--json"]).ok().json_lines();
    assert_eq!(months.len(), 9);
    assert_eq!((&months[0]["events"], &months[0]["bytes"]), (&json!(3), &json!(null)));
    assert_eq!((&months[1]["first_sequence"], &months[1]["last_sequence"]), (&json!(4), &json!(6)));
    let list = cli.run(["months", "list", "-n", "shop"]).ok();
    assert!(list.out.lines().nth(1).unwrap().contains("  1-3        dropped  "), "{list:?}");
    let gaps = cli.run(["read", "-n", "shop", "--gaps", "--json", "--limit", "1"]).ok().json_lines();
    assert_eq!(gaps[0], json!({ "gap": { "first": 1, "last": 3, "state": "trimmed" } }));
    cli.run(["months", "list", "-n", "none"]).fails(4, "does not exist");
}

#[tokio::test]
async fn what_is_held_goes_by_force_alone_and_the_subscriber_shows_it() {
    let cli = old_shop().await;
    let behind = "SELECT headwater.register_subscriber('shop', 'slow');
                  UPDATE headwater_private.subscribers SET position = 1, settled_events = 1, settled_sum = 1";
    sqlx::raw_sql(behind).execute(cli.db.database.pool()).await.unwrap();
    cli.run(["months", "maintain", "-n", "shop"]).ok();
    let preview = cli.run(["months", "maintain", "-n", "shop", "--dry-run"]).ok();
    assert!(preview.out.contains(" is due, held by slow: stands at 1"), "{preview:?}");
    let held = cli.run(["months", "maintain", "-n", "shop", "--json"]).ok().json();
    assert_eq!((&held["trimmed"], &held["held"][1]), (&json!([]), &json!(["slow: stands at 1"])));
    cli.run(["months", "maintain", "-n", "shop", "--force"]).fails(2, "lose what they have not handled");
    let forced = cli.run(["months", "maintain", "-n", "shop", "--force", "--yes"]).ok();
    assert!(forced.out.contains(": 3 events, lost to slow\n"), "{forced:?}");
    let shown = cli.run(["subscribers", "show", "-n", "shop", "slow", "--json"]).ok().json();
    assert_eq!((&shown["position"], &shown["trimmed"][0]["events"]), (&json!(3), &json!(2)));
    let shown = cli.run(["subscribers", "show", "-n", "shop", "slow"]).ok();
    assert!(shown.out.contains("\ntrimmed       2 to 3 before it was handled: at most 2 events"), "{shown:?}");
    let reset = cli.run(["subscribers", "reset", "-n", "shop", "slow", "--to", "beginning", "--yes"]).ok();
    assert!(reset.out.starts_with("events up to 3 are trimmed: it begins with the first that is kept\n"), "{reset:?}");
    assert!(reset.out.ends_with("was at 3 and goes on after 3\n"), "{reset:?}");
    assert_eq!(cli.run(["audit", "-n", "shop"]).code, Some(0));
}
