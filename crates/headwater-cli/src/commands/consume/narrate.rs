//! Logs what a subscriber does when it handles nothing: it stands by, or is paused, or is held
//! back.

use std::time::Duration;

use headwater::Node;
use headwater::delivery::{OperatorStore, PgSubscribers, RunnerState, SubscriberError};

use crate::failure::Failure;
use crate::logging::CONSUME;

const LOOK: Duration = Duration::from_millis(250);
/// While standing by, the database is asked once per this many looks.
const ASK_EVERY: u32 = 8;
/// After this many answers in a row that the namespace does not exist, it counts as gone. A role
/// whose grant was revoked gets the same answer, and may get the grant again.
pub(super) const GONE: u32 = 5;

/// Runs until the subscriber is removed.
pub(super) async fn narrate(node: &Node, subscribers: &PgSubscribers, subscriber_id: &str) -> Failure {
    let mut said = RunnerState::CatchingUp;
    let mut owner = None;
    let mut look = 0_u32;
    let mut gone = 0;
    loop {
        look = look.wrapping_add(1);
        tokio::time::sleep(LOOK).await;
        let Some(status) = node.status().subscribers.pop() else { continue };
        let state = status.report.state;
        if matches!(state, RunnerState::StandingBy | RunnerState::Disconnected) {
            if said == state && !look.is_multiple_of(ASK_EVERY) {
                continue;
            }
            let there = match subscribers.subscriber(subscriber_id).await {
                Ok(there) => there,
                Err(error @ SubscriberError::NotFound(_)) => return Failure::from(error).at("it was removed"),
                Err(error @ SubscriberError::NamespaceNotFound(_)) => {
                    gone += 1;
                    said = state;
                    match gone < GONE {
                        true => continue,
                        false => return Failure::from(error).at("it was removed, or is not granted any more"),
                    }
                }
                // The node logs this itself.
                Err(_) => {
                    said = state;
                    continue;
                }
            };
            gone = 0;
            let others = there.owner.filter(|owner| owner != node.instance()).map(|owner| owner.node);
            if others.is_some() && others != owner {
                owner = others;
                said = state;
                let owner = owner.as_deref().unwrap_or_default();
                tracing::info!(target: CONSUME, "standing by: node {owner} has the subscriber, position {}", there.position);
            }
            continue;
        }
        gone = 0;
        if said == RunnerState::StandingBy && status.owned {
            owner = None;
            tracing::info!(target: CONSUME, "took over after position {}", status.position.unwrap_or_default());
        }
        match state {
            RunnerState::Paused if said != state => {
                tracing::info!(target: CONSUME, "paused: `headwater subscribers resume` lets it go on");
            }
            RunnerState::Held if said != state => {
                tracing::info!(target: CONSUME, "held: {}", status.report.detail.unwrap_or_default());
            }
            _ => {}
        }
        said = state;
    }
}
