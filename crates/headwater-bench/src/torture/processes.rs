//! The consumers: processes that this program starts, stops, kills and starts again. It addresses
//! each by its id, never by its name.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

use super::live::Source;
use super::mode::Mode;
use super::subscribers::{ALL, Subscriber};

/// How long a consumer may take to end when it is asked to.
const LEAVE: Duration = Duration::from_secs(45);
/// A younger process may not handle its signals yet, and a signal could end it.
const SETTLING: Duration = Duration::from_secs(2);

/// The options of a consumer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConsumerOptions {
    pub(crate) live: Source,
    pub(crate) lease: Duration,
    /// Whether handlers are slow.
    pub(crate) slow: bool,
}

/// A place for a consumer. The process in it changes; the node stays the same.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) node: String,
    subscribers: String,
    url: String,
    mode: Mode,
    pub(crate) manner: ConsumerOptions,
    folder: PathBuf,
    child: Option<Child>,
    started: Instant,
    /// Counts the processes that were started here.
    pub(crate) run: u32,
}

/// Shared by all code that acts on the process.
pub(crate) type SharedPlace = Arc<Mutex<Place>>;

/// Makes two places with all subscribers, and two with half of them each. So each subscriber has
/// three processes, and the subscribers of one process do not all change hands together.
pub(crate) fn places(url: &str, folder: &Path, mode: Mode, live: Option<Source>) -> Vec<SharedPlace> {
    let half = |odd: usize| ALL.into_iter().enumerate().filter(move |(at, _)| at % 2 == odd).map(|(_, one)| one);
    let sets: [Vec<Subscriber>; 4] = [ALL.to_vec(), ALL.to_vec(), half(0).collect(), half(1).collect()];
    let place = |(number, (subscribers, mut manner)): (usize, (Vec<Subscriber>, ConsumerOptions))| {
        let ids: Vec<_> = subscribers.into_iter().map(Subscriber::id).collect();
        manner.live = live.unwrap_or(manner.live);
        Arc::new(Mutex::new(Place {
            node: format!("torture-{}", number + 1),
            subscribers: ids.join(","),
            url: url.to_owned(),
            mode,
            manner,
            folder: folder.to_owned(),
            child: None,
            started: Instant::now(),
            run: 0,
        }))
    };
    sets.into_iter().zip(mode.manners()).enumerate().map(place).collect()
}

impl Place {
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        if self.child.is_some() {
            return Ok(());
        }
        self.run += 1;
        let log = self.folder.join(format!("{}.{}.log", self.node, self.run));
        let child = Command::new(env::current_exe()?)
            .args(["torture-consumer", "--url", &self.url, "--node", &self.node, "--run", &self.run.to_string()])
            .args(["--live", self.manner.live.name(), "--subscribers", &self.subscribers])
            .args(["--lease-ms", &self.manner.lease.as_millis().to_string()])
            .args(["--partitions", &self.mode.partitions().to_string()])
            .args(["--failures", &self.mode.failures().to_string()])
            .args(self.mode.maintains().then_some("--maintain"))
            .args(self.manner.slow.then_some("--slow"))
            .arg("--folder")
            .arg(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).with_context(|| format!("failed to create {}", log.display()))?)
            .kill_on_drop(true)
            .spawn()?;
        (self.child, self.started) = (Some(child), Instant::now());
        Ok(())
    }

    /// Whether the process is old enough to handle its signals.
    pub(crate) fn knows_signals(&self) -> bool {
        self.runs() && self.started.elapsed() > SETTLING
    }

    pub(crate) fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// Sends a signal. A process that was not yet waited for keeps its id, so the signal reaches no
    /// other process.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let id = self.child.as_ref().and_then(Child::id).context("the consumer is gone")?;
        let pid = Pid::from_raw(id as i32).context("a process has an id")?;
        Ok(kill_process(pid, signal)?)
    }

    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// Checks that the consumer has not ended without being told to.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait()?
        {
            self.child = None;
            bail!("consumer {}.{} ended by itself: {status}; see its log", self.node, self.run);
        }
        Ok(())
    }

    /// Asks the process to leave, and waits until it has.
    pub(crate) async fn leave(&mut self) -> anyhow::Result<()> {
        self.check_alive()?;
        if self.child.is_none() {
            return Ok(());
        }
        sleep_until(self.started + SETTLING).await;
        self.signal(Signal::TERM)?;
        let Some(mut child) = self.child.take() else { return Ok(()) };
        match timeout(LEAVE, child.wait()).await {
            Ok(status) if status.as_ref().is_ok_and(|status| status.success()) => Ok(()),
            Ok(status) => bail!("consumer {}.{} left with {:?}; see its log", self.node, self.run, status?),
            Err(_) => {
                child.kill().await?;
                bail!("consumer {}.{} did not leave within {LEAVE:?}; see its log", self.node, self.run);
            }
        }
    }
}
