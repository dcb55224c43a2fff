//! Why a handler could not handle an event.

use std::error::Error;
use std::fmt;

use super::StateError;

/// Why a handler could not handle an event. `?` turns any error into one, and the event is tried
/// again. An error that will not go away by itself is [`permanent`](HandlerError::permanent), and
/// the event is not tried again.
///
/// ```
/// use headwater_core::HandlerError;
///
/// fn charge(card: &str) -> Result<(), HandlerError> {
///     let digits: u64 = card.parse().map_err(HandlerError::permanent)?;
///     if digits == 0 {
///         return Err(HandlerError::message("the bank is closed"));
///     }
///     Ok(())
/// }
/// assert!(charge("x").unwrap_err().is_permanent());
/// assert!(!charge("0").unwrap_err().is_permanent());
/// ```
pub struct HandlerError {
    source: Box<dyn Error + Send + Sync>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    MayPass,
    Permanent,
    NotHandled,
}

impl HandlerError {
    /// An error that a retry does not fix: the event is given up at once.
    pub fn permanent(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        HandlerError { source: source.into(), kind: Kind::Permanent }
    }

    /// An error that a retry may fix, given as text.
    pub fn message(text: impl Into<String>) -> Self {
        HandlerError { source: text.into().into(), kind: Kind::MayPass }
    }

    /// The event was not handled, but it did not fail either: the process is stopping, or something
    /// that the event needs is not there yet. The event comes again after the pause before a first
    /// retry, as often as necessary. No attempt is counted, and the event is never given up.
    pub fn not_handled(reason: impl Into<String>) -> Self {
        HandlerError { source: reason.into().into(), kind: Kind::NotHandled }
    }

    /// An error that may pass.
    pub(crate) fn may_pass(source: Box<dyn Error + Send + Sync>) -> Self {
        HandlerError { source, kind: Kind::MayPass }
    }

    /// What caused the error.
    pub(crate) fn cause(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }

    /// Whether a retry cannot succeed.
    pub fn is_permanent(&self) -> bool {
        self.kind == Kind::Permanent
    }

    /// Whether the event was not handled without having failed.
    pub fn is_not_handled(&self) -> bool {
        self.kind == Kind::NotHandled
    }

    /// The error and its causes, outermost first.
    pub fn chain(&self) -> Vec<String> {
        let mut chain = vec![self.source.to_string()];
        let mut next = self.source.source();
        while let Some(error) = next {
            chain.push(error.to_string());
            next = error.source();
        }
        chain
    }
}

/// Converts any error with `?`, and also boxed errors such as `anyhow::Error`. The chain of causes
/// is kept.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for HandlerError {
    fn from(source: E) -> Self {
        // Errors of states know how the handler failed.
        match source.into().downcast::<StateError>() {
            Ok(state) => state.into_handler_error(),
            Err(source) => HandlerError::may_pass(source),
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerError").field("kind", &self.kind).field("chain", &self.chain()).finish()
    }
}
