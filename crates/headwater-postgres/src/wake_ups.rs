//! Wake-ups from other processes: LISTEN, on a connection of its own.
//!
//! Who has authority: the log. A wake-up is a hint, and readers poll behind it; so a lost one costs time, never an event. The
//! task connects again by itself, with growing pauses, after whatever ended the connection; whoever waits is woken after each
//! connect, since something may have been missed. A silent connection is pinged, so that a half-open one is found out.

use std::time::Duration;

use headwater_core::NamespaceInfo;
use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgNotification, PgPoolOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::{Servers, sql};

/// A connection that has been silent for so long is pinged.
const PING_AFTER: Duration = Duration::from_secs(10);
/// A connect or ping that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where it is told that an event was stored that is due soon, for all namespaces: see `sql/functions/wake_due.sql`.
const DUE_CHANNEL: &str = "headwater.due";
/// Between tries to connect, doubling from the one to the other.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Listens for the wake-ups of one namespace, or of all events that are due soon, until it is dropped.
#[derive(Debug)]
pub struct WakeUps {
    count: watch::Receiver<u64>,
    due: watch::Receiver<u64>,
    connected: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl WakeUps {
    /// Listens on a connection to one of these servers. It must lead to PostgreSQL itself: a pooler in transaction mode cannot
    /// LISTEN.
    pub fn start(servers: impl Into<Servers>, namespace: &NamespaceInfo) -> Self {
        Self::listen(servers.into(), Some(namespace))
    }

    /// Listens for events of any namespace that are due soon, and for nothing else.
    pub fn start_due(servers: impl Into<Servers>) -> Self {
        Self::listen(servers.into(), None)
    }

    fn listen(servers: Servers, namespace: Option<&NamespaceInfo>) -> Self {
        let (counted, count) = watch::channel(0);
        let (due_counted, due) = watch::channel(0);
        let (connecting, connected) = watch::channel(false);
        let due_payload = namespace.map(|namespace| namespace.id.to_string());
        let namespace = namespace.map(|namespace| namespace.name.clone());
        let listening = Listening { servers, namespace, due_payload, counted, due_counted, connecting };
        WakeUps { count, due, connected, task: tokio::spawn(listening.run()) }
    }

    /// Changes with every wake-up.
    pub fn count(&self) -> watch::Receiver<u64> {
        self.count.clone()
    }

    /// Changes when an event was stored that is due soon.
    pub fn due(&self) -> watch::Receiver<u64> {
        self.due.clone()
    }

    /// Whether wake-ups can come at present.
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
    /// `None`: all.
    namespace: Option<String>,
    /// How the channel of due events names the namespace; `None`: all.
    due_payload: Option<String>,
    counted: watch::Sender<u64>,
    due_counted: watch::Sender<u64>,
    connecting: watch::Sender<bool>,
}

impl Listening {
    async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match tokio::time::timeout(PATIENCE, self.listen()).await {
                Ok(Ok(listener)) => {
                    pause = FIRST_PAUSE;
                    self.connecting.send_replace(true);
                    wake(&self.counted);
                    wake(&self.due_counted);
                    self.follow(listener).await
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {PATIENCE:?}"),
            };
            self.connecting.send_replace(false);
            tracing::warn!(
                namespace = self.namespace,
                error,
                "lost the connection for wake-ups: polling until it is back"
            );
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn listen(&self) -> Result<Listener, sqlx::Error> {
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(self.servers.resolve().await?);
        let mut listener = Listener { own: PgListener::connect_with(&pool).await?, pool };
        let channel = self.namespace.as_ref().map(|namespace| format!("headwater_{namespace}"));
        listener.own.listen_all(channel.as_deref().into_iter().chain([DUE_CHANNEL])).await?;
        Ok(listener)
    }

    /// Passes wake-ups on until the connection fails, and says how.
    async fn follow(&self, mut listener: Listener) -> String {
        loop {
            match tokio::time::timeout(PING_AFTER, listener.own.try_recv()).await {
                Ok(Ok(Some(told))) => self.pass_on(&told),
                Ok(Ok(None)) => return "the connection was closed".into(),
                Ok(Err(error)) => return error.to_string(),
                Err(_) => {
                    let ping = sqlx::query(sql::PING).execute(&mut listener.own);
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

/// A listener that is dropped gives its connection back to its pool, which tests it; in a closed pool the connection is just ended. The server may be
/// gone by then, and that is nothing to warn of.
struct Listener {
    own: PgListener,
    pool: PgPool,
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Closed by the call; what it answers would wait for the connection's end.
        drop(self.pool.close());
    }
}

fn wake(count: &watch::Sender<u64>) {
    count.send_modify(|count| *count += 1);
}
