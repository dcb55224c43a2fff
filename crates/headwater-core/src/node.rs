//! Nodes: registered running processes.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::{Json, ReliableDeliveryConfig};

/// How a process is made known.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeOptions {
    /// Its id in the namespace: lower case, with `-` for what is not a letter, a digit, a dot, `-` or `_`; `None`: one is made up.
    pub node_id: Option<String>,
    /// What people call it.
    pub display_name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Anything else about it, as a JSON object.
    pub metadata: Option<Json>,
    /// How often it says that it lives. It counts as dead when it was silent for three of them. Default: 30 s.
    pub heartbeat: Duration,
    /// How long messages wait that no live node handles, before they become dead letters; `None`: without end. Default: 5 minutes.
    pub unhandled_grace: Option<Duration>,
    /// How long nodes that are not heard of are remembered. Default: 7 days.
    pub retention: Duration,
    /// How events are delivered to its handlers by event type: retries, and how many transactions at once.
    pub delivery: ReliableDeliveryConfig,
    /// How long an event stays with a node that is not heard of. Default: 30 s.
    pub visibility: Duration,
    /// How many events a transaction of handlers holds, if all goes well. Default: 10.
    pub batch_size: u32,
}

impl Default for NodeOptions {
    fn default() -> Self {
        NodeOptions {
            node_id: None,
            display_name: None,
            description: None,
            metadata: None,
            heartbeat: Duration::from_secs(30),
            unhandled_grace: Some(Duration::from_secs(300)),
            retention: Duration::from_secs(7 * 86_400),
            delivery: ReliableDeliveryConfig::default(),
            visibility: Duration::from_secs(30),
            batch_size: 10,
        }
    }
}

impl NodeOptions {
    /// A node of this id.
    pub fn new(node_id: impl Into<String>) -> Self {
        NodeOptions { node_id: Some(node_id.into()), ..NodeOptions::default() }
    }

    /// What people call it.
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.display_name = Some(name.into());
        self
    }

    /// What it is for.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Anything else about it, as a JSON object.
    pub fn metadata(mut self, metadata: impl Into<Json>) -> Self {
        self.metadata = Some(metadata.into());
        self
    }

    /// How often it says that it lives.
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.heartbeat = every;
        self
    }

    /// How long messages wait that no live node handles, before they become dead letters; `None`: without end.
    pub fn unhandled_grace(mut self, grace: Option<Duration>) -> Self {
        self.unhandled_grace = grace;
        self
    }

    /// How long nodes that are not heard of are remembered.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// How events are delivered to its handlers by event type.
    pub fn delivery(mut self, delivery: ReliableDeliveryConfig) -> Self {
        self.delivery = delivery;
        self
    }

    /// How many transactions of handlers there are at once, each with a connection of the pool.
    pub fn concurrency(mut self, transactions: u32) -> Self {
        self.delivery.concurrency = transactions;
        self
    }

    /// How long an event stays with a node that is not heard of.
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = visibility;
        self
    }

    /// How many events a transaction of handlers holds, if all goes well.
    pub fn batch_size(mut self, events: u32) -> Self {
        self.batch_size = events;
        self
    }
}

/// A run of a node, as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The node's id.
    pub node_id: String,
    /// This run's number: higher than that of any before.
    pub incarnation: u64,
    /// This run as leases name it.
    pub instance_id: Uuid,
}

/// A node, as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeInfo {
    /// Its namespace.
    pub namespace: String,
    /// Its id.
    pub node_id: String,
    /// Its run.
    pub incarnation: u64,
    /// The run, as leases name it.
    pub instance_id: Uuid,
    /// Whether it was heard of within three heartbeats, and did not stop.
    pub alive: bool,
    /// How long ago it was heard of, by the database's clock.
    #[serde(rename = "heartbeat_age_seconds", serialize_with = "seconds")]
    pub heartbeat_age: Duration,
    /// What people call it.
    pub display_name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Anything else about it.
    pub metadata: Json,
    /// What it handles: event types, in which `*` stands for any characters.
    pub event_types: Vec<String>,
    /// How often it says that it lives.
    #[serde(rename = "heartbeat_every_seconds", serialize_with = "seconds")]
    pub heartbeat_every: Duration,
    /// When the node was first registered.
    pub registered_at: DateTime<Utc>,
    /// When this run was.
    pub started_at: DateTime<Utc>,
    /// When it was heard of.
    pub last_heartbeat: DateTime<Utc>,
    /// When it stopped.
    pub stopped_at: Option<DateTime<Utc>>,
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
