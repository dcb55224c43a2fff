//! Subscribers as the database knows them.

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
    /// Another instance owns the subscriber by now, or it was reset or removed (WH011): nothing was written.
    #[error("subscriber {0:?} is owned by another instance by now, or was reset: nothing was written")]
    Fenced(String),
    /// There is no such subscriber (WH012).
    #[error("subscriber {0:?} does not exist")]
    NotFound(String),
    /// The subscriber is in use, and what was asked needs it not to be (WH013).
    #[error("{0}")]
    InUse(String),
    /// The claim was acked or handed back before, or it expired and its events are delivered again (WH014): nothing was written.
    #[error("{0}")]
    ClaimLost(String),
    /// Another process is registered under the node's id by now, or the node was forgotten (WH018): it counts no more.
    #[error("{0}")]
    NodeReplaced(String),
    /// The namespace does not exist (WH001).
    #[error("namespace {0:?} does not exist: create it first")]
    NamespaceNotFound(String),
    /// The database's role has no grant for this (WH015).
    #[error("{0}")]
    NotGranted(String),
    /// A name, size or value that cannot be (WH002).
    #[error("{0}")]
    InvalidInput(String),
    /// The log could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The database could not be reached, or failed.
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

    /// Whether the server has another history than the one that the caller knows (WH050): nothing was written.
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

/// A process that runs subscribers. A restarted one has the same node and another incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Instance {
    /// The node's name.
    pub node: String,
    /// This run of it.
    pub incarnation: Uuid,
}

impl Instance {
    /// A new run of a node.
    pub fn new(node: impl Into<String>) -> Self {
        Instance { node: node.into(), incarnation: Uuid::now_v7() }
    }
}

/// What a subscriber is when it is first registered.
#[derive(Debug, Clone, PartialEq)]
pub struct SubscriberConfig {
    /// Its id.
    pub subscriber_id: String,
    /// Where it starts.
    pub start_from: StartFrom,
    /// How its instances share its events.
    pub mode: SubscriberMode,
}

/// How the instances of a subscriber share its events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriberMode {
    /// One instance at a time handles all of them, in order.
    #[default]
    Exclusive,
    /// Each partition has one owner at a time; the events of a key are always in the same partition, in order.
    Partitioned {
        /// How many there are at first: 1 to 1024.
        partitions: u32,
    },
    /// Workers claim events, in no order.
    Shared,
}

impl SubscriberMode {
    /// Its name in the database and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SubscriberMode::Exclusive => "exclusive",
            SubscriberMode::Partitioned { .. } => "partitioned",
            SubscriberMode::Shared => "shared",
        }
    }

    /// How many partitions it has.
    pub fn partitions(self) -> u32 {
        match self {
            SubscriberMode::Partitioned { partitions } => partitions,
            SubscriberMode::Exclusive | SubscriberMode::Shared => 1,
        }
    }
}

/// Proof of ownership, checked by every write that an owner makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The subscriber.
    pub subscriber_id: String,
    /// Its partition.
    pub partition: u32,
    /// The term of the owner. A single instance, without a lease, has the present one, which ends with a reset. `None`: any.
    pub term: Option<u64>,
    /// The history in which the term was given, and in which all was read that the owner writes down. `None`: any.
    pub history: Option<History>,
}

/// What a runner is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunnerState {
    /// Another instance owns the subscriber, or nobody does yet.
    #[default]
    StandingBy,
    /// Behind the head, reading on.
    CatchingUp,
    /// At the head.
    Live,
    /// Held by a gap whose writer has not ended.
    Held,
    /// A failed event waits for its next try.
    Retrying,
    /// Paused.
    Paused,
    /// The database cannot be reached.
    Disconnected,
}

impl RunnerState {
    /// Its name in the database and on the command line.
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

/// What an owner reports of itself, for whoever looks from elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What it does.
    pub state: RunnerState,
    /// What holds it: the gap and its writers, or the error of the event that is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Events a second, of late.
    pub rate: f64,
    /// Whether its effects are in the transaction of its checkpoint, and so happen once: it is not moved back by poison.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transactional: bool,
}

/// An instance's wish to own a partition of a subscriber, or to go on owning it.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// The subscriber.
    pub subscriber_id: String,
    /// Its partition.
    pub partition: u32,
    /// How many partitions of the subscriber the instance may own: it takes no more. `None`: all.
    pub share: Option<u32>,
    /// The term in which the instance owns it; `None`: it does not.
    pub term: Option<u64>,
    /// What the owner does; ignored from others.
    pub report: Report,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The subscriber.
    pub subscriber_id: String,
    /// Its partition.
    pub partition: u32,
    /// The term in which the asking instance owns it; `None`: it does not.
    pub term: Option<u64>,
    /// The history in which that is so; `None`: the store does not know it.
    pub history: Option<History>,
    /// Whether it is paused.
    pub paused: bool,
    /// Whether dead letters wait to be delivered again.
    pub redrives: bool,
}

/// Where a subscriber stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Everything at or below is settled, but for `pending_gaps`.
    pub position: u64,
    /// Gaps that were passed and are not closed.
    pub pending_gaps: Gaps,
    /// Whether it is paused.
    pub paused: bool,
    /// Keys whose events wait behind a dead letter.
    pub parked_keys: Vec<String>,
    /// The present term.
    pub term: u64,
    /// The history in which all of this is so; `None`: the store does not know it.
    pub history: Option<History>,
    /// Events that have a dead letter, whatever became of it, though the checkpoint has not passed them: its owner ended in between. They are
    /// not delivered again but by a redrive. By sequence and id; what a group settled ahead of the checkpoint has no id.
    pub buried: Vec<(u64, Option<Uuid>)>,
    /// How many partitions the subscriber has.
    pub partitions: u32,
    /// The partition ends here: the number of partitions changes, and what comes after is for the new ones.
    pub barrier: Option<u64>,
    /// How often rows of the log were repaired: what was read of it before counts no more.
    pub repairs: u64,
}

/// What became of the last owner of a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastTurn {
    /// It ended without saying so: its process died, or lost its connections for long.
    pub died: bool,
    /// The event that it wrote down as begun, and how often that was begun.
    pub begun: Option<(Uuid, u32)>,
}

/// A group, as one of its members sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupView {
    /// The subscriber.
    pub subscriber_id: String,
    /// How many partitions it has.
    pub partitions: u32,
    /// Those members that are alive, sorted; the one that asks is among them.
    pub members: Vec<Uuid>,
    /// The number of partitions is to change, and their owners shall give them up.
    pub halted: bool,
}

/// A partition, as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartitionInfo {
    /// Its number, from 0.
    pub partition: u32,
    /// Everything at or below is settled, but for `pending_gaps`.
    pub position: u64,
    /// Gaps that were passed and are not closed, first and last of each.
    pub pending_gaps: Vec<(u64, u64)>,
    /// The owner; `None`: nobody.
    pub owner: Option<Instance>,
    /// How often the owner changed.
    pub term: u64,
    /// How long the owner's lease goes on; `None`: it is over.
    pub lease_left: Option<Duration>,
    /// What the owner last reported.
    pub report: Option<Report>,
    /// How far the log is ahead, in sequences: at most so many events, of all partitions.
    pub lag_events: u64,
}

/// A group, as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupInfo {
    /// The subscriber.
    pub subscriber_id: String,
    /// Instances that share its partitions.
    pub members: Vec<Instance>,
    /// Its partitions.
    pub partitions: Vec<PartitionInfo>,
    /// How many partitions it shall have; `None`: as many as it has.
    pub resize_to: Option<u32>,
    /// Where the present partitions end and the new ones begin, once that is known.
    pub barrier: Option<u64>,
}

/// A subscriber, as operators see it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SubscriberInfo {
    /// Its id.
    pub subscriber_id: String,
    /// How its instances share its events. What follows is, of one with several partitions, that of the one that is furthest behind.
    pub mode: SubscriberMode,
    /// Everything at or below is settled, but for `pending_gaps`.
    pub position: u64,
    /// The last event settled in order.
    pub last_event_id: Option<Uuid>,
    /// Gaps that were passed and are not closed, first and last of each.
    pub pending_gaps: Vec<(u64, u64)>,
    /// The owner; `None`: nobody.
    pub owner: Option<Instance>,
    /// How often the owner changed.
    pub term: u64,
    /// How long the owner's lease goes on; `None`: it is over.
    pub lease_left: Option<Duration>,
    /// What the owner last reported.
    pub report: Option<Report>,
    /// Whether it is paused.
    pub paused: bool,
    /// Why, if somebody said so.
    pub pause_reason: Option<String>,
    /// How far the log is ahead, in sequences: at most so many events.
    pub lag_events: u64,
    /// How long the oldest event that is ahead has been there; zero: none is.
    pub lag: Duration,
    /// Dead letters that are not done with.
    pub dead_letters: u64,
    /// When it was first registered.
    pub created_at: DateTime<Utc>,
    /// When its checkpoint last moved.
    pub updated_at: DateTime<Utc>,
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum AuditFinding {
    /// A sequence that was recorded as a gap for ever holds an event.
    EventInPermanentGap {
        /// The sequence.
        global_sequence: u64,
        /// The event.
        event_id: Uuid,
    },
    /// A subscriber did not settle as many events as the log holds for it: fewer, so that some were lost to it; or more, so that the log has lost some since.
    CountDiffers {
        /// The subscriber.
        subscriber_id: String,
        /// From here (excluded)
        after: u64,
        /// to here.
        position: u64,
        /// Events in the log, without those that its ledger still has; and those that are gone from the log, of which it has dead letters.
        in_log: u64,
        /// Events that it settled.
        settled: u64,
        /// If exactly one is missing, of what it settled or of the log: which.
        missing: Option<u64>,
    },
    /// The same number of events, but not the same events.
    SumDiffers {
        /// The subscriber.
        subscriber_id: String,
        /// From here (excluded)
        after: u64,
        /// to here.
        position: u64,
    },
    /// The queue of a shared subscriber contradicts itself: events would be delivered twice, or not at all.
    QueueContradicts {
        /// The subscriber.
        subscriber_id: String,
        /// How: `held_twice`, `held_and_open`, `beyond_frontier`, `frontier_beyond_log` or `letter_forgotten`, as the SQL function
        /// `headwater.audit_queues` tells.
        problem: String,
        /// The first event,
        first: u64,
        /// the last,
        last: u64,
        /// and how many there are.
        events: u64,
    },
}

/// What an audit found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// Subscribers looked at.
    pub subscribers: u64,
    /// Events compared, over all subscribers.
    pub events: u64,
    /// Permanent gaps compared.
    pub permanent_gaps: u64,
    /// What must not be.
    pub findings: Vec<AuditFinding>,
}
