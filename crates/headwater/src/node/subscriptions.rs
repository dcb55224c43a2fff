//! What a node runs, while it runs: subscriptions and queues are added to it and taken from it.
//!
//! Who has authority: the database, as everywhere. A subscription that is taken away ends as at a
//! shutdown: its events at hand are ended, its checkpoint is written, and only then are its leases
//! given up. The keeper renews them until then, and takes no new ones.
//!
//! One start, `run` or `stop` is under way at a time: each holds the node's plan. A stop goes on to
//! its end in a task of its own, even if its caller goes away. A shutdown waits for none of them:
//! starts and `run` give up, and a stop has its runners ended by the shutdown.

use headwater_core::SubscriberError;
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::subscription::Runnable;
use super::{Node, NodeBuilder, Running, SHUTDOWN};

impl Node {
    /// Runs another subscription or queue, on a node that is running or before it is
    /// [started](Node::start). It is registered when this returns, and begins at once.
    ///
    /// ```no_run
    /// use headwater::{Delivery, HandlerError, Node, Subscription};
    ///
    /// async fn index(event: Delivery) -> Result<(), HandlerError> {
    ///     println!("{}", event.message_id());
    ///     Ok(())
    /// }
    ///
    /// # async fn run(node: Node) -> Result<(), Box<dyn std::error::Error>> {
    /// node.run(Subscription::new("search").partitions(16).each(index)).await?;
    /// // Other instances go on with it:
    /// node.stop("search").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(&self, subscription: impl Runnable) -> Result<(), SubscriberError> {
        let settings = subscription.into_settings().0;
        let running = async {
            // Held to the end, so that two calls do not add the same subscriber.
            let mut plan = self.plan.lock().await;
            if let Some(builder) = plan.as_mut() {
                builder.add(settings)?;
                self.advertise(builder);
                return Ok(());
            }
            let Some(running) = self.running.get() else { return Err(self.is_over()) };
            let plan = settings.plan(&running.surroundings)?;
            let runners = &running.runners;
            let present = runners.subscriptions();
            super::builder::check(present.iter().map(|plan| &**plan), &plan, &running.surroundings)?;
            runners.store.register(&plan.registered_as()).await?;
            runners.begin([plan]);
            runners.added.notify_one();
            Ok(())
        };
        self.unless_ending(running).await
    }

    /// Stops running a subscription or a queue here: ends its events at hand, writes its
    /// checkpoint, and gives up its leases, so that other instances take over at once. The
    /// subscriber stays as it is in the database. What is not done within 30 s is left to others.
    ///
    /// If this future is dropped, the stop goes on to its end all the same. A later
    /// [`run`](Node::run) or `stop` waits for that.
    pub async fn stop(&self, subscriber_id: &str) -> Result<(), SubscriberError> {
        let mut plan = self.plan.clone().lock_owned().await;
        let found = match (self.running.get(), plan.as_mut()) {
            (Some(running), _) => running.end_one(subscriber_id, plan).await.unwrap_or_else(|_| Err(self.is_over()))?,
            (None, Some(builder)) => {
                let found = builder.take_away(subscriber_id);
                self.advertise(builder);
                found
            }
            (None, None) => false,
        };
        if found {
            return Ok(());
        }
        let node = self.node_id();
        Err(SubscriberError::NotFound(format!("subscriber {subscriber_id:?}, which node {node:?} does not run")))
    }

    /// Advertises what the node will run once it is started.
    fn advertise(&self, builder: &NodeBuilder) {
        if let Some(registered) = &self.registered {
            registered.heartbeat.advertise(builder.plans());
        }
    }

    pub(super) fn is_over(&self) -> SubscriberError {
        SubscriberError::InvalidInput(format!("node {:?} was shut down", self.node_id()))
    }
}

impl Running {
    /// Ends a subscription in a task, which holds the plan to its end. The receiver gets whether
    /// there was one, or nothing if a shutdown ended the task.
    fn end_one(
        &self,
        subscriber_id: &str,
        plan: OwnedMutexGuard<Option<NodeBuilder>>,
    ) -> oneshot::Receiver<Result<bool, SubscriberError>> {
        let (runners, id) = (self.runners.clone(), subscriber_id.to_owned());
        let (done, outcome) = oneshot::channel();
        let mut stopping = self.stopping.lock().expect("no holder of this lock panics");
        while stopping.try_join_next().is_some() {}
        stopping.spawn(async move {
            let ended = runners.end(&id, SHUTDOWN).await;
            drop(plan);
            // The caller may be gone.
            _ = done.send(ended);
        });
        outcome
    }
}
