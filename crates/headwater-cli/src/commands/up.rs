//! `headwater up`
//!
//! Who has authority: this process over the server that it started, and nobody over one that it did not. It ends with 0 when it
//! is told to (Ctrl-C, SIGTERM, or the terminal closing), and then the server is stopped fast, which keeps all that
//! is committed. A server that ends by itself ends this process with 1: whoever supervises it starts both again. If this
//! process is killed outright, the server's watchdog stops it.

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

/// How often to look whether the server still runs.
const LOOK: Duration = Duration::from_secs(1);

/// Run Headwater in this terminal, with a PostgreSQL of its own
///
/// Starts a durable PostgreSQL server from the binaries on this machine (as an unprivileged user if you are root),
/// brings its schema up to date, prints its DATABASE_URL on standard output, and stays until Ctrl-C. The data is
/// kept. The server listens on 127.0.0.1 only, and asks for a password, which is made at the first start: the printed url
/// holds it, only the user that the server runs as can read its file (pgdata/headwater.password in the data folder), and the
/// other commands find it by themselves in the same data folder. Events that were emitted with a due time are
/// delivered at that time, and schedules are fired, in all namespaces.
///
/// With --database-url or DATABASE_URL, that database is migrated and used, no server is started, and what is printed
/// leaves its password out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater up
  headwater up --namespace shop --namespace billing
  headwater up --namespace shop --live cdc
  headwater up --data-dir /srv/headwater --port 0
  headwater up --database-url postgres://app@db.internal/app")]
pub(crate) struct Up {
    /// Where the data is kept [default: /var/lib/headwater for root, else $XDG_DATA_HOME/headwater or
    /// ~/.local/share/headwater]
    #[arg(long, env = data_dir::ENV, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The port to listen on; 0: any that is free
    #[arg(long, default_value_t = LOCAL_PORT)]
    port: u16,
    /// A namespace to create unless it is there; may be repeated
    #[arg(long = "namespace", value_name = "NAME", num_args = 1..)]
    namespaces: Vec<String>,
    /// cdc: publish all namespaces, so that consumers can follow the WAL (`headwater consume --live cdc`) as roles that own nothing
    #[arg(long, value_enum, default_value_t)]
    live: LiveKind,
}

impl Up {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        // First of all, so that no signal is missed, nor ends us while the server is being started.
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
        // If it is told to stop again, the server ends as if its owner were killed.
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
        // What others wait for: from here on all works. That nobody reads it is no reason to stop.
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
    /// What a server lacks is said, and nothing ends for it: whoever consumes polls then.
    async fn publish(&self, headwater: &Headwater) -> Result<(), Failure> {
        let settings = headwater.replication_settings().await?;
        for name in &settings.not_published {
            headwater.publish_namespace(name).await?;
            eprintln!("namespace {name} is published");
        }
        if settings.wal_level != "logical" {
            eprintln!("warning: wal_level is {}: set it to logical, or nobody can follow the WAL", settings.wal_level);
        }
        Ok(())
    }
}

/// Fires events when they are due: here, nobody else may run.
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
