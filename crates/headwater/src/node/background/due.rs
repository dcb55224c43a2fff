//! Fires due events and schedules: it appends their events to the log, which delivers them as any
//! other.
//!
//! Who has authority: the database. Its clock says what is due, and how long it is until the next
//! due time. An event leaves the table in the transaction that appends it, and a schedule moves on
//! in that transaction. So any number of processes may do this, and each event comes once.
//!
//! States: asleep until the next due time, for at most a minute, or firing. An event that is stored
//! meanwhile and is due sooner ends the sleep: directly in this process, by NOTIFY from other
//! processes. Where no NOTIFY comes (a node that polls, a namespace that does not notify), it looks
//! as often as the node polls. A call that fails is repeated with growing pauses. That costs time
//! and loses nothing.

use std::time::Duration;

use headwater_core::{AppendError, Backoff, jittered};
use headwater_postgres::{Database, Fired, PgLog};
use tokio::time::{sleep, timeout};

use crate::node::reading::tail::{WakeUp, any};

/// The longest time between looks without a wake-up.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// The shortest time between looks, whatever wakes it. The next look finds what is stored in
/// between.
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);
/// The most events of one transaction.
const BATCH: u32 = 1_000;

/// The scope whose events are fired.
#[derive(Debug)]
pub(crate) enum Scope {
    Namespace(PgLog),
    All(Database),
}

impl Scope {
    async fn fire(&self) -> Result<Fired, AppendError> {
        match self {
            Scope::Namespace(log) => log.fire_due(BATCH).await,
            Scope::All(database) => database.fire_all_due(BATCH).await,
        }
    }

    fn name(&self) -> &str {
        match self {
            Scope::Namespace(log) => &log.info().name,
            Scope::All(_) => "all",
        }
    }
}

/// Fires until this future is dropped.
pub(crate) async fn fire(scope: Scope, mut wake_ups: Vec<WakeUp>, longest: Duration) {
    let mut pauses = Backoff::for_database();
    let mut failing = false;
    loop {
        wake_ups.iter_mut().for_each(|wake_up| _ = wake_up.borrow_and_update());
        match scope.fire().await {
            Ok(fired) => {
                if std::mem::take(&mut failing) {
                    tracing::info!(namespace = scope.name(), "firing due events again");
                }
                if fired.failed > 0 {
                    let (namespace, failed) = (scope.name(), fired.failed);
                    tracing::warn!(
                        namespace,
                        failed,
                        "failed to append due events: see `headwater due list --failed` and `headwater schedules list`"
                    );
                }
                pauses.reset();
                if fired.fired > 0 && fired.next_due_in == Some(Duration::ZERO) {
                    continue;
                }
                let jittered_longest = jittered(longest, 0.2, rand::random());
                let wait = fired.next_due_in.map_or(jittered_longest, |next| next.min(jittered_longest));
                sleep(wait.min(SHORTEST_SLEEP)).await;
                _ = timeout(wait.saturating_sub(SHORTEST_SLEEP), any(&mut wake_ups)).await;
            }
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(namespace = scope.name(), %error, "failed to fire due events, trying again");
                }
                sleep(pauses.jittered(rand::random())).await;
            }
        }
    }
}
