//! A lane appends batches one after the other.
//!
//! The database decides what is stored. An append with the same event ids gets the same answer as
//! the first time, so a file may be appended again. But an append is all or nothing, and the
//! batches of this run may differ from the batches of the last run: a bad line was fixed, or lines
//! were added. A batch that is stored in part, or that has one bad event, is refused as a whole.
//!
//! The lane then splits the batch into halves and appends the first half first. It repeats this
//! until each part is new, or is stored already, or is the one bad event. So everything before a
//! bad event is stored, in order, and nothing is stored twice.

use headwater::log::{Append, AppendError, Appended, StreamId};
use headwater::{ExpectedVersion, Namespace};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::lines::Batch;
use super::progress::Progress;

/// A failure, and the first line of the events that were refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) line: u64,
    pub(super) error: AppendError,
}

pub(super) struct Lane {
    pub(super) namespace: Namespace,
    /// The stream whose version is checked, and the version that is expected next.
    pub(super) expected: Option<(StreamId, ExpectedVersion)>,
}

impl Lane {
    /// Appends batches until no more come, or until `stop`. The current batch is always finished.
    pub(super) async fn run(
        mut self,
        mut batches: Receiver<Batch>,
        stop: CancellationToken,
        progress: &Progress,
    ) -> Result<(), Refused> {
        while let Some(Some(batch)) = stop.run_until_cancelled(batches.recv()).await {
            if let Err(refused) = self.append(batch, progress).await {
                stop.cancel();
                return Err(refused);
            }
        }
        Ok(())
    }

    async fn append(&mut self, batch: Batch, progress: &Progress) -> Result<(), Refused> {
        let mut parts = vec![batch];
        while let Some(part) = parts.pop() {
            match self.namespace.append_all(self.request(&part)).await {
                Ok(appended) => {
                    self.advance(&part, &appended);
                    progress.stored(&appended);
                }
                Err(error) if is_about_one_event(&error) && part.events.len() > 1 => {
                    let (first, second) = part.split();
                    parts.extend([second, first]);
                }
                Err(error) => return Err(Refused { line: part.lines[0], error }),
            }
        }
        Ok(())
    }

    fn request(&self, part: &Batch) -> Append {
        let append = part.events.iter().cloned().fold(Append::new(), Append::event);
        match &self.expected {
            Some((stream, expected)) if part.events.iter().any(|event| event.stream_id.as_ref() == Some(stream)) => {
                append.expect(stream, *expected)
            }
            _ => append,
        }
    }

    fn advance(&mut self, part: &Batch, appended: &Appended) {
        let Some((stream, expected)) = &mut self.expected else { return };
        let placed = part.events.iter().zip(&appended.events).rev();
        let last = placed.into_iter().find(|(event, _)| event.stream_id.as_ref() == Some(stream));
        if let Some(version) = last.and_then(|(_, placed)| placed.stream_version) {
            *expected = ExpectedVersion::Exact(version);
        }
    }
}

/// Whether the cause may be a single event of the batch.
fn is_about_one_event(error: &AppendError) -> bool {
    matches!(error, AppendError::InvalidInput(_) | AppendError::PayloadTooLarge { .. } | AppendError::IdReused { .. })
}
