//! A PostgreSQL server of one's own from installed binaries: durable for quickstarts, disposable for tests.
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
//! [`ServerBuilder::disposable`] (what [`Server::builder`] gives) makes a server in a temporary folder,
//! without fsync, that goes with its [`Server`]. [`ServerBuilder::durable`] keeps its data in a folder of
//! yours, with every safety of PostgreSQL on. [`ServerBuilder::standby_of`] makes a streaming standby of a server, for
//! tests of failover: see [`Server::kill`] and [`Server::promote`].
//!
//! # Who may connect
//!
//! Who knows the password, which is generated at the first start and kept in `headwater.password` in the data
//! folder, readable by the user the server runs as (and by root) only; [`Server::url`] holds it. Over TCP the server
//! listens on `127.0.0.1` and asks for it (SCRAM). Through the socket it does not ask; folder and socket are closed to
//! everybody else. A data folder from a time when connections from this machine were trusted gets a
//! password at its next start, and `pg_hba.conf` then asks for it.
//!
//! # Who stops the server
//!
//! The owner of the [`Server`] does, by dropping it. The server is a child in a process group of its own,
//! so that Ctrl-C reaches the owner alone. Should the owner vanish without dropping it (`kill -9`,
//! `process::exit`, a server kept in a `static`), a watchdog (a `sh` that waits on a pipe which only the
//! owner holds) shuts the server down in order and removes what was temporary.
//!
//! # As root
//!
//! PostgreSQL refuses to run as root. Started by root, everything runs as the user `postgres`, or `nobody`
//! where there is none, or as the owner of a data folder that exists already.

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

/// The superuser of every server, and the name of the database made at its first start.
const HEADWATER: &str = "headwater";
