//! A namespace as applications use it: typed or raw events, in the caller's transactions or not.

use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use headwater_core::{
    AdminError, Append, AppendError, Appended, EventData, EventLog, ExpectedVersion, Horizon, IntoEvent, LogPage,
    LogQuery, NamespaceInfo, ReadError, RecordedEvent, StreamId, StreamQuery,
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
    live: crate::live::Live,
    followers: crate::node::reading::followers::Followers,
}

type Events<'a, D> = BoxStream<'a, Result<RecordedEvent<D>, ReadError>>;

impl Namespace {
    /// Followers of the namespace end when `closed` says so.
    pub(crate) fn new(log: PgLog, live: crate::live::Live, closed: tokio::sync::watch::Sender<bool>) -> Self {
        let followers = crate::node::reading::followers::Followers::on_postgres(log.clone(), closed);
        Namespace { log, live, followers }
    }

    /// Everything at or below this sequence is trimmed; 0 means that nothing is. The value was
    /// looked up when the namespace was opened, or at a later read; reads look it up once a minute.
    pub fn trimmed_to(&self) -> u64 {
        self.log.trimmed_to()
    }

    /// The settings, as they were when the namespace was opened.
    pub fn info(&self) -> &NamespaceInfo {
        self.log.info()
    }

    /// The pool, for the application's own queries and transactions.
    pub fn pool(&self) -> &sqlx::PgPool {
        self.log.database().pool()
    }

    /// The namespace's subscribers, to look at and to manage: their progress, their dead letters.
    pub fn subscribers(&self) -> PgSubscribers {
        let options = SubscribersOptions { session_locks: false };
        PgSubscribers::new(self.log.database().clone(), self.log.info().clone(), options)
    }

    /// The queue of a shared subscriber, to claim events by hand. A node that runs a
    /// [`Queue`](crate::Queue) does so by itself.
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

    /// Returns the builder of a node with this name, which runs subscribers of the namespace in
    /// this process. Put the node together first, then [start](crate::node::NodeBuilder::start) it.
    pub fn node(&self, name: impl Into<String>) -> crate::node::NodeBuilder {
        crate::node::NodeBuilder::on_postgres(name.into(), self.log.clone()).live(self.live.clone())
    }

    /// Rows of the log that cannot be turned into events, in order. Readers step over them. With
    /// `redelivered`, rows that were delivered later are included.
    pub async fn poison(&self, redelivered: bool, limit: u32) -> Result<Vec<PoisonEvent>, AdminError> {
        self.log.database().poison(&self.info().name, redelivered, limit).await
    }

    /// Delivers an event late that was poison and whose row has been repaired, to the subscribers
    /// that are past it. Returns how many partitions will get it.
    pub async fn redeliver_poison(&self, global_sequence: u64) -> Result<u32, AdminError> {
        self.log.database().redeliver_poison(&self.info().name, global_sequence).await
    }

    /// Delivers events in order that were poison and whose rows have been repaired. Active
    /// subscribers that are past the first of these events move back to just before it, and get
    /// them and all later events again. Two kinds of subscribers do not move, and get the repaired
    /// events late: transactional ones, whose effects happen once, and those for which nobody
    /// handles events at present.
    pub async fn redeliver_in_order(&self, sequences: &[u64]) -> Result<Redelivered, AdminError> {
        self.log.database().redeliver_in_order(&self.info().name, sequences).await
    }

    /// Returns a builder as [`node`](Namespace::node) does, with the host's name. For programs that
    /// run once per host or container. A process with the same name replaces this one: see
    /// [`Node::stopped`](crate::Node::stopped).
    pub fn node_from_host(&self) -> crate::node::NodeBuilder {
        self.node(crate::node::host_name())
    }

    pub(crate) fn node_with(&self, options: headwater_core::NodeOptions) -> crate::node::NodeBuilder {
        crate::node::NodeBuilder::with_options(options, self.log.clone())
    }

    /// The namespace's nodes, to look at and to manage.
    pub fn nodes(&self) -> PgNodes {
        PgNodes::new(self.log.database().clone(), self.log.info())
    }

    /// The log itself, for code that works with any [`EventLog`].
    pub fn log(&self) -> &PgLog {
        &self.log
    }

    /// Appends events to a stream, all or none: data, [`Event`](crate::Event)s with data, or raw
    /// events.
    pub async fn append<E: IntoEvent>(
        &self,
        stream_id: impl Into<StreamId>,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Appended, AppendError> {
        self.log.append(to_stream(stream_id, expected, events)?).await
    }

    /// Appends one event without a stream. An event that names a stream goes there, whatever the
    /// stream's version.
    pub async fn emit(&self, event: impl IntoEvent) -> Result<Appended, AppendError> {
        self.log.append(event.into_event()?.into()).await
    }

    /// Stores an event now and delivers it no earlier than its due time: a moment, or a
    /// [`Duration`](std::time::Duration) from now, both by the database's clock. The event is
    /// appended when it is due, or at once if it is due already. So its place in the log is that of
    /// its due time. Its id and its `created_at` are those of now;
    /// [`cancel_due`](Namespace::cancel_due) takes the id. Its header `due_at` says when it was
    /// due.
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

    /// Cancels an event that waits to be due. `true`: it is never delivered. `false`: it was
    /// appended already, or no event with this id waits.
    pub async fn cancel_due(&self, event_id: Uuid) -> Result<bool, AppendError> {
        self.log.cancel_due(event_id).await
    }

    /// Events that wait to be due, the next one first, at most `limit`.
    pub async fn due_events(&self, limit: u32) -> Result<Vec<DueEvent>, ReadError> {
        self.log.due_events(limit).await
    }

    /// Appends the due events, at most `max_events`, and those of schedules, and says when to call
    /// again. Nodes do this by themselves.
    pub async fn fire_due(&self, max_events: u32) -> Result<Fired, AppendError> {
        self.log.fire_due(max_events).await
    }

    /// Waiting events that could not be appended when they were due, at most `limit`.
    pub async fn failed_due_events(&self, limit: u32) -> Result<Vec<DueEvent>, ReadError> {
        self.log.failed_due_events(limit).await
    }

    /// Appends to several streams, all or none.
    pub async fn append_all(&self, append: Append) -> Result<Appended, AppendError> {
        self.log.append(append).await
    }

    /// Appends as [`append`](Namespace::append) does, in a transaction of the caller: the events
    /// exist if and when it commits.
    pub async fn append_in<E: IntoEvent>(
        &self,
        conn: &mut PgConnection,
        stream_id: impl Into<StreamId>,
        expected: ExpectedVersion,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Appended, AppendError> {
        self.log.append_in(conn, &to_stream(stream_id, expected, events)?).await
    }

    /// Emits as [`emit`](Namespace::emit) does, in a transaction of the caller.
    pub async fn emit_in(&self, conn: &mut PgConnection, event: impl IntoEvent) -> Result<Appended, AppendError> {
        self.log.append_in(conn, &event.into_event()?.into()).await
    }

    /// Stores an event as [`emit_at`](Namespace::emit_at) does, in a transaction of the caller.
    pub async fn emit_at_in(
        &self,
        conn: &mut PgConnection,
        due: impl Into<Due>,
        event: impl IntoEvent,
    ) -> Result<Uuid, AppendError> {
        self.log.emit_at_in(conn, due, event.into_event()?).await
    }

    /// Cancels as [`cancel_due`](Namespace::cancel_due) does, in a transaction of the caller.
    pub async fn cancel_due_in(&self, conn: &mut PgConnection, event_id: Uuid) -> Result<bool, AppendError> {
        self.log.cancel_due_in(conn, event_id).await
    }

    /// Appends as [`append_all`](Namespace::append_all) does, in a transaction of the caller.
    pub async fn append_all_in(&self, conn: &mut PgConnection, append: &Append) -> Result<Appended, AppendError> {
        self.log.append_in(conn, append).await
    }

    /// A stream's events with their data as JSON, one page in memory at a time.
    pub fn read_stream(&self, query: impl Into<StreamQuery>) -> BoxStream<'_, Result<RecordedEvent, ReadError>> {
        self.log.read_stream(query.into())
    }

    /// A stream's events with typed data.
    pub fn read_stream_as<D: EventData>(&self, query: impl Into<StreamQuery>) -> Events<'_, D> {
        self.read_stream(query).and_then(|event| async { decode(event) }).boxed()
    }

    /// The last event of a stream.
    pub async fn last_event(&self, stream_id: impl Into<StreamId>) -> Result<Option<RecordedEvent>, ReadError> {
        let query = StreamQuery::new(stream_id).backwards().page_size(1);
        Ok(self.log.stream_page(&query).await?.pop())
    }

    /// A page of a stream as a transaction of the caller sees it, including its own appends.
    pub async fn read_stream_in(
        &self,
        conn: &mut PgConnection,
        query: impl Into<StreamQuery>,
    ) -> Result<Vec<RecordedEvent>, ReadError> {
        self.log.stream_page_in(conn, &query.into()).await
    }

    /// The log's events up to the horizon, with their data as JSON, one page in memory at a time.
    pub fn read_log(&self, query: LogQuery) -> BoxStream<'_, Result<RecordedEvent, ReadError>> {
        self.log.read_log(query)
    }

    /// The log's events of the types of `D`, with typed data.
    pub fn read_log_as<D: EventData>(&self, query: LogQuery) -> Events<'_, D> {
        let query =
            if query.event_types.is_empty() { query.event_types(D::EVENT_TYPES.iter().copied()) } else { query };
        self.read_log(query).and_then(|event| async { decode(event) }).boxed()
    }

    /// The log page by page, with its gaps.
    pub fn read_log_pages(&self, query: LogQuery) -> BoxStream<'_, Result<LogPage, ReadError>> {
        self.log.read_log_pages(query)
    }

    /// Follows the log after a sequence, or as a [`FollowQuery`](crate::follow::FollowQuery) says:
    /// first the existing events, then new ones as they come, strictly in order. It creates no
    /// subscriber: keep the [`position`](crate::follow::Follower::position) and resume there.
    ///
    /// To begin with the events that come from now on, follow the log after its
    /// [`horizon`](Namespace::horizon).
    ///
    /// A follower never passes a place that an open transaction may still fill, since one number
    /// cannot remember a gap. It waits there, and
    /// [`Followed::Stalled`](crate::follow::Followed::Stalled) says who holds it. All followers of
    /// a namespace in one process share their reads. A slow follower costs no memory, since it
    /// reads when it is polled. It reconnects by itself.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use headwater::log::{FollowQuery, Followed};
    /// # use headwater::Namespace;
    /// # async fn run(shop: Namespace) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut follower = shop.follow(FollowQuery::after(0).event_types(["order.*"]));
    /// while let Some(item) = follower.try_next().await? {
    ///     match item {
    ///         Followed::Event(event) => println!("{} {}", event.event_type, event.data_text()),
    ///         Followed::Stalled { from, writers, .. } => eprintln!("{from} is held by {writers:?}"),
    ///         _ => {}
    ///     }
    ///     let resume_after = follower.position();
    /// #   _ = resume_after;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow(&self, query: impl Into<crate::follow::FollowQuery>) -> crate::follow::Follower {
        self.followers.follow(query)
    }

    /// A page of the log, read in a transaction of the caller, which must be READ COMMITTED.
    pub async fn read_log_in(&self, conn: &mut PgConnection, query: &LogQuery) -> Result<LogPage, ReadError> {
        self.log.log_page_in(conn, query).await
    }

    /// The event with this id.
    pub async fn event(&self, id: Uuid) -> Result<Option<RecordedEvent>, ReadError> {
        self.log.event(id).await
    }

    /// The events of one correlation, in order, one page in memory at a time.
    pub fn read_correlated(&self, correlation_id: Uuid) -> BoxStream<'_, Result<RecordedEvent, ReadError>> {
        self.log.read_correlated(correlation_id)
    }

    /// The events that led to an event, the event itself, and the events that it led to, in log
    /// order, at most `limit`.
    pub async fn causation_chain(&self, id: Uuid, limit: u32) -> Result<Vec<RecordedEvent>, ReadError> {
        self.log.causation_chain(id, limit).await
    }

    /// How far the log is settled, and which transactions may still commit beyond that.
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

fn decode<D: EventData>(event: RecordedEvent) -> Result<RecordedEvent<D>, ReadError> {
    let global_sequence = event.sequence().get();
    event.decode().map_err(|source| ReadError::Decode { global_sequence, source })
}
