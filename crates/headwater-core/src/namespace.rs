//! A namespace: an isolated log with its settings.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::names::check_namespace;
use crate::{AdminError, Json};

/// Largest payload that a namespace allows unless it says otherwise.
pub const DEFAULT_MAX_PAYLOAD_BYTES: u32 = 1024 * 1024;
/// The most that a namespace may allow: a quarter of what one PostgreSQL value can hold.
pub const LARGEST_MAX_PAYLOAD_BYTES: u32 = 256 * 1024 * 1024;

/// How a namespace numbers its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ordering {
    /// Writers never wait for each other; a rollback leaves a gap.
    #[default]
    Sequence,
    /// No gaps, and commit order is sequence order; writers wait for each other.
    Gapless,
}

impl Ordering {
    /// As it stands in the database and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Ordering::Sequence => "sequence",
            Ordering::Gapless => "gapless",
        }
    }
}

impl std::str::FromStr for Ordering {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, AdminError> {
        match text {
            "sequence" => Ok(Ordering::Sequence),
            "gapless" => Ok(Ordering::Gapless),
            _ => Err(AdminError::InvalidInput(format!("invalid ordering {text:?}: it is sequence or gapless"))),
        }
    }
}

/// The shortest time that a namespace may keep its events: whole months are dropped, and this is the shortest.
pub const SHORTEST_RETENTION: Duration = Duration::from_secs(28 * 86_400);

/// The longest retention of a namespace: 1,000 years, as PostgreSQL compares them with days.
pub const LONGEST_RETENTION: Duration = Duration::from_secs(360_000 * 86_400);

/// Checks that a retention is neither too short nor too long.
pub fn check_retention(retention: Duration) -> Result<(), AdminError> {
    if (SHORTEST_RETENTION..=LONGEST_RETENTION).contains(&retention) {
        return Ok(());
    }
    Err(AdminError::InvalidInput(format!(
        "invalid retention {retention:?}: it is 28 days to 1000 years; leave it out to keep events for ever"
    )))
}

/// Who makes the partitions of a namespace's coming months.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum Partitions {
    /// Headwater.
    #[default]
    #[serde(rename = "built-in")]
    BuiltIn,
    /// The extension pg_partman, which must be installed in the database.
    #[serde(rename = "pg_partman")]
    PgPartman,
}

impl Partitions {
    /// As it stands in the database and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Partitions::BuiltIn => "built-in",
            Partitions::PgPartman => "pg_partman",
        }
    }
}

impl std::str::FromStr for Partitions {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, AdminError> {
        match text {
            "built-in" => Ok(Partitions::BuiltIn),
            "pg_partman" => Ok(Partitions::PgPartman),
            _ => Err(AdminError::InvalidInput(format!("invalid partitions {text:?}: it is built-in or pg_partman"))),
        }
    }
}

/// Where the events of a namespace are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// In months that it shares with other namespaces: right for nearly all, however many there are.
    #[default]
    Shared,
    /// In months of its own: for a namespace that is much larger than the others.
    Own,
}

impl Storage {
    /// As it stands in the database and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Storage::Shared => "shared",
            Storage::Own => "own",
        }
    }
}

impl std::str::FromStr for Storage {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, AdminError> {
        match text {
            "shared" => Ok(Storage::Shared),
            "own" => Ok(Storage::Own),
            _ => Err(AdminError::InvalidInput(format!("invalid storage {text:?}: it is shared or own"))),
        }
    }
}

/// What a namespace keeps an index of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Index {
    /// Nothing more than every namespace has: an append writes one row per event.
    #[default]
    None,
    /// The types of its events: filtered reads and claims find rare types at once. An append writes a second, short row per event.
    Types,
}

impl Index {
    /// As it stands in the database and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Index::None => "none",
            Index::Types => "types",
        }
    }
}

impl std::str::FromStr for Index {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, AdminError> {
        match text {
            "none" => Ok(Index::None),
            "types" => Ok(Index::Types),
            _ => Err(AdminError::InvalidInput(format!("invalid index {text:?}: it is none or types"))),
        }
    }
}

/// How far the index of a namespace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexState {
    /// There is none.
    #[default]
    None,
    /// Events of before it was switched on are being added; reads do not use it yet.
    Building,
    /// Reads and claims use it.
    Ready,
    /// It was switched off, and its rows are being deleted.
    Removing,
}

impl IndexState {
    /// As it stands in the database and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            IndexState::None => "none",
            IndexState::Building => "building",
            IndexState::Ready => "ready",
            IndexState::Removing => "removing",
        }
    }
}

impl std::str::FromStr for IndexState {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, AdminError> {
        match text {
            "none" => Ok(IndexState::None),
            "building" => Ok(IndexState::Building),
            "ready" => Ok(IndexState::Ready),
            "removing" => Ok(IndexState::Removing),
            _ => Err(AdminError::InvalidInput(format!("unknown state of an index {text:?}"))),
        }
    }
}

/// What a namespace is to be. A setting that is `None` takes its default when the namespace is created, and is not
/// compared when it is there already.
#[derive(Debug, Clone, PartialEq)]
pub struct NamespaceConfig {
    /// The name.
    pub name: String,
    /// How events are numbered; it cannot be changed later.
    pub ordering: Option<Ordering>,
    /// Whether SQL callers NOTIFY in their own transaction.
    pub notify: Option<bool>,
    /// How long events are kept, a month at least.
    pub retention: Option<Duration>,
    /// Largest payload of an event.
    pub max_payload_bytes: Option<u32>,
    /// Whatever the owner wants to note: a JSON object.
    pub metadata: Option<Json>,
    /// Who makes the partitions of coming months; it cannot be changed later.
    pub partitions: Option<Partitions>,
    /// Where its events are.
    pub storage: Option<Storage>,
    /// What it keeps an index of.
    pub index: Option<Index>,
}

impl NamespaceConfig {
    /// A namespace with the defaults.
    pub fn new(name: impl Into<String>) -> Self {
        NamespaceConfig {
            name: name.into(),
            ordering: None,
            notify: None,
            retention: None,
            max_payload_bytes: None,
            metadata: None,
            partitions: None,
            storage: None,
            index: None,
        }
    }

    /// Numbers events in this way.
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.ordering = Some(ordering);
        self
    }

    /// Whether SQL callers NOTIFY in their own transaction.
    pub fn notify(mut self, notify: bool) -> Self {
        self.notify = Some(notify);
        self
    }

    /// Keeps events for so long, a month at least. Whole months are dropped, and none that a subscriber still needs.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Allows payloads up to this size.
    pub fn max_payload_bytes(mut self, bytes: u32) -> Self {
        self.max_payload_bytes = Some(bytes);
        self
    }

    /// Notes this with the namespace: a JSON object.
    pub fn metadata(mut self, metadata: impl Into<Json>) -> Self {
        self.metadata = Some(metadata.into());
        self
    }

    /// Lets this make the partitions of coming months.
    pub fn partitions(mut self, partitions: Partitions) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Keeps its events here.
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Keeps an index of this.
    pub fn index(mut self, index: Index) -> Self {
        self.index = Some(index);
        self
    }

    /// Checks names and ranges.
    pub fn validate(&self) -> Result<(), AdminError> {
        check_namespace(&self.name)?;
        let invalid = |message: String| Err(AdminError::InvalidInput(message));
        self.retention.map(check_retention).transpose()?;
        if let Some(bytes) = self.max_payload_bytes
            && !(1..=LARGEST_MAX_PAYLOAD_BYTES).contains(&bytes)
        {
            return invalid(format!("invalid max_payload_bytes {bytes}: it is 1 to {LARGEST_MAX_PAYLOAD_BYTES}"));
        }
        if let Some(metadata) = &self.metadata
            && !metadata.as_str().starts_with('{')
        {
            return invalid("invalid metadata: it is a JSON object".into());
        }
        Ok(())
    }
}

/// A namespace as it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamespaceInfo {
    /// The name.
    pub name: String,
    /// Its number in the database.
    pub id: i32,
    /// How events are numbered.
    pub ordering: Ordering,
    /// Whether SQL callers NOTIFY in their own transaction.
    pub notify: bool,
    /// How long events are kept; `None`: for ever.
    pub retention: Option<Duration>,
    /// Largest payload of an event.
    pub max_payload_bytes: u32,
    /// Whatever the owner wants to note.
    pub metadata: Json,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Who makes the partitions of coming months.
    pub partitions: Partitions,
    /// Where its events are.
    pub storage: Storage,
    /// What it keeps an index of.
    pub index: Index,
    /// How far that index is.
    pub index_state: IndexState,
}
