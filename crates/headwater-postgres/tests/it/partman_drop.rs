//! Months that pg_partman drops: never a month that a subscriber still needs, whatever pg_partman
//! would do by itself.

use crate::common::{run, sqlstate_of};
use headwater_core::{GapState, LogQuery, MonthsMadeBy, NamespaceConfig};
use headwater_postgres::LogOptions;
use headwater_testing::TestDatabase;
use sqlx::PgConnection;

/// Whether pg_partman is available on this server. `scripts/test` installs it where Debian has it;
/// other servers of the matrix lack it.
async fn available(session: &mut PgConnection) -> bool {
    let there = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_partman')";
    sqlx::query_scalar(there).fetch_one(session).await.unwrap()
}

async fn scalar<T>(session: &mut PgConnection, query: &'static str) -> T
where
    T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
{
    sqlx::query_scalar(query).fetch_one(session).await.unwrap()
}

/// Only up to the second month ahead: pg_partman's own maintenance rounds, so it makes one more in
/// the second half of a month.
const LEAVES: &str = "SELECT count(*) FROM headwater_private.leaves(1) l WHERE l.starts_at <= date_trunc('month', now(), 'UTC') + interval '2 months'";

/// Three past months of three events each, of which retention keeps one, and a subscriber that has
/// seen none of them.
async fn with_a_slow_subscriber(db: &TestDatabase, session: &mut PgConnection) -> headwater_postgres::PgLog {
    let config = NamespaceConfig::new("shop").months_made_by(MonthsMadeBy::PgPartman);
    let log = db.log_with(config, LogOptions::default()).await;
    db.past_months("shop", 3, 3).await;
    db.keep_months("shop", 1).await;
    run(session, "SELECT headwater.register_subscriber('shop', 'slow')").await;
    log
}

/// What is asked of pg_partman, and what that leaves, on whichever version it is.
async fn only_what_is_trimmed_is_dropped(db: &TestDatabase, session: &mut PgConnection) {
    let log = with_a_slow_subscriber(db, session).await;
    let held = db.database.maintain("shop", false).await.unwrap();
    assert_eq!((held.sealed, held.trimmed.len(), held.dropped.len()), (3, 0, 0), "{held:?}");
    run(session, "SELECT partman.run_maintenance('headwater_private.events_n1'), partman.run_maintenance()").await;
    assert_eq!(scalar::<i64>(session, LEAVES).await, 6, "it drops nothing by itself");
    let first = "SELECT headwater_private.partman_drop('shop', min(starts_at)) FROM headwater_private.months";
    assert_eq!(sqlstate_of(session, first).await, "WH002", "it is not trimmed");
    assert_eq!(sqlstate_of(session, "SELECT headwater_private.partman_drop('shop', NULL)").await, "WH002");
    assert_eq!(sqlstate_of(session, "SELECT headwater_private.partman_drop('void', now())").await, "WH001");

    // The first month goes by the steps that any language can run.
    run(session, "SELECT headwater.reset_subscriber('shop', 'slow', 3)").await;
    run(session, "SELECT headwater.trim_month('shop', min(starts_at)) FROM headwater_private.months").await;
    let steps = "SELECT array_agg(step || ': ' || coalesce(statement, '')) FROM headwater.drop_steps('shop')";
    let retire: Vec<String> = scalar(session, steps).await;
    assert!(retire.len() == 1 && retire[0].starts_with("retire: "), "{retire:?}");
    run(session, retire[0].trim_start_matches("retire: ")).await;
    let steps: Vec<String> = scalar(session, steps).await;
    assert!(
        steps.len() == 1 && steps[0].starts_with("partman: SELECT headwater_private.partman_drop('shop', "),
        "{steps:?}"
    );
    // In a zone whose months begin elsewhere, beside another who drops.
    run(session, "SET timezone = 'Pacific/Auckland'").await;
    let mut other = db.session().await;
    run(&mut other, "BEGIN; SELECT pg_advisory_xact_lock(hashtext('pg_partman drop_partition_time'))").await;
    assert_eq!(sqlstate_of(session, first).await, "55P03");
    run(&mut other, "ROLLBACK").await;
    run(session, first).await;
    assert_eq!(scalar::<i64>(session, LEAVES).await, 5);
    run(session, "SELECT headwater.note_dropped('shop'); SET timezone = 'UTC'").await;

    // The second is held; told to, it goes, and the subscriber knows.
    let held = db.database.maintain("shop", false).await.unwrap();
    assert_eq!((held.trimmed.len(), held.held.as_ref().map(|(_, by)| by.len())), (0, Some(1)), "{held:?}");
    let done = db.database.maintain("shop", true).await.unwrap();
    assert_eq!((done.trimmed.len(), done.dropped.len(), done.left.len()), (1, 1, 0), "{done:?}");
    assert_eq!(done.trimmed[0].losers, ["slow"]);
    assert_eq!(scalar::<i64>(session, LEAVES).await, 4);
    log.look_up_months().await.unwrap();
    let page = log.log_page_in(session, &LogQuery::after(0)).await.unwrap();
    let gaps: Vec<_> = page.gaps.iter().map(|gap| (gap.first, gap.last, gap.state == GapState::Trimmed)).collect();
    assert_eq!((gaps, page.events.len()), (vec![(1, 6, true)], 3));
}

#[tokio::test]
async fn of_4_x_only_what_is_trimmed_is_dropped() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    if !available(&mut session).await {
        return;
    }
    run(&mut session, "CREATE SCHEMA partman; CREATE EXTENSION pg_partman SCHEMA partman").await;
    only_what_is_trimmed_is_dropped(&db, &mut session).await;
}

/// No registry that the tests can install from has 5.x. So this does not test pg_partman 5 itself.
/// Functions with its documented signatures stand in for it and do only what is needed, under a
/// catalog entry that says 5.2. Our calls must fit them, with the types and values of 5.x.
#[tokio::test]
async fn of_5_x_calls_fit_its_signatures() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    run(&mut session, STAND_IN).await;
    only_what_is_trimmed_is_dropped(&db, &mut session).await;
    let asked: Vec<String> =
        scalar(&mut session, "SELECT array_agg(DISTINCT call ORDER BY call) FROM partman.calls").await;
    assert_eq!(
        asked,
        ["create_parent range 1 mon premake 2 default f maintenance off", "drop 00:00:00 keep f", "run_maintenance"]
    );
}

#[tokio::test]
async fn without_it_the_months_are_dropped_all_the_same() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    run(&mut session, STAND_IN).await;
    with_a_slow_subscriber(&db, &mut session).await;
    run(&mut session, "SELECT headwater.reset_subscriber('shop', 'slow', 9)").await;
    run(
        &mut session,
        "SET allow_system_table_mods = on; DELETE FROM pg_catalog.pg_extension WHERE extname = 'pg_partman'",
    )
    .await;
    let done = db.database.maintain("shop", false).await.unwrap();
    assert_eq!((done.trimmed.len(), done.dropped.len(), done.left.len()), (2, 2, 0), "{done:?}");
    assert_eq!(
        sqlstate_of(
            &mut session,
            "SELECT headwater_private.partman_drop('shop', min(starts_at)) FROM headwater_private.months"
        )
        .await,
        "WH034"
    );
    // Known to it, but not this namespace.
    run(&mut session, "SELECT headwater.create_namespace('other')").await;
    let steps: i64 = scalar(&mut session, "SELECT count(*) FROM headwater.drop_steps('other')").await;
    assert_eq!(steps, 0);
}

const STAND_IN: &str = "
    CREATE SCHEMA partman;
    SET allow_system_table_mods = on;
    INSERT INTO pg_catalog.pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
    SELECT 99999, 'pg_partman', 10, 'partman'::regnamespace, false, '5.2.4';
    RESET allow_system_table_mods;
    CREATE TABLE partman.calls (call text);
    CREATE TABLE partman.part_config (parent_table text PRIMARY KEY, control text NOT NULL, partition_interval text NOT NULL, partition_type text NOT NULL,
        premake int NOT NULL DEFAULT 4, automatic_maintenance text NOT NULL DEFAULT 'on', retention text, retention_keep_table boolean NOT NULL DEFAULT true,
        infinite_time_partitions boolean NOT NULL DEFAULT false);
    CREATE FUNCTION partman.run_maintenance(p_parent_table text DEFAULT NULL, p_analyze boolean DEFAULT false, p_jobmon boolean DEFAULT true)
    RETURNS void LANGUAGE plpgsql AS $$
    DECLARE c partman.part_config; at timestamptz;
    BEGIN
        INSERT INTO partman.calls VALUES ('run_maintenance');
        FOR c IN SELECT * FROM partman.part_config p WHERE p.parent_table = p_parent_table OR p_parent_table IS NULL AND p.automatic_maintenance = 'on' LOOP
            FOR i IN 0 .. c.premake LOOP
                at := date_trunc('month', now(), 'UTC') + i * c.partition_interval::interval;
                EXECUTE format('CREATE TABLE IF NOT EXISTS %1$s_p%2$s PARTITION OF %1$s FOR VALUES FROM (%3$L) TO (%4$L)', c.parent_table,
                               to_char(at, 'YYYYMMDD'), at, at + c.partition_interval::interval);
            END LOOP;
            ASSERT c.retention IS NULL;
        END LOOP;
    END $$;
    CREATE FUNCTION partman.create_parent(p_parent_table text, p_control text, p_interval text, p_type text DEFAULT 'range', p_epoch text DEFAULT 'none',
        p_premake int DEFAULT 4, p_start_partition text DEFAULT NULL, p_default_table boolean DEFAULT true, p_automatic_maintenance text DEFAULT 'on',
        p_constraint_cols text[] DEFAULT NULL, p_template_table text DEFAULT NULL, p_jobmon boolean DEFAULT true, p_date_trunc_interval text DEFAULT NULL,
        p_control_not_null boolean DEFAULT true, p_time_encoder text DEFAULT NULL, p_time_decoder text DEFAULT NULL)
    RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO partman.calls
        VALUES (format('create_parent %s %s premake %s default %s maintenance %s', p_type, p_interval::interval, p_premake, p_default_table,
                       p_automatic_maintenance));
        ASSERT p_type IN ('range', 'list') AND p_start_partition::timestamptz IS NOT NULL;
        INSERT INTO partman.part_config (parent_table, control, partition_interval, partition_type, premake, automatic_maintenance)
        VALUES (p_parent_table, p_control, p_interval, p_type, p_premake, p_automatic_maintenance);
        PERFORM partman.run_maintenance(p_parent_table);
        RETURN true;
    END $$;
    CREATE FUNCTION partman.drop_partition_time(p_parent_table text, p_retention interval DEFAULT NULL, p_keep_table boolean DEFAULT NULL,
        p_keep_index boolean DEFAULT NULL, p_retention_schema text DEFAULT NULL, p_reference_timestamp timestamptz DEFAULT CURRENT_TIMESTAMP)
    RETURNS int LANGUAGE plpgsql AS $$
    DECLARE leaf record; dropped int := 0;
    BEGIN
        IF NOT pg_try_advisory_xact_lock(hashtext('pg_partman drop_partition_time')) THEN
            RETURN 0;
        END IF;
        INSERT INTO partman.calls VALUES (format('drop %s keep %s', p_retention, p_keep_table));
        FOR leaf IN SELECT i.inhrelid::regclass AS name, (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \\(''([^'']+)''\\)'))[1]::timestamptz AS starts_at
                      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = p_parent_table::regclass LOOP
            IF leaf.starts_at + interval '1 month' < p_reference_timestamp - p_retention THEN
                EXECUTE format('DROP TABLE %s', leaf.name);
                dropped := dropped + 1;
            END IF;
        END LOOP;
        RETURN dropped;
    END $$";
