//! `nodes`, and what `consume --format` writes.

use crate::common::Cli;
use serde_json::{Value, json};

/// Lets eight days pass.
async fn time_passes(cli: &Cli) {
    let passes = "UPDATE headwater_private.nodes
                     SET last_heartbeat = last_heartbeat - interval '8 days', stopped_at = stopped_at - interval '8 days'";
    sqlx::query(passes).execute(&mut cli.db.session().await).await.unwrap();
}

#[tokio::test]
async fn nodes_are_listed_shown_and_forgotten() {
    let cli = Cli::with_shop().await;
    assert_eq!(cli.run(["nodes", "list"]).ok().out, "no nodes are registered\n");
    cli.emit(1..=1);
    cli.consume_all("m", &["--node", "Mailer 1", "--event-type", "A"]).ok();
    let live = cli.consume("n", &["--node", "live"]);
    assert_eq!(live.sequence(), 1);

    let listed = cli.run(["nodes", "list", "-n", "shop", "--json"]).ok().json_lines();
    let of = |id: &str| listed.iter().find(|node| node["node_id"] == id).unwrap().clone();
    assert_eq!((&of("live")["alive"], &of("mailer-1")["alive"]), (&json!(true), &json!(false)));
    assert_eq!(of("mailer-1")["event_types"], json!(["A"]));
    let said = cli.run(["nodes", "list"]).ok();
    assert!(said.out.starts_with("NAMESPACE  NODE      STATE "), "{said:?}");
    assert!(said.out.contains("shop       live      alive "), "{said:?}");
    assert!(said.out.contains("shop       mailer-1  stopped "), "{said:?}");

    let said = cli.run(["nodes", "show", "-n", "shop", "live"]).ok();
    assert!(said.out.contains("heartbeat every  30s\n"), "{said:?}");
    assert_eq!(cli.run(["nodes", "show", "-n", "shop", "live", "--json"]).ok().json()["metadata"], json!({}));
    cli.run(["nodes", "show", "-n", "shop", "nobody"]).fails(4, "node \"nobody\" is not registered");

    cli.run(["nodes", "forget", "-n", "shop", "live"]).fails(5, "node \"live\" is alive");
    cli.run(["nodes", "forget", "-n", "shop", "nobody"]).fails(4, "is not registered");
    assert_eq!(cli.run(["nodes", "forget", "-n", "shop"]).ok().out, "shop: forgot 0 nodes\n");
    live.stop(rustix::process::Signal::KILL);
    time_passes(&cli).await;
    assert_eq!(cli.run(["nodes", "forget", "-n", "shop", "live"]).ok().out, "shop: forgot node live\n");
    assert_eq!(cli.run(["nodes", "forget", "-n", "shop", "--older-than", "1d"]).ok().out, "shop: forgot 1 node\n");
}

#[tokio::test]
async fn events_are_written_in_other_formats() {
    let cli = Cli::with_shop().await;
    let line = r#"{"type": "user.created", "stream": "user-123", "data": {"userId": "123"}}"#;
    cli.feed(["append", "-n", "shop", "--file", "-"], line).ok();
    let event = cli.run(["read", "-n", "shop", "--json"]).ok().json();
    let written = |subscriber: &str, format: &str| -> Value {
        let all = cli.consume_all(subscriber, &["--json", "--format", format, "--event-type", "user.created"]);
        all.ok().json()
    };
    assert_eq!(written("a", "event"), event);
    assert_eq!(
        written("b", "envelope"),
        json!({
            "namespace": "shop", "eventType": "user.created", "payload": {"userId": "123"},
            "emittedAt": event["created_at"], "messageId": 1, "redeliveryCount": 0
        })
    );
    // Of a queue, every delivery is counted, and metadata is what it was.
    let claim = "SELECT headwater.register_subscriber('shop', 'q', mode => 'shared');
                 SELECT headwater.append_event_log('shop', 'user.left', '{}', 'api-1', p_metadata => '{\"tries\": 3, \"first\": true, \"of\": \"web\"}');
                 SELECT headwater.nack('shop', 'q', c.claim_id)
                   FROM (SELECT DISTINCT claim_id FROM headwater.claim('shop', 'q', 2)) c";
    sqlx::raw_sql(claim).execute(&mut cli.db.session().await).await.unwrap();
    let queued = cli
        .run(["consume", "-n", "shop", "-s", "q", "--shared", "--count", "2", "--format", "envelope"])
        .ok()
        .json_lines();
    let counts: Vec<_> = queued.iter().map(|envelope| &envelope["redeliveryCount"]).collect();
    assert_eq!(counts, [1, 1], "{queued:?}");
    let left = queued.iter().find(|envelope| envelope["eventType"] == "user.left").unwrap();
    assert_eq!(left["metadata"], json!({ "tries": 3, "first": true, "of": "web" }));
    let cloud = written("c", "cloudevents");
    assert_eq!((&cloud["specversion"], &cloud["id"]), (&json!("1.0"), &event["id"]));
    assert_eq!((&cloud["source"], &cloud["type"]), (&json!("/shop"), &json!("user.created")));
    assert_eq!((&cloud["subject"], &cloud["time"]), (&json!("user-123"), &event["created_at"]));
    assert_eq!((&cloud["datacontenttype"], &cloud["data"]), (&json!("application/json"), &json!({"userId": "123"})));
    assert_eq!((&cloud["globalsequence"], &cloud["streamversion"]), (&json!("1"), &json!("1")));
    cli.run(["consume", "-n", "shop", "-s", "d", "--format", "xml"]).fails(2, "cloudevents");
    cli.run(["consume", "-n", "shop", "-s", "d", "--format", "envelope", "--exec", "cat"]).fails(2, "cannot be used");
}
