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

/// An import is killed with a batch in progress, again and again. Nothing is lost, nothing comes
/// twice, and the order holds.
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
        // The stored events and the recorded progress agree, even before the session of the killed
        // process has noticed.
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

/// As epoch makes them.
const EPOCH: &str = "
    CREATE SEQUENCE public.epoch_events_global_sequence_seq;
    CREATE TABLE public.epoch_events (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(), stream_id uuid NOT NULL, stream_version bigint NOT NULL, event_type varchar(255) NOT NULL, data jsonb,
        created_at timestamptz NOT NULL DEFAULT clock_timestamp(), actor_id uuid, purger_id uuid, purged_at timestamptz,
        global_sequence bigint NOT NULL DEFAULT nextval('public.epoch_events_global_sequence_seq'), UNIQUE (stream_id, stream_version));
    CREATE INDEX ON public.epoch_events (global_sequence);
    CREATE TABLE public.epoch_event_bus_checkpoints (
        subscriber_id varchar(255) PRIMARY KEY, last_global_sequence bigint NOT NULL DEFAULT 0, last_event_id uuid, updated_at timestamptz NOT NULL DEFAULT now());
    CREATE TABLE public.epoch_event_bus_dlq (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(), subscriber_id varchar(255) NOT NULL, event_id uuid NOT NULL, global_sequence bigint NOT NULL,
        error_message text, retry_count int NOT NULL DEFAULT 0, created_at timestamptz NOT NULL DEFAULT now(), last_retry_at timestamptz,
        UNIQUE (subscriber_id, event_id));
    INSERT INTO public.epoch_events (stream_id, stream_version, event_type, data)
    SELECT '018f0000-0000-7000-8000-000000000001', n, 'Happened', to_jsonb(n) FROM generate_series(1, 200) n";

const FROM_EPOCH: [&str; 6] = ["import", "-n", "shop", "--from-epoch", "--batch", "20"];

/// The whole way, while the application keeps writing: follow, be killed, switch over, and continue
/// where the old bus stopped.
#[tokio::test]
async fn an_application_of_epochs_moves_over_while_it_writes() {
    let cli = Cli::with_shop().await;
    let mut session = cli.db.session().await;
    run(&mut session, EPOCH).await;
    let followed = "SELECT coalesce(max(followed_events), 0) FROM headwater_private.imports";
    let mut version = 200;
    for _ in 0..4 {
        let before = count(&mut session, followed).await;
        let mut following = cli.spawn(FROM_EPOCH.into_iter().chain(["--follow"]));
        let begin = std::time::Instant::now();
        while count(&mut session, followed).await < before + 3 {
            assert!(begin.elapsed().as_secs() < 60 && following.try_wait().unwrap().is_none(), "it came to nothing");
            version += 1;
            run(&mut session, &format!("INSERT INTO public.epoch_events (stream_id, stream_version, event_type, data) VALUES ('018f0000-0000-7000-8000-000000000001', {version}, 'Happened', '{version}')")).await;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        following.kill().unwrap();
        following.wait().unwrap();
    }
    cli.run(FROM_EPOCH).fails(5, "--finish");
    let caught_up = cli.run(FROM_EPOCH.into_iter().chain(["--follow", "--until-caught-up", "--json"])).ok().json();
    assert_eq!(caught_up["events"], version);
    let followed = count(&mut session, followed).await;
    assert_eq!(count(&mut session, "SELECT count(*) FROM headwater_private.subscribers").await, 0, "they come last");

    run(&mut session, &format!("
        INSERT INTO public.epoch_event_bus_checkpoints VALUES ('projection:orders', {0} - 3), ('saga:mail', {0});
        INSERT INTO public.epoch_event_bus_dlq (subscriber_id, event_id, global_sequence, error_message, retry_count)
        SELECT 'projection:orders', id, global_sequence, 'no such order', 3 FROM public.epoch_events WHERE global_sequence = 150", version)).await;
    let finished = cli.run(FROM_EPOCH.into_iter().chain(["--finish"])).ok();
    // What a killed run took back has left holes.
    let place = |old: i64| {
        format!("SELECT global_sequence FROM headwater_private.events WHERE headers ->> 'source_sequence' = '{old}'")
    };
    let orders: i64 =
        sqlx::query_scalar(sqlx::AssertSqlSafe(place(version - 2))).fetch_one(&mut session).await.unwrap();
    let mail: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(place(version))).fetch_one(&mut session).await.unwrap();
    assert_eq!(
        finished.out,
        format!(
            "import epoch: {version} events, 0 of them new, {followed} added while it followed, all as in the source\n\
             subscriber projection:orders goes on after {}\n\
             subscriber saga:mail goes on after {mail}\n\
             1 dead letter carried over\n",
            orders - 1
        )
    );
    assert!(finished.err.contains("the application may write to Headwater"), "{finished:?}");
    assert_eq!(count(&mut session, "SELECT count(*) FROM pg_class WHERE relname LIKE 'headwater\\_note%'").await, 0);
    let again = cli.run(FROM_EPOCH.into_iter().chain(["--finish"])).ok();
    assert!(again.out.contains("subscriber projection:orders was there, and stays at"), "{again:?}");
    cli.run(FROM_EPOCH.into_iter().chain(["--follow"])).fails(5, "does not follow its table any more");

    run(&mut session, "SELECT headwater.redrive('shop', 'projection:orders')").await;
    let orders = cli.consume_all("projection:orders", &[]).ok().json_lines();
    let mut data: Vec<i64> = orders.iter().map(|line| line["data"].as_i64().unwrap()).collect();
    data.sort_unstable();
    assert_eq!(data, [150, version - 2, version - 1, version]);
    assert_eq!(cli.consume_all("saga:mail", &[]).ok().out, "");
    cli.run(["audit", "-n", "shop"]).ok();
}

#[tokio::test]
async fn a_table_with_names_of_its_own_is_followed_and_given_up() {
    let cli = Cli::with_shop().await;
    let mut session = cli.db.session().await;
    run(&mut session, OLD_EVENTS).await;
    run(&mut session, "CREATE TABLE public.positions (reader text, at bigint); INSERT INTO public.positions VALUES ('mail', 123);
                       CREATE TABLE public.failed (reader text, event bigint); INSERT INTO public.failed VALUES ('mail', 50)").await;
    let follow = |more: &[&'static str]| ARGS.into_iter().chain(more.iter().copied()).collect::<Vec<_>>();
    let stop = cli.run(follow(&["--stop-following"])).ok();
    assert_eq!(stop.out, "import public.old_events did not follow its table\n");
    cli.run(follow(&["--follow", "--until-caught-up"])).ok();
    let stop = cli.run(follow(&["--stop-following"])).ok();
    assert_eq!(stop.out, "import public.old_events does not follow its table any more: the trigger is removed\n");
    cli.run(follow(&["--checkpoints-table", "public.positions"]))
        .fails(2, "which column of the source has the sequence");
    let carried = [
        "--name",
        "second",
        "--sequence-column",
        "id",
        "--checkpoints-table",
        "public.positions",
        "--checkpoint-subscriber-column",
        "reader",
        "--checkpoint-sequence-column",
        "at",
        "--dead-letters-table",
        "public.failed",
        "--letter-subscriber-column",
        "reader",
        "--letter-event-column",
        "event",
        "--letter-error-column",
        "",
        "--letter-attempts-column",
        "",
        "--letter-created-column",
        "",
        "--letter-updated-column",
        "",
    ];
    cli.run(["namespace", "create", "second"]).ok();
    let second = |more: &[&'static str]| {
        let args = follow(&carried).into_iter().map(|arg| if arg == "shop" { "second" } else { arg });
        args.chain(more.iter().copied()).collect::<Vec<_>>()
    };
    let said = cli.run(second(&["--finish", "--json"])).ok().json();
    assert_eq!((&said["subscribers"][0]["position"], &said["dead_letters"]), (&123.into(), &1.into()), "{said}");
    cli.run(["import", "-n", "shop", "--from-pgmq", "jobs", "--follow"]).fails(2, "cannot be used with");
    cli.run(["import", "-n", "shop", "--from-table", "t", "--until-caught-up"]).fails(2, "--follow");
    cli.run(["import", "-n", "shop", "--from-epoch"]).fails(2, "epoch_events");
}
