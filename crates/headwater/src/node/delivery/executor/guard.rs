//! Protects a process from the handlers that it runs.

use std::panic::AssertUnwindSafe;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use headwater_core::HandlerError;

/// Runs a handler. A panic counts as an error, and so does taking too long.
pub(in crate::node) async fn guarded(
    handling: impl Future<Output = Result<(), HandlerError>>,
    limit: Duration,
) -> Result<(), HandlerError> {
    let handling = AssertUnwindSafe(handling).catch_unwind();
    tokio::pin!(handling);
    // Most handlers that only touch memory are done at once: they need no timer.
    let outcome = match futures::poll!(&mut handling) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => match tokio::time::timeout(limit, handling).await {
            Ok(outcome) => outcome,
            Err(_) => return Err(HandlerError::message(format!("took longer than handler_timeout {limit:?}"))),
        },
    };
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(HandlerError::message(format!("panicked: {text}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn panics(at: u32) -> Result<(), HandlerError> {
        tokio::task::yield_now().await;
        panic!("at {at}");
    }

    #[tokio::test]
    async fn a_panic_and_a_handler_that_hangs_are_errors() {
        let limit = Duration::from_millis(7);
        assert_eq!(guarded(panics(3), limit).await.unwrap_err().to_string(), "panicked: at 3");
        let hung = guarded(std::future::pending(), limit).await.unwrap_err();
        assert_eq!(hung.to_string(), "took longer than handler_timeout 7ms");
        assert!(guarded(async { Ok(()) }, Duration::ZERO).await.is_ok());
    }
}
