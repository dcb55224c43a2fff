//! The lifetime of a node: until it is shut down, until a signal comes, or until another process is
//! the node.

use headwater_core::SubscriberError;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Life, Node, NodeBuilder};

impl NodeBuilder {
    /// [Starts](NodeBuilder::start) the node and runs it until the process is told to end: see
    /// [`Node::run_until_signal`].
    pub async fn run_until_signal(self) -> Result<(), SubscriberError> {
        self.start().await?.run_until_signal().await
    }
}

impl Node {
    /// Waits until the node has ended. Returns `Ok` after a [shutdown](Node::shutdown), and
    /// [`SubscriberError::NodeReplaced`] once another process is registered under its id. This
    /// process should then end too: it stands by for the other process, and handles nothing as long
    /// as that one lives.
    pub async fn stopped(&self) -> Result<(), SubscriberError> {
        let mut life = self.life.subscribe();
        let replaced = async {
            match &self.registered {
                Some(registered) => registered.heartbeat.until_replaced().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // The sender is part of this node.
            _ = life.wait_for(|life| *life == Life::Ended) => Ok(()),
            () = replaced => Err(self.replaced()),
        }
    }

    /// Runs until SIGTERM, SIGINT or SIGHUP, and then [shuts down](Node::shutdown). If another
    /// process is registered under the node's id, it also shuts down, and returns
    /// [`SubscriberError::NodeReplaced`]: let the process end with that error.
    pub async fn run_until_signal(&self) -> Result<(), SubscriberError> {
        let signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
        let mut signals = signals
            .into_iter()
            .collect::<Result<Vec<Signal>, _>>()
            .map_err(|error| SubscriberError::InvalidInput(format!("failed to listen for signals: {error}")))?;
        let told = async {
            let each = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
            futures::future::select_all(each).await;
        };
        let outcome = tokio::select! {
            () = told => Ok(()),
            stopped = self.stopped() => stopped,
        };
        self.shutdown().await?;
        outcome
    }

    fn replaced(&self) -> SubscriberError {
        SubscriberError::NodeReplaced(format!(
            "node {:?} is another process by now: end this one, or give each process a name of its own",
            self.node_id()
        ))
    }
}

/// The name of this host, in the letters that names of nodes have.
pub(crate) fn host_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let letter = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    host.chars().map(letter).collect()
}
