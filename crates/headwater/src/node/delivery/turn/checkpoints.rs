//! Checkpoints of a turn: which events are settled, when a checkpoint is due, and how it is written
//! while events are handled.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use headwater_core::{CheckpointMode, Gap, Gaps, PassedOver, Progress, RecordedEvent};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::{ended, until};
use crate::node::delivery::owner::Owner;
use crate::node::delivery::runner::Stop;

/// The longest delay before progress is written if every event in it was skipped.
const SKIPS_DELAY: Duration = Duration::from_secs(1);

/// The events that a turn has settled, and which of them are written.
pub(super) struct Checkpoints {
    owner: Arc<Owner>,
    pub(super) progress: Progress,
    /// Events handled since the last checkpoint.
    unwritten: u64,
    /// Since when there is settled progress that is not written.
    unwritten_since: Option<Instant>,
    /// Whether a checkpoint write is in flight or its outcome is unknown: retry it unchanged, or
    /// not at all.
    in_doubt: bool,
    /// The task that writes a checkpoint while events are handled. It returns how long that took.
    writing: Option<JoinHandle<Result<Duration, Stop>>>,
    /// How long the last write took.
    write_took: Duration,
    /// Since when the events of the next checkpoint are counted.
    counting_since: Instant,
}

impl Checkpoints {
    pub(super) fn new(owner: &Arc<Owner>, position: u64, ledger: Gaps) -> Self {
        Checkpoints {
            owner: owner.clone(),
            progress: Progress::new(position, ledger),
            unwritten: 0,
            unwritten_since: None,
            in_doubt: false,
            writing: None,
            write_took: Duration::ZERO,
            counting_since: Instant::now(),
        }
    }

    /// Notes that an event was handled, given up or parked.
    pub(super) fn done(&mut self, event: &RecordedEvent) {
        self.progress.done(event.sequence().get());
        self.note_handled(1);
    }

    /// Notes that an event is not for this handler.
    pub(super) fn skip(&mut self, event: &RecordedEvent) {
        self.progress.done(event.sequence().get());
        self.note_unwritten();
    }

    /// Notes that these events are settled, in a transaction that wrote the checkpoint with them.
    pub(super) fn committed_with(&mut self, sequences: &[u64]) {
        self.progress.done_with(sequences);
        self.note_handled(sequences.len() as u64);
        self.wrote();
        self.publish();
    }

    /// Notes that these events are settled, in a transaction that noted them ahead of the
    /// checkpoint.
    pub(super) fn committed_ahead(&mut self, sequences: &[u64]) {
        sequences.iter().for_each(|sequence| self.progress.done(*sequence));
        self.note_handled(sequences.len() as u64);
        self.publish();
    }

    /// Notes that the log was read up to here, and that nothing holds back what was read.
    pub(super) fn reach(&mut self, position: u64) {
        self.progress.reach(position);
        self.note_unwritten();
    }

    pub(super) fn pass_over(&mut self, passed: &PassedOver) {
        self.progress.pass_over(passed);
        self.note_unwritten();
    }

    /// Notes that nothing will come in these passed gaps.
    pub(super) fn closed(&mut self, gaps: &[Gap]) {
        gaps.iter().for_each(|gap| self.progress.closed(gap.first, gap.last));
        if !gaps.is_empty() {
            self.note_unwritten();
        }
    }

    fn note_handled(&mut self, events: u64) {
        self.unwritten += events;
        self.note_unwritten();
        self.owner.runner.status.count(events);
    }

    fn note_unwritten(&mut self) {
        self.unwritten_since.get_or_insert_with(Instant::now);
    }

    /// Publishes how far events are handled.
    pub(super) fn publish(&self) {
        let reached = (self.progress.position(), self.progress.ledger());
        self.owner.runner.status.reached.send_if_modified(|present| {
            let news = present.as_ref().is_none_or(|(position, ledger)| (*position, ledger) != reached);
            if news {
                *present = Some((reached.0, reached.1.clone()));
            }
            news
        });
    }

    /// When a checkpoint is due, if there is anything to write.
    pub(super) fn write_deadline(&self) -> Option<Instant> {
        let delay = match self.owner.plan().config.checkpoint_mode {
            _ if self.unwritten == 0 => SKIPS_DELAY,
            CheckpointMode::Synchronous => Duration::ZERO,
            CheckpointMode::Batched { max_delay_ms, .. } => Duration::from_millis(max_delay_ms),
        };
        self.unwritten_since.map(|since| since + delay)
    }

    /// Writes the checkpoint, if it is due. A batched checkpoint is written in halves: one half is
    /// written while the events of the other are handled, so at most one batch comes again after a
    /// crash. If a batch is handled faster than a checkpoint is written, halves would only double
    /// the writes: the checkpoint is then written whole.
    pub(super) async fn write_if_due(&mut self) -> Result<(), Stop> {
        if self.writing.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish_writing().await?;
        }
        let CheckpointMode::Batched { batch_size, .. } = self.owner.plan().config.checkpoint_mode else {
            return if self.unwritten > 0 || self.is_write_due() { self.write().await } else { Ok(()) };
        };
        let half = u64::from(batch_size) / 2;
        if self.owner.plan().is_transactional() || self.unwritten > half {
            let full = self.unwritten >= u64::from(batch_size);
            return if full || self.is_write_due() || self.writing.is_some() { self.write().await } else { Ok(()) };
        }
        if self.unwritten > 0 && self.unwritten == half {
            let handled_in = self.counting_since.elapsed();
            self.finish_writing().await?;
            if handled_in.saturating_mul(2) >= self.write_took || self.is_write_due() {
                self.begin_writing().await;
            }
        } else if self.writing.is_none() && self.is_write_due() {
            self.begin_writing().await;
        }
        Ok(())
    }

    pub(super) fn is_write_due(&self) -> bool {
        self.write_deadline().is_some_and(|at| at <= Instant::now())
    }

    async fn begin_writing(&mut self) {
        self.publish();
        let advance = self.progress.unwritten_advance().cloned();
        self.wrote();
        if let Some(advance) = advance {
            self.in_doubt = true;
            let owner = self.owner.clone();
            self.writing = Some(tokio::spawn(async move {
                let began = Instant::now();
                owner.insist(|| owner.runner.store.advance(&owner.fence, &advance)).await?;
                Ok(began.elapsed())
            }));
            // A task that was just spawned waits for the one that spawned it: no other thread takes
            // it.
            tokio::task::yield_now().await;
        }
    }

    /// Waits for a handler, or for its next try. Meanwhile, writes the batched progress of earlier
    /// events when it is due. A write that fails ends the turn, but not the handler.
    pub(super) async fn writing_meanwhile<T>(
        &mut self,
        handling: impl Future<Output = Result<T, Stop>>,
    ) -> Result<T, Stop> {
        let mut handling = std::pin::pin!(handling);
        // Most handlers that only touch memory are done at once: they need no alarm.
        if let Poll::Ready(done) = futures::poll!(&mut handling) {
            return done;
        }
        let mut failed = None;
        loop {
            let due = self.write_deadline().filter(|_| self.writing.is_none() && failed.is_none() && !self.in_doubt);
            let written = async {
                match &mut self.writing {
                    Some(writing) => writing.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                done = &mut handling => return failed.map_or(done, Err),
                written = written => failed = failed.or(self.note_written(written).err()),
                () = until(due) => self.begin_writing().await,
            }
        }
    }

    /// Waits for the checkpoint that is being written.
    pub(super) async fn finish_writing(&mut self) -> Result<(), Stop> {
        match self.writing.take() {
            Some(writing) => self.note_written(writing.await),
            None => Ok(()),
        }
    }

    fn note_written(&mut self, written: Result<Result<Duration, Stop>, JoinError>) -> Result<(), Stop> {
        self.writing = None;
        self.write_took = written.map_err(ended)??;
        self.in_doubt = false;
        Ok(())
    }

    /// Writes the checkpoint.
    pub(super) async fn write(&mut self) -> Result<(), Stop> {
        self.finish_writing().await?;
        self.publish();
        if let Some(advance) = self.progress.unwritten_advance() {
            let owner = &self.owner;
            self.in_doubt = true;
            let began = Instant::now();
            owner.insist(|| owner.runner.store.advance(&owner.fence, advance)).await?;
            self.write_took = began.elapsed();
        }
        self.wrote();
        Ok(())
    }

    fn wrote(&mut self) {
        self.progress.written();
        self.in_doubt = false;
        (self.unwritten, self.unwritten_since) = (0, None);
        self.counting_since = Instant::now();
    }

    /// At the end of the turn, tries once to write the remaining progress.
    pub(super) async fn write_last(&mut self) -> Result<(), Stop> {
        if let Some(advance) = self.progress.unwritten_advance().filter(|_| !self.in_doubt) {
            self.owner.runner.store.advance(&self.owner.fence, advance).await?;
            self.wrote();
        }
        Ok(())
    }
}
