//! Logging, on stderr.

use std::io::IsTerminal;

use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

use crate::failure::Failure;

/// The log target of `consume`, for who owns the subscriber and what holds it back.
pub(crate) const CONSUME: &str = "consume";
/// The default filter: warnings, and the messages of `consume` about itself.
pub(crate) const DEFAULT: &str = "warn,consume=info";
pub(crate) fn init(filter: &str) -> Result<(), Failure> {
    let wanted = EnvFilter::try_new(filter)
        .map_err(|error| Failure::invalid(format!("invalid log filter {filter:?}: {error}")))?;
    let colours = std::io::stderr().is_terminal();
    let layer = fmt::layer().with_ansi(colours).with_writer(std::io::stderr);
    tracing_subscriber::registry().with(layer.with_filter(wanted)).init();
    Ok(())
}
