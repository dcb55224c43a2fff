//! The executor: runs a subscriber's handler once, on events that go together.
//!
//! Events come from a source: a leased part of the log, or claims. The executor hands them to the
//! handler, and a settle step writes that they are done: a checkpoint, or an ack. The executor
//! knows only the handler: panics, timeouts, and the transaction of a transactional handler. Each
//! attempt ends in one [`Outcome`]. The sources differ in what happens next: a lease tries again in
//! place and keeps the order, a claim is handed back for any worker to take.
//!
//! - [`Executor::attempt`] is one attempt, plain or in a transaction;
//! - [`split`] handles events together, and one by one if that fails;
//! - [`failure`] decides what happens to events after a failure;
//! - [`answered`] repeats a call until the database answers.

pub(in crate::node) mod answered;
pub(in crate::node) mod failure;
pub(in crate::node) mod guard;
pub(in crate::node) mod outcome;
pub(in crate::node) mod split;
mod transaction;

use std::sync::Arc;

use headwater_core::{HandlerError, RecordedEvent};
use headwater_postgres::{PgSubscribers, StateGuard};
use tracing::{Instrument, Span};

pub(in crate::node) use self::outcome::{Failure, Outcome};
pub(in crate::node) use self::transaction::Settle;
use crate::node::delivery::executor::guard::guarded;
use crate::node::delivery::handler::{Handle, Work};
use crate::node::delivery::plan::SubscriptionPlan;

/// Everything needed to run a subscriber's handler.
#[derive(Clone, Copy)]
pub(in crate::node) struct Executor<'a> {
    pub(in crate::node) plan: &'a SubscriptionPlan,
    /// For transactional handlers. `None`: the log is not in PostgreSQL.
    pub(in crate::node) postgres: Option<&'a PgSubscribers>,
    /// The right by which a plain handler writes states. Owners of partitions have it.
    pub(in crate::node) guard: Option<&'a StateGuard>,
}

/// Events that go together.
#[derive(Clone, Copy)]
pub(in crate::node) struct Run<'a> {
    /// The events, in log order.
    pub(in crate::node) events: &'a [Arc<RecordedEvent>],
    /// How often each was delivered before, as far as that is known. Empty: none of them was.
    pub(in crate::node) redeliveries: &'a [u32],
}

impl Executor<'_> {
    /// Hands events to the handler once. In a transaction, `settle` settles them before the commit.
    pub(in crate::node) async fn attempt<S: Settle>(&self, run: Run<'_>, settle: &S) -> Outcome {
        match &self.plan.work {
            Work::Each(handler) | Work::Batch(handler) => self.plain(&**handler, run).await.into(),
            // A box keeps what plain handlers run in small.
            Work::Transaction { handler, takes, .. } => {
                Box::pin(self.in_transaction(&**handler, *takes, run, settle)).await
            }
        }
    }

    /// Hands events to a plain handler once.
    pub(in crate::node) async fn plain(&self, handler: &dyn Handle, run: Run<'_>) -> Result<(), HandlerError> {
        if run.events.is_empty() {
            return Ok(());
        }
        let limit = self.plan.config.handler_timeout;
        let handling = handler.handle(run.events, run.redeliveries).instrument(self.span(run));
        match self.guard {
            Some(guard) => guarded(guard.clone().scope(handling), limit).await,
            None => guarded(handling, limit).await,
        }
    }

    /// The span in which the handler runs: its logs and spans name the subscriber and the event.
    fn span(&self, run: Run<'_>) -> Span {
        let subscriber_id = self.plan.subscriber_id.as_str();
        match run.events {
            [] => Span::none(),
            [event] => tracing::info_span!(
                "handle",
                subscriber_id,
                sequence = event.sequence().get(),
                event_id = %event.id,
                event_type = event.event_type.as_str(),
                stream_id = event.stream_id.as_ref().map(|stream_id| stream_id.as_str()),
                correlation_id = event.correlation_id.map(tracing::field::display),
            ),
            [first, .., last] => tracing::info_span!(
                "handle",
                subscriber_id,
                events = run.events.len(),
                first = first.sequence().get(),
                last = last.sequence().get(),
            ),
        }
    }
}
