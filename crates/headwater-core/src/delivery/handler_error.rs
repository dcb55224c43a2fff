//! Why a handler could not handle an event.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::iter::successors;

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

/// What a failure means for the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
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

    pub(crate) fn kind(&self) -> Kind {
        self.kind
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
/// is kept. A [`StateError`] in the chain knows how the handler failed. Any other error may pass.
impl<E: Into<Box<dyn Error + Send + Sync>> + 'static> From<E> for HandlerError {
    fn from(source: E) -> Self {
        // As a boxed error, an `anyhow::Error` hides the error that it was made from.
        let opaque = (&source as &dyn Any).downcast_ref::<anyhow::Error>().map(|error| kind_of(&**error));
        let source = source.into();
        let kind = opaque.unwrap_or_else(|| kind_of(&*source));
        HandlerError { source, kind }
    }
}

fn kind_of(error: &(dyn Error + 'static)) -> Kind {
    let state = successors(Some(error), |&error| error.source()).find_map(|error| error.downcast_ref::<StateError>());
    state.map_or(Kind::MayPass, StateError::kind)
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

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the cart is not there")]
    struct Wrapped(#[source] StateError);

    fn states() -> [(StateError, Kind); 4] {
        [
            (StateError::invalid("not a number"), Kind::Permanent),
            (StateError::NotOwned("taken over".into()), Kind::NotHandled),
            (StateError::from(HandlerError::permanent("no such cart")), Kind::Permanent),
            (StateError::store("disk full"), Kind::MayPass),
        ]
    }

    #[test]
    fn an_error_of_a_state_says_how_the_handler_failed_whatever_is_around_it() {
        let ways: [fn(StateError) -> HandlerError; 5] = [
            HandlerError::from,
            |state| anyhow::Error::from(state).into(),
            |state| Err::<(), _>(state).context("the first").context("the second").unwrap_err().into(),
            |state| Wrapped(state).into(),
            |state| anyhow::Error::from(Wrapped(state)).context("the first").into(),
        ];
        for (at, way) in ways.into_iter().enumerate() {
            for (state, kind) in states() {
                let text = state.to_string();
                let error = way(state);
                assert_eq!(error.kind(), kind, "way {at}: {error:?}");
                assert_eq!(error.chain().last(), Some(&text), "way {at}");
            }
        }
    }

    #[test]
    fn other_errors_may_pass() {
        let error = HandlerError::from(anyhow::anyhow!("the bank is closed").context("failed to charge"));
        assert_eq!(error.kind(), Kind::MayPass);
        assert_eq!(error.chain(), ["failed to charge", "the bank is closed"]);
        assert_eq!(HandlerError::from("closed").kind(), Kind::MayPass);
    }
}
