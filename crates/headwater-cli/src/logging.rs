//! What is logged, on stderr.

use std::io::IsTerminal;

use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

use crate::failure::Failure;

/// What `consume` says of itself: who owns the subscriber, what holds it.
pub(crate) const CONSUME: &str = "consume";
/// Warnings, and what `consume` says of itself.
pub(crate) const DEFAULT: &str = "warn,consume=info";
pub(crate) fn init(filter: &str) -> Result<(), Failure> {
    let wanted = EnvFilter::try_new(filter)
        .map_err(|error| Failure::invalid(format!("invalid log filter {filter:?}: {error}")))?;
    let colours = std::io::stderr().is_terminal();
    let layer = fmt::layer().with_ansi(colours).with_writer(std::io::stderr);
    tracing_subscriber::registry().with(layer.with_filter(wanted)).init();
    Ok(())
}
