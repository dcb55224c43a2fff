//! A namespace: an isolated log with its settings.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::names::check_namespace;
use crate::{AdminError, Json};

/// The largest payload that a namespace allows by default.
pub const DEFAULT_MAX_PAYLOAD_BYTES: u32 = 1024 * 1024;
/// The highest limit that a namespace may set: a quarter of what one PostgreSQL value can hold.
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
    /// The name in the database and on the command line.
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

/// The shortest retention of a namespace: whole months are dropped, and the shortest month has 28
/// days.
pub const SHORTEST_RETENTION: Duration = Duration::from_secs(28 * 86_400);

/// The longest retention of a namespace: 1,000 years of 360 days, because PostgreSQL compares
/// intervals that way.
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

/// Who makes the tables for a namespace's coming months.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum MonthsMadeBy {
    /// Headwater makes them.
    #[default]
    #[serde(rename = "built-in")]
    BuiltIn,
    /// The extension pg_partman makes them. It must be installed in the database.
    #[serde(rename = "pg_partman")]
    PgPartman,
}

impl MonthsMadeBy {
    /// The name in the database and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            MonthsMadeBy::BuiltIn => "built-in",
            MonthsMadeBy::PgPartman => "pg_partman",
        }
    }
}

impl std::str::FromStr for MonthsMadeBy {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self, AdminError> {
        match text {
            "built-in" => Ok(MonthsMadeBy::BuiltIn),
            "pg_partman" => Ok(MonthsMadeBy::PgPartman),
            _ => {
                Err(AdminError::InvalidInput(format!("invalid months_made_by {text:?}: it is built-in or pg_partman")))
            }
        }
    }
}

/// Where the events of a namespace are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// In months that are shared with other namespaces: right for nearly all namespaces, no matter
    /// how many there are.
    #[default]
    Shared,
    /// In the namespace's own months: for a namespace that is much larger than the others.
    Own,
}

impl Storage {
    /// The name in the database and on the command line.
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

/// Which index a namespace keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Index {
    /// No extra index: an append writes one row per event.
    #[default]
    None,
    /// An index of event types. Filtered reads and claims find rare types at once, and an append
    /// writes a second, short row per event.
    Types,
}

impl Index {
    /// The name in the database and on the command line.
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

/// The state of a namespace's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexState {
    /// The namespace has no index.
    #[default]
    None,
    /// Events from before the index was switched on are being added. Reads do not use the index
    /// yet.
    Building,
    /// Reads and claims use the index.
    Ready,
    /// The index was switched off, and its rows are being deleted.
    Removing,
}

impl IndexState {
    /// The name in the database and on the command line.
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

/// The settings of a namespace to create. A setting that is `None` gets its default if the
/// namespace is new. It is not compared if the namespace exists already.
#[derive(Debug, Clone, PartialEq)]
pub struct NamespaceConfig {
    /// The namespace's name.
    pub name: String,
    /// How events are numbered. This cannot be changed later.
    pub ordering: Option<Ordering>,
    /// Whether SQL callers NOTIFY in their own transaction.
    pub notify: Option<bool>,
    /// How long events are kept, at least a month.
    pub retention: Option<Duration>,
    /// The largest payload of an event, in bytes.
    pub max_payload_bytes: Option<u32>,
    /// Notes of the owner: a JSON object.
    pub metadata: Option<Json>,
    /// Who makes the tables for coming months. This cannot be changed later.
    pub months_made_by: Option<MonthsMadeBy>,
    /// Where the events are stored.
    pub storage: Option<Storage>,
    /// Which index the namespace keeps.
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
            months_made_by: None,
            storage: None,
            index: None,
        }
    }

    /// Sets how events are numbered.
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.ordering = Some(ordering);
        self
    }

    /// Sets whether SQL callers NOTIFY in their own transaction.
    pub fn notify(mut self, notify: bool) -> Self {
        self.notify = Some(notify);
        self
    }

    /// Sets how long events are kept, at least a month. Retention drops whole months, and never a
    /// month that a subscriber still needs.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Sets the largest payload of an event, in bytes.
    pub fn max_payload_bytes(mut self, bytes: u32) -> Self {
        self.max_payload_bytes = Some(bytes);
        self
    }

    /// Sets the owner's notes: a JSON object.
    pub fn metadata(mut self, metadata: impl Into<Json>) -> Self {
        self.metadata = Some(metadata.into());
        self
    }

    /// Sets who makes the tables for coming months.
    pub fn months_made_by(mut self, months_made_by: MonthsMadeBy) -> Self {
        self.months_made_by = Some(months_made_by);
        self
    }

    /// Sets where the events are stored.
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Sets which index the namespace keeps.
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

/// An existing namespace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NamespaceInfo {
    /// The namespace's name.
    pub name: String,
    /// The namespace's number in the database.
    pub id: i32,
    /// How events are numbered.
    pub ordering: Ordering,
    /// Whether SQL callers NOTIFY in their own transaction.
    pub notify: bool,
    /// How long events are kept. `None`: for ever.
    pub retention: Option<Duration>,
    /// The largest payload of an event, in bytes.
    pub max_payload_bytes: u32,
    /// Notes of the owner.
    pub metadata: Json,
    /// When the namespace was created.
    pub created_at: DateTime<Utc>,
    /// Who makes the tables for coming months.
    pub months_made_by: MonthsMadeBy,
    /// Where the events are stored.
    pub storage: Storage,
    /// Which index the namespace keeps.
    pub index: Index,
    /// The state of the index.
    pub index_state: IndexState,
}
