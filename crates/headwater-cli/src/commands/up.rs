//! `headwater up`
//!
//! This process has authority over the server that it started, and over no other server. It ends
//! with 0 when it is told to (Ctrl-C, SIGTERM, or a closed terminal). It then stops the server
//! fast, which keeps everything that is committed. If the server ends by itself, this process ends
//! with 1, and a supervisor can start both again. If this process is killed, the server's watchdog
//! stops the server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use headwater::Headwater;
use headwater::admin::NamespaceConfig;
use headwater_embedded::{EmbeddedError, Server, ServerBuilder, Shutdown};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::commands::migrate::migrate;
use crate::connection::{ConnectionArgs, LOCAL_PORT, without_password};
use crate::data_dir;
use crate::failure::Failure;
use crate::live_args::LiveKind;
use crate::output::Output;
use crate::signals::StopSignals;

/// The time between two checks that the server still runs.
const LOOK: Duration = Duration::from_secs(1);

/// Run Headwater in this terminal, with its own PostgreSQL
///
/// Starts a durable PostgreSQL server from the binaries on this machine (as an unprivileged user if
/// you are root). Brings its schema up to date, prints its DATABASE_URL to standard output, and
/// runs until Ctrl-C. The data is kept. In all namespaces, events with a due time are delivered at
/// that time, and schedules are fired.
///
/// The server listens only on 127.0.0.1, and asks for a password, which is created at the first
/// start. The printed URL contains it. Only the user that runs the server can read the password's
/// file (pgdata/headwater.password in the data folder). Other commands find it by themselves if
/// they use the same data folder.
///
/// With --database-url or DATABASE_URL, that database is migrated and used. No server is started,
/// and the printed URL does not contain the password.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater up
  headwater up --namespace shop --namespace billing
  headwater up --namespace shop --live cdc
  headwater up --data-dir /srv/headwater --port 0
  headwater up --database-url postgres://app@db.internal/app")]
pub(crate) struct Up {
    /// Where the data is kept [default: /var/lib/headwater for root, else $XDG_DATA_HOME/headwater
    /// or ~/.local/share/headwater]
    #[arg(long, env = data_dir::ENV, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The port to listen on. 0: any free port
    #[arg(long, default_value_t = LOCAL_PORT)]
    port: u16,
    /// A namespace to create unless it exists; may be repeated
    #[arg(long = "namespace", value_name = "NAME", num_args = 1..)]
    namespaces: Vec<String>,
    /// cdc: publish all namespaces, so that roles that own no tables can follow the WAL (`headwater
    /// consume --live cdc`)
    #[arg(long, value_enum, default_value_t)]
    live: LiveKind,
}

impl Up {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        // Listen first, so that no signal is missed, and none ends us while the server starts.
        let mut stop = StopSignals::listen()?;
        match connection.given() {
            Some(url) => {
                eprintln!("using the database that was given; no server is started");
                let headwater = connection.connect().await?;
                self.prepare(&headwater, &without_password(url)).await?;
                let firing = keep_firing(&headwater);
                eprintln!("stopping on {}", stop.received().await);
                firing.abort();
                unless_again(&mut stop, headwater.shutdown()).await
            }
            None => self.run_with_server(&mut stop).await,
        }
    }

    async fn run_with_server(self, stop: &mut StopSignals) -> Result<(), Failure> {
        let folder = match &self.data_dir {
            Some(folder) => folder.clone(),
            None => data_dir::folder().ok_or_else(no_home)?,
        };
        let mut builder = ServerBuilder::durable(&folder);
        if self.port != 0 {
            builder = builder.port(self.port);
        }
        eprintln!("starting PostgreSQL in {}", folder.display());
        let mut server = blocking(move || builder.start()).await?;
        eprintln!("PostgreSQL {} runs as pid {} on port {}", server.version(), server.pid(), server.port());

        let url = server.url("headwater");
        let headwater = Headwater::builder().application_name("headwater-up").connect(&url).await?;
        self.prepare(&headwater, &url).await?;
        let firing = keep_firing(&headwater);
        let outcome = tokio::select! {
            signal = stop.received() => {
                eprintln!("stopping on {signal}");
                Ok(())
            }
            failure = ended(&mut server) => Err(failure),
        };
        firing.abort();
        // After a second signal, the server ends as if this process had been killed.
        unless_again(stop, headwater.shutdown()).await?;
        if outcome.is_ok() {
            unless_again(stop, blocking(move || server.stop(Shutdown::Fast))).await??;
            eprintln!("stopped; the data is kept in {}", folder.display());
        }
        outcome
    }

    async fn prepare(&self, headwater: &Headwater, url: &str) -> Result<(), Failure> {
        eprintln!("{}", migrate(headwater).await?);
        for name in &self.namespaces {
            headwater.create_namespace(NamespaceConfig::new(name)).await?;
            eprintln!("namespace {name} is there");
        }
        #[cfg(feature = "cdc")]
        if self.live == LiveKind::Cdc {
            self.publish(headwater).await?;
        }
        eprintln!("ready; stop with Ctrl-C");
        // Other programs wait for this line: everything works from here on. A failed write is
        // ignored, because it does not matter if nobody reads the line.
        let mut output = Output::new();
        _ = output.line(format_args!("DATABASE_URL={url}")).and_then(|()| output.finish());
        Ok(())
    }
}

/// Ends work at once when the process is told to stop a second time.
async fn unless_again<T>(stop: &mut StopSignals, work: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::select! {
        done = work => Ok(done),
        signal = stop.received_again() => Err(Failure::interrupted().at(format_args!("{signal} again"))),
    }
}

impl Up {
    /// Publishes all namespaces. If the server cannot provide what is needed, this only prints a
    /// warning: consumers poll then.
    async fn publish(&self, headwater: &Headwater) -> Result<(), Failure> {
        let settings = headwater.admin().replication_settings().await?;
        for name in &settings.not_published {
            headwater.admin().publish_namespace(name).await?;
            eprintln!("namespace {name} is published");
        }
        if settings.wal_level != "logical" {
            eprintln!("warning: wal_level is {}: set it to logical, or nobody can follow the WAL", settings.wal_level);
        }
        Ok(())
    }
}

/// Fires events when they are due, because no node may be running.
fn keep_firing(headwater: &Headwater) -> JoinHandle<()> {
    let headwater = headwater.clone();
    tokio::spawn(async move { headwater.keep_firing_due().await })
}

/// Returns when the server has ended by itself.
async fn ended(server: &mut Server) -> Failure {
    while server.is_running() {
        tokio::time::sleep(LOOK).await;
    }
    Failure::unexpected(format!("the server ended by itself; its log ends with:\n{}", server.log_tail(20)))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EmbeddedError> + Send + 'static,
) -> Result<T, Failure> {
    match spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(panicked) => Err(Failure::unexpected(panicked)),
    }
}

fn no_home() -> Failure {
    Failure::invalid("no home folder to keep the data in").help("choose a folder with --data-dir")
}
