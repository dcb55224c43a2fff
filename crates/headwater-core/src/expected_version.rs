//! Optimistic concurrency: the version that a writer expects of a stream.

use std::fmt;

/// The version that an append expects of its stream. The append conflicts if the stream has another
/// version. The first event of a stream has version 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExpectedVersion {
    /// Any version is right, and so is no stream.
    #[default]
    Any,
    /// The stream has no events yet.
    NoStream,
    /// The stream has at least one event.
    Exists,
    /// The stream's last event has exactly this version. 0 is the same as
    /// [`ExpectedVersion::NoStream`].
    Exact(u64),
}

impl ExpectedVersion {
    /// Whether a stream at `version` is as expected. 0: the stream does not exist.
    pub fn allows(self, version: u64) -> bool {
        match self {
            ExpectedVersion::Any => true,
            ExpectedVersion::NoStream => version == 0,
            ExpectedVersion::Exists => version > 0,
            ExpectedVersion::Exact(expected) => version == expected,
        }
    }
}

impl fmt::Display for ExpectedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExpectedVersion::Any => f.write_str("any version"),
            ExpectedVersion::NoStream => f.write_str("no stream"),
            ExpectedVersion::Exists => f.write_str("an existing stream"),
            ExpectedVersion::Exact(version) => write!(f, "version {version}"),
        }
    }
}
