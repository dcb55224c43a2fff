//! Fires events and schedules when they are due: appends events to the log, from where they are delivered as any other.
//!
//! Who has authority: the database. Its clock says what is due, and how long it is until the next; what is fired leaves the table in the
//! transaction that appends it, and a schedule moves on in it, so any number of processes may do this, and each event comes once.
//!
//! States: asleep until the next is due, for a minute at most; or firing. What is stored meanwhile and is due sooner wakes it: in this
//! process directly, from others by NOTIFY. Where no NOTIFY comes (a node that polls, a namespace that does not notify) it looks as often as
//! the node polls. A call that fails is made again, with growing pauses; nothing is lost by it but time.

use std::time::Duration;

use headwater_core::{AppendError, jittered};
use headwater_postgres::{Database, Fired, PgLog};
use tokio::time::{sleep, timeout};

use super::tail::{WakeUp, any};

/// Without a wake-up, looks are at most so far apart.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// Between looks, whatever wakes: what is stored in between is seen by the next.
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);
/// Most events of one transaction.
const BATCH: u32 = 1_000;
/// Between tries while the database cannot be reached.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Whose events are fired.
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

/// Fires until it is dropped.
pub(crate) async fn fire(scope: Scope, mut wake_ups: Vec<WakeUp>, longest: Duration) {
    let mut pause = FIRST_PAUSE;
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
                pause = FIRST_PAUSE;
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
                sleep(jittered(pause, 0.5, rand::random())).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}
