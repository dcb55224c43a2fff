//! Sagas: processes that answer events with events and commands.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{HandlerError, Observed, SubscriberId};
use crate::{Append, Event, ExpectedVersion, IntoEvent, JsonError, StreamId};

/// A process with one state per id that answers events with events and commands. Its state, the
/// events it appends and its progress commit in one transaction, so each event has its effect
/// exactly once.
pub trait Saga<D: Observed>: SubscriberId {
    /// What the saga remembers between events.
    type State: Serialize + DeserializeOwned + Send + Sync;

    /// The id of the state that the event changes. `None`: the event changes no state. By default,
    /// the id is the event's correlation, or else its stream.
    fn state_id(&self, event: &Event<D>) -> Option<String> {
        let correlation = event.correlation_id.map(|id| id.to_string());
        correlation.or_else(|| event.stream_id.as_ref().map(|stream| stream.to_string()))
    }

    /// Returns the state after the event (`None`: the process has ended), and adds what to do to
    /// `actions`.
    fn on_event(
        &self,
        state: Option<Self::State>,
        event: &Event<D>,
        actions: &mut SagaActions,
    ) -> impl Future<Output = Result<Option<Self::State>, HandlerError>> + Send;
}

/// What a saga wants to do. Every event and command gets the saga's event as its cause.
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

    /// Sends a command to the subscribers of its type. A command is an event that asks for
    /// something. Commands to one `receiver` are handled in order.
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

    /// The events to append, each with `cause` as its cause. `None`: there are none.
    pub fn into_append<D>(self, cause: &Event<D>) -> Option<Append> {
        self.any.then(|| self.append.caused_by(cause))
    }
}
