//! `headwater-bench torture-consumer`: a process with a node, like an application, that writes down
//! what it handles.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use headwater::node::NodeOptions;
use headwater::{
    Bundle, Delivery, EventObserver, HandlerError, Headwater, Queue, RecordedEvent, Subscription, Transaction,
};
use rand::RngExt;
use tokio::signal::unix::{SignalKind, signal};

use super::line::{Book, Line, Mark, now_ns};
use super::live::Source;
use super::subscribers::Subscriber;
use super::{EVENT_TYPE, NAMESPACE};

/// Connections of the pool. There are few, so that they are easy to use up.
const CONNECTIONS: u32 = 6;
/// How long the pool stays used up when that is requested.
const EXHAUSTED: Duration = Duration::from_secs(3);

/// Visibility timeout of claims. Some pauses of a worker are longer.
const VISIBILITY: Duration = Duration::from_secs(2);

/// Options of `torture-consumer`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[arg(long)]
    url: String,
    #[arg(long)]
    node: String,
    /// Which run of the node this is
    #[arg(long)]
    run: u32,
    #[arg(long, value_delimiter = ',')]
    subscribers: Vec<String>,
    #[arg(long)]
    folder: PathBuf,
    #[arg(long, value_enum)]
    live: Source,
    #[arg(long)]
    lease_ms: u64,
    /// Initial number of partitions of the partitioned subscribers
    #[arg(long)]
    partitions: u32,
    /// Probability that a handler fails by chance
    #[arg(long)]
    failures: f64,
    /// Maintains the months every second
    #[arg(long)]
    maintain: bool,
    /// Handlers take 10 ms
    #[arg(long)]
    slow: bool,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    // If the torture is ended from outside, the kernel also ends this process, even if it is
    // stopped.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "headwater=info,warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let (mut term, mut usr1) = (signal(SignalKind::terminate())?, signal(SignalKind::user_defined1())?);

    let instance = format!("{}.{}", options.node, options.run);
    let book = Arc::new(Book::open(&options.folder.join(format!("{instance}.lines")))?);
    let subscribers = options.subscribers.iter().map(|id| Subscriber::named(id)).collect::<Result<Vec<_>, _>>()?;
    let builder = Headwater::builder()
        .application_name(&options.node)
        .max_connections(CONNECTIONS)
        .acquire_timeout(Duration::from_secs(5));
    let start = async {
        loop {
            match open(&builder, &options, &subscribers, &instance, &book).await {
                Ok(opened) => return opened,
                // The server may be restarting.
                Err(error) => {
                    eprintln!("failed to start, trying again: {error:#}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    };
    let (headwater, node) = tokio::select! {
        opened = start => opened,
        _ = term.recv() => return Ok(()),
    };
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = usr1.recv() => drop(tokio::spawn(exhaust(headwater.clone()))),
        }
    }
    node.shutdown().await?;
    headwater.shutdown().await;
    Ok(())
}

async fn open(
    builder: &headwater::admin::HeadwaterBuilder,
    options: &Options,
    subscribers: &[Subscriber],
    instance: &str,
    book: &Arc<Book>,
) -> anyhow::Result<(Headwater, headwater::Node)> {
    let headwater = builder.clone().connect(&options.url).await?;
    let namespace = headwater.namespace(NAMESPACE).await?;
    let mut node = namespace
        .node(&options.node)
        .options(NodeOptions { delivery: Subscriber::Broadcast.config(), ..NodeOptions::default() })
        .lease(Duration::from_millis(options.lease_ms))
        .live(options.live.live());
    if options.maintain {
        node = node.maintain_every(Duration::from_secs(1));
    }
    let writer = |subscriber| Writer {
        subscriber,
        instance: instance.to_owned(),
        book: book.clone(),
        failures: options.failures,
        slow: options.slow,
    };
    let hearing = Arc::new(writer(Subscriber::Broadcast));
    node = node.on_broadcast(EVENT_TYPE, move |event: Delivery, _| {
        let hearing = hearing.clone();
        async move {
            hearing.note(Mark::Begun, &event)?;
            hearing.linger().await;
            hearing.note(Mark::Handled, &event)?;
            Ok(())
        }
    });
    for subscriber in subscribers {
        let writer = writer(*subscriber);
        node = match subscriber {
            Subscriber::Transactional | Subscriber::PerKey => {
                let writer = Arc::new(writer);
                let effect = move |event: Delivery, mut tx: Transaction| {
                    let writer = writer.clone();
                    async move {
                        writer.note(Mark::Begun, &event)?;
                        sqlx::query(include_str!("../../sql/torture_effect.sql"))
                            .bind(writer.subscriber.id())
                            .bind(event.global_sequence.map(|sequence| sequence as i64))
                            .bind(event.id)
                            .bind(&writer.instance)
                            .execute(&mut *tx)
                            .await?;
                        writer.linger().await;
                        writer.note(Mark::Handled, &event)?;
                        Ok(())
                    }
                };
                let subscription = Subscription::new(subscriber.id()).config(subscriber.config());
                node.run(match subscriber {
                    Subscriber::PerKey => {
                        subscription.partitions(options.partitions).bundled_by(Bundle::Key).transactional(effect)
                    }
                    _ => subscription.transactional(effect),
                })
            }
            Subscriber::Shared => {
                let queue = Queue::of(writer).config(subscriber.config());
                node.run(queue.workers(4).visibility(VISIBILITY).prefetch(4))
            }
            _ => {
                let subscription = Subscription::of(writer).config(subscriber.config());
                node.run(match subscriber {
                    Subscriber::Partitioned => subscription.partitions(options.partitions),
                    Subscriber::Keyed => subscription.concurrency(8),
                    _ => subscription,
                })
            }
        };
    }
    Ok((headwater, node.start().await?))
}

/// Takes every connection of the pool and keeps them for a while.
async fn exhaust(headwater: Headwater) {
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        // Connections in use come back soon. If one does not, the pool is used up anyway.
        if let Ok(Ok(conn)) = tokio::time::timeout(EXHAUSTED, headwater.pool().acquire()).await {
            held.push(conn);
        }
    }
    eprintln!("the pool is used up: {} connections", held.len());
    tokio::time::sleep(EXHAUSTED).await;
    eprintln!("the pool is free again");
}

/// Writes down each event that it gets.
struct Writer {
    subscriber: Subscriber,
    instance: String,
    book: Arc<Book>,
    failures: f64,
    slow: bool,
}

impl Writer {
    /// Handlers take a short time, and some of them a longer one.
    async fn linger(&self) {
        let dice: f64 = rand::rng().random();
        if self.slow {
            tokio::time::sleep(Duration::from_millis(10)).await;
        } else if dice < 0.01 {
            tokio::time::sleep(Duration::from_millis(60)).await;
        } else if dice < 0.5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn note(&self, mark: Mark, event: &RecordedEvent) -> std::io::Result<()> {
        let stream = event.stream_id.as_ref().map(|stream| stream.to_string());
        self.book.write(&Line {
            mark,
            subscriber: self.subscriber.id().into(),
            instance: self.instance.clone(),
            sequence: event.sequence().get(),
            event: event.id,
            key: event.key.clone().or(stream).unwrap_or("-".into()),
            ns: now_ns(),
        })
    }
}

impl EventObserver for Writer {
    fn subscriber_id(&self) -> &str {
        self.subscriber.id()
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        self.note(Mark::Begun, &event)?;
        self.linger().await;
        if matches!(self.subscriber, Subscriber::Failing | Subscriber::Shared) {
            let always = self.subscriber.always_fails(event.sequence().get());
            if always || rand::rng().random_bool(self.failures) {
                self.note(Mark::Failed, &event)?;
                return Err(HandlerError::message("failed as it was told to"));
            }
        }
        self.note(Mark::Handled, &event)?;
        Ok(())
    }
}
