//! How a subscriber is shown to people and programs.

use headwater::admin::Holder;
use headwater::delivery::{Instance, SubscriberInfo, SubscriberMode};
use headwater::queue::QueueInfo;
use serde_json::{Value, json};

use crate::duration::format_age;
use crate::held;
use crate::output::{plural, printable};

/// What the subscriber does, in one word: as its owner reports, unless that cannot be true. A queue
/// has no owner: see [`queue_state`].
pub(crate) fn state(info: &SubscriberInfo) -> &'static str {
    match (&info.report, live_owner(info)) {
        _ if info.paused => "paused",
        _ if info.mode == SubscriberMode::Shared => "shared",
        (_, None) => "no_owner",
        (Some(report), Some(_)) => report.state.name(),
        (None, Some(_)) => "starting",
    }
}

/// What a queue does, in one word.
pub(crate) fn queue_state(queue: &QueueInfo) -> &'static str {
    match queue {
        QueueInfo { paused: true, .. } => "paused",
        QueueInfo { claims: 1.., .. } => "working",
        QueueInfo { workers: 0, .. } => "no_workers",
        _ => "idle",
    }
}

/// Returns the owner, if its lease still runs.
pub(crate) fn live_owner(info: &SubscriberInfo) -> Option<&Instance> {
    info.owner.as_ref().filter(|_| info.lease_left.is_some())
}

/// What holds the subscriber back: a gap and its writers, an event that is tried again, or the
/// database. If it is paused: why.
pub(super) fn detail(info: &SubscriberInfo) -> Option<String> {
    if info.paused {
        return info.pause_reason.as_deref().map(printable);
    }
    let reported = info.report.as_ref().filter(|_| live_owner(info).is_some())?;
    reported.detail.as_deref().map(printable)
}

/// Events per second, as its owner counts them.
pub(super) fn rate(info: &SubscriberInfo) -> f64 {
    info.report.as_ref().filter(|_| live_owner(info).is_some()).map_or(0.0, |report| report.rate)
}

pub(super) fn owner(info: &SubscriberInfo) -> String {
    info.owner.as_ref().map_or("-".into(), |owner| printable(&owner.node))
}

pub(super) fn lease(info: &SubscriberInfo) -> String {
    match (&info.owner, info.lease_left) {
        (None, _) => "-".into(),
        (Some(_), None) => "over".into(),
        (Some(_), Some(left)) => format_age(left),
    }
}

/// How the subscriber's processes share its events.
pub(super) fn mode(info: &SubscriberInfo) -> String {
    match info.mode {
        SubscriberMode::Partitioned { partitions } => {
            format!("partitioned, {}", plural(partitions.into(), "partition"))
        }
        mode => mode.name().into(),
    }
}

pub(super) fn gaps(info: &SubscriberInfo) -> String {
    let range = |(first, last): &(u64, u64)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    info.pending_gaps.iter().map(range).collect::<Vec<_>>().join(" ")
}

/// A subscriber as JSON. A shared subscriber has a `queue`, which is shown instead of its owner and
/// position.
pub(super) fn to_json(namespace: &str, info: &SubscriberInfo, queue: Option<&QueueInfo>, holders: &[Holder]) -> Value {
    if let Some(queue) = queue {
        return json!({
            "namespace": namespace,
            "subscriber_id": info.subscriber_id,
            "mode": info.mode.name(),
            "state": queue_state(queue),
            "detail": detail(info),
            "paused": info.paused,
            "event_types": queue.event_types,
            "workers": queue.workers,
            "waiting": queue.waiting,
            "in_flight": queue.in_flight,
            "retries": queue.retries,
            "left_behind": queue.left_behind,
            "rate": queue.rate,
            "position": queue.position,
            "lag_events": info.lag_events,
            "lag_seconds": info.lag.as_secs_f64(),
            "pending_gaps": info.pending_gaps,
            "dead_letters": info.dead_letters,
            "created_at": info.created_at,
            "held_by": held::of_subscriber(holders, &info.subscriber_id),
        });
    }
    json!({
        "namespace": namespace,
        "subscriber_id": info.subscriber_id,
        "mode": info.mode.name(),
        "partitions": info.mode.partitions(),
        "state": state(info),
        "detail": detail(info),
        "owner": info.owner,
        "term": info.term,
        "lease_left_seconds": info.lease_left.map(|left| left.as_secs_f64()),
        "paused": info.paused,
        "position": info.position,
        "last_event_id": info.last_event_id,
        "lag_events": info.lag_events,
        "lag_seconds": info.lag.as_secs_f64(),
        "rate": rate(info),
        "pending_gaps": info.pending_gaps,
        "dead_letters": info.dead_letters,
        "created_at": info.created_at,
        "updated_at": info.updated_at,
        "held_by": held::of_subscriber(holders, &info.subscriber_id),
    })
}
