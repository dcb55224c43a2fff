//! Why a handler could not handle an event.

use std::error::Error;
use std::fmt;

/// Why a handler could not handle an event. Any error becomes one with `?`, and is tried again; what will not go away by itself is
/// [`permanent`](HandlerError::permanent), and is not.
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
    /// An error that trying again does not mend: the event is given up at once.
    pub fn permanent(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        HandlerError { source: source.into(), kind: Kind::Permanent }
    }

    /// An error that may pass, in words.
    pub fn message(text: impl Into<String>) -> Self {
        HandlerError { source: text.into().into(), kind: Kind::MayPass }
    }

    /// The event was not handled, and that is no failure of it: the process is stopping, or what it needs is not there yet. It comes
    /// again, after the pause before a first retry, as often as it takes; no try is counted, and it is never given up.
    pub fn not_handled(reason: impl Into<String>) -> Self {
        HandlerError { source: reason.into().into(), kind: Kind::NotHandled }
    }

    /// Whether trying again is in vain.
    pub fn is_permanent(&self) -> bool {
        self.kind == Kind::Permanent
    }

    /// Whether the event was not handled without having failed.
    pub fn is_not_handled(&self) -> bool {
        self.kind == Kind::NotHandled
    }

    /// The error and what caused it, outermost first.
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

impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(source: E) -> Self {
        HandlerError { source: Box::new(source), kind: Kind::MayPass }
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
