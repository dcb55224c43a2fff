//! What subscriptions and queues have in common, kept until all of it is known.

use std::marker::PhantomData;
use std::sync::Arc;

use headwater_core::{Bundle, Observed, ReliableDeliveryConfig, SubscriberError, SubscriberMode, matches_pattern};
use headwater_postgres::PgLog;

use crate::node::delivery::adapters::Typed;
use crate::node::delivery::allowance::Allowance;
use crate::node::delivery::handler::{Handle, HandleInTransaction, Takes, TransactionScope, Work};
use crate::node::delivery::key_hashes::KeyHashes;
use crate::node::delivery::limiter::Limiter;
use crate::node::delivery::plan::{Claims, Filter, SubscriptionPlan};

/// What a node offers to the subscriptions that it runs.
pub(in crate::node) struct Surroundings {
    pub(in crate::node) namespace: Arc<str>,
    /// `None`: the log is not in PostgreSQL.
    pub(in crate::node) postgres: Option<PgLog>,
    /// The settings of subscriptions that bring none of their own.
    pub(in crate::node) default_config: ReliableDeliveryConfig,
}

impl Surroundings {
    /// The log, for what works in PostgreSQL only.
    pub(in crate::node) fn postgres(&self, what: &str) -> Result<&PgLog, SubscriberError> {
        self.postgres
            .as_ref()
            .ok_or_else(|| SubscriberError::InvalidInput(format!("{what} needs PostgreSQL: this node has another log")))
    }
}

type MakeWork = Box<dyn FnOnce(&Surroundings) -> Result<Work, SubscriberError> + Send>;
type Change = Box<dyn FnOnce(&mut ReliableDeliveryConfig) + Send>;

/// A subscription in the making. The order in which it is told things does not matter.
pub(in crate::node) struct Settings {
    pub(in crate::node) subscriber_id: String,
    pub(in crate::node) mode: SubscriberMode,
    pub(in crate::node) assigned: Option<Vec<u32>>,
    pub(in crate::node) concurrency: u32,
    pub(in crate::node) claims: Claims,
    pub(in crate::node) at_once: Option<(usize, usize)>,
    pub(in crate::node) at_most: Option<u32>,
    pub(in crate::node) bundle: Option<Bundle>,
    pub(in crate::node) stream_prefix: Option<String>,
    config: Option<ReliableDeliveryConfig>,
    /// Single settings, which go before `config`, whichever was said first.
    changes: Vec<Change>,
    /// The types that the handler's data has; empty: every type.
    known_types: Vec<String>,
    asked_types: Vec<String>,
    work: Option<MakeWork>,
}

impl Settings {
    pub(in crate::node) fn new(subscriber_id: impl Into<String>, mode: SubscriberMode) -> Self {
        Settings {
            subscriber_id: subscriber_id.into(),
            mode,
            assigned: None,
            concurrency: 1,
            claims: Claims::default(),
            at_once: None,
            at_most: None,
            bundle: None,
            stream_prefix: None,
            config: None,
            changes: Vec::new(),
            known_types: Vec::new(),
            asked_types: Vec::new(),
            work: None,
        }
    }

    pub(in crate::node) fn config(&mut self, config: ReliableDeliveryConfig) {
        self.config = Some(config);
    }

    pub(in crate::node) fn change(&mut self, change: impl FnOnce(&mut ReliableDeliveryConfig) + Send + 'static) {
        self.changes.push(Box::new(change));
    }

    pub(in crate::node) fn event_types(&mut self, types: impl IntoIterator<Item = impl Into<String>>) {
        self.asked_types.extend(types.into_iter().map(Into::into));
    }

    /// What a transaction of a handler with bundles holds.
    pub(in crate::node) fn scope(&self) -> TransactionScope {
        self.bundle.map_or(TransactionScope::Event, TransactionScope::Bundle)
    }

    /// The handler, made once it is known where it runs.
    pub(in crate::node) fn work<D: Observed>(
        mut self,
        work: impl FnOnce(&Surroundings) -> Result<Work, SubscriberError> + Send + 'static,
    ) -> Self {
        self.known_types = D::EVENT_TYPES.iter().map(|name| name.to_string()).collect();
        self.work = Some(Box::new(work));
        self
    }

    /// A handler without a transaction.
    pub(in crate::node) fn plain<D, H>(self, handler: H, work: fn(Arc<dyn Handle>) -> Work) -> Self
    where
        D: Observed,
        H: Send + 'static,
        Typed<D, H>: Handle + 'static,
    {
        self.work::<D>(move |node| Ok(work(Arc::new(Typed::<D, H>::new(handler, &node.namespace)))))
    }

    /// A handler with a transaction.
    pub(in crate::node) fn transactional<D, H>(self, handler: H, per: TransactionScope, takes: Takes) -> Self
    where
        D: Observed,
        H: Send + 'static,
        Typed<D, H>: HandleInTransaction + 'static,
    {
        self.work::<D>(move |node| {
            node.postgres("a transactional handler")?;
            Ok(Work::Transaction { handler: Arc::new(Typed::<D, H>::new(handler, &node.namespace)), per, takes })
        })
    }

    /// What a node runs.
    pub(in crate::node) fn plan(self, node: &Surroundings) -> Result<SubscriptionPlan, SubscriberError> {
        let event_types = self.all_event_types()?;
        let mut config = self.config.unwrap_or_else(|| node.default_config.clone());
        self.changes.into_iter().for_each(|change| change(&mut config));
        let work = match self.work {
            Some(work) => work(node)?,
            None => return Err(invalid(&self.subscriber_id, "it has no handler")),
        };
        Ok(SubscriptionPlan {
            limiter: Limiter::new(config.rate_limit),
            config,
            mode: self.mode,
            assigned: self.assigned,
            concurrency: self.concurrency,
            claims: self.claims,
            filter: Filter { event_types, stream_prefix: self.stream_prefix, handlers: None },
            work,
            at_once: self.at_once,
            hashes: KeyHashes::default(),
            allowance: self.at_most.map(Allowance::new),
            subscriber_id: self.subscriber_id,
        })
    }

    /// Of the types that the data has, those that were asked for.
    fn all_event_types(&self) -> Result<Vec<String>, SubscriberError> {
        let (known, asked) = (&self.known_types, &self.asked_types);
        if known.is_empty() || asked.is_empty() {
            return Ok(if known.is_empty() { asked.clone() } else { known.clone() });
        }
        let is_known = |pattern: &&String| known.iter().any(|name| matches_pattern(name, pattern));
        if let Some(unknown) = asked.iter().find(|pattern| !is_known(pattern)) {
            return Err(invalid(&self.subscriber_id, &format!("its data has no event type {unknown:?}")));
        }
        Ok(known.iter().filter(|name| asked.iter().any(|pattern| matches_pattern(name, pattern))).cloned().collect())
    }
}

fn invalid(subscriber_id: &str, what: &str) -> SubscriberError {
    SubscriberError::InvalidInput(format!("subscriber {subscriber_id:?}: {what}"))
}

/// A subscription or a queue that has its handler: what
/// [`NodeBuilder::run`](crate::node::NodeBuilder::run) takes.
#[diagnostic::on_unimplemented(
    message = "a node cannot run `{Self}`",
    note = "a subscription or queue is complete when it has a handler: end it with `.each(..)`, `.batch(..)`, `.transactional(..)` or `.transactional_batch(..)`",
    note = "an observer or a projection is subscribed with `Subscription::of(observer)`"
)]
pub trait Runnable: sealed::Sealed {
    #[doc(hidden)]
    fn into_settings(self) -> Boxed;
}

/// Settings, for the eyes of the node only.
#[doc(hidden)]
pub struct Boxed(pub(in crate::node) Settings);

pub(in crate::node) mod sealed {
    /// Only this crate's types run on a node.
    pub trait Sealed {}
}

/// The state of a subscription that has no handler yet.
#[derive(Debug, Clone, Copy)]
pub struct NoHandler(());
/// The state of a subscription with several events at once, which needs a handler for each of them.
#[derive(Debug, Clone, Copy)]
pub struct Parallel(());
/// The state of a subscription with bundles, which needs a transactional handler.
#[derive(Debug, Clone, Copy)]
pub struct Bundled(());
/// The state of a subscription with a handler of single events.
#[derive(Debug, Clone, Copy)]
pub struct Each(());
/// The state of a subscription with a handler of many events.
#[derive(Debug, Clone, Copy)]
pub struct Batch(());
/// The state of a subscription with a transactional handler.
#[derive(Debug, Clone, Copy)]
pub struct Transactional(());

pub(in crate::node) type State<H> = PhantomData<fn() -> H>;

/// The settings that subscriptions and queues share, as methods.
macro_rules! shared_settings {
    ($type:ident) => {
        impl<H> $type<H> {
            /// All settings of delivery at once. A setting that has a method of its own below goes
            /// before this one's, whichever comes first. Default: the node's
            /// [`default_config`](crate::node::NodeBuilder::default_config).
            pub fn config(mut self, config: ReliableDeliveryConfig) -> Self {
                self.settings.config(config);
                self
            }

            /// How often an event that failed is tried again:
            /// [`max_retries`](ReliableDeliveryConfig::max_retries).
            pub fn retries(mut self, retries: u32) -> Self {
                self.settings.change(move |config| config.max_retries = retries);
                self
            }

            /// The pause before the first retry, and the longest pause. It doubles with each retry.
            pub fn retry_delays(mut self, first: Duration, longest: Duration) -> Self {
                self.settings.change(move |config| {
                    (config.initial_retry_delay, config.max_retry_delay) = (first, longest);
                });
                self
            }

            /// How long the handler may take; longer is a failure:
            /// [`handler_timeout`](ReliableDeliveryConfig::handler_timeout).
            pub fn handler_timeout(mut self, timeout: Duration) -> Self {
                self.settings.change(move |config| config.handler_timeout = timeout);
                self
            }

            /// Where the subscriber starts when it is new:
            /// [`start_from`](ReliableDeliveryConfig::start_from).
            pub fn start_from(mut self, start: StartFrom) -> Self {
                self.settings.change(move |config| config.start_from = start);
                self
            }

            /// How many events per second are handled at most, on each node:
            /// [`rate_limit`](ReliableDeliveryConfig::rate_limit).
            pub fn rate_limit(mut self, per_second: f64) -> Self {
                self.settings.change(move |config| config.rate_limit = Some(per_second));
                self
            }

            /// Only events of these types, in which `*` stands for any characters.
            pub fn event_types(mut self, types: impl IntoIterator<Item = impl Into<String>>) -> Self {
                self.settings.event_types(types);
                self
            }

            /// The subscriber's id.
            pub fn subscriber_id(&self) -> &str {
                &self.settings.subscriber_id
            }
        }

        impl<H> std::fmt::Debug for $type<H> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type)).field("subscriber_id", &self.subscriber_id()).finish_non_exhaustive()
            }
        }

        shared_settings!(@runnable $type: Each, Batch, Transactional);
    };
    (@runnable $type:ident: $($state:ident),*) => { $(
        impl sealed::Sealed for $type<$state> {}
        impl Runnable for $type<$state> {
            fn into_settings(self) -> Boxed {
                Boxed(self.settings)
            }
        }
    )* };
}
pub(in crate::node) use shared_settings;
