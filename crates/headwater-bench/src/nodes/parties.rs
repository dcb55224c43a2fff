//! The emitters and consumers of messages: nodes, and the loop on pgmq.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater::node::NodeOptions;
use headwater::{Delivery, Headwater, Node};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::server::{BenchServer, NAMESPACE};

const EVENT_TYPE: &str = "user.created";

/// What carries messages to handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Headwater,
    Loop,
}

/// The message with this number.
fn payload(number: u64) -> Value {
    json!({ "number": number, "userId": format!("user-{number:010}"), "email": format!("user-{number}@example.com"),
            "plan": "standard", "referrer": "https://example.com/campaigns/autumn", "newsletter": number.is_multiple_of(2) })
}

/// How many messages were handled, and when each message was first handled.
#[derive(Debug)]
struct Seen {
    count: watch::Sender<u64>,
    times: Mutex<HashMap<u64, Instant>>,
}

impl Seen {
    fn note(&self, payload: &Value) {
        let number = payload["number"].as_u64().unwrap_or_default();
        self.times.lock().expect("no holder of this lock panics").entry(number).or_insert_with(Instant::now);
        self.count.send_modify(|count| *count += 1);
    }
}

pub(super) struct Consumers {
    seen: Arc<Seen>,
    nodes: Vec<(Headwater, Node)>,
    loops: JoinSet<anyhow::Result<()>>,
    stop: watch::Sender<bool>,
}

impl Consumers {
    pub(super) async fn start(
        system: System,
        server: &BenchServer,
        count: usize,
        idle: Duration,
    ) -> anyhow::Result<Self> {
        let seen = Arc::new(Seen { count: watch::Sender::new(0), times: Mutex::default() });
        let mut consumers =
            Consumers { seen: seen.clone(), nodes: Vec::new(), loops: JoinSet::new(), stop: watch::Sender::new(false) };
        for number in 0..count {
            match system {
                System::Headwater => {
                    // Each node has its own connection pool, as in another process.
                    let headwater = Headwater::connect(&server.url).await?;
                    let options = NodeOptions::new(format!("node-{number}")).concurrency(2);
                    let node = headwater.namespace(NAMESPACE).await?.register_node(options).await?;
                    let seen = seen.clone();
                    node.on_event(EVENT_TYPE, move |event: Delivery, mut tx| {
                        let seen = seen.clone();
                        async move {
                            seen.note(&event.payload()?);
                            sqlx::query(include_str!("../../sql/nodes_effect.sql"))
                                .bind(event.message_id() as i64)
                                .bind(event.data_text())
                                .execute(&mut *tx)
                                .await?;
                            Ok(())
                        }
                    })?;
                    node.start().await?;
                    consumers.nodes.push((headwater, node));
                }
                System::Loop => {
                    let (conn, seen, stop) = (server.connect().await?, seen.clone(), consumers.stop.subscribe());
                    consumers.loops.spawn(consume(conn, seen, stop, idle));
                }
            }
        }
        Ok(consumers)
    }

    pub(super) async fn handled(&self, messages: u64) {
        // This cannot fail: the sender lives as long as `self`.
        _ = self.seen.count.subscribe().wait_for(|count| *count >= messages).await;
    }

    /// Stops all consumers. Returns when each message was first handled.
    pub(super) async fn stop(mut self) -> anyhow::Result<HashMap<u64, Instant>> {
        for (headwater, node) in self.nodes {
            node.shutdown().await?;
            headwater.shutdown().await;
        }
        self.stop.send_replace(true);
        while let Some(ended) = self.loops.join_next().await {
            ended??;
        }
        Ok(std::mem::take(&mut *self.seen.times.lock().expect("no holder of this lock panics")))
    }
}

/// The loop on pgmq: reads messages, handles each in a transaction, and deletes it.
async fn consume(
    mut conn: PgConnection,
    seen: Arc<Seen>,
    mut stop: watch::Receiver<bool>,
    idle: Duration,
) -> anyhow::Result<()> {
    while !*stop.borrow_and_update() {
        let read = sqlx::query_as::<_, (i64, String)>(include_str!("../../sql/nodes_read.sql"));
        let messages = read.fetch_all(&mut conn).await?;
        if messages.is_empty() {
            tokio::select! {
                () = sleep(idle) => {}
                _ = stop.changed() => {}
            }
        }
        for (id, message) in messages {
            let envelope: Value = serde_json::from_str(&message)?;
            let mut tx = conn.begin().await?;
            seen.note(&envelope["payload"]);
            sqlx::query(include_str!("../../sql/nodes_effect.sql"))
                .bind(id)
                .bind(envelope["payload"].to_string())
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
            sqlx::query(include_str!("../../sql/nodes_delete.sql")).bind(id).execute(&mut conn).await?;
        }
    }
    Ok(conn.close().await?)
}

pub(super) enum Emitters {
    Headwater { headwater: Box<Headwater>, node: Box<Node>, count: usize },
    Loop(Vec<tokio::sync::Mutex<PgConnection>>),
}

impl Emitters {
    pub(super) async fn connect(system: System, server: &BenchServer, count: usize) -> anyhow::Result<Self> {
        Ok(match system {
            System::Headwater => {
                let headwater = Headwater::connect(&server.url).await?;
                let node = headwater.namespace(NAMESPACE).await?.register_node(NodeOptions::new("emitter")).await?;
                Emitters::Headwater { headwater: Box::new(headwater), node: Box::new(node), count }
            }
            System::Loop => {
                Emitters::Loop(server.connections(count).await?.into_iter().map(tokio::sync::Mutex::new).collect())
            }
        })
    }

    pub(super) async fn emit(&self, emitter: usize, number: u64) -> anyhow::Result<()> {
        match self {
            Emitters::Headwater { node, .. } => _ = node.emit(EVENT_TYPE, payload(number)).await?,
            Emitters::Loop(conns) => {
                let mut conn = conns[emitter].lock().await;
                let payload = payload(number);
                let envelope = json!({ "namespace": NAMESPACE, "eventType": EVENT_TYPE, "payload": payload,
                                       "emittedAt": chrono::Utc::now(), "producerNodeId": "emitter" });
                let mut tx = conn.begin().await?;
                let send = sqlx::query_scalar::<_, i64>(include_str!("../../sql/pgmq_send.sql")).bind(&envelope);
                let message_id = send.fetch_one(&mut *tx).await?;
                sqlx::query(include_str!("../../sql/nodes_log.sql"))
                    .bind(NAMESPACE)
                    .bind(EVENT_TYPE)
                    .bind(&payload)
                    .bind("emitter")
                    .bind(message_id)
                    .execute(&mut *tx)
                    .await?;
                tx.commit().await?;
            }
        }
        Ok(())
    }

    /// Runs all emitters side by side until `messages` are emitted.
    pub(super) async fn emit_all(self: Arc<Self>, messages: u64) -> anyhow::Result<()> {
        let count = match &*self {
            Emitters::Headwater { count, .. } => *count,
            Emitters::Loop(conns) => conns.len(),
        };
        let emitted = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for emitter in 0..count {
            let (emitters, emitted) = (self.clone(), emitted.clone());
            tasks.spawn(async move {
                loop {
                    let number = emitted.fetch_add(1, Ordering::Relaxed);
                    if number >= messages {
                        return anyhow::Ok(());
                    }
                    emitters.emit(emitter, number).await?;
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        if let Emitters::Headwater { headwater, node, .. } = &*self {
            node.shutdown().await?;
            headwater.shutdown().await;
        }
        Ok(())
    }
}
