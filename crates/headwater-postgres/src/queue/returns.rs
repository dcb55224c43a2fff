//! Events that are handed back.
//!
//! A call that hands events back holds the queue's lock until its commit is on the disk. Calls one
//! after the other would each wait for a disk write. So all events that are handed back while a
//! call is in flight are sent together in the next call. If the server refuses that call, each
//! return is sent alone, so that every caller gets its own answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use headwater_core::{Fault, SubscriberError};
use sqlx::PgConnection;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{Inner, Result, some_of};
use crate::database::error::subscriber_error;
use crate::database::number::int;
use crate::delivery::call::{calling, no_answer};
use crate::delivery::storable;
use crate::sql;

/// The most returns in one call.
const MOST_AT_ONCE: usize = 500;

/// Why events are handed back.
#[derive(Debug, Clone, Copy)]
pub(super) enum HandedBack<'e> {
    /// They failed: deliver them again after a pause.
    Failed { delay: Duration, error: &'e str },
    /// They will never succeed.
    Hopeless { error: &'e str },
    /// They were not tried.
    Untouched,
}

/// The events that one caller hands back.
#[derive(Debug)]
pub(super) struct Return {
    claim_id: Uuid,
    /// The events. `None`: the whole claim.
    sequences: Option<Vec<i64>>,
    delay: Duration,
    error: String,
    permanent: bool,
    tried: bool,
}

impl Return {
    pub(super) fn new(claim_id: Uuid, sequences: Option<&[u64]>, why: HandedBack<'_>) -> Result<Self> {
        let (delay, error) = match why {
            HandedBack::Failed { delay, error } => (delay, error),
            HandedBack::Hopeless { error } => (Duration::ZERO, error),
            HandedBack::Untouched => (Duration::ZERO, "handed back untouched"),
        };
        Ok(Return {
            claim_id,
            sequences: some_of(sequences)?,
            delay,
            error: storable(error),
            permanent: matches!(why, HandedBack::Hopeless { .. }),
            tried: !matches!(why, HandedBack::Untouched),
        })
    }
}

/// Returns that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    calls: Vec<Call>,
    /// Whether a task sends them.
    sending: bool,
}

#[derive(Debug)]
struct Call {
    what: Return,
    answer: oneshot::Sender<Result<()>>,
}

impl Waiting {
    fn push(&self, call: Call) -> bool {
        let mut state = self.0.lock().expect("no holder of this lock panics");
        state.calls.push(call);
        !std::mem::replace(&mut state.sending, true)
    }

    /// Takes the next returns to send. `None`: there are none, and the sending task ends.
    fn next(&self) -> Option<Vec<Call>> {
        let mut state = self.0.lock().expect("no holder of this lock panics");
        let next = state.calls.len().min(MOST_AT_ONCE);
        state.sending = next > 0;
        state.sending.then(|| state.calls.drain(..next).collect())
    }

    /// The sending task ended in the middle: tells the callers that wait.
    fn give_up(&self) {
        *self.0.lock().expect("no holder of this lock panics") = State::default();
    }
}

/// Hands events back, together with what others hand back at the same time. A call that is dropped
/// is still sent.
pub(super) async fn hand_back(queue: &Arc<Inner>, what: Return) -> Result<()> {
    let (answer, answered) = oneshot::channel();
    if queue.returns.push(Call { what, answer }) {
        tokio::spawn(Sender { queue: queue.clone(), ended: false }.run());
    }
    answered.await.unwrap_or_else(|_| Err(no_answer(queue.database.call_timeout)))
}

struct Sender {
    queue: Arc<Inner>,
    ended: bool,
}

impl Sender {
    async fn run(mut self) {
        while let Some(calls) = self.queue.returns.next() {
            send(&self.queue, calls).await;
        }
        self.ended = true;
    }
}

impl Drop for Sender {
    /// Tells the callers that wait if the task panicked, or if its runtime ends.
    fn drop(&mut self) {
        if !self.ended {
            self.queue.returns.give_up();
        }
    }
}

async fn send(queue: &Inner, calls: Vec<Call>) {
    let (all, answers): (Vec<Return>, Vec<_>) = calls.into_iter().map(|call| (call.what, call.answer)).unzip();
    match send_together(queue, &all).await {
        Err(error) if all.len() > 1 && !error.is_retryable() => {
            for (one, answer) in all.iter().zip(answers) {
                _ = answer.send(send_together(queue, std::slice::from_ref(one)).await);
            }
        }
        Err(error) => {
            let (retryable, message) = (error.is_retryable(), error.to_string());
            let mut first = Some(error);
            for answer in answers {
                let fault = || Fault { message: message.clone(), retryable, source: None };
                _ = answer.send(Err(first.take().unwrap_or_else(|| SubscriberError::Unavailable(fault()))));
            }
        }
        Ok(()) => answers.into_iter().for_each(|answer| _ = answer.send(Ok(()))),
    }
}

async fn send_together(queue: &Inner, returns: &[Return]) -> Result<()> {
    calling!(queue.database, conn => nack(conn, queue, returns))
}

/// Hands back all of them or none.
pub(super) async fn nack(conn: &mut PgConnection, queue: &Inner, returns: &[Return]) -> Result<()> {
    let mut sequences: Vec<i64> = Vec::new();
    // The first and last index of each return in `sequences`.
    let (mut firsts, mut lasts) = (Vec::with_capacity(returns.len()), Vec::with_capacity(returns.len()));
    for one in returns {
        let first = sequences.len();
        sequences.extend(one.sequences.iter().flatten());
        let place = |nth: usize| one.sequences.as_ref().map(|_| int(nth));
        firsts.push(place(first + 1));
        lasts.push(place(sequences.len()));
    }
    let statement = sqlx::query(sql::queue::NACK_CLAIMS)
        .bind(&queue.info.name)
        .bind(&queue.subscriber_id)
        .bind(sequences)
        .bind(returns.iter().map(|one| one.claim_id).collect::<Vec<_>>())
        .bind(firsts)
        .bind(lasts)
        .bind(returns.iter().map(|one| one.delay.as_secs_f64()).collect::<Vec<_>>())
        .bind(returns.iter().map(|one| one.error.as_str()).collect::<Vec<_>>())
        .bind(returns.iter().map(|one| one.permanent).collect::<Vec<_>>())
        .bind(returns.iter().map(|one| one.tried).collect::<Vec<_>>());
    statement.execute(conn).await.map(drop).map_err(subscriber_error)
}
