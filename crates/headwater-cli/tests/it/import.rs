//! `import`: from a shell, and killed in the middle.

use crate::common::Cli;
use sqlx::PgConnection;

async fn run(session: &mut PgConnection, script: &str) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(script.to_owned())).execute(session).await.unwrap();
}

async fn count(session: &mut PgConnection, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(session).await.unwrap()
}

const OLD_EVENTS: &str = "
    CREATE TABLE public.old_events (id bigint PRIMARY KEY, kind text NOT NULL, body jsonb, stream text, created_at timestamptz NOT NULL);
    INSERT INTO public.old_events SELECT n, 'Kind', to_jsonb(n), 'order-' || n / 10, now() FROM generate_series(1, 500) n";

const ARGS: [&str; 15] = [
    "import",
    "-n",
    "shop",
    "--from-table",
    "public.old_events",
    "--type-column",
    "kind",
    "--data-column",
    "body",
    "--stream-column",
    "stream",
    "--time-column",
    "created_at",
    "--batch",
    "25",
];

/// Killed with a batch under way, again and again: nothing is lost, nothing doubled, and the order holds.
#[tokio::test]
async fn an_import_that_is_killed_goes_on_where_it_was() {
    let cli = Cli::with_shop().await;
    let mut session = cli.db.session().await;
    run(&mut session, OLD_EVENTS).await;
    for stream in ["order-5", "order-23", "order-24", "order-41"] {
        // Somebody's open transaction holds a stream that a batch needs: the import waits there.
        let mut holder = cli.db.session().await;
        run(&mut holder, &format!("BEGIN; SELECT headwater.append('shop', '{stream}', '{{\"type\": \"Held\"}}')"))
            .await;
        let mut import = cli.spawn(ARGS);
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'headwater-cli'
                        AND wait_event_type = 'Lock'";
        while count(&mut session, waits).await == 0 {
            assert!(import.try_wait().unwrap().is_none(), "it ended before it came to {stream}");
            tokio::task::yield_now().await;
        }
        import.kill().unwrap();
        import.wait().unwrap();
        run(&mut holder, "ROLLBACK").await;
        // What is stored, and how far the import says it is, are one: also once the killed one's session has noticed.
        let apart = "SELECT count(*) FROM headwater_private.imports i WHERE i.events <> (SELECT count(*) FROM headwater_private.events e WHERE e.headers ? 'import')";
        assert_eq!(count(&mut session, apart).await, 0);
    }
    let said = cli.run(ARGS.into_iter().chain(["--json"])).ok().json();
    assert_eq!((&said["name"], &said["events"]), (&serde_json::json!("public.old_events"), &serde_json::json!(500)));
    assert!(said["new_events"].as_u64().unwrap() < 500, "{said}");
    let in_order = "SELECT count(*) FROM (SELECT (e.headers ->> 'source_id')::bigint AS id, row_number() OVER (ORDER BY e.global_sequence) AS nth
                                            FROM headwater_private.events e WHERE e.headers ? 'import') e WHERE e.id = e.nth";
    assert_eq!(count(&mut session, in_order).await, 500);
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater_private.events").await, 500);

    let again = cli.run(ARGS).ok();
    assert_eq!(again.out, "import public.old_events: 500 events, 0 of them new, all as in the source\n");
}

#[tokio::test]
async fn what_is_wrong_with_an_import_is_said() {
    let cli = Cli::with_shop().await;
    run(&mut cli.db.session().await, OLD_EVENTS).await;
    cli.run(["import", "-n", "shop"]).fails(2, "--from-table");
    cli.run(["import", "-n", "shop", "--from-table", "missing"]).fails(2, "there is no table \"missing\"");
    cli.run(["import", "-n", "shop", "--from-pgmq", "jobs"]).fails(2, "there is no table");
    cli.run(["import", "-n", "shop", "--from-message-db"]).fails(2, "there is no table \"message_store.messages\"");
    cli.run(["import", "-n", "shop", "--from-table", "public.old_events"]).fails(2, "no column \"event_type\"");
    cli.run(["import", "-n", "void", "--from-table", "public.old_events"]).fails(4, "[WH001]");
    let typed = ["import", "-n", "shop", "--from-table", "public.old_events", "--type", "Old", "--data-column", "body"];
    cli.run(typed).ok();
    assert_eq!(cli.shop().len(), 500);
    cli.run(typed.into_iter().chain(["--key-column", "kind"])).fails(5, "--name");
    cli.run(typed.into_iter().chain(["--key-column", "kind", "--name", "second"])).ok();
    run(&mut cli.db.session().await, "DELETE FROM public.old_events WHERE id = 7").await;
    cli.run(typed).fails(7, "500 events were imported, it has 499 rows");
}
