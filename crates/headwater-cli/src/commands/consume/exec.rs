//! Handles each event by a command.

use std::collections::HashSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater::{Delivery, EventObserver, HandlerError, Json, RecordedEvent};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::time::timeout;

use super::delivery::DeliveryArgs;
use super::ending::Ending;

/// The exit code with which a command says that retries are useless: EX_DATAERR of sysexits.
const PERMANENT: i32 = 65;
/// How many bytes of a command's stderr are kept.
const TAIL: usize = 4096;
/// How long to read the stderr of a command that has ended. A process that it left behind may hold
/// stderr open for ever.
const LAST_WORDS: Duration = Duration::from_millis(100);

pub(super) struct Exec {
    command: String,
    namespace: String,
    subscriber_id: String,
    timeout: Duration,
    ending: Arc<Ending>,
    /// The process groups that run now.
    running: Mutex<HashSet<Pid>>,
}

/// The observer that runs the command.
pub(super) struct Runs(pub(super) Arc<Exec>);

impl EventObserver for Runs {
    fn subscriber_id(&self) -> &str {
        &self.0.subscriber_id
    }

    async fn on_event(&self, event: Delivery<Json>) -> Result<(), HandlerError> {
        let exec = &self.0;
        exec.ending.check()?;
        let outcome = exec.handle(&event).await;
        if outcome.is_ok() {
            exec.ending.count(1);
        }
        outcome
    }
}

impl Exec {
    pub(super) fn new(
        command: &str,
        namespace: &str,
        subscriber_id: &str,
        delivery: &DeliveryArgs,
        ending: Arc<Ending>,
    ) -> Self {
        Exec {
            command: command.into(),
            namespace: namespace.into(),
            subscriber_id: subscriber_id.into(),
            timeout: delivery.handler_timeout(),
            ending,
            running: Mutex::default(),
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Kills all running commands at once.
    pub(super) fn kill(&self) {
        for group in self.running.lock().expect("no holder of this lock panics").iter() {
            _ = kill_process_group(*group, Signal::KILL);
        }
    }

    async fn handle(&self, event: &RecordedEvent) -> Result<(), HandlerError> {
        let mut input = serde_json::to_vec(event)?;
        input.push(b'\n');
        let mut child = self
            .prepare(event)
            .spawn()
            .map_err(|error| HandlerError::message(format!("failed to start the command: {error}")))?;
        let mut group = Group::of(&child, self);
        let mut tail = Tail::default();
        match timeout(self.timeout, run(&mut child, input, &mut tail)).await {
            Ok(Ok(status)) => {
                group.has_ended();
                tail.verdict(status)
            }
            Ok(Err(error)) => Err(HandlerError::message(format!("failed to wait for the command: {error}"))),
            Err(_) => {
                group.kill();
                _ = child.wait().await;
                let what = format!("the command took longer than {:?} and was killed", self.timeout);
                Err(HandlerError::message(tail.with(what)))
            }
        }
    }

    fn prepare(&self, event: &RecordedEvent) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", &self.command])
            .env("HEADWATER_NAMESPACE", &self.namespace)
            .env("HEADWATER_SUBSCRIBER", &self.subscriber_id)
            .env("HEADWATER_EVENT_ID", event.id.to_string())
            .env("HEADWATER_EVENT_TYPE", &event.event_type)
            .env("HEADWATER_GLOBAL_SEQUENCE", event.sequence().to_string())
            .env_remove("HEADWATER_STREAM_ID");
        if let Some(stream) = &event.stream_id {
            command.env("HEADWATER_STREAM_ID", stream.as_str());
        }
        // Its own process group: it can be killed as a whole, and Ctrl-C, which goes to our group,
        // lets it finish.
        command.process_group(0).stdin(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Writes the command's input, passes its stderr on, and waits for its end.
async fn run(child: &mut Child, input: Vec<u8>, tail: &mut Tail) -> io::Result<ExitStatus> {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let talk = async { tokio::join!(feed(stdin, input), tail.follow(stderr)) };
    tokio::pin!(talk);
    tokio::select! {
        status = child.wait() => {
            _ = timeout(LAST_WORDS, talk).await;
            status
        }
        _ = &mut talk => child.wait().await,
    }
}

/// Writes the input. A failed write is not an error: a command does not have to read its input.
async fn feed(stdin: Option<ChildStdin>, input: Vec<u8>) {
    if let Some(mut stdin) = stdin {
        _ = stdin.write_all(&input).await;
    }
}

/// The end of a command's stderr.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    async fn follow(&mut self, stderr: Option<ChildStderr>) {
        let Some(mut stderr) = stderr else { return };
        let mut chunk = [0; TAIL];
        while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
            _ = io::Write::write_all(&mut io::stderr(), &chunk[..read]);
            self.0.extend_from_slice(&chunk[..read]);
            let beyond = self.0.len().saturating_sub(TAIL);
            self.0.drain(..beyond);
        }
    }

    fn with(&self, what: String) -> String {
        let text = String::from_utf8_lossy(&self.0);
        let text = text.trim();
        if text.is_empty() { what } else { format!("{what}: {text}") }
    }

    fn verdict(&self, status: ExitStatus) -> Result<(), HandlerError> {
        let what = match (status.code(), status.signal()) {
            (Some(0), _) => return Ok(()),
            (Some(PERMANENT), _) => {
                return Err(HandlerError::permanent(self.with(format!("the command exited with {PERMANENT}"))));
            }
            (Some(code), _) => format!("the command exited with {code}"),
            (None, signal) => format!("the command was ended by signal {}", signal.unwrap_or_default()),
        };
        Err(HandlerError::message(self.with(what)))
    }
}

/// The process group of a command. A drop before the command has ended kills the group.
struct Group<'e> {
    exec: &'e Exec,
    group: Option<Pid>,
}

impl<'e> Group<'e> {
    fn of(child: &Child, exec: &'e Exec) -> Self {
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        exec.running.lock().expect("no holder of this lock panics").extend(group);
        Group { exec, group }
    }

    /// Forgets the group. Its id may now belong to another process.
    fn has_ended(&mut self) {
        if let Some(group) = self.group.take() {
            self.exec.running.lock().expect("no holder of this lock panics").remove(&group);
        }
    }

    fn kill(&mut self) {
        if let Some(group) = self.group {
            _ = kill_process_group(group, Signal::KILL);
        }
        self.has_ended();
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}
