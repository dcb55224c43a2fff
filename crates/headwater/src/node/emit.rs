//! What a node emits: events that say which node they come from.

use headwater_core::{Append, AppendError, Appended, Event, ExpectedVersion, IntoEvent, Json, StreamId, headers};
use sqlx::PgConnection;

use super::{Node, Registered};

impl Node {
    /// Emits a message: an event without a stream, for one of the nodes that [handle](Node::on_event) its type, and for the namespace's subscribers.
    /// Returns its message id, which is its `global_sequence`.
    pub async fn emit(&self, event_type: impl Into<String>, payload: impl Into<Json>) -> Result<u64, AppendError> {
        Ok(self.emit_event(Event::raw(event_type, payload)).await?.global_sequence())
    }

    /// As [`emit`](Node::emit), for an event with everything that it may have: data of a type, a key, headers, a stream.
    pub async fn emit_event(&self, event: impl IntoEvent) -> Result<Appended, AppendError> {
        self.log.append(self.signed(event.into_event()?).into()).await
    }

    /// As [`emit`](Node::emit), in a transaction of the caller's: the message is there if and when it commits.
    pub async fn emit_in(
        &self,
        conn: &mut PgConnection,
        event_type: impl Into<String>,
        payload: impl Into<Json>,
    ) -> Result<u64, AppendError> {
        let Some(Registered { log, .. }) = &self.registered else {
            return Err(AppendError::InvalidInput("emit_in needs PostgreSQL: this node has another log".into()));
        };
        let append = self.signed(Event::raw(event_type, payload)).into();
        Ok(log.append_in(conn, &append).await?.global_sequence())
    }

    /// Emits a message for every node that [listens](Node::on_broadcast) to broadcasts of its type, instead of one of those that handle it. Returns its message id.
    pub async fn broadcast(&self, event_type: impl Into<String>, payload: impl Into<Json>) -> Result<u64, AppendError> {
        let mut event = self.signed(Event::raw(event_type, payload));
        event.headers.insert(headers::BROADCAST.into(), "true".into());
        Ok(self.log.append(event.into()).await?.global_sequence())
    }

    /// Appends events to a stream, all or none.
    pub async fn append<E: IntoEvent>(
        &self,
        stream_id: impl Into<StreamId>,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Appended, AppendError> {
        let events = events.into_iter().map(|event| Ok(self.signed(event.into_event()?)));
        let events = events.collect::<Result<Vec<_>, AppendError>>()?;
        self.log.append(Append::to_stream(stream_id, expected, events)).await
    }

    /// The event, with the node's id on it.
    fn signed(&self, mut event: Event) -> Event {
        event.headers.insert(headers::PRODUCER_NODE_ID.into(), self.instance.node.clone());
        event
    }
}
