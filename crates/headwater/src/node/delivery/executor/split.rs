//! Handles events together, and one by one if that fails.

use headwater_core::HandlerError;

/// A way to handle events together, and one alone.
pub(in crate::node) trait Together {
    type Event;
    /// Why handling stops.
    type Stop;

    /// The subscriber of these events.
    fn subscriber_id(&self) -> &str;

    /// Tries to handle several events together.
    fn together(
        &mut self,
        events: Vec<Self::Event>,
    ) -> impl Future<Output = Result<Tried<Self::Event>, Self::Stop>> + Send;

    /// Handles one event, to the end.
    fn alone(&mut self, event: Self::Event) -> impl Future<Output = Result<(), Self::Stop>> + Send;
}

/// The result of trying several events together.
pub(in crate::node) enum Tried<E> {
    /// Nothing is left to do for them.
    Settled,
    /// They are to be handled one by one: they failed together, or could not go together.
    OneByOne(Vec<E>, Option<HandlerError>),
}

/// Handles events together. If that fails, handles them one by one, so that only the events that
/// fail are given up or handed back. A single event is handled alone at once, so that each of its
/// tries is counted.
pub(in crate::node) async fn together_or_alone<T: Together>(
    handling: &mut T,
    mut events: Vec<T::Event>,
) -> Result<(), T::Stop> {
    if events.len() > 1 {
        let Tried::OneByOne(back, error) = handling.together(events).await? else { return Ok(()) };
        if let Some(error) = error.filter(|error| !error.is_not_handled()) {
            let subscriber_id = handling.subscriber_id();
            tracing::warn!(subscriber_id, %error, "failed to handle events together: trying them one by one");
        }
        events = back;
    }
    for event in events {
        handling.alone(event).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Handles numbers. Negative ones fail, and 0 ends everything.
    #[derive(Default)]
    struct Numbers {
        calls: Vec<Vec<i32>>,
    }

    impl Together for Numbers {
        type Event = i32;
        type Stop = &'static str;

        fn subscriber_id(&self) -> &str {
            "numbers"
        }

        async fn together(&mut self, events: Vec<i32>) -> Result<Tried<i32>, &'static str> {
            self.calls.push(events.clone());
            match events.iter().any(|event| *event < 0) {
                true => Ok(Tried::OneByOne(events, Some(HandlerError::message("negative")))),
                false => Ok(Tried::Settled),
            }
        }

        async fn alone(&mut self, event: i32) -> Result<(), &'static str> {
            self.calls.push(vec![event]);
            if event == 0 { Err("zero") } else { Ok(()) }
        }
    }

    async fn calls(events: &[i32]) -> (Vec<Vec<i32>>, Result<(), &'static str>) {
        let mut numbers = Numbers::default();
        let ended = together_or_alone(&mut numbers, events.to_vec()).await;
        (numbers.calls, ended)
    }

    #[tokio::test]
    async fn events_are_split_once_they_fail_together() {
        assert_eq!(calls(&[1, 2]).await, (vec![vec![1, 2]], Ok(())));
        assert_eq!(calls(&[1, -2, 3]).await, (vec![vec![1, -2, 3], vec![1], vec![-2], vec![3]], Ok(())));
    }

    #[tokio::test]
    async fn one_event_is_tried_alone_and_once() {
        assert_eq!(calls(&[-1]).await, (vec![vec![-1]], Ok(())));
        assert_eq!(calls(&[]).await, (vec![], Ok(())));
    }

    #[tokio::test]
    async fn what_ends_the_run_ends_it_for_the_rest() {
        assert_eq!(calls(&[-1, 0, 2]).await, (vec![vec![-1, 0, 2], vec![-1], vec![0]], Err("zero")));
    }
}
