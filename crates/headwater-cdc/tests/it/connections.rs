//! How the server is reached, and what it refuses. Each test has its own server, because passwords,
//! certificates and slots belong to a server.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use headwater_cdc::{CdcError, Endpoint, Plugin, Replication, SlotKind};
use headwater_embedded::Server;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

async fn run(server: &Server, sql: &str) {
    let mut conn = PgConnection::connect(&server.url("headwater")).await.unwrap();
    for statement in sql.split(";;") {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut conn).await.unwrap();
    }
}

async fn start(url: &str, slot: &str, kind: SlotKind) -> Result<Replication, CdcError> {
    let options = [("proto_version", "1".to_owned()), ("publication_names", "\"p\"".to_owned())];
    Replication::start(&Endpoint::parse(url)?, slot, kind, Plugin::Pgoutput, &options).await
}

async fn temporary(url: &str) -> Result<Replication, CdcError> {
    start(url, &format!("s_{}", uuid::Uuid::now_v7().simple()), SlotKind::Temporary).await
}

/// As the server's user has it: it reads nothing that others could.
fn give(server: &Server, path: &Path) {
    let owner = fs::metadata(server.data_dir()).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
}

fn openssl(args: &[&str]) {
    let made = Command::new("openssl").args(args).output().expect("failed to run openssl");
    assert!(made.status.success(), "{args:?}: {}", String::from_utf8_lossy(&made.stderr));
}

#[tokio::test]
async fn passwords_sockets_and_certificates_own_server() {
    let server = Server::builder().start().expect("failed to start a server");
    run(
        &server,
        "CREATE PUBLICATION p;; SET password_encryption = 'md5'; CREATE ROLE by_md5 LOGIN REPLICATION PASSWORD 'p@ss/wörd';;
         SET password_encryption = 'scram-sha-256'; CREATE ROLE by_scram LOGIN REPLICATION PASSWORD 'p@ss/wörd';
         CREATE ROLE by_text LOGIN REPLICATION PASSWORD 'p@ss/wörd'; CREATE ROLE plain LOGIN PASSWORD 'plain'",
    )
    .await;
    let hba = server.data_dir().join("pg_hba.conf");
    let rules = "host all by_md5 127.0.0.1/32 md5\nhost all by_scram 127.0.0.1/32 scram-sha-256\n\
                 host all by_text 127.0.0.1/32 password\n";
    fs::write(&hba, rules.to_owned() + &fs::read_to_string(&hba).unwrap()).unwrap();
    run(&server, "SELECT pg_reload_conf()").await;
    let port = server.port();
    for user in ["by_md5", "by_scram", "by_text"] {
        temporary(&format!("postgres://{user}:p%40ss%2Fw%C3%B6rd@127.0.0.1:{port}/headwater")).await.expect(user);
        for wrong in [format!("{user}:wrong"), user.to_owned()] {
            let refused = temporary(&format!("postgres://{wrong}@127.0.0.1:{port}/headwater")).await.err();
            assert!(matches!(refused, Some(CdcError::NotAllowed(_))), "{wrong}: {refused:?}");
        }
    }
    let refused = temporary(&format!("postgres://plain:plain@127.0.0.1:{port}/headwater")).await.err();
    assert!(matches!(refused, Some(CdcError::NotAllowed(_))), "{refused:?}");
    let socket = format!("postgres:///headwater?host={}&port={port}&user=headwater", server.socket_dir().display());
    temporary(&socket).await.expect("by the socket");

    // A certificate for localhost, signed by one that is trusted.
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = (server.data_dir().join("server.crt"), server.data_dir().join("server.key"));
    let (root, root_key, request) = (at("root.crt"), at("root.key"), at("server.csr"));
    fs::write(at("extensions"), "subjectAltName=DNS:localhost\n").unwrap();
    let new_key = ["-newkey", "rsa:2048", "-nodes", "-subj"];
    openssl(
        &[&["req", "-x509", "-days", "2"], &new_key[..], &["/CN=root", "-keyout", &root_key, "-out", &root]].concat(),
    );
    let key_path = key.display().to_string();
    openssl(&[&["req"], &new_key[..], &["/CN=localhost", "-keyout", &key_path, "-out", &request]].concat());
    let cert_path = cert.display().to_string();
    let sign = ["x509", "-req", "-days", "2", "-CAcreateserial", "-in", &request, "-CA", &root, "-CAkey", &root_key];
    openssl(&[&sign[..], &["-extfile", &at("extensions"), "-out", &cert_path]].concat());
    give(&server, &cert);
    give(&server, &key);
    let hba_rules = fs::read_to_string(&hba).unwrap().replace("host all by_scram", "hostssl all by_scram");
    fs::write(&hba, hba_rules).unwrap();
    run(&server, "ALTER SYSTEM SET ssl = on;; SELECT pg_reload_conf()").await;
    let secure = |mode: &str| {
        format!("postgres://by_scram:p%40ss%2Fw%C3%B6rd@localhost:{port}/headwater?sslmode={mode}&sslrootcert={root}")
    };
    for mode in ["require", "verify-ca", "verify-full"] {
        temporary(&secure(mode)).await.expect(mode);
    }
    let unknown = secure("verify-full").split("&sslrootcert").next().unwrap().to_owned();
    let refused = temporary(&unknown).await.err();
    assert!(matches!(refused, Some(CdcError::Connection(_))), "nobody we trust has signed it: {refused:?}");

    // Under another name than the certificate's.
    let elsewhere = |mode: &str| secure(mode).replace("localhost", "127.0.0.1");
    let without_root = |url: String| url.split("&sslrootcert").next().unwrap().to_owned();
    for url in [elsewhere("verify-ca"), without_root(elsewhere("require")), without_root(elsewhere("prefer"))] {
        temporary(&url).await.expect(&url);
    }
    let refused = temporary(&elsewhere("verify-full")).await.err();
    assert!(matches!(refused, Some(CdcError::Connection(_))), "it is another's certificate: {refused:?}");

    // A client that shows a certificate instead of a password.
    let (client, client_key, request) = (at("client.crt"), at("client.key"), at("client.csr"));
    openssl(&[&["req"], &new_key[..], &["/CN=by_cert", "-keyout", &client_key, "-out", &request]].concat());
    let sign = ["x509", "-req", "-days", "2", "-CAcreateserial", "-in", &request, "-CA", &root, "-CAkey", &root_key];
    openssl(&[&sign[..], &["-extfile", &at("extensions"), "-out", &client]].concat());
    let trusted = server.data_dir().join("root.crt");
    fs::copy(&root, &trusted).unwrap();
    give(&server, &trusted);
    fs::write(&hba, "hostssl all by_cert 127.0.0.1/32 cert\n".to_owned() + &fs::read_to_string(&hba).unwrap()).unwrap();
    let trust =
        "CREATE ROLE by_cert LOGIN REPLICATION;; ALTER SYSTEM SET ssl_ca_file = 'root.crt';; SELECT pg_reload_conf()";
    run(&server, trust).await;
    let by_cert = format!("postgres://by_cert@localhost:{port}/headwater?sslmode=verify-full&sslrootcert={root}");
    temporary(&format!("{by_cert}&sslcert={client}&sslkey={client_key}")).await.expect("by certificate");
    for wrong in ["", "&sslcert=/no/such.crt&sslkey=/no/such.key", &format!("&sslcert={client}")] {
        assert!(temporary(&(by_cert.clone() + wrong)).await.is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn what_the_server_refuses_is_told_apart_own_server() {
    let server = Server::builder().setting("max_replication_slots", "2").start().expect("failed to start a server");
    run(&server, "CREATE PUBLICATION p").await;
    let url = server.url("headwater");
    // Quotes and all: it is a name, and one that is refused.
    let named = start(&url, "no\"; DROP", SlotKind::Temporary).await.err();
    assert!(matches!(&named, Some(CdcError::Server { .. })), "{named:?}");
    let reader = start(&url, "s1", SlotKind::Durable).await.expect("the first");
    let busy = start(&url, "s1", SlotKind::Durable).await.err();
    assert!(matches!(&busy, Some(CdcError::SlotBusy { slot, .. }) if slot == "s1"), "{busy:?}");
    let (system, timeline) = reader.system();
    assert!(system.parse::<u64>().is_ok() && timeline == 1, "{system} {timeline}");
    drop(reader);
    start(&url, "s2", SlotKind::Durable).await.expect("the second");
    let full = start(&url, "s3", SlotKind::Durable).await.err();
    assert!(matches!(full, Some(CdcError::Exhausted(_))), "{full:?}");
    let gone = temporary("postgres://127.0.0.1:1/headwater").await.err();
    assert!(matches!(gone, Some(CdcError::Connection(_))), "{gone:?}");
}

#[tokio::test]
async fn a_server_without_logical_wal_says_so_own_server() {
    let server = Server::builder().setting("wal_level", "replica").start().expect("failed to start a server");
    let refused = temporary(&server.url("headwater")).await.err();
    assert!(matches!(&refused, Some(CdcError::WalLevel(level)) if level == "replica"), "{refused:?}");
}
