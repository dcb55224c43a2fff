//! The network loses the server's answers, including answers to COMMIT, on connections that stay
//! open.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep_until};

use super::super::arena::Arena;
use super::super::faults::Kind;
use super::super::proxy::Proxy;

/// Time until a client stops waiting and its resources are free.
const GIVES_UP: Duration = Duration::from_secs(30);

/// Loses answers until `end`. Returns the number of rounds.
pub(crate) async fn run(arena: &Arena, proxy: &Proxy, mut dice: StdRng, end: Instant) -> anyhow::Result<u64> {
    let mut rounds = 0;
    loop {
        let next = Instant::now() + Duration::from_secs_f64(dice.random_range(1.0..4.0));
        if next >= end {
            proxy.spare_commits();
            return Ok(rounds);
        }
        sleep_until(next).await;
        if dice.random_bool(0.5) {
            let muted = proxy.mute_some(&mut dice, 0.1);
            arena.faults.begin(Kind::LoseAnswers, format!("{muted} connections"), GIVES_UP);
        } else {
            let count = dice.random_range(1..4);
            proxy.mute_commits(count);
            arena.faults.begin(Kind::LoseCommits, count.to_string(), GIVES_UP);
        }
        rounds += 1;
    }
}
