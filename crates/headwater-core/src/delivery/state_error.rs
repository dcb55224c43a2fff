//! Why a state could not be read or written.

use std::error::Error;
use std::fmt;

use super::handler_error::Kind;
use super::{HandlerError, SubscriberError};

/// Why a state was not read or written. It is a [`std::error::Error`], so `?` works in a function
/// that returns `anyhow::Result`. In a handler `?` works too: the handler fails as the error says,
/// also if the error comes in an `anyhow::Error` or as the cause of another error.
#[derive(Debug)]
#[non_exhaustive]
pub enum StateError {
    /// The state is not what the program expects, or cannot be encoded: trying again does not help.
    Invalid(Box<dyn Error + Send + Sync>),
    /// The subscriber was taken over or removed, or the server has another history now. Nothing was
    /// written, and another owner handles the event.
    NotOwned(String),
    /// The change was refused by the program.
    Refused(HandlerError),
    /// The database refused, failed or could not be reached.
    Database(SubscriberError),
    /// Another store failed.
    Store(Box<dyn Error + Send + Sync>),
}

impl StateError {
    /// A state that is not what the program expects, or cannot be encoded.
    pub fn invalid(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        StateError::Invalid(source.into())
    }

    /// A failure of a store of the program's own, which may pass.
    pub fn store(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        StateError::Store(source.into())
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            StateError::Invalid(_) => false,
            StateError::NotOwned(_) | StateError::Store(_) => true,
            StateError::Refused(error) => !error.is_permanent(),
            StateError::Database(error) => error.is_retryable(),
        }
    }

    /// How a handler fails that meets this error.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            StateError::Invalid(_) => Kind::Permanent,
            StateError::NotOwned(_) => Kind::NotHandled,
            StateError::Refused(error) => error.kind(),
            StateError::Database(_) | StateError::Store(_) => Kind::MayPass,
        }
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Invalid(source) | StateError::Store(source) => source.fmt(f),
            StateError::NotOwned(reason) => f.write_str(reason),
            StateError::Refused(error) => error.fmt(f),
            StateError::Database(error) => error.fmt(f),
        }
    }
}

impl Error for StateError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            StateError::Invalid(source) | StateError::Store(source) => source.source(),
            StateError::NotOwned(_) => None,
            StateError::Refused(error) => error.cause(),
            StateError::Database(error) => error.source(),
        }
    }
}

impl From<SubscriberError> for StateError {
    fn from(error: SubscriberError) -> Self {
        StateError::Database(error)
    }
}

impl From<HandlerError> for StateError {
    fn from(error: HandlerError) -> Self {
        StateError::Refused(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(error: &HandlerError) -> (bool, bool, String) {
        (error.is_permanent(), error.is_not_handled(), error.to_string())
    }

    #[test]
    fn a_handler_that_meets_one_fails_as_it_says() {
        let number = || "x".parse::<u32>().unwrap_err();
        let message = number().to_string();
        for (error, expected) in [
            (StateError::invalid(number()), (true, false, message.clone())),
            (StateError::store(number()), (false, false, message.clone())),
            (StateError::NotOwned("gone".into()), (false, true, "gone".into())),
            (StateError::from(HandlerError::permanent(number())), (true, false, message.clone())),
            (StateError::from(HandlerError::not_handled("later")), (false, true, "later".into())),
            (SubscriberError::InUse("busy".into()).into(), (false, false, "busy".into())),
        ] {
            assert_eq!(text(&HandlerError::from(error)), expected);
        }
    }

    #[test]
    fn it_is_an_error_as_others_are() {
        fn fails() -> Result<(), Box<dyn Error + Send + Sync>> {
            Err(StateError::invalid("not a number"))?;
            Ok(())
        }
        assert_eq!(fails().unwrap_err().to_string(), "not a number");
        assert!(!StateError::invalid("").is_retryable() && StateError::store("").is_retryable());
    }
}
