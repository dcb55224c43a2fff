//! Checkpoint writes of a turn: when a checkpoint is due, and how it is written while events are handled.

use std::task::Poll;
use std::time::Duration;

use headwater_core::CheckpointMode;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::handler::Work;
use super::runner::Stop;
use super::turn::{Turn, ended};

/// The longest delay before progress is written if every event in it was skipped.
const SKIPS_DELAY: Duration = Duration::from_secs(1);

impl Turn<'_> {
    pub(super) fn write_deadline(&self) -> Option<Instant> {
        let delay = match self.runner.subscription.config.checkpoint_mode {
            _ if self.unwritten == 0 => SKIPS_DELAY,
            CheckpointMode::Synchronous => Duration::ZERO,
            CheckpointMode::Batched { max_delay_ms, .. } => Duration::from_millis(max_delay_ms),
        };
        self.unwritten_since.map(|since| since + delay)
    }

    /// Writes the checkpoint, if it is time. Batched ones are written in halves: one is written while the events of the other are handled,
    /// so no more than a batch comes again after a crash. Where a batch is handled in less time than it takes to write, halves would only be
    /// written twice as often: then it is written whole.
    pub(super) async fn write_if_due(&mut self) -> Result<(), Stop> {
        if self.writing.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish_writing().await?;
        }
        let CheckpointMode::Batched { batch_size, .. } = self.runner.subscription.config.checkpoint_mode else {
            return if self.unwritten > 0 || self.is_write_due() { self.write().await } else { Ok(()) };
        };
        let half = u64::from(batch_size) / 2;
        if matches!(self.runner.subscription.work, Work::Transaction(..)) || self.unwritten > half {
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

    pub(super) async fn begin_writing(&mut self) {
        self.publish();
        let advance = self.progress.unwritten_advance().cloned();
        self.wrote();
        if let Some(advance) = advance {
            self.in_doubt = true;
            let (runner, fence) = (self.runner.clone(), self.fence.clone());
            self.writing = Some(tokio::spawn(async move {
                let began = Instant::now();
                runner.insist(&fence, || runner.store.advance(&fence, &advance)).await?;
                Ok(began.elapsed())
            }));
            // A task that was just spawned waits for the one that spawned it: nobody else takes it.
            tokio::task::yield_now().await;
        }
    }

    /// Waits for a handler, or for its next try. Batched progress of events before is written meanwhile, when it is time. A write that fails ends
    /// the turn, but not the handler.
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
            let alarm = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
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
                () = alarm => self.begin_writing().await,
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
            let (runner, fence) = (self.runner, self.fence);
            self.in_doubt = true;
            let began = Instant::now();
            runner.insist(fence, || runner.store.advance(fence, advance)).await?;
            self.write_took = began.elapsed();
        }
        self.wrote();
        Ok(())
    }

    pub(super) fn wrote(&mut self) {
        self.progress.written();
        self.in_doubt = false;
        (self.unwritten, self.unwritten_since) = (0, None);
        self.counting_since = Instant::now();
    }

    /// Writes what is left, when the turn has ended: tried once.
    pub(super) async fn write_last(&mut self) -> Result<(), Stop> {
        if let Some(advance) = self.progress.unwritten_advance().filter(|_| !self.in_doubt) {
            self.runner.store.advance(self.fence, advance).await?;
            self.wrote();
        }
        Ok(())
    }
}
