//! The connection to the database.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use headwater::{Headwater, HeadwaterBuilder};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};

use crate::failure::{Exit, Failure};

/// Where `headwater up` listens unless told otherwise.
pub(crate) const LOCAL_PORT: u16 = 54320;
/// What the sessions call themselves, where they hold others back.
const APPLICATION_NAME: &str = "headwater-cli";
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// The database, as postgres://user:password@host:port/database; without it, that of a local `headwater up`
    #[arg(long, global = true, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: Option<String>,
}

impl ConnectionArgs {
    /// The url that was given. An empty one, as a variable that was emptied, is none.
    pub(crate) fn given(&self) -> Option<&str> {
        self.database_url.as_deref().filter(|url| !url.is_empty())
    }

    pub(crate) async fn connect(&self) -> Result<Headwater, Failure> {
        self.connect_with(Headwater::builder()).await
    }

    pub(crate) async fn connect_with(&self, builder: HeadwaterBuilder) -> Result<Headwater, Failure> {
        let local = format!("postgres://headwater@127.0.0.1:{LOCAL_PORT}/headwater");
        let failed = match connect(self.given().unwrap_or(&local), builder).await {
            Ok(headwater) => return Ok(headwater),
            Err(failed) => failed,
        };
        Err(match (failed, self.given()) {
            (ConnectError::Invalid(message), _) => Failure::invalid(format!("invalid database url: {message}"))
                .help("it looks like postgres://user:password@host:port/database"),
            (ConnectError::Unreachable(message), None) => Failure::new(Exit::Unreachable, message)
                .help("start a database with `headwater up`, or name yours with --database-url or DATABASE_URL"),
            (ConnectError::Unreachable(message), Some(_)) => Failure::new(Exit::Unreachable, message)
                .help("check that the server runs, and --database-url or DATABASE_URL"),
            (ConnectError::Other(failure), _) => failure,
        })
    }
}

enum ConnectError {
    Invalid(String),
    Unreachable(String),
    Other(Failure),
}

/// Connects once by itself first: a pool takes a refused connection for a server that starts, and waits for it.
async fn connect(url: &str, builder: HeadwaterBuilder) -> Result<Headwater, ConnectError> {
    let options = PgConnectOptions::from_str(url).map_err(|error| ConnectError::Invalid(reason(&error)))?;
    let options = options.application_name(APPLICATION_NAME).disable_statement_logging();
    let unreachable =
        |reason: String| ConnectError::Unreachable(format!("failed to connect to {}: {reason}", place(&options)));
    let attempt = tokio::time::timeout(TIMEOUT, PgConnection::connect_with(&options)).await;
    match attempt {
        Ok(Ok(connection)) => _ = connection.close().await,
        Ok(Err(error)) => return Err(unreachable(reason(&error))),
        Err(_) => return Err(unreachable(format!("no answer within {} s", TIMEOUT.as_secs()))),
    }
    let builder = builder.application_name(APPLICATION_NAME).acquire_timeout(TIMEOUT);
    builder.connect(url).await.map_err(|error| ConnectError::Other(error.into()))
}

/// The address without the password.
pub(crate) fn place(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or(options.get_username());
    match options.get_socket() {
        Some(socket) => format!("{}/{database}", socket.display()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    }
}

fn reason(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Io(error) => error.to_string(),
        sqlx::Error::Database(error) => error.message().to_owned(),
        sqlx::Error::Configuration(error) => error.to_string(),
        error => error.to_string(),
    }
}
