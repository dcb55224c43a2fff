//! Waits until dead letters are delivered again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use headwater::delivery::{DeadLetterQuery, DeadLetterState, OperatorStore, PgSubscribers};

use super::select::Pages;
use crate::commands::subscribers::view::live_owner;
use crate::failure::Failure;
use crate::progress::Progress;

const LOOK: Duration = Duration::from_millis(200);
/// If letters still wait after this time, the command says why.
const PATIENCE: Duration = Duration::from_secs(10);

/// What happened to the letters.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) dead: usize,
    pub(super) parked: usize,
    pub(super) discarded: usize,
}

impl Done {
    /// How many of `all` letters were handled: all that did not end in another way.
    pub(super) fn handled(&self, all: usize) -> usize {
        all - self.dead - self.parked - self.discarded
    }
}

/// Returns the letters of a subscriber that are being delivered again.
pub(super) async fn redriving(store: &PgSubscribers, subscriber_id: &str) -> Result<Vec<u64>, Failure> {
    in_state(store, subscriber_id, DeadLetterState::Redriving).await
}

async fn in_state(store: &PgSubscribers, id: &str, state: DeadLetterState) -> Result<Vec<u64>, Failure> {
    let query = DeadLetterQuery { subscriber_id: Some(id.into()), states: vec![state], ..DeadLetterQuery::default() };
    Pages::new(store, query).sequences().await
}

/// Waits until no letter is being delivered again any more.
pub(super) async fn until_done(store: &PgSubscribers, id: &str, letters: &BTreeSet<u64>) -> Result<Done, Failure> {
    let mut progress = Progress::new(Some(letters.len() as u64));
    let begin = Instant::now();
    let mut noted = false;
    loop {
        let left = redriving(store, id).await?.iter().filter(|sequence| letters.contains(sequence)).count();
        if left == 0 {
            break;
        }
        let done = letters.len() - left;
        progress.tell(done as u64, &format!("{done} of {} dead letters delivered again", letters.len()));
        if !noted && begin.elapsed() >= PATIENCE {
            noted = true;
            if let Some(note) = why_not(store, id).await? {
                progress.note(&note);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
    let count = async |state| {
        let there = in_state(store, id, state).await?;
        Ok::<_, Failure>(there.iter().filter(|sequence| letters.contains(sequence)).count())
    };
    Ok(Done {
        dead: count(DeadLetterState::Dead).await?,
        parked: count(DeadLetterState::Parked).await?,
        discarded: count(DeadLetterState::Discarded).await?,
    })
}

async fn why_not(store: &PgSubscribers, id: &str) -> Result<Option<String>, Failure> {
    let info = store.subscriber(id).await?;
    Ok(match live_owner(&info) {
        _ if info.paused => {
            Some(format!("note: subscriber {id} is paused: `headwater subscribers resume` lets it go on"))
        }
        None => Some(format!(
            "note: no process has subscriber {id}: its dead letters are delivered when one starts (one that runs with \
             --single-instance is not seen here). Ctrl-C ends the waiting"
        )),
        Some(_) => None,
    })
}
