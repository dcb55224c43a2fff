//! Migrations, and the SQL files as such.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::run;
use headwater_core::{AdminError, NamespaceConfig};
use headwater_postgres::{Database, DatabaseOptions, LogOptions};
use headwater_testing::TestDatabase;
use sqlx::{AssertSqlSafe, Executor, Row, SqlSafeStr};

/// The migrations, each as (name, text), in order.
pub(crate) fn migrations() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/migrations");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// The functions and the statements in `sql/`, each as (room, name, text), in order.
pub(crate) fn sql_files() -> (Vec<SqlFile>, Vec<SqlFile>) {
    let mut files = Vec::new();
    let rooms = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("sql")).unwrap();
    for room in rooms.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir() && !path.ends_with("migrations")) {
        for path in fs::read_dir(&room).unwrap().map(|entry| entry.unwrap().path()) {
            let room = room.file_name().unwrap().to_str().unwrap().to_owned();
            let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches(".sql").to_owned();
            files.push(SqlFile { room, name, text: fs::read_to_string(path).unwrap() });
        }
    }
    files.sort();
    files.into_iter().partition(|file| !file.name.ends_with(".query"))
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SqlFile {
    pub(crate) room: String,
    pub(crate) name: String,
    pub(crate) text: String,
}

#[tokio::test]
async fn migrating_again_changes_nothing() {
    let db = TestDatabase::create_empty().await;
    let first = db.database.migrate().await.unwrap();
    assert_eq!((first.from, first.functions_replaced), (0, true));
    let second = db.database.migrate().await.unwrap();
    assert_eq!((second.from, second.to, second.functions_replaced), (first.to, first.to, false));
    assert_eq!(db.database.schema_version().await.unwrap(), first.to);
}

#[tokio::test]
async fn many_processes_may_start_at_once() {
    let db = TestDatabase::create_empty().await;
    let starts = (0..8).map(|_| async {
        // A pool each, as processes have.
        let database = Database::connect(&db.url, DatabaseOptions::default()).await.unwrap();
        database.migrate().await.unwrap();
        database.create_namespace(&NamespaceConfig::new("shop")).await.unwrap();
        database.open_log("shop", LogOptions::default()).await.unwrap();
    });
    futures::future::join_all(starts).await;
    assert_eq!(db.database.namespaces().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_newer_database_is_refused() {
    let db = TestDatabase::create().await;
    run(&mut db.session().await, "INSERT INTO headwater.migrations VALUES (999, 'of the future', '')").await;
    for refused in [db.database.migrate().await.map(|_| ()), db.database.namespaces().await.map(|_| ())] {
        assert!(matches!(refused, Err(AdminError::DatabaseTooNew { database: 999, .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn a_changed_migration_is_refused() {
    let db = TestDatabase::create().await;
    run(&mut db.session().await, "UPDATE headwater.migrations SET checksum = 'other' WHERE version = 1").await;
    let refused = db.database.migrate().await;
    assert!(matches!(refused, Err(AdminError::MigrationChanged { version: 1 })), "{refused:?}");
}

#[tokio::test]
async fn newer_functions_stay_and_older_are_replaced() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    run(&mut session, "UPDATE headwater.functions_revision SET revision = 999, checksum = 'newer'").await;
    assert!(!db.database.migrate().await.unwrap().functions_replaced);
    run(&mut session, "UPDATE headwater.functions_revision SET revision = 0, checksum = 'older'").await;
    assert!(db.database.migrate().await.unwrap().functions_replaced);
}

#[tokio::test]
async fn an_unmigrated_database_is_said_to_be_so() {
    let db = TestDatabase::create_empty().await;
    assert_eq!(db.database.schema_version().await.unwrap(), 0);
    let refused = db.database.create_namespace(&NamespaceConfig::new("shop")).await;
    assert!(matches!(refused, Err(AdminError::NotMigrated { database: 0, .. })), "{refused:?}");
}

#[tokio::test]
async fn every_statement_can_be_prepared() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    let (_, statements) = sql_files();
    // What begins and ends transactions, and what is for the databases that imports read.
    let is_ours = |file: &SqlFile| match &*file.room {
        "session" => false,
        "import" => file.name.starts_with("import_") || file.name.starts_with("export_"),
        _ => true,
    };
    for SqlFile { room, name, text } in statements.into_iter().filter(is_ours) {
        if name == "migrations_table.query" {
            run(&mut session, &text).await;
            continue;
        }
        if let Err(error) = session.prepare(AssertSqlSafe(text).into_sql_str()).await {
            panic!("{room}/{name}.sql: {error}");
        }
    }
}

#[tokio::test]
async fn every_function_has_its_file_and_header() {
    let db = TestDatabase::create().await;
    let functions = "SELECT DISTINCT proname::text FROM pg_proc WHERE pronamespace IN ('headwater'::regnamespace, 'headwater_private'::regnamespace)";
    let there: BTreeSet<String> =
        sqlx::query_scalar(functions).fetch_all(db.database.pool()).await.unwrap().into_iter().collect();
    let (functions, _) = sql_files();
    // Two files hold the two forms of headwater.append.
    let named: BTreeSet<String> = functions.iter().map(|file| file.name.replace("append_streams", "append")).collect();
    assert_eq!(there, named);
    for SqlFile { room, name, text } in functions {
        let header: String = text.lines().take_while(|line| line.starts_with("--")).collect();
        for word in ["-- headwater", "aises", "ocks", "rites"] {
            assert!(header.contains(word), "{room}/{name}.sql: the header says nothing of what it {word}");
        }
    }
}

/// The schema as a reviewer reads it. For intended changes, run HEADWATER_UPDATE_SNAPSHOT=1
/// scripts/test -p headwater-postgres snapshot
#[tokio::test]
async fn the_schema_is_the_snapshot() {
    let db = TestDatabase::create().await;
    let described = sqlx::raw_sql(include_str!("schema.sql")).fetch_all(db.database.pool()).await.unwrap();
    let now: String = described.iter().map(|row| row.get::<String, _>(0) + "\n").collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql/schema.snapshot");
    if std::env::var_os("HEADWATER_UPDATE_SNAPSHOT").is_some() {
        fs::write(&path, &now).unwrap();
    }
    let committed = fs::read_to_string(&path).expect("sql/schema.snapshot");
    assert_eq!(
        now, committed,
        "the schema changed: if it should, run with HEADWATER_UPDATE_SNAPSHOT=1, and raise FUNCTIONS_REVISION if a shipped function did"
    );
}

/// As databases have them from before ranges were kept apart.
#[tokio::test]
async fn gaps_that_overlap_are_taken_apart_by_the_migration() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let mut session = db.session().await;
    let before = "ALTER TABLE headwater_private.permanent_gaps DROP CONSTRAINT permanent_gaps_do_not_overlap;
                  DROP TABLE headwater_private.poison_notifiers, headwater_private.untold_poison;
                  INSERT INTO headwater_private.permanent_gaps (namespace_id, first_sequence, last_sequence, proof)
                  VALUES (1, 1, 2, 'trimmed'), (1, 2, 4, 'aborted'), (1, 3, 3, 'poison'), (1, 10, 20, 'aborted'), (1, 15, 30, 'aborted'),
                         (1, 25, 25, 'poison'), (2, 1, 40, 'aborted')";
    run(&mut session, before).await;
    run(&mut session, include_str!("../../sql/migrations/0025_poison_told.sql")).await;
    let gaps = "SELECT concat(namespace_id, ': ', first_sequence, '-', last_sequence, ' ', proof) FROM headwater_private.permanent_gaps
                 ORDER BY namespace_id, first_sequence";
    let gaps: Vec<String> = sqlx::query_scalar(gaps).fetch_all(&mut session).await.unwrap();
    let expected = [
        "1: 1-2 trimmed",
        "1: 3-3 poison",
        "1: 4-4 aborted",
        "1: 10-20 aborted",
        "1: 21-24 aborted",
        "1: 25-25 poison",
        "1: 26-30 aborted",
        "2: 1-40 aborted",
    ];
    assert_eq!(gaps, expected);
}
