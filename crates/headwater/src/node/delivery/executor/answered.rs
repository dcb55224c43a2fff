//! Calls to the database that are repeated until they are answered.

use std::time::Duration;

use headwater_core::{Backoff, SubscriberError};

/// Repeats a call until the database answers it, with growing pauses. An error that may not pass is
/// an answer. `rest` is told of each error that may pass, and waits for the next try; what it fails
/// with ends the tries.
pub(in crate::node) async fn until_answered<T, E, C, R>(
    mut call: impl FnMut() -> C,
    mut rest: impl FnMut(SubscriberError, Duration) -> R,
) -> Result<Result<T, SubscriberError>, E>
where
    C: Future<Output = Result<T, SubscriberError>>,
    R: Future<Output = Result<(), E>>,
{
    let mut pauses = Backoff::for_database();
    loop {
        match call().await {
            Err(error) if error.is_retryable() => rest(error, pauses.jittered(rand::random())).await?,
            answer => return Ok(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use headwater_core::Fault;

    use super::*;

    fn fault(retryable: bool) -> SubscriberError {
        SubscriberError::Unavailable(Fault { message: "no".into(), retryable, source: None })
    }

    #[tokio::test]
    async fn only_what_may_pass_is_tried_again() {
        let calls = Cell::new(0);
        let call = || {
            calls.set(calls.get() + 1);
            std::future::ready(if calls.get() < 4 { Err(fault(true)) } else { Err::<(), _>(fault(false)) })
        };
        let mut pauses = Vec::new();
        let answer = until_answered(call, |_, pause| {
            pauses.push(pause);
            std::future::ready(Ok::<(), ()>(()))
        });
        assert!(answer.await.unwrap().is_err());
        assert_eq!((calls.get(), pauses.len()), (4, 3));
        assert!(pauses.iter().zip([50, 100, 200]).all(|(pause, most)| pause.as_millis() <= most), "{pauses:?}");
    }

    #[tokio::test]
    async fn whoever_waits_may_end_the_tries() {
        let call = || std::future::ready(Err::<(), _>(fault(true)));
        let answer = until_answered(call, |error, _| std::future::ready(Err(error.to_string()))).await;
        assert_eq!(answer.unwrap_err(), "no");
    }
}
