//! Other names for existing methods, from the documents that Headwater was made from. Each alias is
//! one call of the method that its documentation links to.

use futures::stream::BoxStream;
use headwater_core::{
    Append, AppendError, Appended, Event, EventLog, ExpectedVersion, IntoEvent, Json, NodeOptions, ReadError,
    RecordedEvent, SubscriberError,
};
use sqlx::PgConnection;

use crate::Namespace;
use crate::Node;

impl Namespace {
    /// [Appends](Namespace::append) an event that names its stream and the `stream_version` it must
    /// get. If the stream's version is not one below, the append conflicts. An event that does not
    /// name both is [emitted](Namespace::emit).
    pub async fn store_event(&self, event: impl IntoEvent) -> Result<Appended, AppendError> {
        let event = event.into_event()?;
        match (event.stream_id.clone(), event.stream_version) {
            (Some(_), Some(0)) => Err(AppendError::InvalidInput("invalid stream_version 0: the first is 1".into())),
            (Some(stream_id), Some(version)) => {
                self.append(stream_id, ExpectedVersion::Exact(version - 1), [event]).await
            }
            _ => self.emit(event).await,
        }
    }

    /// [Reads](Namespace::read_log) all events after a sequence.
    pub fn read_all_events_since(&self, global_sequence: u64) -> BoxStream<'_, Result<RecordedEvent, ReadError>> {
        self.log().read_all_events_since(global_sequence)
    }

    /// [Registers](crate::node::NodeBuilder::register) a [node](Namespace::node) with these
    /// options. It can emit events at once, and handles events after its [start](Node::start).
    pub async fn register_node(&self, options: NodeOptions) -> Result<Node, SubscriberError> {
        self.node_with(options).register().await
    }
}

impl Node {
    /// [Emits](Namespace::emit) a message that names this node as its producer. It is an event
    /// without a stream, for one of the nodes that [handle](Node::on_event) its type, and for the
    /// namespace's subscribers. Returns the message id, which is the event's `global_sequence`.
    pub async fn emit(&self, event_type: impl Into<String>, payload: impl Into<Json>) -> Result<u64, AppendError> {
        let append = Append::from(self.signed(Event::raw(event_type, payload)));
        Ok(self.log().append(append).await?.global_sequence())
    }

    /// Emits as [`emit`](Node::emit) does, in a transaction of the caller: the message exists if
    /// and when it commits.
    pub async fn emit_in(
        &self,
        conn: &mut PgConnection,
        event_type: impl Into<String>,
        payload: impl Into<Json>,
    ) -> Result<u64, AppendError> {
        let Some(log) = self.postgres_log() else {
            return Err(AppendError::InvalidInput("emit_in needs PostgreSQL: this node has another log".into()));
        };
        let append = self.signed(Event::raw(event_type, payload)).into();
        Ok(log.append_in(conn, &append).await?.global_sequence())
    }
}
