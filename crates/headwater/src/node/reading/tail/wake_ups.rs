//! What the tail waits for, and how long while nothing happens.

use std::time::{Duration, Instant};

use headwater_core::{Backoff, jittered};

use super::WakeUp;

/// How often to ask whether the history is still the same.
pub(super) const ASK_HISTORY: Duration = Duration::from_secs(5);
/// The longest time between looks while nothing happens and wake-ups come, unless the poll's
/// interval is longer.
const LONGEST_IDLE: Duration = Duration::from_secs(4);

/// How long the tail waits while nothing happens and wake-ups report every change: longer with each
/// look that finds nothing.
#[derive(Debug)]
pub(super) struct Idle {
    poll: Duration,
    pauses: Backoff,
}

impl Idle {
    pub(super) fn new(poll: Duration) -> Self {
        Idle { poll, pauses: Backoff::new(poll, LONGEST_IDLE.max(poll)) }
    }

    /// The next pause. It ends when it is time to ask for the history again; `asked` is when that
    /// was last asked for.
    pub(super) fn pause(&mut self, asked: Option<Instant>) -> Duration {
        let pause = jittered(self.pauses.pause(), 0.2, rand::random());
        let ask_history = asked.map_or(Duration::ZERO, |asked| ASK_HISTORY.saturating_sub(asked.elapsed()));
        pause.min(ask_history.max(self.poll))
    }
}

/// The wake-ups that the tail waits for.
pub(super) struct WakeUps {
    /// Hints from this process and others that there may be something new.
    pub(super) hints: Vec<WakeUp>,
    pub(super) nudges: WakeUp,
    pub(super) live: Option<WakeUp>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// Woken by the feed, which may have everything new.
    Live,
    Other,
}

impl WakeUps {
    /// Waits for a wake-up. While the feed streams, hints are ignored.
    pub(super) async fn any(&mut self, streaming: bool) -> Woken {
        let hints = async {
            match streaming {
                true => std::future::pending().await,
                false => any(&mut self.hints).await,
            }
        };
        tokio::select! {
            biased;
            () = any(std::slice::from_mut(&mut self.nudges)) => Woken::Other,
            () = any(self.live.as_mut_slice()) => Woken::Live,
            () = hints => Woken::Other,
        }
    }
}

/// Waits until one of the wake-ups changes. One whose sender is gone stays silent.
pub(in crate::node) async fn any(wake_ups: &mut [WakeUp]) {
    let changes = wake_ups.iter_mut().map(|wake_up| {
        Box::pin(async {
            if wake_up.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    });
    if changes.len() == 0 {
        return std::future::pending().await;
    }
    futures::future::select_all(changes).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_tail_looks_less_and_less_often_and_asks_for_the_history_in_time() {
        let mut idle = Idle::new(Duration::from_secs(1));
        let pauses = [(); 4].map(|()| idle.pause(Some(Instant::now())).as_secs_f64());
        for (pause, about) in pauses.into_iter().zip([1.0, 2.0, 4.0, 4.0]) {
            assert!((about * 0.79..=about * 1.21).contains(&pause), "{pauses:?}");
        }
        let asked = Instant::now() - Duration::from_secs(3);
        assert!(idle.pause(Some(asked)) <= Duration::from_secs(2));
        let mut patient = Idle::new(Duration::from_secs(60));
        assert!(
            [(); 3].into_iter().all(|()| patient.pause(Some(asked)) >= Duration::from_secs(48)),
            "as it was told to"
        );
    }
}
