//! `headwater consume`
//!
//! The subscriber's row in the database has authority: it says which process of a pool owns the
//! subscriber, and the other processes stand by. With `--partitions`, each partition has such a
//! row.
//!
//! This process ends
//! - when it is told to (SIGTERM, Ctrl-C, SIGHUP): it finishes the current event, writes its
//!   progress and gives up its lease. Another signal, a second or more after the first, ends it at
//!   once, together with the running command;
//! - when it has done what it was asked for (`--count`, `--until-caught-up`), in the same way;
//! - when its output cannot be written: the event that could not be written is not settled, and
//!   comes again;
//! - when the subscriber is removed.
//!
//! If the database goes away, the process does not end: it says so, waits, and goes on afterwards.

mod caught_up;
mod delivery;
mod ending;
mod exec;
mod format;
mod group;
mod narrate;
mod narrate_group;
mod print;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::future::BoxFuture;
use headwater::delivery::{Batch, Each, GroupStore, InstanceMode, PgSubscribers, ReliableDeliveryConfig, StartFrom};
use headwater::node::{NodeBuilder, WakeUpSource};
use headwater::{Delivery, HandlerError, Headwater, Namespace, Node, Queue, Subscription};

use crate::connection::ConnectionArgs;
use crate::duration::parse_short;
use crate::failure::Failure;
use crate::live_args::LiveArgs;
use crate::logging::CONSUME;
use crate::signals::{StopSignal, StopSignals};
use crate::start;
use ending::{Ending, Why};
use exec::Exec;

/// How long the shutdown may take in addition to the time for one event.
const SHUTDOWN: Duration = Duration::from_secs(10);
/// Connections for everything except wake-ups and the session lock, which have one each. One
/// connection reads or claims events while the other writes progress. All partitions share them.
const CONNECTIONS: u32 = 2;
pub(crate) const OWNERSHIP: &str = "Ownership and wake-ups";
const CARE: &str = "Maintenance of the namespace, which other processes do by default";

const EXAMPLES: &str = r#"Examples:
  headwater consume -n shop --subscriber mailer | while read -r event; do …; done
  headwater consume -n shop --subscriber mailer --exec './send-mail' --event-type OrderPlaced
  headwater consume -n shop --subscriber bridge --format cloudevents | ./forward
  headwater consume -n shop --subscriber export --until-caught-up --checkpoint 1000/1s > events.jsonl
  headwater consume -n shop --subscriber totals --exec ./add --concurrency 8 --on-exhaustion park-key
  headwater consume -n shop --subscriber search --exec ./index --partitions 16
  headwater consume -n shop --subscriber thumbnails --exec ./resize --shared --visibility 30s --concurrency 8

With --exec, sh runs the command for each event. The event is JSON on its standard input.
These variables are set: HEADWATER_EVENT_ID, HEADWATER_EVENT_TYPE, HEADWATER_GLOBAL_SEQUENCE,
HEADWATER_STREAM_ID (if the event has one), HEADWATER_SUBSCRIBER and HEADWATER_NAMESPACE.
The exit code of the command means:
  exit 0   handled
  exit 65  it will never work (EX_DATAERR): given up without retries
  other    failed: tried again, then given up; the end of its stderr is the error

The process holds at most four connections to the database, no matter how many partitions it
has: two for its work, one to LISTEN, and one for its session lock. --live cdc takes one more.

SIGTERM and SIGHUP end the process with exit code 0, Ctrl-C with 130. It finishes the current
event and writes its progress first. Another signal, a second or more later, ends it at once
(130).

An event comes at least once: it comes again after a crash if its checkpoint was not written.
Processes with the same --subscriber are a pool: one works, the others stand by and take over
when it ends.

With --partitions, all processes of the pool work, and share the partitions. All events of one
key (or stream) are in one partition, in order. Partitions are handled in parallel, each by its
own command. A process that starts gets its share, and the share of a process that ends goes to
the others. See `headwater groups --help`. --until-caught-up then waits for the whole group, or,
with --partition-id, for these partitions. --count counts the events of this process.

With --shared, the processes of the pool are workers of one queue. Each event goes to one of
them, in no particular order. If that worker does not renew its claim within --visibility, the
event goes to another worker. An event that fails comes again, to any worker. --event-type then
says which events this worker handles. A queue takes what its workers handle, and everything if one
of them runs without --event-type. Events that it does not take are settled without a worker: if
others are to wait for a worker that starts later, say so first with `headwater subscribers
set-types`.

With --config, options come from a TOML file, by their names. Options on the command line and
environment variables take precedence over the file. An option that may be repeated is a list,
and an option without a value is true or false:
  namespace = "shop"
  subscriber = "mailer"
  event-type = ["OrderPlaced", "OrderCancelled"]
  lease = "10s"
  no-session-locks = true"#;

/// Deliver events to a subscriber: as JSON lines on standard output, or by running a command
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Consume {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// The subscriber's id. A new subscriber is created; an existing one goes on where it was
    #[arg(short, long, value_name = "ID")]
    subscriber: String,
    /// Write one JSON object per line to standard output (the default). Progress is written after
    /// the lines are written and flushed
    #[arg(long, conflicts_with = "exec")]
    json: bool,
    /// The format in which events are written
    #[arg(long, value_enum, default_value_t = format::Format::Event, conflicts_with = "exec")]
    format: format::Format,
    /// Run this command for each event
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,

    /// Where a new subscriber starts. SEQUENCE: after this global_sequence [default: beginning]
    #[arg(long, value_name = start::PLACE, value_parser = start::parse)]
    from: Option<StartFrom>,
    /// Only events of this type. * stands for any characters; may be repeated
    #[arg(long = "event-type", value_name = "TYPE")]
    event_types: Vec<String>,
    /// Only events of streams whose name starts with this prefix
    #[arg(long, value_name = "PREFIX")]
    stream_prefix: Option<String>,
    /// Stop after N events are handled
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Stop when all events that were in the log at the start are handled
    #[arg(long)]
    until_caught_up: bool,

    #[command(flatten)]
    delivery: delivery::DeliveryArgs,
    #[command(flatten)]
    group: group::GroupArgs,

    /// The name of this process [default: host name and pid]
    #[arg(long, value_name = "NAME", help_heading = OWNERSHIP)]
    node: Option<String>,
    /// How long a process that no longer renews its lease keeps the subscriber [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_short, help_heading = OWNERSHIP)]
    lease: Option<Duration>,
    /// Use no lease. You must make sure that only one process runs at a time
    #[arg(long, conflicts_with_all = ["lease", "no_session_locks"], help_heading = OWNERSHIP)]
    single_instance: bool,
    /// Hold no session lock, for example behind PgBouncer in transaction mode. Other processes then
    /// take over when the lease ends, not at once
    #[arg(long, help_heading = OWNERSHIP)]
    no_session_locks: bool,
    /// Find new events only by polling, without LISTEN
    #[arg(long, conflicts_with = "listen_url", help_heading = OWNERSHIP)]
    poll_only: bool,
    /// The URL of the connection for LISTEN, for example to bypass PgBouncer
    #[arg(long, value_name = "URL", help_heading = OWNERSHIP)]
    listen_url: Option<String>,
    #[command(flatten)]
    live: LiveArgs,

    /// Append the namespace's events when they are due, and fire its schedules, as nodes of
    /// programs and `headwater up` do
    #[arg(long, help_heading = CARE)]
    fire_due: bool,
    /// Once an hour, make the namespace's coming months, and drop months that are older than its
    /// retention, as nodes of programs do
    #[arg(long, help_heading = CARE)]
    maintain: bool,

    /// A TOML file with options that are not given on the command line; see below
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

impl Consume {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        // Listen first, so that no signal ends the process in the middle of its start.
        let mut signals = StopSignals::listen()?;
        let starting = async {
            let headwater = connection.connect_with(Headwater::builder().max_connections(CONNECTIONS)).await?;
            let namespace = headwater.namespace(&self.namespace).await?;
            self.group.check(&namespace, &self.subscriber).await?;
            self.say_where_it_goes_on(&namespace).await?;
            let end = headwater.admin().log_end(&self.namespace).await?;
            let ending = Arc::new(Ending::new(self.count));
            let exec = self.exec.as_ref().map(|command| {
                Arc::new(Exec::new(command, &self.namespace, &self.subscriber, &self.delivery, ending.clone()))
            });
            let node = self.node(&namespace, &ending, exec.clone())?.start().await?;
            Ok::<_, Failure>((headwater, namespace, end, ending, exec, node))
        };
        let (headwater, namespace, end, ending, exec, node) = tokio::select! {
            started = starting => started?,
            signal = signals.received() => return stopped_by(signal),
        };
        let subscribers = namespace.subscribers();
        let outcome = tokio::select! {
            signal = signals.received() => stopped_by(signal),
            why = ending.ended() => why.outcome(),
            outcome = self.caught_up(&node, &subscribers, end), if self.until_caught_up => outcome,
            failure = self.narrate(&node, &subscribers) => Err(failure),
        };
        let limit = exec.as_ref().map_or(Duration::ZERO, |exec| exec.timeout()) + SHUTDOWN;
        let shutdown = async {
            node.shutdown_within(limit).await?;
            if tokio::time::timeout(SHUTDOWN, headwater.shutdown()).await.is_err() {
                tracing::warn!(target: CONSUME, "the database does not answer: its connections are given up");
            }
            Ok::<_, Failure>(())
        };
        tokio::select! {
            ended = shutdown => ended?,
            signal = signals.received_again() => {
                if let Some(exec) = exec {
                    exec.kill();
                }
                return Err(Failure::interrupted().at(format_args!("{signal} again")));
            }
        }
        outcome
    }

    async fn caught_up(&self, node: &Node, subscribers: &PgSubscribers, end: u64) -> Result<(), Failure> {
        match self.group.is_group() {
            true => caught_up::caught_up(node, subscribers, &self.subscriber, self.group.assigned(), end).await,
            false => Ok(node.wait_for(&self.subscriber, end).await?),
        }
    }

    async fn narrate(&self, node: &Node, subscribers: &PgSubscribers) -> Failure {
        match self.group.is_group() {
            true => narrate_group::narrate(node, subscribers, &self.subscriber, self.group.assigned()).await,
            false => narrate::narrate(node, subscribers, &self.subscriber).await,
        }
    }

    /// Says that --from has no effect if the subscriber exists.
    async fn say_where_it_goes_on(&self, namespace: &Namespace) -> Result<(), Failure> {
        if self.from.is_none() {
            return Ok(());
        }
        match namespace.subscribers().position(&self.subscriber).await {
            Ok(there) => tracing::info!(
                target: CONSUME,
                "the subscriber exists and goes on after {}: --from is for new subscribers, `headwater subscribers reset` moves it",
                there.position
            ),
            Err(headwater::delivery::SubscriberError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn node(
        &self,
        namespace: &Namespace,
        ending: &Arc<Ending>,
        exec: Option<Arc<Exec>>,
    ) -> Result<NodeBuilder, Failure> {
        let name = self.node.clone().unwrap_or_else(default_node);
        let mut builder = namespace.node(name).session_locks(!self.no_session_locks).live(self.live.live());
        if let Some(lease) = self.lease {
            builder = builder.lease(lease);
        }
        if !self.fire_due {
            builder = builder.without_firing_due();
        }
        if !self.maintain {
            builder = builder.without_maintenance();
        }
        if self.poll_only {
            builder = builder.wake_ups(WakeUpSource::Poll);
        }
        if let Some(url) = &self.listen_url {
            builder = builder.wake_ups(WakeUpSource::ListenAt(url.clone()));
        }
        let mut config = self.delivery.config(self.exec.is_none())?;
        if let Some(from) = self.from {
            config.start_from = from;
        }
        if self.single_instance {
            config.instance_mode = InstanceMode::SingleInstance;
        }
        Ok(match (exec, self.group.is_shared()) {
            (Some(exec), false) => {
                let subscription = self.subscription(Subscription::of(exec::Runs(exec)), config);
                let subscription = subscription.concurrency(self.delivery.concurrency());
                builder.run(self.count.into_iter().fold(subscription, Subscription::<Each>::at_most))
            }
            (Some(exec), true) => {
                let queue = self.queue(Queue::of(exec::Runs(exec)), config).workers(self.delivery.concurrency());
                builder.run(self.count.into_iter().fold(queue, Queue::<Each>::at_most))
            }
            (None, false) => {
                let subscription =
                    self.subscription(Subscription::new(&self.subscriber).batch(self.print(ending)), config);
                let subscription = subscription.at_once(self.delivery.lines_at_once(), print::bytes_at_once());
                builder.run(self.count.into_iter().fold(subscription, Subscription::<Batch>::at_most))
            }
            (None, true) => {
                let queue = self.queue(Queue::new(&self.subscriber).batch(self.print(ending)), config);
                let queue = queue.at_once(self.delivery.lines_at_once(), print::bytes_at_once());
                builder.run(self.count.into_iter().fold(queue, Queue::<Batch>::at_most))
            }
        })
    }

    fn subscription<H>(&self, subscription: Subscription<H>, config: ReliableDeliveryConfig) -> Subscription<H> {
        let subscription = self.group.share(subscription).config(config).event_types(&self.event_types);
        self.stream_prefix.iter().fold(subscription, |subscription, prefix| subscription.stream_prefix(prefix))
    }

    fn queue<H>(&self, queue: Queue<H>, config: ReliableDeliveryConfig) -> Queue<H> {
        self.group.claim(queue).config(config).event_types(&self.event_types)
    }

    /// Returns a handler that prints many events at once.
    fn print(
        &self,
        ending: &Arc<Ending>,
    ) -> impl Fn(Vec<Delivery>) -> BoxFuture<'static, Result<(), HandlerError>> + Send + Sync + use<> {
        let written = format::Written { format: self.format, namespace: self.namespace.clone() };
        let printer = Arc::new(print::Printer::new(written, ending.clone()));
        move |events| {
            let printer = printer.clone();
            Box::pin(async move { printer.print(&events).await })
        }
    }
}

impl Why {
    fn outcome(&self) -> Result<(), Failure> {
        match self {
            Why::Enough | Why::OutputClosed => Ok(()),
            Why::OutputFailed(message) => Err(Failure::unexpected(message)),
        }
    }
}

fn stopped_by(signal: StopSignal) -> Result<(), Failure> {
    match signal {
        StopSignal::Interrupt => Err(Failure::interrupted()),
        StopSignal::Terminate | StopSignal::HangUp => {
            tracing::info!(target: CONSUME, "stopping on {signal}");
            Ok(())
        }
    }
}

fn default_node() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}-{}", std::process::id())
}
