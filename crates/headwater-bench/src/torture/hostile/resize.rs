//! Groups change their number of partitions, 4 → 7 → 3 → 4. Meanwhile a writer holds a gap at the
//! place of the barrier, and a member is stopped for longer than its lease.

use std::time::Duration;

use headwater::delivery::OperatorStore;
use headwater::{Event, Json};
use rand::RngExt;
use rand::rngs::StdRng;
use sqlx::{ConnectOptions, Connection};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::super::EVENT_TYPE;
use super::super::arena::Arena;
use super::super::faults::{Kind, stop};
use super::super::producers::Fate;
use super::super::subscribers::Subscriber;

const SIZES: [u32; 3] = [7, 3, 4];
const GROUPS: [Subscriber; 2] = [Subscriber::Partitioned, Subscriber::PerKey];
/// A change is done within this time, unless the run ends first.
const CHANGE: Duration = Duration::from_secs(30);

/// Resizes until `end`. Returns the number of resizes.
pub(crate) async fn run(arena: &Arena, mut dice: StdRng, end: Instant) -> anyhow::Result<u64> {
    let mut mending = JoinSet::new();
    let mut resizes = 0;
    for size in SIZES.into_iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        let gap = hold_gap(arena, &mut dice, size, &mut mending);
        match gap.await {
            Ok(asked) => resizes += asked,
            // The server was down.
            Err(error) => eprintln!("no resize to {size}: {error:#}"),
        }
        let deadline = (Instant::now() + CHANGE).min(end);
        while Instant::now() < deadline && !has_size(arena, size).await {
            sleep(Duration::from_millis(100)).await;
        }
        arena.check_alive().await?;
    }
    while let Some(mended) = mending.join_next().await {
        mended??;
    }
    Ok(resizes)
}

/// Requests the change while an event is not committed.
async fn hold_gap(
    arena: &Arena,
    dice: &mut StdRng,
    size: u32,
    mending: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<u64> {
    let event = Event { key: Some("key-1".into()), ..Event::raw(EVENT_TYPE, Json::null()) };
    let id = event.id;
    let mut conn = arena.control.connect().await?;
    let mut tx = conn.begin().await?;
    arena.namespace.emit_in(&mut tx, event).await?;
    arena.faults.begin(Kind::ResizeBehindGap, size.to_string(), Duration::from_secs(10));
    let mut asked = 0;
    for group in GROUPS {
        // If the group is still being changed, the next round tries again.
        asked += u64::from(arena.namespace.subscribers().resize(group.id(), size).await.is_ok());
    }
    // The places with a short lease.
    let place = arena.places[if dice.random_bool(0.5) { 0 } else { 2 }].clone();
    let pause = place.lock().await.manner.lease + Duration::from_secs_f64(dice.random_range(0.5..2.0));
    stop(&arena.faults, Kind::StopBeyondTheLease, place, pause, mending).await?;
    sleep(Duration::from_millis(dice.random_range(500..4000))).await;
    let fate = match dice.random_bool(0.8) {
        true => tx.commit().await.map_or(Fate::Unknown, |()| Fate::Committed),
        false => tx.rollback().await.map_or(Fate::RolledBack, |()| Fate::RolledBack),
    };
    arena.known.lock().expect("no holder of this lock panics").note(&[id], fate);
    Ok(asked)
}

async fn has_size(arena: &Arena, size: u32) -> bool {
    let infos = arena.namespace.subscribers().subscribers().await.unwrap_or_default();
    GROUPS
        .iter()
        .all(|group| infos.iter().any(|info| info.subscriber_id == group.id() && info.mode.partitions() == size))
}
