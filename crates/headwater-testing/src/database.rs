//! A database for one test, cloned from a migrated template.

use std::time::Duration;

use headwater_core::NamespaceConfig;
use headwater_postgres::{Database, DatabaseOptions, LogOptions, PgLog};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection};
use uuid::Uuid;

use crate::server;

/// The advisory lock for making the template: one process makes it at a time.
const TEMPLATE_LOCK: i64 = 0x4857_7465_7374;

/// How many databases of earlier tests are removed before one is made. More than one, because some
/// tests make several.
const REMOVED_AT_ONCE: usize = 3;

/// A test's own database. A later test removes it when the process of this test is gone.
#[derive(Debug, Clone)]
pub struct TestDatabase {
    /// The URL of the database, for `Headwater::connect`.
    pub url: String,
    /// A pool of connections to the database.
    pub database: Database,
}

impl TestDatabase {
    /// Makes a database that Headwater has migrated.
    ///
    /// # Panics
    ///
    /// If there is no server and none can be started, or if the server refuses. The test cannot
    /// continue then.
    pub async fn create() -> Self {
        let server_url = server::url().await;
        let template = template(&server_url).await;
        Self::cloned_from(&server_url, &template).await
    }

    /// Makes a database without Headwater.
    ///
    /// # Panics
    ///
    /// As [`TestDatabase::create`] does.
    pub async fn create_empty() -> Self {
        Self::cloned_from(&server::url().await, "template0").await
    }

    async fn cloned_from(server_url: &str, template: &str) -> Self {
        let name = format!("test_{}_{}", std::process::id(), Uuid::now_v7().simple());
        let mut server = connect_to_server(server_url).await;
        remove_left(&mut server).await;
        // Older servers always copy files. Copying through the WAL takes twice as long.
        let copy = if server.server_version_num() >= Some(150_000) { "STRATEGY file_copy" } else { "" };
        let create = format!("CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8' {copy}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut server).await.expect("failed to create the test's database");
        let url = server::url_of(server_url, &name);
        let database = connect(&url).await;
        TestDatabase { url, database }
    }

    /// Opens a connection outside of the pool: a second session, for tests with explicit steps.
    pub async fn session(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("failed to connect to the test's database")
    }

    /// Makes a namespace with default settings and opens its log.
    pub async fn log(&self, namespace: &str) -> PgLog {
        self.log_with(NamespaceConfig::new(namespace), LogOptions::default()).await
    }

    /// Makes a namespace with this configuration and opens its log with these options.
    pub async fn log_with(&self, config: NamespaceConfig, options: LogOptions) -> PgLog {
        self.database.create_namespace(&config).await.expect("failed to create the namespace");
        self.database.open_log(&config.name, options).await.expect("failed to open the log")
    }

    /// Hands out a namespace's sequences up to `up_to`, like appends that are rolled back.
    /// Positions up to there can then be written.
    #[doc(hidden)]
    pub async fn hand_out(&self, namespace: &str, up_to: u64) {
        let set = "SELECT setval(n.sequence, $2) FROM headwater_private.namespaces n WHERE n.namespace = $1";
        let set = sqlx::query(set).bind(namespace).bind(i64::try_from(up_to).expect("a sequence"));
        set.execute(self.database.pool()).await.expect("failed to hand out sequences");
    }

    /// Lets time pass for a namespace's leases, claims, retries and nodes, without waiting: it moves
    /// all times in their rows back instead, in one transaction. Nodes may run meanwhile. Times of
    /// events, months and schedules stay.
    pub async fn pass(&self, namespace: &str, by: Duration) {
        let failed = "failed to let time pass";
        let mut transaction = self.database.pool().begin().await.expect(failed);
        // A claim that commits meanwhile would record that it has looked for everything up to a time
        // that now lies ahead.
        let lock = "SELECT headwater_private.lock_queue(q.namespace_id, q.subscriber_id)
                      FROM (SELECT s.namespace_id, s.subscriber_id FROM headwater_private.subscribers s
                              JOIN headwater_private.namespaces n ON n.namespace_id = s.namespace_id
                             WHERE n.namespace = $1 AND s.partition = 0 AND s.mode = 'shared' ORDER BY s.subscriber_id) q";
        sqlx::query(lock).bind(namespace).execute(&mut *transaction).await.expect(failed);
        for (table, columns) in [
            ("subscribers", &["lease_until"][..]),
            ("members", &["member_until"]),
            ("queue_workers", &["seen_until"]),
            ("cdc_slots", &["lease_until"]),
            ("latches", &["held_until"]),
            ("nodes", &["last_heartbeat"]),
            ("unhandled_types", &["since", "checked_at"]),
            ("failing_events", &["retry_at"]),
            ("retries", &["due_at"]),
            (
                "claims",
                &[
                    "visible_at",
                    "state.moment",
                    "state.expired_from",
                    "state.due_from",
                    "state.last_visible_at",
                    "state.look_at",
                ],
            ),
        ] {
            let back = |column: &&str| {
                let value = column.replacen("state.", "(t.state).", 1);
                format!("{column} = {value} - pg_catalog.make_interval(secs => $2)")
            };
            let set: Vec<String> = columns.iter().map(back).collect();
            let update = format!(
                "UPDATE headwater_private.{table} t SET {} FROM headwater_private.namespaces n
                  WHERE n.namespace = $1 AND t.namespace_id = n.namespace_id",
                set.join(", ")
            );
            let update = sqlx::query(AssertSqlSafe(update)).bind(namespace).bind(by.as_secs_f64());
            update.execute(&mut *transaction).await.expect(failed);
        }
        transaction.commit().await.expect(failed);
    }
}

async fn connect(url: &str) -> Database {
    Database::connect(url, DatabaseOptions::default()).await.expect("failed to connect to the test's database")
}

async fn connect_to_server(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("failed to connect to the server for tests")
}

/// Removes a few databases of tests that are over, since a thousand of them would fill a disk. A
/// test is over if its process is gone and nobody is connected to its database.
async fn remove_left(server: &mut PgConnection) {
    let left = r"SELECT d.datname FROM pg_database d
                  WHERE d.datname LIKE 'test\_%' AND NOT d.datistemplate
                    AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.datid = d.oid)";
    let names: Vec<String> = sqlx::query_scalar(left).fetch_all(&mut *server).await.expect("failed to list databases");
    for name in names.iter().filter(|name| is_over(name)).take(REMOVED_AT_ONCE) {
        // Another test may remove the same database at the same time.
        _ = sqlx::raw_sql(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name}"))).execute(&mut *server).await;
    }
}

/// Whether the process that made a database of this name has ended.
fn is_over(database: &str) -> bool {
    let process = database.split('_').nth(1).and_then(|number| number.parse().ok());
    process
        .and_then(rustix::process::Pid::from_raw)
        .is_some_and(|process| rustix::process::test_kill_process(process) == Err(rustix::io::Errno::SRCH))
}

/// Returns the name of the migrated template, which the first test makes. The name contains a
/// fingerprint of the schema, because a server can outlive the build that made its template.
async fn template(server_url: &str) -> String {
    let fingerprint = Database::schema_fingerprint();
    let name = format!("headwater_template_{}", &fingerprint[..16]);
    let mut server = connect_to_server(server_url).await;
    sqlx::query("SELECT pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(&mut server).await.expect("failed to lock");
    let there: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)")
            .bind(&name)
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
        let database = connect(&server::url_of(server_url, making)).await;
        database.migrate().await.expect("failed to migrate the template");
        database.close().await;
        let finish =
            [format!("ALTER DATABASE {making} RENAME TO {name}"), format!("ALTER DATABASE {name} IS_TEMPLATE true")];
        for statement in finish {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut server).await.expect("failed to finish the template");
        }
    }
    // The end of the session releases the lock.
    server.close().await.expect("failed to close");
    name
}
