//! The connection to the database.

use clap::Args;
use headwater::Headwater;
use headwater::admin::{AdminError, HeadwaterBuilder};

use crate::failure::{Exit, Failure};

/// The default port of `headwater up`.
pub(crate) const LOCAL_PORT: u16 = 54320;
/// The heading in the help of the options that all commands have.
pub(crate) const GLOBAL: &str = "Global options";
/// The `application_name` of the sessions, which is shown where they hold others back.
const APPLICATION_NAME: &str = "headwater-cli";

#[derive(Debug, Args)]
pub(crate) struct ConnectionArgs {
    /// The database: postgres://user:password@host:port/database. It may name several hosts, as
    /// host:port,host:port: the one that accepts writes is used [default: the database of a local
    /// `headwater up`, whose data folder is HEADWATER_DATA or the default folder]
    #[arg(long, global = true, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    #[arg(help_heading = GLOBAL)]
    database_url: Option<String>,
    /// The URL points to a pooler in transaction mode, such as PgBouncer
    #[arg(long, global = true, env = "HEADWATER_TRANSACTION_POOLER", help_heading = GLOBAL)]
    transaction_pooler: bool,
}

impl ConnectionArgs {
    /// Returns the given URL. An empty URL, for example from an empty variable, counts as not
    /// given.
    pub(crate) fn given(&self) -> Option<&str> {
        self.database_url.as_deref().filter(|url| !url.is_empty())
    }

    pub(crate) async fn connect(&self) -> Result<Headwater, Failure> {
        self.connect_with(Headwater::builder()).await
    }

    pub(crate) async fn connect_with(&self, builder: HeadwaterBuilder) -> Result<Headwater, Failure> {
        let builder = builder.transaction_pooler(self.transaction_pooler);
        let url = self.given().map_or_else(local, str::to_owned);
        let connecting = builder.application_name(APPLICATION_NAME).connect(&url);
        connecting.await.map_err(|error| match error {
            AdminError::InvalidInput(message) => {
                Failure::invalid(message).help("it looks like postgres://user:password@host:port/database")
            }
            // The message already says what to do.
            AdminError::Unavailable(fault) if fault.message.contains("--transaction-pooler") => {
                Failure::new(Exit::Unreachable, fault.message)
            }
            AdminError::Unavailable(fault) => Failure::new(Exit::Unreachable, fault.message).help(match self.given() {
                None => {
                    "start a database with `headwater up`, or name yours with --database-url or DATABASE_URL; if \
                     `headwater up` runs with another --data-dir, set HEADWATER_DATA to that folder"
                }
                Some(_) => "check that the server runs, and --database-url or DATABASE_URL",
            }),
            error => error.into(),
        })
    }
}

/// Returns the URL, with the password, of the `headwater up` that runs in the data folder. If none
/// runs there, returns the URL on the default port.
fn local() -> String {
    #[cfg(feature = "up")]
    if let Some(folder) = crate::data_dir::folder()
        && let Ok(Some(running)) = headwater_embedded::Server::url_in(folder, "headwater")
    {
        return running;
    }
    format!("postgres://headwater@127.0.0.1:{LOCAL_PORT}/headwater")
}

/// Returns the URL without its password, for logs and other places that more people can read.
#[cfg(any(feature = "up", test))]
pub(crate) fn without_password(url: &str) -> String {
    let (front, query) = url.split_once('?').unwrap_or((url, ""));
    let query: Vec<_> = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("password=")).collect();
    let front = match front.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
        Some((scheme, (user, rest))) => format!("{scheme}://{}@{rest}", user.split(':').next().unwrap_or_default()),
        None => front.to_owned(),
    };
    if query.is_empty() { front } else { format!("{front}?{}", query.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn a_password_is_left_out() {
        let cases = [
            ("postgres://ada:se:cr@et@db.internal:5432/app", "postgres://ada@db.internal:5432/app"),
            ("postgres://ada@db/app?password=secret&sslmode=require", "postgres://ada@db/app?sslmode=require"),
            ("postgres://db/app?password=secret", "postgres://db/app"),
            ("postgres://headwater@127.0.0.1:54320/headwater", "postgres://headwater@127.0.0.1:54320/headwater"),
        ];
        for (url, expected) in cases {
            assert_eq!(without_password(url), expected);
        }
    }
}
