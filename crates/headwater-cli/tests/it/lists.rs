//! Lists without a namespace show all of them, and queues as what they are.

use serde_json::json;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::common::Cli;

async fn run(session: &mut PgConnection, script: &str) {
    sqlx::raw_sql(AssertSqlSafe(script.to_owned())).execute(session).await.unwrap();
}

/// `bank` beside `shop`, with the same things in each.
async fn two() -> Cli {
    let cli = Cli::with_shop().await;
    cli.run(["namespace", "create", "bank"]).ok();
    let mut session = cli.db.session().await;
    for name in ["shop", "bank"] {
        run(
            &mut session,
            &format!(
                "SELECT headwater.emit('{name}', t) FROM unnest('{{a,b,a}}'::text[]) t;
                 SELECT headwater.register_subscriber('{name}', 'mailer');
                 SELECT headwater.register_subscriber('{name}', 'work', mode => 'shared', event_types => '{{a,b}}');
                 SELECT headwater.register_subscriber('{name}', 'group', mode => 'partitioned', partitions => 2);
                 SELECT headwater.nack('{name}', 'work', c.claim_id, permanent => true, error => 'no')
                   FROM headwater.claim('{name}', 'work', 1, event_types => '{{b}}') c;
                 SELECT headwater.schedule('{name}', 'daily', 'a', '0 2 * * *');
                 SELECT headwater.put_state(n.namespace_id, 'totals', id, to_jsonb(n.namespace_id))
                   FROM headwater.list_namespaces('{name}') n, unnest('{{x,y}}'::text[]) id"
            ),
        )
        .await;
    }
    cli
}

#[tokio::test]
async fn without_a_namespace_all_are_listed() {
    let cli = two().await;
    for (list, per_namespace) in [("subscribers", 3), ("groups", 1), ("schedules", 1), ("dead-letters", 1)] {
        let lines = cli.run([list, "list", "--json"]).ok().json_lines();
        let of = |name: &str| lines.iter().filter(|line| line["namespace"] == name).count();
        assert_eq!((of("bank"), of("shop"), lines.len()), (per_namespace, per_namespace, 2 * per_namespace), "{list}");
        let one = cli.run([list, "list", "-n", "bank", "--json"]).ok().json_lines();
        let same = lines.into_iter().filter(|line| line["namespace"] == "bank").map(|mut line| {
            // Time goes by.
            line["lag_seconds"] = json!(null);
            line
        });
        let one = one.into_iter().map(|mut line| {
            line["lag_seconds"] = json!(null);
            line
        });
        assert_eq!(one.collect::<Vec<_>>(), same.collect::<Vec<_>>(), "{list}");
        let table = cli.run([list, "list"]).ok().out;
        assert!(table.starts_with("NAMESPACE "), "{table}");
        assert!(table.contains("\nbank ") && table.contains("\nshop "), "{table}");
    }
}

#[tokio::test]
async fn queues_are_shown_as_what_they_are() {
    let cli = two().await;
    let mut session = cli.db.session().await;
    run(&mut session, "SELECT headwater.claim('shop', 'work', 1, worker => 'w1', event_types => '{a}')").await;
    for list in [&["subscribers", "list"][..], &["lag"], &["queue", "-n", "shop"]] {
        let out = cli.run(list.iter().copied()).ok().out;
        assert!(out.contains("QUEUE"), "{out}");
        let line = out.lines().find(|line| line.starts_with("shop ") && line.contains("  work  ")).unwrap();
        let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        // Takes, workers, waiting.
        assert_eq!(cells[2..5], ["working", "a b", "1"], "{out}");
        assert!(!out.contains("no_owner") || !line.contains("no_owner"), "{out}");
    }
    let lines = cli.run(["lag", "-n", "shop", "--json"]).ok().json_lines();
    let work = lines.iter().find(|line| line["subscriber_id"] == "work").unwrap();
    assert_eq!((&work["workers"], &work["in_flight"], &work["state"]), (&json!(1), &json!(1), &json!("working")));
    let show = cli.run(["subscribers", "show", "-n", "shop", "work"]).ok().out;
    assert!(show.contains("\nworkers") && show.contains("\nin flight") && !show.contains("\nowner"), "{show}");
    let idle = cli.run(["subscribers", "show", "-n", "bank", "work", "--json"]).ok().json_lines();
    assert_eq!((&idle[0]["state"], &idle[0]["event_types"]), (&json!("no_workers"), &json!(["a", "b"])));
}

#[tokio::test]
async fn states_are_listed_and_shown() {
    let cli = two().await;
    let lines = cli.run(["states", "list", "-n", "shop", "totals", "--json"]).ok().json_lines();
    assert_eq!(lines.iter().map(|line| line["id"].clone()).collect::<Vec<_>>(), [json!("x"), json!("y")]);
    let after = cli.run(["states", "list", "-n", "shop", "totals", "--after", "x", "--limit", "5"]).ok().out;
    assert!(after.contains("\ny ") && !after.contains("\nx "), "{after}");
    assert_eq!(cli.run(["states", "list", "-n", "shop", "none"]).ok().out, "no states\n");
    let shown = cli.run(["states", "show", "-n", "bank", "totals", "y", "--json"]).ok().json_lines();
    assert_eq!((&shown[0]["id"], &shown[0]["sequence"]), (&json!("y"), &json!(null)));
    cli.run(["states", "show", "-n", "bank", "totals", "z"]).fails(4, "has no state");
}

/// Numbers that no f64 holds, and more levels than a parser of values allows.
#[tokio::test]
async fn payloads_are_printed_as_they_are_stored() {
    let cli = Cli::with_shop().await;
    let payload = format!(
        r#"{{"n": 1{}, "deep": {}1{}, "large": 12345678901234567890123}}"#,
        "0".repeat(400),
        "[".repeat(200),
        "]".repeat(200)
    );
    let mut session = cli.db.session().await;
    run(
        &mut session,
        &format!(
            "SELECT headwater.emit('shop', 'a', '{payload}');
             SELECT headwater.register_subscriber('shop', 'work', mode => 'shared');
             SELECT headwater.nack('shop', 'work', c.claim_id, permanent => true, error => 'no')
               FROM headwater.claim('shop', 'work', 1) c;
             SELECT headwater.schedule('shop', 'daily', 'a', '0 2 * * *', payload => '{payload}');
             SELECT headwater.register_node('shop', 'node-1', metadata => '{payload}');
             SELECT headwater.put_state(n.namespace_id, 'totals', 'x', '{payload}') FROM headwater.list_namespaces('shop') n;
             SELECT headwater.emit_at('shop', 'a', now() + interval '1 day', '{payload}');
             SELECT headwater.alter_namespace('shop', metadata => '{payload}')"
        ),
    )
    .await;
    for command in [
        &["dead-letters", "list"][..],
        &["dead-letters", "list", "-n", "shop"],
        &["dead-letters", "show", "-n", "shop", "work", "1"],
        &["schedules", "list"],
        &["schedules", "list", "-n", "shop"],
        &["schedules", "show", "-n", "shop", "daily"],
        &["nodes", "list"],
        &["nodes", "show", "-n", "shop", "node-1"],
        &["states", "list", "-n", "shop", "totals"],
        &["states", "show", "-n", "shop", "totals", "x"],
        &["due", "list", "-n", "shop"],
        &["namespace", "list"],
        &["namespace", "show", "shop"],
        &["read", "-n", "shop"],
    ] {
        let said = cli.run(command.iter().copied().chain(["--json"])).ok();
        // The server orders the keys.
        for part in [format!("1{}", "0".repeat(400)), "12345678901234567890123".into(), "[".repeat(200)] {
            assert!(said.out.contains(&part), "{command:?}: {part} in {said:#?}");
        }
    }
    let listed = cli.run(["schedules", "list", "--json"]).ok();
    assert!(listed.out.starts_with(r#"{"namespace":"shop","name":"daily","#), "{listed:#?}");
}

/// The functions answer for `bank` as they do for a namespace that does not exist. So it vanishes
/// after it was listed.
#[tokio::test]
async fn a_namespace_that_vanishes_is_left_out_of_what_is_shown_of_all() {
    let cli = two().await;
    let mut session = cli.db.session().await;
    run(
        &mut session,
        r#"DO $$
           DECLARE
               definition text;
           BEGIN
               FOR definition IN SELECT pg_get_functiondef(oid) FROM pg_proc
                                  WHERE oid IN ('headwater.list_namespaces'::regproc, 'headwater.holders'::regproc) LOOP
                   EXECUTE regexp_replace(definition, E'\nBEGIN\n', E'\nBEGIN
                       IF $1 = ''bank'' THEN
                           PERFORM headwater_private.fail(''WH001'', ''gone'', ''{"namespace": "bank"}'', ''gone'');
                       END IF;\n');
               END LOOP;
           END $$"#,
    )
    .await;
    // Commands ask who holds a namespace only if somebody does.
    let mut holder = cli.db.session().await;
    run(&mut holder, "BEGIN; SELECT headwater.emit(n, 'a') FROM unnest('{shop,bank}'::text[]) n").await;
    for command in [
        &["lag"][..],
        &["lag", "--json"],
        &["lag", "--partitions"],
        &["status"],
        &["status", "--json"],
        &["audit"],
        &["subscribers", "list"],
        &["groups", "list"],
    ] {
        let said = cli.run(command.iter().copied()).ok();
        assert!(said.out.contains("shop"), "{said:#?}");
    }
    let doctor = cli.run(["doctor"]);
    assert!(!doctor.err.contains("WH001"), "{doctor:#?}");
    for command in [&["lag", "-n", "bank"][..], &["audit", "-n", "bank"], &["groups", "list", "-n", "bank"]] {
        cli.run(command.iter().copied()).fails(4, "[WH001]");
    }
}
