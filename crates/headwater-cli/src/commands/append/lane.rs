//! A lane: batches appended one after the other.
//!
//! The database has the authority over what is stored: an append with the same event ids is answered as the first time, so
//! a file may be run again. An append is all or nothing, though, and the batches of this run need not be those of the last
//! (a bad line was mended, lines were added): a batch that is stored in part, or that holds one bad event, is refused as a whole.
//! It is halved then, first half first, until each part is new, or stored, or the one bad event. So everything
//! before a bad event is stored, in order, and what is stored stays once.

use headwater::log::{Append, AppendError, Appended, StreamId};
use headwater::{ExpectedVersion, Namespace};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::lines::Batch;
use super::progress::Progress;

/// A failure, and the line that it is about.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) line: u64,
    pub(super) error: AppendError,
}

pub(super) struct Lane {
    pub(super) namespace: Namespace,
    /// The stream whose version is watched, and what is expected of it next.
    pub(super) expected: Option<(StreamId, ExpectedVersion)>,
}

impl Lane {
    /// Appends what comes until nothing more does, or until told to stop: then the batch at hand is finished.
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

/// Whether one event of several may be what is wrong.
fn is_about_one_event(error: &AppendError) -> bool {
    matches!(error, AppendError::InvalidInput(_) | AppendError::PayloadTooLarge { .. } | AppendError::IdReused { .. })
}
