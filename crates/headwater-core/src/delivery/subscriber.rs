//! Subscribers as the database stores them.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Gaps, StartFrom};
use crate::{Fault, History, InvalidName, InvalidSequence, ReadError};

/// Why an operation on a subscriber failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubscriberError {
    /// Another instance owns the subscriber now, or it was reset or removed (WH011). Nothing was
    /// written.
    #[error("subscriber {0:?} is owned by another instance by now, or was reset: nothing was written")]
    Fenced(String),
    /// The subscriber does not exist (WH012).
    #[error("subscriber {0:?} does not exist")]
    NotFound(String),
    /// The subscriber is in use, and the operation needs it to be unused (WH013).
    #[error("{0}")]
    InUse(String),
    /// The claim was acked or handed back before, or it expired and its events are delivered again
    /// (WH014). Nothing was written.
    #[error("{0}")]
    ClaimLost(String),
    /// Another process is registered under the node's id now, or the node was forgotten (WH018).
    /// This process no longer counts as the node.
    #[error("{0}")]
    NodeReplaced(String),
    /// The namespace does not exist (WH001).
    #[error("namespace {0:?} does not exist: create it first")]
    NamespaceNotFound(String),
    /// The database's role has no grant for this (WH015).
    #[error("{0}")]
    NotGranted(String),
    /// A name, size or value is invalid (WH002).
    #[error("{0}")]
    InvalidInput(String),
    /// The log could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The database could not be reached, or it failed.
    #[error("{0}")]
    Unavailable(#[source] Fault),
}

impl SubscriberError {
    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            SubscriberError::Unavailable(fault) => fault.retryable,
            SubscriberError::Read(error) => error.is_retryable(),
            _ => false,
        }
    }

    /// Whether the server has another history than the caller knows (WH050). Nothing was written.
    pub fn is_other_history(&self) -> bool {
        matches!(self, SubscriberError::Read(error) if error.is_other_history())
    }

    /// The code of the error's page in `docs/errors/`.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            SubscriberError::Fenced(_) => Some("WH011"),
            SubscriberError::NotFound(_) => Some("WH012"),
            SubscriberError::InUse(_) => Some("WH013"),
            SubscriberError::ClaimLost(_) => Some("WH014"),
            SubscriberError::NodeReplaced(_) => Some("WH018"),
            SubscriberError::NamespaceNotFound(_) => Some("WH001"),
            SubscriberError::NotGranted(_) => Some("WH015"),
            SubscriberError::InvalidInput(_) => Some("WH002"),
            SubscriberError::Read(error) => error.code(),
            SubscriberError::Unavailable(_) => None,
        }
    }
}

impl From<InvalidName> for SubscriberError {
    fn from(name: InvalidName) -> Self {
        SubscriberError::InvalidInput(name.to_string())
    }
}

impl From<InvalidSequence> for SubscriberError {
    fn from(sequence: InvalidSequence) -> Self {
        SubscriberError::InvalidInput(sequence.to_string())
    }
}

/// A process that runs subscribers. After a restart it has the same node and another incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Instance {
    /// The node's name.
    pub node: String,
    /// Identifies this run of the node.
    pub incarnation: Uuid,
}

impl Instance {
    /// A new run of a node.
    pub fn new(node: impl Into<String>) -> Self {
        Instance { node: node.into(), incarnation: Uuid::now_v7() }
    }
}

/// A subscriber's settings when it is first registered.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscriberConfig {
    /// The subscriber's id.
    pub subscriber_id: String,
    /// Where the subscriber starts.
    pub start_from: StartFrom,
    /// How the subscriber's instances share its events.
    pub mode: SubscriberMode,
    /// The event types that a shared subscriber takes, in which `*` stands for any characters.
    /// Events of other types are settled. If the subscriber exists, it takes these types too from
    /// now on. Empty: all types, or no change if the subscriber exists. Other modes need it empty.
    pub event_types: Vec<String>,
}

impl SubscriberConfig {
    /// A subscriber that starts here and takes all types.
    pub fn new(subscriber_id: impl Into<String>, start_from: StartFrom, mode: SubscriberMode) -> Self {
        SubscriberConfig { subscriber_id: subscriber_id.into(), start_from, mode, event_types: Vec::new() }
    }
}

/// How the instances of a subscriber share its events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriberMode {
    /// One instance at a time handles all events, in order.
    #[default]
    Exclusive,
    /// Each partition has one owner at a time. The events of a key are always in the same
    /// partition, in order.
    Partitioned {
        /// The number of partitions at first: 1 to 1024.
        partitions: u32,
    },
    /// Workers claim events, in no particular order.
    Shared,
}

impl SubscriberMode {
    /// The name in the database and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SubscriberMode::Exclusive => "exclusive",
            SubscriberMode::Partitioned { .. } => "partitioned",
            SubscriberMode::Shared => "shared",
        }
    }

    /// The number of partitions of a subscriber in this mode.
    pub fn partitions(self) -> u32 {
        match self {
            SubscriberMode::Partitioned { partitions } => partitions,
            SubscriberMode::Exclusive | SubscriberMode::Shared => 1,
        }
    }
}

/// Proof of ownership. Every write of an owner is checked against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The subscriber.
    pub subscriber_id: String,
    /// The partition.
    pub partition: u32,
    /// The owner's term. A single instance without a lease uses the present term, which ends with a
    /// reset. `None`: any term.
    pub term: Option<u64>,
    /// The history in which the term was given and the owner's data was read. `None`: any history.
    pub history: Option<History>,
}

/// What a runner is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunnerState {
    /// Another instance owns the subscriber, or nobody does yet.
    #[default]
    StandingBy,
    /// The runner is behind the head and reads on.
    CatchingUp,
    /// The runner is at the head.
    Live,
    /// A gap whose writer has not ended holds the runner.
    Held,
    /// A failed event waits for its next try.
    Retrying,
    /// The subscriber is paused.
    Paused,
    /// The database cannot be reached.
    Disconnected,
}

impl RunnerState {
    /// The name in the database and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            RunnerState::StandingBy => "standing_by",
            RunnerState::CatchingUp => "catching_up",
            RunnerState::Live => "live",
            RunnerState::Held => "held",
            RunnerState::Retrying => "retrying",
            RunnerState::Paused => "paused",
            RunnerState::Disconnected => "disconnected",
        }
    }
}

/// What an owner reports about itself, for readers elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What the owner is doing.
    pub state: RunnerState,
    /// What holds the owner: a gap and its writers, or the error of the event that is being
    /// retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Recent events per second.
    pub rate: f64,
    /// Whether the effects are in the transaction of the checkpoint and so happen once. Poison does
    /// not move such a subscriber back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transactional: bool,
}

/// An instance's request to own a partition of a subscriber, or to keep it.
#[derive(Debug, Clone, PartialEq)]
pub struct LeaseRequest {
    /// The subscriber.
    pub subscriber_id: String,
    /// The partition.
    pub partition: u32,
    /// The most partitions of the subscriber that the instance may own. `None`: all.
    pub share: Option<u32>,
    /// The term in which the instance owns the partition. `None`: it does not own it.
    pub term: Option<u64>,
    /// What the owner is doing. Ignored if the instance is not the owner.
    pub report: Report,
}

/// The answer to a [`LeaseRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseReply {
    /// The subscriber.
    pub subscriber_id: String,
    /// The partition.
    pub partition: u32,
    /// The term in which the asking instance owns the partition. `None`: it does not own it.
    pub term: Option<u64>,
    /// The history in which this answer holds. `None`: the store does not know its history.
    pub history: Option<History>,
    /// Whether the subscriber is paused.
    pub paused: bool,
    /// Whether dead letters wait to be delivered again.
    pub redrives: bool,
}

/// The state of a subscriber's progress.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Everything at or below this sequence is settled, except for `pending_gaps`.
    pub position: u64,
    /// Gaps that were passed and are still open.
    pub pending_gaps: Gaps,
    /// Whether the subscriber is paused.
    pub paused: bool,
    /// Keys whose events wait behind a dead letter.
    pub parked_keys: Vec<String>,
    /// The present term.
    pub term: u64,
    /// The history in which this checkpoint holds. `None`: the store does not know its history.
    pub history: Option<History>,
    /// Events that have a dead letter in any state although the checkpoint has not passed them,
    /// because their owner ended in between. Only a redrive delivers them again. Each has its
    /// sequence and its id; an event that a group settled ahead of the checkpoint has no id.
    pub buried: Vec<(u64, Option<Uuid>)>,
    /// How many partitions the subscriber has.
    pub partitions: u32,
    /// Where the partition ends while the number of partitions changes. Later events are for the
    /// new partitions.
    pub barrier: Option<u64>,
    /// How often rows of the log were repaired. After a repair, earlier reads of the log are no
    /// longer valid.
    pub repairs: u64,
}

/// How the turn of a partition's last owner ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastTurn {
    /// Whether the turn ended without notice: the owner's process died, or lost its connections for
    /// long.
    pub died: bool,
    /// The last event that the owner noted as begun, and how often the event was begun.
    pub begun: Option<(Uuid, u32)>,
}

/// A group as one of its members sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupView {
    /// The subscriber.
    pub subscriber_id: String,
    /// The number of the subscriber's partitions.
    pub partitions: u32,
    /// The living members, sorted. The asking member is among them.
    pub members: Vec<Uuid>,
    /// Whether the number of partitions is changing and owners must give up their partitions.
    pub halted: bool,
}

/// A partition as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartitionInfo {
    /// The partition's number, from 0.
    pub partition: u32,
    /// Everything at or below this sequence is settled, except for `pending_gaps`.
    pub position: u64,
    /// Gaps that were passed and are still open: first and last sequence of each.
    pub pending_gaps: Vec<(u64, u64)>,
    /// The owner. `None`: nobody owns the partition.
    pub owner: Option<Instance>,
    /// How often the owner changed.
    pub term: u64,
    /// How long the owner's lease lasts. `None`: it is over.
    pub lease_left: Option<Duration>,
    /// What the owner last reported.
    pub report: Option<Report>,
    /// How far the log is ahead, in sequences. That is at most this many events, over all
    /// partitions.
    pub lag_events: u64,
}

/// A group as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupInfo {
    /// The subscriber.
    pub subscriber_id: String,
    /// The instances that share the group's partitions.
    pub members: Vec<Instance>,
    /// The group's partitions.
    pub partitions: Vec<PartitionInfo>,
    /// The number of partitions that the group will have. `None`: no change is under way.
    pub resize_to: Option<u32>,
    /// Where the present partitions end and the new ones begin, once that is decided.
    pub barrier: Option<u64>,
}

/// A subscriber as operators see it. If it has several partitions, the fields about progress and
/// ownership are those of the partition that is furthest behind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SubscriberInfo {
    /// The subscriber's id.
    pub subscriber_id: String,
    /// How the subscriber's instances share its events.
    pub mode: SubscriberMode,
    /// Everything at or below this sequence is settled, except for `pending_gaps`.
    pub position: u64,
    /// The last event that was settled in order.
    pub last_event_id: Option<Uuid>,
    /// Gaps that were passed and are still open: first and last sequence of each.
    pub pending_gaps: Vec<(u64, u64)>,
    /// The owner. `None`: nobody owns the subscriber.
    pub owner: Option<Instance>,
    /// How often the owner changed.
    pub term: u64,
    /// How long the owner's lease lasts. `None`: it is over.
    pub lease_left: Option<Duration>,
    /// What the owner last reported.
    pub report: Option<Report>,
    /// Whether the subscriber is paused.
    pub paused: bool,
    /// Why the subscriber is paused, if somebody gave a reason.
    pub pause_reason: Option<String>,
    /// How far the log is ahead, in sequences. That is at most this many events.
    pub lag_events: u64,
    /// How long the oldest event ahead has been in the log. Zero: there is none.
    pub lag: Duration,
    /// The number of dead letters that are not finished.
    pub dead_letters: u64,
    /// When the subscriber was first registered.
    pub created_at: DateTime<Utc>,
    /// When the subscriber's checkpoint last moved.
    pub updated_at: DateTime<Utc>,
}

/// A fact that breaks a law.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum AuditFinding {
    /// A sequence that was recorded as a permanent gap has an event.
    EventInPermanentGap {
        /// The sequence.
        global_sequence: u64,
        /// The event.
        event_id: Uuid,
    },
    /// A subscriber settled another number of events than the log holds for it. Fewer: it lost
    /// some. More: the log has lost some since.
    CountDiffers {
        /// The subscriber.
        subscriber_id: String,
        /// The count starts after this sequence.
        after: u64,
        /// The count ends at this sequence.
        position: u64,
        /// Events in the log that are not in the subscriber's ledger, plus events that are gone
        /// from the log and have a dead letter.
        in_log: u64,
        /// Events that the subscriber settled.
        settled: u64,
        /// The missing event, if exactly one is missing: from what was settled, or from the log.
        missing: Option<u64>,
    },
    /// The number of events is the same, but the events are not.
    SumDiffers {
        /// The subscriber.
        subscriber_id: String,
        /// The comparison starts after this sequence.
        after: u64,
        /// The comparison ends at this sequence.
        position: u64,
    },
    /// The queue of a shared subscriber contradicts itself: events would be delivered twice, or not
    /// at all.
    QueueContradicts {
        /// The subscriber.
        subscriber_id: String,
        /// The contradiction: `held_twice`, `held_and_open`, `beyond_frontier`,
        /// `frontier_beyond_log` or `letter_forgotten`. The SQL function `headwater.audit_queues`
        /// explains them.
        problem: String,
        /// The first event concerned.
        first: u64,
        /// The last event concerned.
        last: u64,
        /// The number of events concerned.
        events: u64,
    },
}

/// What an audit found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// The number of subscribers that were checked.
    pub subscribers: u64,
    /// The number of events compared, over all subscribers.
    pub events: u64,
    /// The number of permanent gaps compared.
    pub permanent_gaps: u64,
    /// The laws that are broken.
    pub findings: Vec<AuditFinding>,
}
