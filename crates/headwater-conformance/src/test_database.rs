//! A database for one test, cloned from a migrated template.

use headwater_core::NamespaceConfig;
use headwater_postgres::{Database, DatabaseOptions, LogOptions, PgLog};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};
use uuid::Uuid;

/// Where `scripts/test` says that the server for tests is.
const SERVER: &str = "HEADWATER_TEST_URL";
/// Serialises those who make the template.
const TEMPLATE_LOCK: i64 = 0x4857_7465_7374;

/// How many databases that were left behind are removed before one is made: more than one, for tests that make several.
const LEFT_AT_ONCE: usize = 3;

/// A database of a test's own on the server that `scripts/test` started. A later test removes it, when this one's process is gone.
#[derive(Debug, Clone)]
pub struct TestDatabase {
    /// Where it is.
    pub url: String,
    /// Connected to it.
    pub database: Database,
}

impl TestDatabase {
    /// A migrated database.
    pub async fn create() -> Self {
        Self::cloned_from(&template().await).await
    }

    /// A database without Headwater.
    pub async fn create_empty() -> Self {
        Self::cloned_from("template0").await
    }

    async fn cloned_from(template: &str) -> Self {
        let name = format!("test_{}_{}", std::process::id(), Uuid::now_v7().simple());
        let mut server = server().await;
        remove_left(&mut server).await;
        // Older servers know no other way; through the WAL it takes twice as long.
        let copy = if server.server_version_num() >= Some(150_000) { "STRATEGY file_copy" } else { "" };
        let create = format!("CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8' {copy}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut server).await.expect("failed to create the test's database");
        let url = url_of(&name);
        let database = connect(&url).await;
        TestDatabase { url, database }
    }

    /// Another connection of its own: a second session, for tests with explicit steps.
    pub async fn session(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("failed to connect to the test's database")
    }

    /// The log of a new namespace with default settings.
    pub async fn log(&self, namespace: &str) -> PgLog {
        self.log_with(NamespaceConfig::new(namespace), LogOptions::default()).await
    }

    /// Hands out the sequences of a namespace up to this one, as appends do that are rolled back: positions up to there can be written.
    pub async fn hand_out(&self, namespace: &str, up_to: u64) {
        let set = "SELECT setval(n.sequence, $2) FROM headwater_private.namespaces n WHERE n.namespace = $1";
        let set = sqlx::query(set).bind(namespace).bind(i64::try_from(up_to).expect("a sequence"));
        set.execute(self.database.pool()).await.expect("failed to hand out sequences");
    }

    /// The log of a new namespace.
    pub async fn log_with(&self, config: NamespaceConfig, options: LogOptions) -> PgLog {
        self.database.create_namespace(&config).await.expect("failed to create the namespace");
        self.database.open_log(&config.name, options).await.expect("failed to open the log")
    }
}

async fn connect(url: &str) -> Database {
    Database::connect(url, DatabaseOptions::default()).await.expect("failed to connect to the test's database")
}

fn server_url() -> String {
    std::env::var(SERVER).unwrap_or_else(|_| panic!("{SERVER} is not set: run the tests with scripts/test"))
}

fn url_of(database: &str) -> String {
    let server = server_url();
    let (front, _) = server.rsplit_once('/').expect("the server's url ends with a database");
    format!("{front}/{database}")
}

async fn server() -> PgConnection {
    PgConnection::connect(&server_url()).await.expect("failed to connect to the server for tests")
}

/// Removes a few databases of tests whose processes are gone: a thousand of them would fill a disk.
async fn remove_left(server: &mut PgConnection) {
    let tests = "SELECT datname FROM pg_database WHERE datname LIKE 'test\\_%' AND NOT datistemplate";
    let names: Vec<String> = sqlx::query_scalar(tests).fetch_all(&mut *server).await.expect("failed to list databases");
    let is_over = |name: &String| {
        let process = name.split('_').nth(1).unwrap_or_default();
        !process.is_empty() && !std::path::Path::new("/proc").join(process).exists()
    };
    for name in names.iter().filter(|name| is_over(name)).take(LEFT_AT_ONCE) {
        // Another test may remove it at the same time.
        _ = sqlx::raw_sql(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")))
            .execute(&mut *server)
            .await;
    }
}

/// The name of the migrated template, which the first test to come makes.
async fn template() -> String {
    const NAME: &str = "headwater_template";
    let mut server = server().await;
    sqlx::query("SELECT pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(&mut server).await.expect("failed to lock");
    let there: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)")
            .bind(NAME)
            .fetch_one(&mut server)
            .await
            .expect("failed to look for the template");
    if !there {
        let making = "headwater_template_making";
        for statement in [
            format!("DROP DATABASE IF EXISTS {making}"),
            format!("CREATE DATABASE {making} TEMPLATE template0 ENCODING 'UTF8'"),
        ] {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut server).await.expect("failed to create the template");
        }
        let database = connect(&url_of(making)).await;
        database.migrate().await.expect("failed to migrate the template");
        database.close().await;
        let finish =
            [format!("ALTER DATABASE {making} RENAME TO {NAME}"), format!("ALTER DATABASE {NAME} IS_TEMPLATE true")];
        for statement in finish {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut server).await.expect("failed to finish the template");
        }
    }
    // The lock goes with the session.
    server.close().await.expect("failed to close");
    NAME.into()
}
