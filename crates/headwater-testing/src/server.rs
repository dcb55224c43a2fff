//! The server that test databases are made on.
//!
//! `HEADWATER_TEST_URL` names it. Without that variable, the process starts a disposable server of
//! its own when a test
//! first asks for a database. Nobody drops that server: its watchdog stops it and removes its
//! folder when the process
//! ends, however it ends.

use std::sync::OnceLock;

use headwater_embedded::Server;

/// Names the server, with a database of it that a role with `CREATEDB` can connect to.
const GIVEN: &str = "HEADWATER_TEST_URL";

/// Many tests run at the same time, each with a few pools.
const MAX_CONNECTIONS: &str = "400";
/// For tests of two-phase commit.
const MAX_PREPARED_TRANSACTIONS: &str = "64";

static OWN: OnceLock<Server> = OnceLock::new();

/// The URL of a database on the server: one to connect to before a database is made.
pub(crate) async fn url() -> String {
    match std::env::var(GIVEN) {
        Ok(url) => url,
        // It takes about a second: other tests of this runtime go on meanwhile.
        Err(_) => tokio::task::spawn_blocking(|| OWN.get_or_init(start).url("postgres"))
            .await
            .expect("failed to start a server for tests: set HEADWATER_TEST_URL to use one that runs"),
    }
}

/// The URL of another database on the server at `server`.
pub(crate) fn url_of(server: &str, database: &str) -> String {
    let (before_query, query) = match server.split_once('?') {
        Some((url, query)) => (url, format!("?{query}")),
        None => (server, String::new()),
    };
    let authority_at = before_query.find("://").map_or(0, |at| at + "://".len());
    let end = before_query[authority_at..].find('/').map_or(before_query.len(), |at| authority_at + at);
    format!("{}/{database}{query}", &before_query[..end])
}

fn start() -> Server {
    Server::builder()
        .setting("max_connections", MAX_CONNECTIONS)
        .setting("max_prepared_transactions", MAX_PREPARED_TRANSACTIONS)
        .start()
        .unwrap_or_else(|error| panic!("failed to start a server for tests: {error}"))
}

#[cfg(test)]
mod tests {
    use super::url_of;

    #[test]
    fn another_database_of_a_server_has_the_same_user_and_options() {
        for (server, expected) in [
            ("postgres://ada:secret@localhost:5432/postgres", "postgres://ada:secret@localhost:5432/test_1"),
            ("postgres://localhost", "postgres://localhost/test_1"),
            ("postgres://db/app?sslmode=require&options=/x", "postgres://db/test_1?sslmode=require&options=/x"),
        ] {
            assert_eq!(url_of(server, "test_1"), expected);
        }
    }
}
