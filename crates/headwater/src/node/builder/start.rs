//! The start of a node: its settings are checked, it is registered, and its parts are put together.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "cdc")]
use futures::future::BoxFuture;
#[cfg(feature = "cdc")]
use headwater_cdc::{CdcMode, Direct, Feed, Inbox};
use headwater_core::{
    AdminError, EventLog, Instance, InstanceMode, ReliableDeliveryConfig, StartFrom, SubscriberError, SubscriberMode,
    SubscriberStore, names,
};
use headwater_postgres::{PgNodes, PgSubscribers, Servers, SubscribersOptions, WakeUps};

use super::{Backend, NodeBuilder, WakeUpSource};
#[cfg(feature = "cdc")]
use crate::live::Live;
#[cfg(feature = "cdc")]
use crate::node::LiveSource;
use crate::node::background::due::LONGEST_SLEEP;
use crate::node::delivery::handler::{Takes, TransactionScope, Work};
use crate::node::delivery::key_hashes::KeyHashes;
use crate::node::delivery::limiter::Limiter;
use crate::node::delivery::plan::{Claims, Filter, SubscriptionPlan};
use crate::node::delivery::type_handlers::{HANDLERS, TypeHandlers};
use crate::node::ownership::heartbeat::{Heartbeat, named_types};
#[cfg(feature = "cdc")]
use crate::node::reading::live_report::LiveReporter;
use crate::node::reading::poison::Teller;
use crate::node::subscription::settings::Surroundings;
use crate::node::{Firing, Node, Parts};

/// Connections reserved for everything except handler transactions.
const CONNECTIONS_FOR_OTHERS: u32 = 2;

impl NodeBuilder {
    /// Turns the subscriptions into plans, and checks everything.
    fn validate(&mut self) -> Result<(), SubscriberError> {
        for settings in std::mem::take(&mut self.subscriptions) {
            self.add(settings)?;
        }
        let invalid = |message: String| Err(SubscriberError::InvalidInput(message));
        if self.options.node_id.is_some() {
            names::check_node(&self.name)?;
        }
        if let Some(mistake) = self.mistakes.first() {
            return invalid(mistake.clone());
        }
        self.options.delivery.validate()?;
        if !(1..=1_000).contains(&self.options.concurrency) {
            return invalid(format!("invalid concurrency {}: it is 1 to 1000", self.options.concurrency));
        }
        if !(Duration::from_secs(2)..=Duration::from_secs(3600)).contains(&self.lease) {
            return invalid(format!("invalid lease {:?}: it is 2 s to 1 hour", self.lease));
        }
        #[cfg(feature = "cdc")]
        if let Live::Cdc(options) = &self.live {
            options.validate().map_err(|error| SubscriberError::InvalidInput(error.to_string()))?;
            if !matches!(self.backend, Backend::Postgres(_)) {
                return invalid("Live::Cdc needs PostgreSQL: this node has another log".into());
            }
        }
        if let Some(interval) = self.maintain_every.filter(|interval| *interval < Duration::from_millis(10)) {
            return invalid(format!("invalid maintain_every {interval:?}: it is 10 ms at least"));
        }
        if !(Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&self.poll) {
            return invalid(format!("invalid poll {:?}: it is 10 ms to 1 hour", self.poll));
        }
        Ok(())
    }

    /// Checks everything, registers the node and its subscribers, and starts them.
    pub async fn start(mut self) -> Result<Node, SubscriberError> {
        self.validate()?;
        if self.plans.is_empty() && self.events.is_empty() && self.broadcasts.is_empty() {
            let message = format!(
                "node {:?} runs nothing: give it a subscription or a queue with run, or a handler with on_event",
                self.name
            );
            return Err(SubscriberError::InvalidInput(message));
        }
        let node = self.register().await?;
        if let Err(error) = node.start().await {
            node.retire().await;
            return Err(error);
        }
        Ok(node)
    }

    /// Checks everything and registers the node. It can emit events at once, and handles events
    /// after its [start](Node::start). It replaces another process that was registered under the
    /// same id: it takes over what that process owned, and that process becomes a standby.
    pub async fn register(mut self) -> Result<Node, SubscriberError> {
        self.validate()?;
        let Backend::Postgres(log) = &self.backend else {
            let instance = Instance::new(&self.name);
            return Ok(Node::new(self, instance, None));
        };
        let connections = log.database().pool().options().get_max_connections();
        self.handling(connections).validate()?;
        let nodes = PgNodes::new(log.database().clone(), log.info());
        let subscribed = named_types(&self.plans);
        let registration = nodes.register(&self.options, &subscribed).await?;
        let instance = Instance { node: registration.node_id.clone(), incarnation: registration.instance_id };
        let heartbeat = Heartbeat::new(nodes, registration, self.options.clone(), self.events.clone(), subscribed);
        let log = log.clone();
        Ok(Node::new(self, instance, Some((log, heartbeat))))
    }

    pub(in crate::node) fn handlers(&self) -> (Arc<TypeHandlers>, Arc<TypeHandlers>) {
        (self.events.clone(), self.broadcasts.clone())
    }

    pub(in crate::node) fn log(&self) -> Arc<dyn EventLog> {
        self.log.clone()
    }

    /// The shared subscriber behind all handlers that were added by event type.
    fn handling(&self, connections: u32) -> SubscriptionPlan {
        let most = connections.saturating_sub(CONNECTIONS_FOR_OTHERS).max(1);
        let config = self.options.delivery.clone();
        if self.options.concurrency > most {
            tracing::warn!(most, "the pool has no connections for more transactions of handlers at once");
        }
        SubscriptionPlan {
            subscriber_id: HANDLERS.into(),
            limiter: Limiter::new(config.rate_limit),
            allowance: None,
            at_once: None,
            hashes: KeyHashes::default(),
            config,
            concurrency: self.options.concurrency.min(most),
            mode: SubscriberMode::Shared,
            assigned: None,
            claims: Claims {
                visibility: self.options.visibility,
                batch_size: Some(self.options.batch_size),
                ..Claims::default()
            },
            filter: Filter { handlers: Some(self.events.clone()), ..Filter::default() },
            work: Work::Transaction { handler: self.events.clone(), per: TransactionScope::Batch, takes: Takes::One },
        }
    }

    /// The subscriber through which this node gets broadcasts. No other node has it, so it needs no
    /// lease.
    fn hearing(&self, node_id: &str) -> SubscriptionPlan {
        let config = ReliableDeliveryConfig {
            instance_mode: InstanceMode::SingleInstance,
            start_from: StartFrom::Now,
            ..self.options.delivery.clone()
        };
        SubscriptionPlan {
            subscriber_id: format!("broadcast:{node_id}"),
            limiter: Limiter::new(None),
            allowance: None,
            at_once: None,
            hashes: KeyHashes::default(),
            config,
            concurrency: 1,
            mode: SubscriberMode::Exclusive,
            assigned: None,
            claims: Claims::default(),
            filter: Filter { handlers: Some(self.broadcasts.clone()), ..Filter::default() },
            work: Work::Transaction {
                handler: self.broadcasts.clone(),
                per: TransactionScope::Event,
                takes: Takes::One,
            },
        }
    }

    /// Registers the subscribers, and creates the parts of a running node.
    pub(in crate::node) async fn parts(self, instance: Instance) -> Result<Parts, SubscriberError> {
        let surroundings = self.surroundings();
        let mut wake_ups = Vec::new();
        let mut firing = None;
        let mut listening = None;
        let mut by_type = None;
        let mut maintaining = None;
        let (store, postgres): (Arc<dyn SubscriberStore>, _) = match &self.backend {
            Backend::Other(store) => (store.clone(), None),
            Backend::Postgres(log) => {
                // Behind a pooler in transaction mode, no session can hold locks or listen.
                let pooler = log.database().is_behind_pooler();
                let options = SubscribersOptions { session_locks: self.session_locks && !pooler };
                let postgres = PgSubscribers::new(log.database().clone(), log.info().clone(), options);
                let connect = match &self.wake_ups {
                    WakeUpSource::Poll => None,
                    WakeUpSource::Listen if pooler => None,
                    WakeUpSource::Listen => Some(log.database().servers()),
                    WakeUpSource::ListenAt(url) => Some(url.parse::<Servers>().map_err(|error| {
                        SubscriberError::InvalidInput(format!("invalid url for wake-ups: {error}"))
                    })?),
                };
                listening = connect.map(|servers| WakeUps::start(servers, log.info()));
                wake_ups.extend(listening.as_ref().map(WakeUps::count));
                wake_ups.push(log.commits());
                let told_of_due = listening.as_ref().map(WakeUps::due);
                firing = self.fires_due.then(|| Firing {
                    log: log.clone(),
                    longest_sleep: match &told_of_due {
                        Some(_) if log.info().notify => LONGEST_SLEEP,
                        _ => self.poll.min(LONGEST_SLEEP),
                    },
                    wake_ups: told_of_due.into_iter().chain([log.due_changes()]).collect(),
                });
                let connections = log.database().pool().options().get_max_connections();
                by_type = Some((Arc::new(self.handling(connections)), Arc::new(self.hearing(&instance.node))));
                maintaining = self.maintain_every.map(|interval| (log.clone(), interval));
                (Arc::new(postgres.clone()), Some(postgres))
            }
        };
        for subscription in &self.plans {
            store.register(&subscription.registered_as()).await?;
        }
        let poison = match (self.poison, &self.backend) {
            (Some(notifier), Backend::Postgres(log)) => {
                let (database, namespace) = (log.database().clone(), log.info().name.clone());
                let teller = Teller { notifier, database, namespace };
                teller.add().await.map_err(of_admin)?;
                Some(teller)
            }
            _ => None,
        };
        #[cfg(not(feature = "cdc"))]
        let live = None;
        #[cfg(feature = "cdc")]
        let live = match (self.live, &self.backend) {
            (Live::Cdc(options), Backend::Postgres(log)) => {
                let feed = Arc::new(Feed::new(&options));
                let is_inbox = matches!(options.mode, CdcMode::Inbox { .. });
                let (database, info, into) = (log.database().clone(), log.info().clone(), feed.clone());
                let reporting = LiveReporter {
                    database: database.clone(),
                    namespace: info.name.clone(),
                    instance: instance.clone(),
                    mode: options.mode.name(),
                    feed: feed.clone(),
                    every: self.options.heartbeat,
                };
                let source: BoxFuture<'static, ()> = match options.mode {
                    CdcMode::Direct => Box::pin(Direct::new(database, info, &self.name, options, into).run()),
                    CdcMode::Inbox { .. } => {
                        Box::pin(Inbox::new(database, info, instance.clone(), options, into).run())
                    }
                };
                let source = Box::pin(async move { _ = tokio::join!(source, reporting.run()) });
                Some(LiveSource { feed, is_inbox, source })
            }
            _ => None,
        };
        Ok(Parts {
            surroundings,
            instance,
            log: self.log,
            store,
            postgres,
            wake_ups,
            live,
            poison,
            firing,
            listening,
            subscriptions: self.plans,
            by_type,
            lease: self.lease,
            poll: self.poll,
            audit_every: self.audit_every,
            maintaining,
        })
    }
}

/// Checks a subscription by itself and together with the node's other subscriptions.
pub(in crate::node) fn check<'p>(
    others: impl Iterator<Item = &'p SubscriptionPlan> + Clone,
    plan: &SubscriptionPlan,
    node: &Surroundings,
) -> Result<(), SubscriberError> {
    let invalid = |message: String| Err(SubscriberError::InvalidInput(message));
    plan.validate()?;
    let id = &plan.subscriber_id;
    if others.clone().any(|other| other.subscriber_id == *id) {
        return invalid(format!("subscriber {id:?} runs twice in one node"));
    }
    let Some(log) = &node.postgres else { return Ok(()) };
    // Transactions of queues hold connections, and other connections extend their claims.
    let transactions = |plan: &SubscriptionPlan| match (&plan.mode, &plan.work) {
        (SubscriberMode::Shared, Work::Transaction { .. }) => plan.concurrency,
        _ => 0,
    };
    let connections = log.database().pool().options().get_max_connections();
    let most = connections.saturating_sub(CONNECTIONS_FOR_OTHERS).max(1);
    let wanted = others.map(transactions).sum::<u32>() + transactions(plan);
    if wanted > most && transactions(plan) > 0 {
        return invalid(format!(
            "invalid number of workers {wanted} of queues with transactional handlers: with {connections} connections, it is 1 to {most}"
        ));
    }
    Ok(())
}

fn of_admin(error: AdminError) -> SubscriberError {
    match error {
        AdminError::NamespaceNotFound(name) => SubscriberError::NamespaceNotFound(name),
        AdminError::NotGranted(message) => SubscriberError::NotGranted(message),
        AdminError::Unavailable(fault) => SubscriberError::Unavailable(fault),
        error => SubscriberError::InvalidInput(error.to_string()),
    }
}
