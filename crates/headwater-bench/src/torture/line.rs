//! The record of what happened to each event: one line in the instance's own file, written with one
//! call. So a kill leaves only whole lines.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use uuid::Uuid;

/// What happened to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The handler was called.
    Begun,
    /// The handler is about to report success.
    Handled,
    /// The handler is about to report failure.
    Failed,
}

/// One line of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) mark: Mark,
    pub(crate) subscriber: String,
    /// The node and its run.
    pub(crate) instance: String,
    pub(crate) sequence: u64,
    /// The event's id. A server that lost the end of its log hands out a sequence again, so the
    /// sequence alone is not enough.
    pub(crate) event: Uuid,
    /// The order key of the event: its key, else its stream, else `-`.
    pub(crate) key: String,
    /// The time in nanoseconds since 1970.
    pub(crate) ns: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.mark {
            Mark::Begun => 'B',
            Mark::Handled => 'H',
            Mark::Failed => 'F',
        };
        let Line { subscriber, instance, sequence, event, key, ns, .. } = self;
        write!(f, "{mark} {subscriber} {instance} {sequence} {event} {key} {ns}")
    }
}

impl FromStr for Line {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let fields: Vec<&str> = text.split(' ').collect();
        let [mark, subscriber, instance, sequence, event, key, ns] = fields[..] else {
            bail!("{} fields in line {text:?}", fields.len());
        };
        let mark = match mark {
            "B" => Mark::Begun,
            "H" => Mark::Handled,
            "F" => Mark::Failed,
            _ => bail!("unknown mark in line {text:?}"),
        };
        Ok(Line {
            mark,
            subscriber: subscriber.into(),
            instance: instance.into(),
            sequence: sequence.parse()?,
            event: event.parse()?,
            key: key.into(),
            ns: ns.parse()?,
        })
    }
}

/// Returns the nanoseconds since 1970, by the clock that all processes share.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// The record file of one instance.
#[derive(Debug)]
pub(crate) struct Book(File);

impl Book {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Book(file.with_context(|| format!("failed to open {}", path.display()))?))
    }

    pub(crate) fn write(&self, line: &Line) -> std::io::Result<()> {
        (&self.0).write_all(format!("{line}\n").as_bytes())
    }
}

/// Reads the lines of all instances: per instance, in the order in which it wrote them.
pub(crate) fn read_all(folder: &Path) -> anyhow::Result<Vec<Vec<Line>>> {
    let mut books = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "lines") {
            let text = std::fs::read_to_string(&path)?;
            books.push(text.lines().map(str::parse).collect::<anyhow::Result<Vec<Line>>>()?);
        }
    }
    Ok(books)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        for mark in [Mark::Begun, Mark::Handled, Mark::Failed] {
            let line = Line {
                mark,
                subscriber: "strict".into(),
                instance: "node-1.2".into(),
                sequence: 42,
                event: Uuid::now_v7(),
                key: "order-1".into(),
                ns: 5,
            };
            assert_eq!(line.to_string().parse::<Line>().unwrap(), line);
        }
        assert!("B strict node-1.2 - 4".parse::<Line>().is_err());
    }
}
