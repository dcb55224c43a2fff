//! The server under test: disposable, but as durable as a real one.

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use headwater::admin::{GrantKind, NamespaceConfig};
use headwater::{Headwater, Namespace};
use headwater_embedded::Server;
use serde::Serialize;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, FromRow, Row};

/// The namespace that everything is appended to.
pub(crate) const NAMESPACE: &str = "bench";

/// A role that was granted the namespace. Its password is the same as its name.
const GRANTED: &str = "bench_granted";

/// Stock settings, except for memory, which is set as in any real installation. Checkpoints run
/// only where this program asks for one.
const SETTINGS: [(&str, &str); 4] =
    [("wal_level", "replica"), ("shared_buffers", "256MB"), ("max_wal_size", "32GB"), ("checkpoint_timeout", "1h")];

/// The role that calls Headwater. Baselines always run as the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Role {
    /// The owner of Headwater's schema
    Owner,
    /// A role that was granted the namespace as producer and consumer
    Granted,
}

/// A running server with Headwater in it.
#[derive(Debug)]
pub(crate) struct BenchServer {
    /// The URL with which Headwater connects, in its role.
    pub(crate) url: String,
    pub(crate) settings: ServerSettings,
    /// Headwater with default options, as in an application, in its role.
    pub(crate) headwater: Headwater,
    /// Headwater as the owner, for the baselines.
    pub(crate) owner: Headwater,
    pub(crate) namespace: Namespace,
    pub(crate) sequence: Oid,
    options: PgConnectOptions,
    server: Server,
}

/// The server settings that the figures depend on, as the server reports them.
#[derive(Debug, Clone, Serialize, FromRow)]
pub(crate) struct ServerSettings {
    pub(crate) version: String,
    pub(crate) fsync: String,
    pub(crate) synchronous_commit: String,
    pub(crate) full_page_writes: String,
    pub(crate) wal_level: String,
    pub(crate) shared_buffers: String,
    pub(crate) max_wal_size: String,
    pub(crate) autovacuum: String,
}

impl BenchServer {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        BenchServer::start_as(Role::Owner, &[]).await
    }

    /// Starts a server with additional settings.
    pub(crate) async fn start_with(settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        BenchServer::start_as(Role::Owner, settings).await
    }

    /// Starts a server with additional settings, and connects in the given role.
    pub(crate) async fn start_as(role: Role, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        let builder = SETTINGS
            .iter()
            .chain(settings)
            .fold(Server::builder().fsync(true), |builder, (name, value)| builder.setting(*name, *value));
        let server = builder.start().context("failed to start a server")?;
        let url = server.url("headwater");
        let options = url.parse::<PgConnectOptions>()?.disable_statement_logging();

        let owner = Headwater::connect(&url).await?;
        owner.migrate().await?;
        owner.create_namespace(NamespaceConfig::new(NAMESPACE)).await?;
        let mut conn = options.connect().await?;
        let (url, headwater) = match role {
            Role::Owner => (url, owner.clone()),
            Role::Granted => {
                sqlx::raw_sql(include_str!("../sql/granted_role.sql")).execute(&mut conn).await?;
                for kind in [GrantKind::Producer, GrantKind::Consumer] {
                    owner.admin().grant(NAMESPACE, GRANTED, kind).await?;
                }
                let (_, place) = url.split_once('@').context("a url has a place")?;
                let url = format!("postgres://{GRANTED}:{GRANTED}@{place}");
                (url.clone(), Headwater::connect(&url).await?)
            }
        };
        let namespace = headwater.namespace(NAMESPACE).await?;

        let settings: ServerSettings =
            sqlx::query_as(include_str!("../sql/server_settings.sql")).fetch_one(&mut conn).await?;
        for (name, value) in [("fsync", &settings.fsync), ("synchronous_commit", &settings.synchronous_commit)] {
            ensure!(value == "on", "{name} is {value}: the figures would mean nothing");
        }
        eprintln!("PostgreSQL {}, {}", settings.version, settings.summary());
        let sequence = sequence(&mut conn).await?.0;
        Ok(BenchServer { url, settings, headwater, owner, namespace, sequence, options, server })
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<PgConnection> {
        Ok(self.options.connect().await?)
    }

    /// Connections that each belong to one caller: no pool, no pings.
    pub(crate) async fn connections(&self, count: usize) -> anyhow::Result<Vec<PgConnection>> {
        Ok(try_join_all((0..count).map(|_| self.options.connect())).await?)
    }

    /// The process id of the postmaster.
    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }

    pub(crate) fn namespace_id(&self) -> i32 {
        self.namespace.info().id
    }

    /// The highest sequence that was handed out.
    pub(crate) async fn head(&self) -> anyhow::Result<i64> {
        Ok(sequence(&mut self.connect().await?).await?.1)
    }
}

impl ServerSettings {
    fn summary(&self) -> String {
        format!(
            "fsync {}, synchronous_commit {}, full_page_writes {}, wal_level {}, shared_buffers {}, max_wal_size {}, autovacuum {}",
            self.fsync,
            self.synchronous_commit,
            self.full_page_writes,
            self.wal_level,
            self.shared_buffers,
            self.max_wal_size,
            self.autovacuum
        )
    }
}

async fn sequence(conn: &mut PgConnection) -> anyhow::Result<(Oid, i64)> {
    let row = sqlx::query(include_str!("../sql/sequence.sql")).bind(NAMESPACE).fetch_one(conn).await?;
    Ok((row.get("oid"), row.get("last_value")))
}
