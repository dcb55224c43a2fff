//! What is logged, on stderr.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing_subscriber::filter::{FilterExt, dynamic_filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

use crate::failure::Failure;

/// What `consume` says of itself: who owns the subscriber, what holds it.
pub(crate) const CONSUME: &str = "consume";
/// Warnings, and what `consume` says of itself.
pub(crate) const DEFAULT: &str = "warn,consume=info";
/// Where delivery reports events that were not handled.
const RUNNER: &str = "headwater::node::runner";

static HUSHED: AtomicBool = AtomicBool::new(false);

pub(crate) fn init(filter: &str) -> Result<(), Failure> {
    let wanted = EnvFilter::try_new(filter)
        .map_err(|error| Failure::invalid(format!("invalid log filter {filter:?}: {error}")))?;
    let heard = dynamic_filter_fn(|metadata, _| metadata.target() != RUNNER || !HUSHED.load(Ordering::Relaxed));
    let colours = std::io::stderr().is_terminal();
    let layer = fmt::layer().with_ansi(colours).with_writer(std::io::stderr).with_filter(wanted.and(heard));
    tracing_subscriber::registry().with(layer).init();
    Ok(())
}

/// From now on, events that are not handled are no news: we have stopped handling them.
pub(crate) fn hush_delivery() {
    HUSHED.store(true, Ordering::Relaxed);
}
