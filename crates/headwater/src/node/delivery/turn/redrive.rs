//! Dead letters that are delivered again.

use std::collections::HashSet;
use std::sync::Arc;

use headwater_core::{DeadLetter, DeadLetterState};

use super::Turn;
use super::settle::Leased;
use crate::node::delivery::executor::{Outcome, Run};
use crate::node::delivery::runner::Stop;

/// The most dead letters that are redriven before other events have their turn.
const REDRIVES: u32 = 100;

impl Turn {
    /// Redrives dead letters, if somebody has asked for it since the last time.
    pub(super) async fn redrive_if_asked(&mut self) -> Result<(), Stop> {
        let asked = self.owner.runner.control.borrow().redrives;
        if asked == self.redrives_seen {
            return Ok(());
        }
        self.redrives_seen = asked;
        let owner = self.owner.clone();
        loop {
            let letters = owner.insist(|| owner.runner.store.redrives(&owner.fence, REDRIVES)).await?;
            if letters.is_empty() {
                return Ok(());
            }
            self.end_running().await?;
            // Letters that waited behind handled ones are free now, and more may have come.
            if !self.redrive_all(letters).await? {
                return Ok(());
            }
        }
    }

    /// Redrives letters. Once one fails, the later letters of its key stay. Returns whether all
    /// were handled.
    async fn redrive_all(&mut self, letters: Vec<DeadLetter>) -> Result<bool, Stop> {
        let owner = self.owner.clone();
        let mut failed: HashSet<String> = HashSet::new();
        let mut parked: HashSet<String> = HashSet::new();
        for letter in letters {
            if letter.parks_key || letter.state == DeadLetterState::Parked {
                parked.insert(letter.order_key.clone());
            }
            if failed.contains(&letter.order_key) {
                continue;
            }
            if !self.redrive(&letter).await? {
                failed.insert(letter.order_key);
            }
            owner.may_go_on()?;
        }
        for key in parked {
            if !owner.insist(|| owner.runner.store.is_parked(&owner.fence, &key)).await? {
                self.parked.remove(&key);
            }
        }
        Ok(failed.is_empty())
    }

    /// Redrives a dead letter. Returns whether it was handled.
    async fn redrive(&mut self, letter: &DeadLetter) -> Result<bool, Stop> {
        self.granted(|limiter| limiter.take(1)).await?;
        let (event, sequence) = (Arc::new(letter.event.clone()), letter.global_sequence());
        let run = Run { events: std::slice::from_ref(&event), redeliveries: &[letter.attempts.len() as u32] };
        let owner = &self.owner;
        let failure = match self.attempt(run, Leased::Letter(sequence)).await {
            Outcome::Committed => {
                owner.runner.status.count(1);
                return Ok(true);
            }
            Outcome::Unknown(error) => return Err(error.into()),
            Outcome::Failed(failure) if failure.error.is_not_handled() => return Ok(false),
            Outcome::Failed(failure) => Some(owner.attempt(&failure.error)),
            Outcome::Handled => None,
        };
        let handled = failure.is_none();
        owner.insist(|| owner.runner.store.redriven(&owner.fence, sequence, failure.clone())).await?;
        owner.runner.status.count(u64::from(handled));
        Ok(handled)
    }
}
