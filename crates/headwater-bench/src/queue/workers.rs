//! Workers and producers: through Headwater, and through pgmq as its clients call it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use headwater::node::NodeBuilder;
use headwater::{Delivery, Namespace, Queue};
use headwater_core::ClaimRequest;
use headwater_postgres::{Database, PgQueue, QueueConnection};
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::payload::Payloads;
use crate::server::BenchServer;

/// How long a worker waits after it found nothing.
const IDLE: Duration = Duration::from_millis(1);

/// A worker that does nothing with its events, or a node with several workers.
pub(super) enum Worker {
    Node(Box<NodeBuilder>, Arc<AtomicU64>),
    Claims { conn: QueueConnection, queue: PgQueue, request: Box<ClaimRequest> },
    Pgmq { conn: PgConnection, batch: i32 },
}

impl Worker {
    pub(super) fn node(server: &BenchServer, subscriber_id: &str, handlers: u32, batch: u32) -> Self {
        let taken = Arc::new(AtomicU64::new(0));
        let counted = taken.clone();
        let handler = move |events: Vec<Delivery>| {
            counted.fetch_add(events.len() as u64, Ordering::Relaxed);
            async { Ok(()) }
        };
        let queue = Queue::new(subscriber_id).batch(handler).workers(handlers).batch_size(batch);
        Worker::Node(Box::new(server.namespace.node("bench").run(queue)), taken)
    }

    /// A worker with its own connection. It asks for events of these types, or of all types if
    /// `types` is empty.
    pub(super) fn claims(server: &BenchServer, subscriber_id: &str, batch: u32, types: &[&str]) -> Self {
        let database = Database::from_pool(server.headwater.pool().clone());
        let queue = PgQueue::new(database, server.namespace.info().clone(), subscriber_id);
        let event_types = types.iter().map(|event_type| event_type.to_string()).collect();
        let request = Box::new(ClaimRequest { max_events: batch, event_types, ..ClaimRequest::new("bench") });
        Worker::Claims { conn: queue.connection(), queue, request }
    }

    pub(super) async fn pgmq(server: &BenchServer, batch: u32) -> anyhow::Result<Self> {
        Ok(Worker::Pgmq { conn: server.connect().await?, batch: batch.try_into()? })
    }

    /// Works until it is time to stop, and counts the handled events.
    async fn work(mut self, until: Until, handled: &AtomicU64) -> anyhow::Result<()> {
        if let Worker::Node(node, taken) = self {
            let node = node.start().await?;
            while until.goes_on(handled) {
                sleep(IDLE).await;
                handled.fetch_add(taken.swap(0, Ordering::Relaxed), Ordering::Relaxed);
            }
            return Ok(node.shutdown().await?);
        }
        while until.goes_on(handled) {
            match self.step().await? {
                0 => sleep(IDLE).await,
                taken => _ = handled.fetch_add(taken, Ordering::Relaxed),
            }
        }
        self.end().await
    }

    /// Takes a batch and finishes it. A worker that claims finishes the batch with its next call.
    /// Returns how many events there were.
    async fn step(&mut self) -> anyhow::Result<u64> {
        match self {
            Worker::Node(..) => Ok(0),
            Worker::Claims { conn, request, .. } => {
                let claims = conn.claim(request).await?;
                request.acks = claims.iter().map(|claim| claim.claim_id).collect();
                Ok(claims.iter().map(|claim| claim.events.len() as u64).sum())
            }
            Worker::Pgmq { conn, batch } => {
                let messages: Vec<(i64, serde_json::Value)> =
                    sqlx::query_as(include_str!("../../sql/pgmq_read.sql")).bind(*batch).fetch_all(&mut *conn).await?;
                if messages.is_empty() {
                    return Ok(0);
                }
                let ids: Vec<i64> = messages.into_iter().map(|(id, _)| id).collect();
                let taken = ids.len() as u64;
                sqlx::query(include_str!("../../sql/pgmq_delete.sql")).bind(ids).execute(conn).await?;
                Ok(taken)
            }
        }
    }

    async fn end(self) -> anyhow::Result<()> {
        match self {
            Worker::Node(..) => Ok(()),
            Worker::Claims { conn, queue, request } => {
                for claim_id in request.acks {
                    queue.ack(claim_id, None).await?;
                }
                conn.close().await;
                Ok(())
            }
            Worker::Pgmq { conn, .. } => Ok(conn.close().await?),
        }
    }
}

/// When workers stop.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    Handled(u64),
    Time(Instant),
}

impl Until {
    fn goes_on(self, handled: &AtomicU64) -> bool {
        match self {
            Until::Handled(all) => handled.load(Ordering::Relaxed) < all,
            Until::Time(end) => Instant::now() < end,
        }
    }
}

/// Runs all workers side by side, and counts the handled events.
pub(super) fn work(workers: Vec<Worker>, until: Until, handled: &Arc<AtomicU64>) -> JoinSet<anyhow::Result<()>> {
    let mut tasks = JoinSet::new();
    for worker in workers {
        let handled = handled.clone();
        tasks.spawn(async move { worker.work(until, &handled).await });
    }
    tasks
}

/// Sends one message per call.
pub(super) enum Producer {
    Headwater(Namespace),
    Pgmq(PgConnection),
}

impl Producer {
    async fn send(&mut self, payloads: &Payloads, number: u64) -> anyhow::Result<()> {
        match self {
            Producer::Headwater(namespace) => _ = namespace.emit(payloads.event(number)).await?,
            Producer::Pgmq(conn) => {
                let send = sqlx::query(include_str!("../../sql/pgmq_send.sql")).bind(payloads.jsonb(number));
                send.fetch_one(conn).await?;
            }
        }
        Ok(())
    }
}

/// Runs all producers side by side, until enough messages are sent or the time is over.
pub(super) fn produce(producers: Vec<Producer>, until: Until) -> JoinSet<anyhow::Result<()>> {
    let (payloads, sent) = (Arc::new(Payloads::new()), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for mut producer in producers {
        let (payloads, sent) = (payloads.clone(), sent.clone());
        tasks.spawn(async move {
            loop {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                let goes_on = match until {
                    Until::Handled(all) => number < all,
                    Until::Time(end) => Instant::now() < end,
                };
                if !goes_on {
                    return Ok(());
                }
                producer.send(&payloads, number).await?;
            }
        });
    }
    tasks
}

/// Waits for all tasks. Fails with the first failure.
pub(super) async fn all(mut tasks: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}
