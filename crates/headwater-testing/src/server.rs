//! The server on which test databases are made.
//!
//! `HEADWATER_TEST_URL` names the server. Without that variable, the process starts its own
//! disposable server when a test first asks for a database. Nobody drops that server. Its watchdog
//! stops it and removes its folder when the process ends, however it ends.

use std::sync::OnceLock;

use headwater_embedded::Server;

/// The variable that names the server: the URL of a database to which a role with `CREATEDB` can
/// connect.
const GIVEN: &str = "HEADWATER_TEST_URL";

/// Many tests run at the same time, each with a few pools.
const MAX_CONNECTIONS: &str = "400";
/// For tests of two-phase commit.
const MAX_PREPARED_TRANSACTIONS: &str = "64";

static OWN: OnceLock<Server> = OnceLock::new();

/// Returns the URL of a database on the server, to connect to before a test database is made.
pub(crate) async fn url() -> String {
    match std::env::var(GIVEN) {
        Ok(url) => url,
        // Starting a server takes about a second; other tests of this runtime continue meanwhile.
        Err(_) => tokio::task::spawn_blocking(|| OWN.get_or_init(start).url("postgres"))
            .await
            .expect("failed to start a server for tests: set HEADWATER_TEST_URL to use one that runs"),
    }
}

/// Returns the URL of another database on the same server.
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
