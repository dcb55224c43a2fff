//! Sagas: processes that answer events with events and commands.

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{HandlerError, Observed, SubscriberId};
use crate::{Append, Event, ExpectedVersion, IntoEvent, JsonError, StreamId};

/// A process with a state an id, that answers events with events and commands. Its state, what it appends and its progress commit in
/// one transaction: each event has its effect exactly once.
#[async_trait]
pub trait Saga<D: Observed>: SubscriberId {
    /// What it remembers between events.
    type State: Serialize + DeserializeOwned + Send + Sync;

    /// Which state the event belongs to; `None`: to none. By default, that of the event's correlation, else of its stream.
    fn state_id(&self, event: &Event<D>) -> Option<String> {
        let correlation = event.correlation_id.map(|id| id.to_string());
        correlation.or_else(|| event.stream_id.as_ref().map(|stream| stream.to_string()))
    }

    /// The state after the event (`None`: the process has ended), with what to do in `actions`.
    async fn on_event(
        &self,
        state: Option<Self::State>,
        event: &Event<D>,
        actions: &mut SagaActions,
    ) -> Result<Option<Self::State>, HandlerError>;
}

/// What a saga wants done. Every event and command gets the saga's event as its cause.
#[derive(Debug, Default)]
pub struct SagaActions {
    append: Append,
    any: bool,
}

impl SagaActions {
    /// Appends an event without a stream.
    pub fn emit(&mut self, event: impl IntoEvent) -> Result<&mut Self, JsonError> {
        self.push(event.into_event()?);
        Ok(self)
    }

    /// Appends an event to a stream.
    pub fn append(
        &mut self,
        stream_id: impl Into<StreamId>,
        expected: ExpectedVersion,
        event: impl IntoEvent,
    ) -> Result<&mut Self, JsonError> {
        let stream_id = stream_id.into();
        self.push(event.into_event()?.in_stream(stream_id.clone()));
        self.append = std::mem::take(&mut self.append).expect(stream_id, expected);
        Ok(self)
    }

    /// Sends a command: an event that asks, to whoever subscribes to its type. Commands to one `receiver` are handled in order.
    pub fn send(&mut self, receiver: impl Into<String>, command: impl IntoEvent) -> Result<&mut Self, JsonError> {
        let mut command = command.into_event()?;
        command.key = Some(receiver.into());
        self.push(command);
        Ok(self)
    }

    fn push(&mut self, event: Event) {
        self.append = std::mem::take(&mut self.append).event(event);
        self.any = true;
    }

    /// What is to be appended, with `cause` as the cause of each event; `None`: nothing.
    pub fn into_append<D>(self, cause: &Event<D>) -> Option<Append> {
        self.any.then(|| self.append.caused_by(cause))
    }
}
