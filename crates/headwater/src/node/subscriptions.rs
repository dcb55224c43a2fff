//! What a node runs, while it runs: subscriptions and queues are added to it and taken from it.
//!
//! Who has authority: the database, as everywhere. A subscription that is taken away ends as at a
//! shutdown: its events at hand are ended, its checkpoint is written, and only then are its leases
//! given up. The keeper renews them until then, and takes no new ones.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{PartitionId, SubscriberError, SubscriberMode};

use super::ownership::runners::{OwnedBy, RunnerSlot, Runners};
use super::subscription::Runnable;
use super::{Node, Running, SHUTDOWN};
use crate::node::delivery::plan::SubscriptionPlan;

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
        // Held to the end, so that two calls do not add the same subscriber.
        let mut plan = self.plan.lock().await;
        if let Some(builder) = plan.as_mut() {
            return builder.add(settings);
        }
        let Some(running) = self.running.get() else { return Err(self.is_over()) };
        let plan = settings.plan(&running.surroundings)?;
        let runners = &running.runners;
        let present = runners.subscriptions();
        super::builder::check(present.iter().map(|plan| &**plan), &plan, &running.surroundings)?;
        if runners.is_dismissed() {
            return Err(self.is_over());
        }
        runners.store.register(&plan.registered_as()).await?;
        if let Some(registered) = &self.registered {
            registered.heartbeat.subscribe(&plan.filter.event_types);
        }
        running.begin(Arc::new(plan));
        Ok(())
    }

    /// Stops running a subscription or a queue here: ends its events at hand, writes its
    /// checkpoint,
    /// and gives up its leases, so that other instances take over at once. The subscriber stays as
    /// it
    /// is in the database. What is not done within 30 s is left to others.
    pub async fn stop(&self, subscriber_id: &str) -> Result<(), SubscriberError> {
        let mut plan = self.plan.lock().await;
        let found = match (plan.as_mut(), self.running.get()) {
            (Some(builder), _) => builder.take_away(subscriber_id),
            (None, Some(running)) => running.end_one(subscriber_id, SHUTDOWN).await?,
            (None, None) => false,
        };
        if found {
            return Ok(());
        }
        let node = self.node_id();
        Err(SubscriberError::NotFound(format!("subscriber {subscriber_id:?}, which node {node:?} does not run")))
    }

    fn is_over(&self) -> SubscriberError {
        SubscriberError::InvalidInput(format!("node {:?} was shut down", self.node_id()))
    }
}

impl Running {
    /// Lets a subscription that is registered be handled.
    pub(super) fn begin(&self, subscription: Arc<SubscriptionPlan>) {
        self.runners.begin(&subscription);
    }

    /// Ends a subscription. Returns whether there was one.
    async fn end_one(&self, subscriber_id: &str, limit: Duration) -> Result<bool, SubscriberError> {
        let runners = &self.runners;
        let Some(subscription) = runners.end(subscriber_id) else { return Ok(false) };
        let slots = slots_of(runners, subscriber_id);
        let ended = async {
            for slot in &slots {
                slot.until_ended().await;
            }
        };
        if tokio::time::timeout(limit, ended).await.is_err() {
            tracing::warn!(subscriber_id, ?limit, "stopped in the middle of events: they will come again");
            slots.iter().for_each(|slot| slot.abort());
        }
        // The keeper renews no lease meanwhile, and finds none to renew afterwards.
        let _keeping = runners.keeping.lock().await;
        runners.forget(subscriber_id);
        let owned: Vec<PartitionId> =
            slots.iter().filter(|slot| slot.owned_by == OwnedBy::Lease).map(|slot| slot.id.clone()).collect();
        if matches!(subscription.mode, SubscriberMode::Partitioned { .. }) && subscription.assigned.is_none() {
            runners.store.leave(&runners.instance, &[subscriber_id.to_owned()]).await?;
        }
        if !owned.is_empty() {
            runners.store.release(&runners.instance, &owned).await?;
        }
        Ok(true)
    }
}

fn slots_of(runners: &Runners, subscriber_id: &str) -> Vec<Arc<RunnerSlot>> {
    let mut slots = runners.slots();
    slots.retain(|slot| slot.id.subscriber_id == subscriber_id);
    slots
}
