//! The servers that a url names: one server, or several of which one takes writes at a time, such
//! as a primary and its standbys.
//!
//! The driver knows only one host. So this splits a url into the options of single servers. For
//! each connection, they are tried one after the other: first the one that worked last time, then
//! the others in the order of the url.
//!
//! Who has authority: the servers. Each is asked whether it takes writes. A pool has one server at
//! a time. [`Follower`] holds a connection to it and notices when that breaks. Then it looks for
//! the server that takes writes now, and points the pool there. Connections that the pool made
//! before are not used again.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use headwater_core::{AdminError, Backoff};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};
use sqlx::{ConnectOptions, Connection, Row};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::sql;

/// How long one of several servers has to answer, unless the url says otherwise
/// (`connect_timeout`).
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between checks that the server is still there.
const LOOK: Duration = Duration::from_secs(1);
/// The pauses between rounds in which no server was found.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// The servers of a url:
/// `postgres://user:password@first:5432,second:5432/database?target_session_attrs=read-write`.
///
/// As with libpq, `host` and `port` may also be lists, and `connect_timeout` says how many seconds
/// each server has. If there are several servers, Headwater connects to one that takes writes,
/// unless `target_session_attrs` is `any`: Headwater writes.
#[derive(Debug, Clone)]
pub struct Servers {
    all: Arc<[PgConnectOptions]>,
    takes_writes: bool,
    patience: Option<Duration>,
    /// The index of the server that worked last time.
    current: Arc<AtomicUsize>,
}

impl From<PgConnectOptions> for Servers {
    fn from(options: PgConnectOptions) -> Self {
        Servers { all: Arc::new([options]), takes_writes: false, patience: None, current: Arc::default() }
    }
}

impl FromStr for Servers {
    type Err = AdminError;

    fn from_str(url: &str) -> Result<Self, AdminError> {
        let Parsed { urls, takes_writes, patience } =
            parse(url).map_err(|reason| AdminError::InvalidInput(format!("invalid database url: {reason}")))?;
        let options = |url: &String| {
            PgConnectOptions::from_str(url)
                .map_err(|error| AdminError::InvalidInput(format!("invalid database url: {}", reason(&error))))
        };
        let all = urls.iter().map(options).collect::<Result<Arc<[_]>, _>>()?;
        let patience = patience.or((all.len() > 1).then_some(PATIENCE));
        Ok(Servers { all, takes_writes, patience, current: Arc::default() })
    }
}

impl Servers {
    /// Returns the same servers with other options.
    pub(crate) fn with(self, change: impl Fn(PgConnectOptions) -> PgConnectOptions) -> Self {
        Servers { all: self.all.iter().cloned().map(change).collect(), ..self }
    }

    pub(crate) fn that_take_writes(self, takes_writes: bool) -> Self {
        Servers { takes_writes, ..self }
    }

    /// Returns the options of the server that worked last time.
    pub(crate) fn current(&self) -> &PgConnectOptions {
        &self.all[self.at()]
    }

    pub(crate) fn take_writes(&self) -> bool {
        self.takes_writes
    }

    pub(crate) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    fn at(&self) -> usize {
        self.current.load(Ordering::Acquire)
    }

    /// Connects to the first server that is suitable.
    pub async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        let mut failures = Vec::new();
        let at = self.at();
        for nth in std::iter::once(at).chain((0..self.all.len()).filter(|nth| *nth != at)) {
            let server = &self.all[nth];
            match self.try_one(server).await {
                Ok(connection) => {
                    self.current.store(nth, Ordering::Release);
                    return Ok(connection);
                }
                Err(error) => failures.push((place(server), error)),
            }
        }
        if failures.len() == 1 {
            return Err(failures.remove(0).1);
        }
        // A server that refuses this user, or this database, says more than servers that cannot be
        // reached.
        if let Some(told) = failures.iter().position(|(_, error)| !crate::database::error::is_disconnect(error)) {
            return Err(failures.remove(told).1);
        }
        let each: Vec<_> = failures.iter().map(|(place, error)| format!("{place}: {}", reason(error))).collect();
        Err(unreachable(format!("none of the servers will do: {}", each.join("; "))))
    }

    /// Returns the options of the first suitable server, for code that makes its own connections.
    pub async fn resolve(&self) -> Result<PgConnectOptions, sqlx::Error> {
        if self.are_several() {
            _ = self.connect().await?.close().await;
        }
        Ok(self.current().clone())
    }

    async fn try_one(&self, server: &PgConnectOptions) -> Result<PgConnection, sqlx::Error> {
        let connecting = async {
            let mut connection = server.connect().await?;
            if self.takes_writes {
                check(&mut connection).await?;
            }
            Ok(connection)
        };
        match self.patience {
            None => connecting.await,
            Some(patience) => match timeout(patience, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(unreachable(format!("no answer within {patience:?}"))),
            },
        }
    }
}

/// Refuses a connection to a server that takes no writes.
pub(crate) async fn check(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let row = sqlx::raw_sql(sql::session::TAKES_NO_WRITES).fetch_one(connection).await?;
    match row.try_get::<bool, _>(0)? {
        true => Err(unreachable("it takes no writes: a standby, or read-only".into())),
        false => Ok(()),
    }
}

/// An error like that of an unreachable server: trying again, or elsewhere, may help.
fn unreachable(message: String) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::ConnectionRefused, message))
}

/// Keeps a pool pointed at the server that takes writes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Follower(JoinHandle<()>);

impl Follower {
    /// `changed` gets the time of each change of server.
    pub(crate) fn start(servers: Servers, pool: PgPool, changed: watch::Sender<Option<Instant>>) -> Self {
        Follower(tokio::spawn(async move {
            let mut pointed_at = servers.at();
            let mut pauses = PAUSES;
            while !pool.is_closed() {
                let mut connection = match servers.connect().await {
                    Ok(connection) => connection,
                    Err(error) => {
                        tracing::warn!(%error, "no server takes writes, trying again");
                        sleep(pauses.pause()).await;
                        continue;
                    }
                };
                pauses.reset();
                if servers.at() != pointed_at {
                    pointed_at = servers.at();
                    pool.set_connect_options(servers.current().clone());
                    changed.send_replace(Some(Instant::now()));
                    tracing::warn!(server = place(servers.current()), "another server takes writes: going on there");
                }
                // Somebody else may have found another server in the meantime, with another
                // connection.
                while !pool.is_closed()
                    && servers.at() == pointed_at
                    && matches!(timeout(servers.patience.unwrap_or(PATIENCE), connection.ping()).await, Ok(Ok(())))
                {
                    sleep(LOOK).await;
                }
            }
        }))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the address, without the password.
pub(crate) fn place(connect: &PgConnectOptions) -> String {
    let database = connect.get_database().unwrap_or(connect.get_username());
    match connect.get_socket() {
        Some(socket) => format!("{}/{database}", socket.display()),
        None => format!("{}:{}/{database}", connect.get_host(), connect.get_port()),
    }
}

pub(crate) fn reason(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::Io(error) => error.to_string(),
        sqlx::Error::Database(error) => error.message().to_owned(),
        sqlx::Error::Configuration(error) => error.to_string(),
        error => error.to_string(),
    }
}

#[derive(Debug, PartialEq)]
struct Parsed {
    /// One url per server.
    urls: Vec<String>,
    takes_writes: bool,
    patience: Option<Duration>,
}

fn parse(url: &str) -> Result<Parsed, String> {
    let (front, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut hosts, mut ports, mut wanted, mut patience) = (None, None, None, None);
    let mut kept = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "target_session_attrs" => wanted = Some(value),
            "connect_timeout" => {
                let seconds =
                    value.parse().map_err(|_| format!("invalid connect_timeout {value:?}: it is in seconds"))?;
                patience = Some(Duration::from_secs(seconds)).filter(|patience| !patience.is_zero());
            }
            "host" if is_list(value) => hosts = Some(list(value)),
            "port" if is_list(value) => ports = Some(list(value)),
            _ => kept.push(pair),
        }
    }
    let Some((scheme, rest)) = front.split_once("://") else {
        return Ok(Parsed { urls: vec![url.into()], takes_writes: false, patience });
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, named) = authority.rsplit_once('@').map_or(("", authority), |(user, named)| (user, named));
    let user = if user.is_empty() { String::new() } else { format!("{user}@") };
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    let mut addresses = match hosts {
        Some(hosts) => hosts.iter().map(|host| address(host)).collect(),
        None => list(named),
    };
    if let Some(ports) = ports {
        if ports.len() != addresses.len() {
            return Err(format!("it names {} hosts and {} ports", addresses.len(), ports.len()));
        }
        addresses.iter_mut().zip(ports).for_each(|(address, port)| *address += &format!(":{port}"));
    }
    if addresses.len() > 1 && addresses.iter().any(|address| address.is_empty() || address.starts_with(':')) {
        return Err("one of the hosts that it lists is empty".into());
    }
    let takes_writes = match wanted {
        None => addresses.len() > 1,
        Some("any") => false,
        Some("read-write" | "primary") => true,
        Some(other) => {
            return Err(format!(
                "target_session_attrs is {other:?}: Headwater writes, so it is read-write, primary or any"
            ));
        }
    };
    let urls = addresses.iter().map(|address| format!("{scheme}://{user}{address}{path}{query}")).collect();
    Ok(Parsed { urls, takes_writes, patience })
}

fn is_list(value: &str) -> bool {
    value.contains(',') || value.to_ascii_uppercase().contains("%2C")
}

fn list(value: &str) -> Vec<String> {
    value.replace("%2C", ",").replace("%2c", ",").split(',').map(str::to_owned).collect()
}

/// Converts a host of `host=` for the front of a url: there a socket folder is percent-encoded, and
/// an IPv6 address is in brackets.
fn address(host: &str) -> String {
    match host.replace('/', "%2F") {
        host if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
        host => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(url: &str) -> Vec<String> {
        parse(url).unwrap_or_else(|reason| panic!("{url}: {reason}")).urls
    }

    #[test]
    fn a_url_with_one_host_stays_as_it_is() {
        for url in [
            "postgres://ada:p%40ss@db:6000/app?sslmode=require",
            "postgres:///app?host=/run/postgresql&user=ada",
            "postgres://[::1]:5433/app",
            "postgres://db",
        ] {
            let parsed = parse(url).unwrap();
            assert_eq!((parsed.urls, parsed.takes_writes), (vec![url.to_owned()], false));
        }
        let one = parse("postgres://db/app?target_session_attrs=read-write&connect_timeout=3").unwrap();
        assert_eq!(one.urls, ["postgres://db/app"]);
        assert_eq!((one.takes_writes, one.patience), (true, Some(Duration::from_secs(3))));
    }

    #[test]
    fn a_list_of_hosts_becomes_one_url_each() {
        assert_eq!(
            urls("postgres://ada:pw@a:1,b:2,[::1]:3,c/app?target_session_attrs=read-write&sslmode=require"),
            [
                "postgres://ada:pw@a:1/app?sslmode=require",
                "postgres://ada:pw@b:2/app?sslmode=require",
                "postgres://ada:pw@[::1]:3/app?sslmode=require",
                "postgres://ada:pw@c/app?sslmode=require",
            ]
        );
        assert_eq!(
            urls("postgres://ada@/app?host=a,/run/pg,::1&port=1%2C2%2c3"),
            ["postgres://ada@a:1/app", "postgres://ada@%2Frun%2Fpg:2/app", "postgres://ada@[::1]:3/app"]
        );
        assert_eq!(
            urls("postgres:///app?host=a,b&port=6000"),
            ["postgres://a/app?port=6000", "postgres://b/app?port=6000"]
        );
    }

    #[test]
    fn several_hosts_are_asked_for_writes_unless_any_will_do() {
        let wants = |attrs: &str| parse(&format!("postgres://a,b/app{attrs}")).map(|parsed| parsed.takes_writes);
        assert_eq!(wants(""), Ok(true));
        assert_eq!(wants("?target_session_attrs=primary"), Ok(true));
        assert_eq!(wants("?target_session_attrs=any"), Ok(false));
        assert!(wants("?target_session_attrs=standby").unwrap_err().contains("Headwater writes"));
        assert!(wants("?connect_timeout=soon").is_err());
    }

    #[test]
    fn lists_that_do_not_fit_are_refused() {
        for url in ["postgres://a,,b/app", "postgres://a:1,:2/app", "postgres:///app?host=a,b&port=1,2,3"] {
            assert!(parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn sockets_and_passwords_survive() {
        let servers: Servers = "postgres://ada:p%40ss@%2Frun%2Fpg,db:7/app".parse().unwrap();
        assert_eq!(servers.all[0].get_socket().unwrap(), std::path::Path::new("/run/pg"));
        assert_eq!((servers.all[1].get_host(), servers.all[1].get_port()), ("db", 7));
        assert_eq!(servers.all[1].get_username(), "ada");
    }
}
