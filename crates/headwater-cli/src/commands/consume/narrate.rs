//! Says what a subscriber does when it handles nothing: standing by, paused, held.

use std::time::Duration;

use headwater::Node;
use headwater::delivery::{OperatorStore, PgSubscribers, RunnerState, SubscriberError};

use crate::failure::Failure;
use crate::logging::CONSUME;

const LOOK: Duration = Duration::from_millis(250);
/// Looks between questions to the database while standing by.
const ASK_EVERY: u32 = 8;
/// Answers in a row that there is no such namespace, after which it counts as gone. To a role whose
/// grant was taken back
/// it is not there either, and it may get the grant again.
pub(super) const GONE: u32 = 5;

/// For as long as the subscriber is there.
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
                // The node says so itself.
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
