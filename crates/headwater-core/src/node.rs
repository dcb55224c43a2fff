//! Nodes: registered running processes.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::{Json, ReliableDeliveryConfig};

/// How a process registers as a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeOptions {
    /// The node's id in the namespace. It is in lower case, and any character except a letter, a
    /// digit, `.`, `-` or `_` becomes `-`. `None`: an id is made up.
    pub node_id: Option<String>,
    /// The node's name for people.
    pub display_name: Option<String>,
    /// The node's purpose.
    pub description: Option<String>,
    /// Other facts about the node, as a JSON object.
    pub metadata: Option<Json>,
    /// How often the node reports that it lives. It counts as dead after three missed reports.
    /// Default: 30 s.
    pub heartbeat: Duration,
    /// How long messages that no live node handles wait before they become dead letters. `None`:
    /// for ever. Default: 5 minutes.
    pub unhandled_grace: Option<Duration>,
    /// How long silent nodes are remembered. Default: 7 days.
    pub retention: Duration,
    /// How events are delivered to the node's handlers by event type.
    pub delivery: ReliableDeliveryConfig,
    /// How many transactions of handlers by event type run at once. Each needs a connection of the
    /// pool. Default: 1.
    pub concurrency: u32,
    /// How long an event stays with a silent node. Default: 30 s.
    pub visibility: Duration,
    /// The most events in one transaction of handlers, if all goes well. Default: 10.
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
            concurrency: 1,
            visibility: Duration::from_secs(30),
            batch_size: 10,
        }
    }
}

impl NodeOptions {
    /// A node with this id.
    pub fn new(node_id: impl Into<String>) -> Self {
        NodeOptions { node_id: Some(node_id.into()), ..NodeOptions::default() }
    }

    /// Sets the node's name for people.
    pub fn display_name(mut self, name: impl Into<String>) -> Self {
        self.display_name = Some(name.into());
        self
    }

    /// Sets the node's purpose.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets other facts about the node, as a JSON object.
    pub fn metadata(mut self, metadata: impl Into<Json>) -> Self {
        self.metadata = Some(metadata.into());
        self
    }

    /// Sets how often the node reports that it lives.
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.heartbeat = every;
        self
    }

    /// Sets how long messages that no live node handles wait before they become dead letters.
    /// `None`: for ever.
    pub fn unhandled_grace(mut self, grace: Option<Duration>) -> Self {
        self.unhandled_grace = grace;
        self
    }

    /// Sets how long silent nodes are remembered.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Sets how events are delivered to the node's handlers by event type.
    pub fn delivery(mut self, delivery: ReliableDeliveryConfig) -> Self {
        self.delivery = delivery;
        self
    }

    /// Sets how many transactions of handlers run at once. Each needs a connection of the pool.
    pub fn concurrency(mut self, transactions: u32) -> Self {
        self.concurrency = transactions;
        self
    }

    /// Sets how long an event stays with a silent node.
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = visibility;
        self
    }

    /// Sets the most events in one transaction of handlers, if all goes well.
    pub fn batch_size(mut self, events: u32) -> Self {
        self.batch_size = events;
        self
    }
}

/// A run of a node as the database knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The node's id.
    pub node_id: String,
    /// This run's number. It is higher than the number of any earlier run.
    pub incarnation: u64,
    /// This run's id in leases.
    pub instance_id: Uuid,
}

/// A node as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeInfo {
    /// The node's namespace.
    pub namespace: String,
    /// The node's id.
    pub node_id: String,
    /// The number of the node's latest run.
    pub incarnation: u64,
    /// The latest run's id in leases.
    pub instance_id: Uuid,
    /// Whether the node reported within three heartbeats and did not stop.
    pub alive: bool,
    /// The time since the node last reported, by the database's clock.
    #[serde(rename = "heartbeat_age_seconds", serialize_with = "seconds")]
    pub heartbeat_age: Duration,
    /// The node's name for people.
    pub display_name: Option<String>,
    /// The node's purpose.
    pub description: Option<String>,
    /// Other facts about the node.
    pub metadata: Json,
    /// The event types that the node handles, in which `*` stands for any characters.
    pub event_types: Vec<String>,
    /// How often the node reports that it lives.
    #[serde(rename = "heartbeat_every_seconds", serialize_with = "seconds")]
    pub heartbeat_every: Duration,
    /// When the node was first registered.
    pub registered_at: DateTime<Utc>,
    /// When this run was started.
    pub started_at: DateTime<Utc>,
    /// When the node last reported.
    pub last_heartbeat: DateTime<Utc>,
    /// When the node stopped.
    pub stopped_at: Option<DateTime<Utc>>,
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
