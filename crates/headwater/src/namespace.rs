//! A namespace, as applications use it: typed or raw events, in their own transactions or not.

use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use headwater_core::{
    AdminError, Append, AppendError, Appended, Event, EventData, EventLog, ExpectedVersion, Horizon, IntoEvent,
    LogPage, LogQuery, NamespaceInfo, NodeOptions, ReadError, StreamId, StreamQuery, SubscriberError,
};
use headwater_postgres::{
    Due, DueEvent, Fired, PgLog, PgNodes, PgQueue, PgStateStore, PgSubscribers, PoisonEvent, Redelivered,
    SubscribersOptions,
};
use sqlx::PgConnection;
use uuid::Uuid;

/// A namespace: append to it, read from it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Namespace {
    log: PgLog,
    live: crate::Live,
}

type Events<'a, D> = BoxStream<'a, Result<Event<D>, ReadError>>;

impl Namespace {
    pub(crate) fn new(log: PgLog, live: crate::Live) -> Self {
        Namespace { log, live }
    }

    /// Everything at or below this sequence is trimmed (0: nothing is), as it was when the namespace was opened, or a minute ago.
    pub fn trimmed_to(&self) -> u64 {
        self.log.trimmed_to()
    }

    /// The settings, as they were when the namespace was opened.
    pub fn info(&self) -> &NamespaceInfo {
        self.log.info()
    }

    /// The namespace's subscribers, to look at and to manage: their progress, their dead letters.
    pub fn subscribers(&self) -> PgSubscribers {
        let options = SubscribersOptions { session_locks: false };
        PgSubscribers::new(self.log.database().clone(), self.log.info().clone(), options)
    }

    /// The queue of a shared subscriber, to claim events by hand. [`NodeBuilder::subscribe_shared`](crate::NodeBuilder::subscribe_shared) does
    /// so by itself.
    pub fn queue(&self, subscriber_id: impl Into<String>) -> PgQueue {
        PgQueue::new(self.log.database().clone(), self.log.info().clone(), subscriber_id)
    }

    /// States of a projection, in PostgreSQL.
    pub fn state_store<S: serde::Serialize + serde::de::DeserializeOwned>(
        &self,
        projection: impl Into<String>,
    ) -> PgStateStore<S> {
        PgStateStore::new(self.log.database().clone(), self.log.info(), projection.into())
    }

    /// A node of this name, to run subscribers of the namespace in this process, put together first and then
    /// [started](crate::NodeBuilder::start).
    pub fn node(&self, name: impl Into<String>) -> crate::NodeBuilder {
        crate::NodeBuilder::on_postgres(name.into(), self.log.clone()).live(self.live.clone())
    }

    /// Rows of the log that cannot be turned into events, the first one first: readers step over them. With those that were redelivered, if
    /// asked for.
    pub async fn poison(&self, redelivered: bool, limit: u32) -> Result<Vec<PoisonEvent>, AdminError> {
        self.log.database().poison(&self.info().name, redelivered, limit).await
    }

    /// Has an event that was poison, and whose row has been repaired, delivered to the subscribers that are past it, late. Answers how many will be told.
    pub async fn redeliver_poison(&self, global_sequence: u64) -> Result<u32, AdminError> {
        self.log.database().redeliver_poison(&self.info().name, global_sequence).await
    }

    /// Has events that were poison, and whose rows have been repaired, delivered in order: active subscribers that are past the first of them are moved back to just
    /// before it, and are given them and all that follows, again. Transactional ones, whose effects happen once, and those that nobody handles events for at present are given them late.
    pub async fn redeliver_in_order(&self, sequences: &[u64]) -> Result<Redelivered, AdminError> {
        self.log.database().redeliver_in_order(&self.info().name, sequences).await
    }

    /// Registers this process as a node: it emits events and, once it is [started](crate::Node::start), handles some. For a node that also has subscribers, see
    /// [`Namespace::node`].
    pub async fn register_node(&self, options: NodeOptions) -> Result<crate::Node, SubscriberError> {
        crate::NodeBuilder::with_options(options, self.log.clone()).register().await
    }

    /// The namespace's nodes, to look at and to manage.
    pub fn nodes(&self) -> PgNodes {
        PgNodes::new(self.log.database().clone(), self.log.info())
    }

    /// The log itself, for code that works with any [`EventLog`].
    pub fn log(&self) -> &PgLog {
        &self.log
    }

    /// Appends events to a stream, all or none: data, [`Event`]s with data, or raw events.
    pub async fn append<E: IntoEvent>(
        &self,
        stream_id: impl Into<StreamId>,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Appended, AppendError> {
        self.log.append(to_stream(stream_id, expected, events)?).await
    }

    /// Appends one event without a stream; an event that names a stream goes there, whatever its version.
    pub async fn emit(&self, event: impl IntoEvent) -> Result<Appended, AppendError> {
        self.log.append(event.into_event()?.into()).await
    }

    /// Stores an event now that is delivered no earlier than it is due: at a time, or so long from now (a [`Duration`](std::time::Duration)),
    /// both by the database's clock. It is appended then, or at once if it is due already, so that its place in the log is that of its time; its id, by which it can be
    /// [cancelled](Namespace::cancel_due), and its `created_at` are those of now. Its header `due_at` says when it was due.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use headwater::{Event, Json, Namespace};
    /// # async fn remind(shop: Namespace) -> Result<(), Box<dyn std::error::Error>> {
    /// let three_days = Duration::from_secs(3 * 86_400);
    /// let reminder = shop.emit_at(three_days, Event::raw("PaymentOverdue", Json::null())).await?;
    /// // It was paid:
    /// assert!(shop.cancel_due(reminder).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn emit_at(&self, due: impl Into<Due>, event: impl IntoEvent) -> Result<Uuid, AppendError> {
        self.log.emit_at(due, event.into_event()?).await
    }

    /// Takes back an event that waits to be due. Answers whether it did: then it is never delivered. If not, it was appended already, or
    /// there is none with this id.
    pub async fn cancel_due(&self, event_id: Uuid) -> Result<bool, AppendError> {
        self.log.cancel_due(event_id).await
    }

    /// Events that wait to be due, the next one first, at most `limit`.
    pub async fn due_events(&self, limit: u32) -> Result<Vec<DueEvent>, ReadError> {
        self.log.due_events(limit).await
    }

    /// Appends the events that are due, at most `max_events`, and those of schedules, and says when to call again. Nodes do this by
    /// themselves.
    pub async fn fire_due(&self, max_events: u32) -> Result<Fired, AppendError> {
        self.log.fire_due(max_events).await
    }

    /// Those of the waiting events that could not be appended when they were due.
    pub async fn failed_due_events(&self, limit: u32) -> Result<Vec<DueEvent>, ReadError> {
        self.log.failed_due_events(limit).await
    }

    /// Appends to several streams, all or none.
    pub async fn append_all(&self, append: Append) -> Result<Appended, AppendError> {
        self.log.append(append).await
    }

    /// Appends an event that says which stream_version it is to have: if the stream is not just below, it conflicts.
    pub async fn store_event(&self, event: impl IntoEvent) -> Result<Appended, AppendError> {
        let event = event.into_event()?;
        let expected = match (&event.stream_id, event.stream_version) {
            (Some(stream_id), Some(version)) => Some((stream_id.clone(), version)),
            _ => None,
        };
        let append = Append::from(event);
        self.log
            .append(match expected {
                Some((_, 0)) => {
                    return Err(AppendError::InvalidInput("invalid stream_version 0: the first is 1".into()));
                }
                Some((stream_id, version)) => append.expect(stream_id, ExpectedVersion::Exact(version - 1)),
                None => append,
            })
            .await
    }

    /// [`Namespace::append`] in a transaction of the caller's: the events are there if and when it commits.
    pub async fn append_in<E: IntoEvent>(
        &self,
        conn: &mut PgConnection,
        stream_id: impl Into<StreamId>,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Appended, AppendError> {
        self.log.append_in(conn, &to_stream(stream_id, expected, events)?).await
    }

    /// [`Namespace::emit`] in a transaction of the caller's.
    pub async fn emit_in(&self, conn: &mut PgConnection, event: impl IntoEvent) -> Result<Appended, AppendError> {
        self.log.append_in(conn, &event.into_event()?.into()).await
    }

    /// [`Namespace::emit_at`] in a transaction of the caller's.
    pub async fn emit_at_in(
        &self,
        conn: &mut PgConnection,
        due: impl Into<Due>,
        event: impl IntoEvent,
    ) -> Result<Uuid, AppendError> {
        self.log.emit_at_in(conn, due, event.into_event()?).await
    }

    /// [`Namespace::cancel_due`] in a transaction of the caller's.
    pub async fn cancel_due_in(&self, conn: &mut PgConnection, event_id: Uuid) -> Result<bool, AppendError> {
        self.log.cancel_due_in(conn, event_id).await
    }

    /// [`Namespace::append_all`] in a transaction of the caller's.
    pub async fn append_all_in(&self, conn: &mut PgConnection, append: &Append) -> Result<Appended, AppendError> {
        self.log.append_in(conn, append).await
    }

    /// A stream's events with their data as JSON, one page in memory at a time.
    pub fn read_stream(&self, query: impl Into<StreamQuery>) -> BoxStream<'_, Result<Event, ReadError>> {
        self.log.read_stream(query.into())
    }

    /// A stream's events with typed data.
    pub fn read_stream_as<D: EventData>(&self, query: impl Into<StreamQuery>) -> Events<'_, D> {
        self.read_stream(query).and_then(|event| async { decode(event) }).boxed()
    }

    /// The last event of a stream.
    pub async fn last_event(&self, stream_id: impl Into<StreamId>) -> Result<Option<Event>, ReadError> {
        let query = StreamQuery::new(stream_id).backwards().page_size(1);
        Ok(self.log.stream_page(&query).await?.pop())
    }

    /// A page of a stream as a transaction of the caller's sees it, its own appends included.
    pub async fn read_stream_in(
        &self,
        conn: &mut PgConnection,
        query: impl Into<StreamQuery>,
    ) -> Result<Vec<Event>, ReadError> {
        self.log.stream_page_in(conn, &query.into()).await
    }

    /// The log's events up to the horizon, with their data as JSON, one page in memory at a time.
    pub fn read_log(&self, query: LogQuery) -> BoxStream<'_, Result<Event, ReadError>> {
        self.log.read_log(query)
    }

    /// The log's events of the types that `D` has, with typed data.
    pub fn read_log_as<D: EventData>(&self, query: LogQuery) -> Events<'_, D> {
        let query =
            if query.event_types.is_empty() { query.event_types(D::EVENT_TYPES.iter().copied()) } else { query };
        self.read_log(query).and_then(|event| async { decode(event) }).boxed()
    }

    /// The log page by page, with its gaps.
    pub fn read_log_pages(&self, query: LogQuery) -> BoxStream<'_, Result<LogPage, ReadError>> {
        self.log.read_log_pages(query)
    }

    /// All events after a sequence.
    pub fn read_all_events_since(&self, global_sequence: u64) -> BoxStream<'_, Result<Event, ReadError>> {
        self.log.read_all_events_since(global_sequence)
    }

    /// A page of the log, read in a transaction of the caller's, which must be READ COMMITTED.
    pub async fn read_log_in(&self, conn: &mut PgConnection, query: &LogQuery) -> Result<LogPage, ReadError> {
        self.log.log_page_in(conn, query).await
    }

    /// The event with this id.
    pub async fn event(&self, id: Uuid) -> Result<Option<Event>, ReadError> {
        self.log.event(id).await
    }

    /// Events of one correlation after a sequence, in order, at most `limit`.
    pub async fn correlated(&self, correlation_id: Uuid, after: u64, limit: u32) -> Result<Vec<Event>, ReadError> {
        self.log.correlated(correlation_id, after, limit).await
    }

    /// The events of one correlation, in order, one page in memory at a time.
    pub fn read_correlated(&self, correlation_id: Uuid) -> BoxStream<'_, Result<Event, ReadError>> {
        self.log.read_correlated(correlation_id)
    }

    /// What led to an event, itself, and what it led to, in order of the log, at most `limit`.
    pub async fn causation_chain(&self, id: Uuid, limit: u32) -> Result<Vec<Event>, ReadError> {
        self.log.causation_chain(id, limit).await
    }

    /// How far the log is settled, and who may still commit beyond.
    pub async fn horizon(&self) -> Result<Horizon, ReadError> {
        self.log.horizon().await
    }
}

fn to_stream<E: IntoEvent>(
    stream_id: impl Into<StreamId>,
    expected: ExpectedVersion,
    events: impl IntoIterator<Item = E>,
) -> Result<Append, AppendError> {
    let events = events.into_iter().map(IntoEvent::into_event).collect::<Result<Vec<_>, _>>()?;
    Ok(Append::to_stream(stream_id, expected, events))
}

fn decode<D: EventData>(event: Event) -> Result<Event<D>, ReadError> {
    let global_sequence = event.global_sequence.unwrap_or_default();
    event.decode().map_err(|source| ReadError::Decode { global_sequence, source })
}
