//! A PostgreSQL server of your own from installed binaries: durable for quickstarts, disposable for
//! tests.
//!
//! ```
//! use headwater_embedded::{Server, Shutdown};
//!
//! let mut server = Server::builder().start()?;
//! println!("connect to {}", server.url("headwater"));
//! server.restart(Shutdown::Fast)?;
//! # Ok::<(), headwater_embedded::EmbeddedError>(())
//! ```
//!
//! [`ServerBuilder::disposable`] (the same as [`Server::builder`]) makes a server in a temporary
//! folder, without fsync. The folder is removed with its [`Server`]. [`ServerBuilder::durable`]
//! keeps its data in your folder, with all of PostgreSQL's safety on. [`ServerBuilder::standby_of`]
//! makes a streaming standby of a server, for tests of failover: see [`Server::kill`] and
//! [`Server::promote`].
//!
//! # Who may connect
//!
//! Everybody who knows the password. It is generated at the first start and kept in
//! `headwater.password` in the data folder. Only the user that the server runs as (and root) can
//! read that file; [`Server::url`] includes the password. Over TCP the server listens on
//! `127.0.0.1` and asks for it (SCRAM). The socket does not ask for it, but folder and socket are
//! closed to everybody else. A data folder from a time when connections from this machine were
//! trusted gets a password at its next start, and `pg_hba.conf` then asks for it.
//!
//! # Who stops the server
//!
//! The owner of the [`Server`] does, by dropping it. The server is a child in its own process
//! group, so that Ctrl-C reaches only the owner. If the owner vanishes without dropping it (`kill
//! -9`, `process::exit`, a server kept in a `static`), a watchdog shuts the server down cleanly and
//! removes everything temporary. The watchdog is a `sh` that waits on a pipe which only the owner
//! holds.
//!
//! # As root
//!
//! PostgreSQL refuses to run as root. If root starts it, everything runs as the user `postgres`, or
//! as `nobody` where there is no such user, or as the owner of an existing data folder.

mod binaries;
mod builder;
mod error;
mod folder;
mod instance;
mod log;
mod password;
mod pidfile;
mod port;
mod postmaster;
mod run_as;
mod server;
mod settings;
mod standby;
mod watchdog;
mod wire;

pub use binaries::Version;
pub use builder::ServerBuilder;
pub use error::EmbeddedError;
pub use postmaster::Shutdown;
pub use server::{Server, StoppedServer};

/// The superuser of every server, and the name of the database created at its first start.
const HEADWATER: &str = "headwater";
