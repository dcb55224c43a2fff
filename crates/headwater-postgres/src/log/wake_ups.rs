//! Wake-ups from other processes: LISTEN, on a connection of its own.
//!
//! Who has authority: the log. A wake-up is a hint, and readers poll behind it. So a lost wake-up
//! costs time, never an event. When the connection ends, for whatever reason, the task connects
//! again by itself, with growing pauses. It wakes all waiting readers after each connect, because
//! something may have been missed. It pings a silent connection, so that a half-open one is found.

use std::time::Duration;

use headwater_core::{Backoff, NamespaceInfo};
use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgNotification, PgPoolOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::{Servers, sql};

/// A connection that has been silent for this long is pinged.
const PING_AFTER: Duration = Duration::from_secs(10);
/// A connect or ping that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(5);
/// The channel that announces stored events that are due soon, for all namespaces: see
/// `sql/schedules/wake_due.sql`.
const DUE_CHANNEL: &str = "headwater.due";

/// Listens for the wake-ups of one namespace, or for all events that are due soon, until it is
/// dropped.
#[derive(Debug)]
pub struct WakeUps {
    count: watch::Receiver<u64>,
    due: watch::Receiver<u64>,
    connected: watch::Receiver<bool>,
    complete: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl WakeUps {
    /// Listens on a connection to one of these servers. It must lead to PostgreSQL itself: a pooler
    /// in transaction mode cannot LISTEN.
    pub fn start(servers: impl Into<Servers>, namespace: &NamespaceInfo) -> Self {
        Self::listen(servers.into(), Some(namespace))
    }

    /// Listens only for events of any namespace that are due soon.
    pub fn start_due(servers: impl Into<Servers>) -> Self {
        Self::listen(servers.into(), None)
    }

    fn listen(servers: Servers, namespace: Option<&NamespaceInfo>) -> Self {
        let (counted, count) = watch::channel(0);
        let (due_counted, due) = watch::channel(0);
        let (connecting, connected) = watch::channel(false);
        let (completing, complete) = watch::channel(false);
        let notifies = namespace.is_some_and(|namespace| namespace.notify);
        let due_payload = namespace.map(|namespace| namespace.id.to_string());
        let namespace = namespace.map(|namespace| namespace.name.clone());
        let listening =
            Listening { servers, namespace, due_payload, counted, due_counted, connecting, completing, notifies };
        WakeUps { count, due, connected, complete, task: tokio::spawn(listening.run()) }
    }

    /// Changes with every wake-up.
    pub fn count(&self) -> watch::Receiver<u64> {
        self.count.clone()
    }

    /// Changes when an event was stored that is due soon.
    pub fn due(&self) -> watch::Receiver<u64> {
        self.due.clone()
    }

    /// Returns whether every append is followed by a wake-up at present: we are connected, and the
    /// namespace notifies. Only a writer that dies between its commit and its wake-up is not heard
    /// then, so readers may poll less often.
    pub fn complete(&self) -> watch::Receiver<bool> {
        self.complete.clone()
    }

    /// Returns whether wake-ups can arrive at present.
    pub fn is_connected(&self) -> bool {
        *self.connected.borrow()
    }
}

impl Drop for WakeUps {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Listening {
    servers: Servers,
    /// The namespace's name; `None`: all namespaces.
    namespace: Option<String>,
    /// How the channel of due events names the namespace; `None`: all namespaces.
    due_payload: Option<String>,
    counted: watch::Sender<u64>,
    due_counted: watch::Sender<u64>,
    connecting: watch::Sender<bool>,
    completing: watch::Sender<bool>,
    /// Whether the namespace notifies of what is appended by SQL.
    notifies: bool,
}

impl Listening {
    async fn run(self) {
        let mut pauses = Backoff::for_database();
        loop {
            let error = match tokio::time::timeout(PATIENCE, self.listen()).await {
                Ok(Ok(listener)) => {
                    pauses.reset();
                    self.connecting.send_replace(true);
                    self.completing.send_replace(self.notifies);
                    wake(&self.counted);
                    wake(&self.due_counted);
                    self.follow(listener).await
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {PATIENCE:?}"),
            };
            self.connecting.send_replace(false);
            self.completing.send_replace(false);
            tracing::warn!(
                namespace = self.namespace,
                error,
                "lost the connection for wake-ups: polling until it is back"
            );
            tokio::time::sleep(pauses.pause()).await;
        }
    }

    async fn listen(&self) -> Result<Listener, sqlx::Error> {
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(self.servers.resolve().await?);
        let mut listener = Listener { own: PgListener::connect_with(&pool).await?, pool };
        let channel = self.namespace.as_ref().map(|namespace| format!("headwater_{namespace}"));
        listener.own.listen_all(channel.as_deref().into_iter().chain([DUE_CHANNEL])).await?;
        Ok(listener)
    }

    /// Passes wake-ups on until the connection fails, and returns the reason.
    async fn follow(&self, mut listener: Listener) -> String {
        loop {
            match tokio::time::timeout(PING_AFTER, listener.own.try_recv()).await {
                Ok(Ok(Some(told))) => self.pass_on(&told),
                Ok(Ok(None)) => return "the connection was closed".into(),
                Ok(Err(error)) => return error.to_string(),
                Err(_) => {
                    let ping = sqlx::query(sql::admin::PING).execute(&mut listener.own);
                    match tokio::time::timeout(PATIENCE, ping).await {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => return error.to_string(),
                        Err(_) => return format!("no answer within {PATIENCE:?}"),
                    }
                }
            }
        }
    }

    fn pass_on(&self, told: &PgNotification) {
        if told.channel() != DUE_CHANNEL {
            wake(&self.counted);
        } else if self.due_payload.as_deref().is_none_or(|namespace| namespace == told.payload()) {
            wake(&self.due_counted);
        }
    }
}

/// A dropped listener gives its connection back to its pool, which tests it. In a closed pool the
/// connection is just ended. The server may be gone by then, and that needs no warning.
struct Listener {
    own: PgListener,
    pool: PgPool,
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The call itself closes the pool. Its future would wait for the connection's end.
        drop(self.pool.close());
    }
}

fn wake(count: &watch::Sender<u64>) {
    count.send_modify(|count| *count += 1);
}
