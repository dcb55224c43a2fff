//! One attempt in a transaction: effects, emitted events and the settling of the events commit
//! together.
//!
//! The settle step is the last statement before the commit. It carries the owner's term, or names
//! the claim, and does nothing outside the transaction that was begun. If the events belong to
//! somebody else by now, or a handler has ended the transaction, it fails, and everything is rolled
//! back. So effects happen once. A process that hangs in the middle is ended by the server
//! (`idle_in_transaction_session_timeout`), so it cannot hold its locks, nor the horizon, for ever.

use headwater_core::{HandlerError, SubscriberError};
use headwater_postgres::PgSubscribers;
use sqlx::{Connection, PgConnection, Postgres, Transaction};
use tracing::Instrument;

use super::guard::guarded;
use super::{Executor, Failure, Outcome, Run};
use crate::node::delivery::handler::{HandleInTransaction, Takes};
use crate::node::delivery::open_transaction::{OpenTransaction, ended};

/// The step that settles events in the transaction of their effects.
pub(in crate::node) trait Settle: Sync {
    fn settle_in(&self, conn: &mut PgConnection) -> impl Future<Output = Result<(), SubscriberError>> + Send;
}

type Owned = Transaction<'static, Postgres>;

impl Executor<'_> {
    /// Begins a transaction, runs the handler, settles the events, and commits. Any failure rolls
    /// it back.
    pub(super) async fn in_transaction<S: Settle>(
        &self,
        handler: &dyn HandleInTransaction,
        takes: Takes,
        run: Run<'_>,
        settle: &S,
    ) -> Outcome {
        let Some(postgres) = self.postgres else {
            let message = "transactional handlers need PostgreSQL: this node has another log".into();
            return Outcome::Unknown(SubscriberError::InvalidInput(message));
        };
        let mut tx = match self.effects(postgres, handler, takes, run).await {
            Ok(tx) => tx,
            Err(outcome) => return outcome,
        };
        if let Err(error) = settle.settle_in(&mut tx).await {
            let outcome = match is_ended(postgres, &mut tx, &error).await {
                true => Outcome::failed(ended()),
                false => Outcome::of_database(error),
            };
            postgres.rollback(tx).await;
            return outcome;
        }
        match postgres.commit(tx).await {
            Ok(()) => Outcome::Committed,
            Err(error) => Outcome::of_database(error),
        }
    }

    /// Returns a transaction that has the effects of the events and is not committed.
    async fn effects(
        &self,
        postgres: &PgSubscribers,
        handler: &dyn HandleInTransaction,
        takes: Takes,
        run: Run<'_>,
    ) -> Result<Owned, Outcome> {
        let limit = self.plan.config.handler_timeout;
        // Nothing has begun yet: an error here is not the handler's.
        let mut open = OpenTransaction::new(postgres.begin(limit).await.map_err(Outcome::Unknown)?);
        for part in run.parts(takes) {
            let handling = handler.handle(part.events, part.redeliveries, &mut open).instrument(self.span(part));
            let handled = guarded(handling, limit).await;
            if let Err(error) = handled {
                if let Some(tx) = open.into_inner() {
                    postgres.rollback(tx).await;
                }
                return Err(Outcome::Failed(Failure { at: part.only(), error }));
            }
        }
        let tx = match open.into_inner() {
            Some(tx) => tx,
            None => return Err(Outcome::failed(HandlerError::message("the handler kept its transaction"))),
        };
        // The driver knows at once that it was ended: a savepoint was about to be made when the
        // handler dropped its future.
        if !tx.is_in_transaction() {
            postgres.rollback(tx).await;
            return Err(Outcome::failed(ended()));
        }
        Ok(tx)
    }
}

/// Whether a settle step was refused because a handler has ended the transaction by itself. Such a
/// handler has failed: the effects of other events may be gone. The step does nothing then, so only
/// a refusal needs the question.
async fn is_ended(postgres: &PgSubscribers, tx: &mut Owned, refusal: &SubscriberError) -> bool {
    matches!(refusal, SubscriberError::Fenced(_) | SubscriberError::ClaimLost(_))
        && matches!(postgres.is_open(tx).await, Ok(false))
}

impl<'a> Run<'a> {
    /// The parts of the run that one call of a handler takes.
    fn parts(self, takes: Takes) -> impl Iterator<Item = Run<'a>> {
        let size = match takes {
            Takes::One => 1,
            Takes::Many => self.events.len().max(1),
        };
        self.events.chunks(size).enumerate().map(move |(at, events)| {
            let (from, to) = (at * size, at * size + events.len());
            Run { events, redeliveries: self.redeliveries.get(from..to).unwrap_or_default() }
        })
    }

    /// The sequence of the run's event, if it has exactly one.
    fn only(&self) -> Option<u64> {
        match self.events {
            [event] => Some(event.sequence().get()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use headwater_core::RecordedEvent;

    use super::*;
    use crate::node::delivery::test_events::event;

    fn events(count: u64) -> Vec<Arc<RecordedEvent>> {
        (1..=count).map(event).map(Arc::new).collect()
    }

    #[test]
    fn a_handler_takes_one_event_or_all() {
        let (events, redeliveries) = (events(3), [0, 4, 1]);
        let run = Run { events: &events, redeliveries: &redeliveries };
        let told = |takes| -> Vec<(Option<u64>, Vec<u32>)> {
            run.parts(takes).map(|part| (part.only(), part.redeliveries.to_vec())).collect()
        };
        assert_eq!(told(Takes::One), [(Some(1), vec![0]), (Some(2), vec![4]), (Some(3), vec![1])]);
        assert_eq!(told(Takes::Many), [(None, vec![0, 4, 1])]);
        let unknown = Run { redeliveries: &[], ..run };
        assert!(unknown.parts(Takes::One).all(|part| part.redeliveries.is_empty()));
        let none = Run { events: &[], redeliveries: &[] };
        assert_eq!(none.parts(Takes::Many).count(), 0);
    }
}
