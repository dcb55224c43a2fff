//! The outcome of one attempt to handle events.

use headwater_core::{HandlerError, SubscriberError};

/// The outcome of one attempt to handle events.
#[derive(Debug)]
pub(in crate::node) enum Outcome {
    /// A plain handler has handled them. They are still to be settled.
    Handled,
    /// Their effects are committed, and the fact that they are settled with them.
    Committed,
    /// The handler failed, or the server refused what it did. Nothing is committed.
    Failed(Failure),
    /// The database did not answer, or the events belong to somebody else by now. It is unknown
    /// whether the transaction was committed, unless the error says so: nobody may conclude that
    /// the handler failed.
    Unknown(SubscriberError),
}

/// Why events were not handled.
#[derive(Debug)]
pub(in crate::node) struct Failure {
    /// The event whose handling failed. `None`: it is unknown which one, for example after a commit
    /// that was refused.
    pub(in crate::node) at: Option<u64>,
    pub(in crate::node) error: HandlerError,
}

impl Outcome {
    /// A failure that belongs to no event in particular.
    pub(in crate::node) fn failed(error: impl Into<HandlerError>) -> Self {
        Outcome::Failed(Failure { at: None, error: error.into() })
    }

    /// Interprets a database error that ended a handler's transaction. An error that the server
    /// raised (a deferred constraint, say) is the handler's failure: nothing was committed, and the
    /// same would happen again. After any other error, the outcome is unknown.
    pub(in crate::node) fn of_database(error: SubscriberError) -> Self {
        match error {
            SubscriberError::Unavailable(fault) if !fault.retryable => {
                Outcome::failed(SubscriberError::Unavailable(fault))
            }
            error => Outcome::Unknown(error),
        }
    }
}

impl From<Result<(), HandlerError>> for Outcome {
    fn from(handled: Result<(), HandlerError>) -> Self {
        match handled {
            Ok(()) => Outcome::Handled,
            Err(error) => Outcome::failed(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::Fault;

    use super::*;

    fn fault(retryable: bool) -> SubscriberError {
        SubscriberError::Unavailable(Fault { message: "no".into(), retryable, source: None })
    }

    #[test]
    fn what_the_server_refused_is_the_handlers_failure() {
        let refused = Outcome::of_database(fault(false));
        assert!(matches!(refused, Outcome::Failed(Failure { at: None, .. })), "{refused:?}");
    }

    #[test]
    fn what_was_not_answered_or_is_anothers_is_no_failure_of_the_handler() {
        let others = [
            fault(true),
            SubscriberError::Fenced("s".into()),
            SubscriberError::ClaimLost("c".into()),
            SubscriberError::NotFound("s".into()),
            SubscriberError::NotGranted("no grant".into()),
        ];
        for error in others {
            let text = error.to_string();
            let outcome = Outcome::of_database(error);
            assert!(matches!(&outcome, Outcome::Unknown(error) if error.to_string() == text), "{outcome:?}");
        }
    }
}
