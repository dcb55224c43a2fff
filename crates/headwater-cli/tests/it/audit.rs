//! `audit`.

use crate::common::Cli;
use serde_json::json;
use sqlx::raw_sql;

async fn sql(cli: &Cli, text: &'static str) {
    raw_sql(text).execute(&mut cli.db.session().await).await.unwrap();
}

#[tokio::test]
async fn an_audit_of_what_is_right_finds_nothing() {
    let cli = Cli::with_shop().await;
    cli.run(["namespace", "create", "ledger"]).ok();
    cli.emit(1..=5);
    // A gap for ever.
    sql(&cli, "BEGIN; SELECT headwater.emit('shop', 'Aborted'); ROLLBACK").await;
    cli.emit(6..=8);
    cli.consume_all("m", &[]).ok();
    cli.consume_all("n", &["--from", "3"]).ok();
    let said = cli.run(["audit"]).ok();
    let ledger = "ledger: compared 0 subscribers, 0 events and 0 permanent gaps: nothing found\n";
    let shop = "shop: compared 2 subscribers, 13 events and 1 permanent gap: nothing found\n";
    assert_eq!((said.out, said.err.as_str()), (format!("{ledger}{shop}"), ""));
    let one = cli.run(["audit", "-n", "shop", "--subscriber", "n", "--json"]).ok().json();
    let expected = json!({"namespace": "shop", "subscribers": 1, "events": 5, "permanent_gaps": 1, "findings": []});
    assert_eq!(one, expected);
    cli.run(["audit", "-n", "shop", "-s", "nope"]).fails(4, "[WH012]");
    cli.run(["audit", "-s", "m"]).fails(2, "--namespace");
}

#[tokio::test]
async fn an_audit_finds_what_was_lost() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=6);
    for id in ["count", "sum", "fine"] {
        cli.consume_all(id, &[]).ok();
    }
    sql(
        &cli,
        "UPDATE headwater_private.subscribers SET settled_events = settled_events - 1, settled_sum = settled_sum - 4
          WHERE subscriber_id = 'count';
         UPDATE headwater_private.subscribers SET settled_sum = settled_sum + 1 WHERE subscriber_id = 'sum';
         INSERT INTO headwater_private.permanent_gaps (namespace_id, first_sequence, last_sequence, proof)
         SELECT namespace_id, 2, 2, 'aborted' FROM headwater_private.namespaces WHERE namespace = 'shop'",
    )
    .await;
    let said = cli.run(["audit", "-n", "shop"]).fails(7, "error: the audit found 3 problems");
    assert!(
        said.out.starts_with("shop: compared 3 subscribers, 18 events and 1 permanent gap: 3 findings\n"),
        "{said:?}"
    );
    assert!(
        said.out.contains("\n  subscriber count settled 5 of 6 events after 0 up to 6: 4 is missing\n"),
        "{said:?}"
    );
    assert!(
        said.out.contains("\n  subscriber sum settled the right number of events after 0 up to 6, but not the same\n")
    );
    assert!(said.out.contains("\n  global_sequence 2 was recorded as a permanent gap, but holds event "), "{said:?}");
    let report = cli.run(["audit", "-n", "shop", "-s", "count", "--json"]);
    assert_eq!(report.code, Some(7));
    let findings = report.json()["findings"].clone();
    assert_eq!((&findings[0]["finding"], &findings[0]["missing"]), (&json!("count_differs"), &json!(4)));
}
