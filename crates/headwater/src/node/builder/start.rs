//! From what a node was told to a running one: checked, registered, put together.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use headwater_cdc::{CdcMode, Direct, Feed, Inbox};
use headwater_core::{
    AdminError, EventLog, Instance, InstanceMode, ReliableDeliveryConfig, StartFrom, SubscriberError, SubscriberMode,
    SubscriberStore, names,
};
use headwater_postgres::{PgNodes, PgSubscribers, Servers, SubscribersOptions, WakeUps};

use super::{Backend, NodeBuilder, WakeUpSource};
use crate::Live;
use crate::node::due::LONGEST_SLEEP;
use crate::node::handler::{TransactionScope, Work};
use crate::node::handlers::{HANDLERS, Handlers};
use crate::node::heartbeat::Heartbeat;
use crate::node::key_hashes::KeyHashes;
use crate::node::limiter::Limiter;
use crate::node::live_report::LiveReporter;
use crate::node::poison::Teller;
use crate::node::subscription::{Claims, Filter, Subscription};
use crate::node::{Firing, LiveSource, Node, Parts};

/// Connections reserved for everything except handler transactions.
const CONNECTIONS_FOR_OTHERS: u32 = 2;

impl NodeBuilder {
    fn validate(&self) -> Result<(), SubscriberError> {
        let invalid = |message: String| Err(SubscriberError::InvalidInput(message));
        if self.options.node_id.is_some() {
            names::check_node(&self.name)?;
        }
        if let Some(mistake) = self.mistakes.first() {
            return invalid(mistake.clone());
        }
        self.options.delivery.validate()?;
        for (at, subscription) in self.subscriptions.iter().enumerate() {
            subscription.validate()?;
            let id = &subscription.subscriber_id;
            if self.subscriptions[..at].iter().any(|other| other.subscriber_id == *id) {
                return invalid(format!("subscriber {id:?} is subscribed twice in node {:?}", self.name));
            }
        }
        if !(Duration::from_secs(2)..=Duration::from_secs(3600)).contains(&self.lease) {
            return invalid(format!("invalid lease {:?}: it is 2 s to 1 hour", self.lease));
        }
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

    /// Transactions of shared subscribers hold connections, and claims that are theirs are extended with others.
    fn check_connections(&self, connections: u32) -> Result<(), SubscriberError> {
        let transactional = |subscription: &&Subscription| {
            subscription.mode == SubscriberMode::Shared && matches!(subscription.work, Work::Transaction(..))
        };
        let wanted: u32 = self.subscriptions.iter().filter(transactional).map(|s| s.config.concurrency).sum();
        let most = connections.saturating_sub(CONNECTIONS_FOR_OTHERS).max(1);
        if wanted > most {
            return Err(SubscriberError::InvalidInput(format!(
                "invalid concurrency {wanted} of transactional handlers of shared subscribers: with {connections} connections, it is 1 to {most}"
            )));
        }
        Ok(())
    }

    /// Checks everything, registers the node and its subscribers, and starts them.
    pub async fn start(self) -> Result<Node, SubscriberError> {
        self.validate()?;
        if self.subscriptions.is_empty() && self.events.is_empty() && self.broadcasts.is_empty() {
            let message = format!("node {:?} has no subscribers: add one with subscribe", self.name);
            return Err(SubscriberError::InvalidInput(message));
        }
        let node = self.register().await?;
        if let Err(error) = node.start().await {
            node.retire().await;
            return Err(error);
        }
        Ok(node)
    }

    /// Checks everything and registers the node: it emits events, and handles some once it is [started](Node::start). Another process that was registered under
    /// the same id is replaced: what it owned is taken over, and it stands by.
    pub async fn register(self) -> Result<Node, SubscriberError> {
        self.validate()?;
        let Backend::Postgres(log) = &self.backend else {
            let instance = Instance::new(&self.name);
            return Ok(Node::new(self, instance, None));
        };
        let connections = log.database().pool().options().get_max_connections();
        self.check_connections(connections)?;
        self.handling(connections).validate()?;
        let nodes = PgNodes::new(log.database().clone(), log.info());
        let registration = nodes.register(&self.options, &self.subscribed()).await?;
        let instance = Instance { node: registration.node_id.clone(), incarnation: registration.instance_id };
        let heartbeat =
            Heartbeat::new(nodes, registration, self.options.clone(), self.events.clone(), self.subscribed());
        let log = log.clone();
        Ok(Node::new(self, instance, Some((log, heartbeat))))
    }

    /// Event types that subscribers name. One of all types says nothing of any.
    fn subscribed(&self) -> Vec<String> {
        self.subscriptions.iter().flat_map(|subscription| subscription.filter.event_types.iter().cloned()).collect()
    }

    pub(in crate::node) fn handlers(&self) -> (Arc<Handlers>, Arc<Handlers>) {
        (self.events.clone(), self.broadcasts.clone())
    }

    pub(in crate::node) fn log(&self) -> Arc<dyn EventLog> {
        self.log.clone()
    }

    /// The shared subscriber of all handlers by event type.
    fn handling(&self, connections: u32) -> Subscription {
        let most = connections.saturating_sub(CONNECTIONS_FOR_OTHERS).max(1);
        let mut config = self.options.delivery.clone();
        if config.concurrency > most {
            tracing::warn!(most, "the pool has no connections for more transactions of handlers at once");
            config.concurrency = most;
        }
        Subscription {
            subscriber_id: HANDLERS.into(),
            limiter: Limiter::new(config.rate_limit),
            places: None,
            at_once: None,
            hashes: KeyHashes::default(),
            config,
            mode: SubscriberMode::Shared,
            assigned: None,
            claims: Claims {
                visibility: self.options.visibility,
                batch_size: Some(self.options.batch_size),
                ..Claims::default()
            },
            filter: Filter { handlers: Some(self.events.clone()), ..Filter::default() },
            work: Work::Transaction(self.events.clone(), TransactionScope::Batch),
        }
    }

    /// The subscriber by which this node hears broadcasts. Nobody else has it, so it needs no lease.
    fn hearing(&self, node_id: &str) -> Subscription {
        let config = ReliableDeliveryConfig {
            instance_mode: InstanceMode::SingleInstance,
            start_from: StartFrom::Now,
            concurrency: 1,
            ..self.options.delivery.clone()
        };
        Subscription {
            subscriber_id: format!("broadcast:{node_id}"),
            limiter: Limiter::new(None),
            places: None,
            at_once: None,
            hashes: KeyHashes::default(),
            config,
            mode: SubscriberMode::Exclusive,
            assigned: None,
            claims: Claims::default(),
            filter: Filter { handlers: Some(self.broadcasts.clone()), ..Filter::default() },
            work: Work::Transaction(self.broadcasts.clone(), TransactionScope::Event),
        }
    }

    /// Registers the subscribers, and puts together what a running node is made of.
    pub(in crate::node) async fn parts(mut self, instance: Instance) -> Result<Parts, SubscriberError> {
        for subscription in &mut self.subscriptions {
            subscription.limiter = Limiter::new(subscription.config.rate_limit);
        }
        let mut wake_ups = Vec::new();
        let mut firing = None;
        let mut listening = None;
        let mut by_type = None;
        let mut maintaining = None;
        let (store, postgres): (Arc<dyn SubscriberStore>, _) = match &self.backend {
            Backend::Other(store) => (store.clone(), None),
            Backend::Postgres(log) => {
                // A pooler in transaction mode gives nobody a session to hold locks in, or to listen on.
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
                firing = Some(Firing {
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
        for subscription in &self.subscriptions {
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
            instance,
            log: self.log,
            store,
            postgres,
            wake_ups,
            live,
            poison,
            firing,
            listening,
            subscriptions: self.subscriptions,
            by_type,
            lease: self.lease,
            poll: self.poll,
            audit_every: self.audit_every,
            maintaining,
        })
    }
}

fn of_admin(error: AdminError) -> SubscriberError {
    match error {
        AdminError::NamespaceNotFound(name) => SubscriberError::NamespaceNotFound(name),
        AdminError::NotGranted(message) => SubscriberError::NotGranted(message),
        AdminError::Unavailable(fault) => SubscriberError::Unavailable(fault),
        error => SubscriberError::InvalidInput(error.to_string()),
    }
}
