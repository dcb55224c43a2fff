//! States of projections and sagas in PostgreSQL.

use std::fmt;
use std::marker::PhantomData;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use headwater_core::{History, Json, NamespaceInfo, StateChange, StateError, StateStore, SubscriberError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::database::error::subscriber_error;
use crate::database::number::{bigint, bound, int, sequence_or_null};
use crate::delivery::call::calling;
use crate::delivery::state_guard::{StateGuard, delivery_to};
use crate::log::row::PgJson;
use crate::{Database, sql};

/// The states of one projection or saga, as JSON, one row per id. They are removed with their
/// subscriber.
///
/// A handler's writes here count only while its node owns the subscriber. If the node was replaced,
/// or the subscriber removed, nothing is written, and the event is not handled.
/// [`update`](StateStore::update) compares: a state that was changed since it was read is read
/// again. If it is called with an event that the subscriber is just handling, it records the event
/// together with the state. So the event changes the state once, whatever crashes.
///
/// In a transactional handler, read with [`get_in`](PgStateStore::get_in) and write with
/// [`put_in`](PgStateStore::put_in): states and checkpoint then commit together.
pub struct PgStateStore<S> {
    database: Database,
    namespace: String,
    namespace_id: i32,
    owner: String,
    state: PhantomData<fn() -> S>,
}

impl<S> Clone for PgStateStore<S> {
    fn clone(&self) -> Self {
        let (database, namespace, owner) = (self.database.clone(), self.namespace.clone(), self.owner.clone());
        PgStateStore { database, namespace, namespace_id: self.namespace_id, owner, state: PhantomData }
    }
}

impl<S> fmt::Debug for PgStateStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgStateStore").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl<S: Serialize + DeserializeOwned> PgStateStore<S> {
    /// The states that belong to the subscriber `owner`.
    pub fn new(database: Database, info: &NamespaceInfo, owner: impl Into<String>) -> Self {
        let namespace = info.name.to_string();
        PgStateStore { database, namespace, namespace_id: info.id, owner: owner.into(), state: PhantomData }
    }

    /// Returns up to `limit` states, at most 100,000, in the order of their ids, after the id
    /// `after` (`None`: from the first). To read on, call again with the id of the last one.
    pub async fn list(&self, after: Option<&str>, limit: u32) -> Result<Vec<StoredState<S>>, StateError> {
        let rows: Result<_, SubscriberError> =
            async { calling!(self.database, conn => list(conn, &self.namespace, &self.owner, after, limit, None)) }
                .await;
        rows?.into_iter().map(StoredState::decoded).collect()
    }

    /// Reads the state of `id` in a transaction of the caller, and locks it until the transaction
    /// ends. Others that read it in this way wait, even if there is no state yet.
    pub async fn get_in(&self, conn: &mut PgConnection, id: &str) -> Result<Option<S>, StateError> {
        let statement =
            sqlx::query_scalar(sql::delivery::GET_STATE_FOR_UPDATE).bind(self.namespace_id).bind(&self.owner).bind(id);
        let state: Option<PgJson> = statement.fetch_one(conn).await.map_err(subscriber_error)?;
        decode(state.map(|PgJson(state)| state))
    }

    /// Writes the state of `id` in a transaction of the caller. `None` deletes it.
    pub async fn put_in(&self, conn: &mut PgConnection, id: &str, state: Option<&S>) -> Result<(), StateError> {
        // The caller's transaction also moves the checkpoint, and that is fenced.
        self.store(conn, id, encode(state)?.as_ref(), &Conditions::default()).await?;
        Ok(())
    }

    /// The state and its version. 0: there is no state.
    async fn fetch(&self, conn: &mut PgConnection, id: &str) -> Result<(Option<Json>, i64), SubscriberError> {
        let statement = sqlx::query(sql::delivery::GET_STATE).bind(self.namespace_id).bind(&self.owner).bind(id);
        let row = statement.fetch_optional(conn).await.map_err(subscriber_error)?;
        Ok(row.map_or((None, 0), |row| {
            let state: Option<PgJson> = row.get("state");
            (state.map(|PgJson(state)| state), row.get("version"))
        }))
    }

    async fn store(
        &self,
        conn: &mut PgConnection,
        id: &str,
        state: Option<&Json>,
        conditions: &Conditions,
    ) -> Result<Stored, SubscriberError> {
        let fence = conditions.delivery.as_ref().map(|delivery| delivery.fence());
        let statement = sqlx::query_scalar(sql::delivery::PUT_STATE)
            .bind(self.namespace_id)
            .bind(&self.owner)
            .bind(id)
            .bind(state.map(|state| PgJson(state.clone())))
            .bind(conditions.version)
            .bind(fence.map(|fence| int(fence.partition)))
            .bind(fence.and_then(|fence| fence.term).map(bound))
            .bind(conditions.event.map(bigint).transpose()?)
            .bind(fence.and_then(|fence| fence.history).map(History::id));
        let stored: String = statement.fetch_one(conn).await.map_err(subscriber_error)?;
        Ok(match stored.as_str() {
            "stale" => Stored::Stale,
            "fenced" => Stored::Fenced,
            // Another possibility: the same event has changed it before.
            _ => Stored::Yes,
        })
    }

    async fn put_if(&self, id: &str, state: Option<&Json>, conditions: &Conditions) -> Result<Stored, StateError> {
        let stored: Result<_, SubscriberError> =
            async { calling!(self.database, conn => self.store(conn, id, state, conditions)) }.await;
        match stored {
            Ok(Stored::Fenced) => {
                Err(StateError::NotOwned("the subscriber was taken over or removed: its state was not written".into()))
            }
            // The event may not be in the log that the server has now.
            Err(error) if error.is_other_history() => Err(StateError::NotOwned(error.to_string())),
            stored => Ok(stored?),
        }
    }
}

/// Conditions for writing a state.
#[derive(Debug, Default)]
struct Conditions {
    /// The state is still the version that was read.
    version: Option<i64>,
    /// The subscriber belongs to this node.
    delivery: Option<StateGuard>,
    /// The event has not changed the state before.
    event: Option<u64>,
}

enum Stored {
    Yes,
    /// The state was changed since it was read.
    Stale,
    /// The subscriber does not belong to this node.
    Fenced,
}

/// A state of a projection or saga, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoredState<S = Json> {
    /// What it is the state of.
    pub id: String,
    /// The state.
    pub state: S,
    /// The event that made it what it is. `None`: the program that wrote it did not say, as in a
    /// handler's transaction.
    pub sequence: Option<u64>,
    /// When it was written.
    pub updated_at: DateTime<Utc>,
}

impl StoredState {
    fn decoded<S: DeserializeOwned>(self) -> Result<StoredState<S>, StateError> {
        let StoredState { id, state, sequence, updated_at } = self;
        Ok(StoredState { id, state: state.decode().map_err(StateError::invalid)?, sequence, updated_at })
    }
}

impl Database {
    /// States of a projection or saga, as JSON: as [`PgStateStore::list`], or the one of an id.
    pub async fn states(
        &self,
        namespace: &str,
        projection: &str,
        after: Option<&str>,
        limit: u32,
        id: Option<&str>,
    ) -> Result<Vec<StoredState>, SubscriberError> {
        calling!(self, conn => list(conn, namespace, projection, after, limit, id))
    }
}

async fn list(
    conn: &mut PgConnection,
    namespace: &str,
    projection: &str,
    after: Option<&str>,
    limit: u32,
    id: Option<&str>,
) -> Result<Vec<StoredState>, SubscriberError> {
    let statement =
        sqlx::query(sql::delivery::LIST_STATES).bind(namespace).bind(projection).bind(after).bind(int(limit)).bind(id);
    let rows = statement.fetch_all(conn).await.map_err(subscriber_error)?;
    let state = |row: &PgRow| {
        let PgJson(state) = row.try_get("state")?;
        let (id, updated_at) = (row.try_get("id")?, row.try_get("updated_at")?);
        Ok(StoredState { id, state, sequence: sequence_or_null(row, "sequence")?, updated_at })
    };
    rows.iter().map(state).collect::<Result<_, _>>().map_err(subscriber_error)
}

fn encode<S: Serialize>(state: Option<&S>) -> Result<Option<Json>, StateError> {
    state.map(Json::encode).transpose().map_err(StateError::invalid)
}

fn decode<S: DeserializeOwned>(state: Option<Json>) -> Result<Option<S>, StateError> {
    state.map(|state| state.decode()).transpose().map_err(StateError::invalid)
}

#[async_trait]
impl<S: Serialize + DeserializeOwned + Send + Sync> StateStore<S> for PgStateStore<S> {
    async fn get(&self, id: &str) -> Result<Option<S>, StateError> {
        let found: Result<_, SubscriberError> = async { calling!(self.database, conn => self.fetch(conn, id)) }.await;
        decode(found?.0)
    }

    async fn put(&self, id: &str, state: Option<S>) -> Result<(), StateError> {
        let state = encode(state.as_ref())?;
        let delivery = delivery_to(self.namespace_id, &self.owner);
        self.put_if(id, state.as_ref(), &Conditions { delivery, ..Conditions::default() }).await?;
        Ok(())
    }

    async fn update(&self, id: &str, event: Option<u64>, change: &StateChange<'_, S>) -> Result<(), StateError>
    where
        S: 'async_trait,
    {
        let delivery = delivery_to(self.namespace_id, &self.owner);
        // The deliveries delete these notes, so nobody else makes any.
        let event = event.filter(|_| delivery.is_some());
        let mut conditions = Conditions { version: None, delivery, event };
        loop {
            let found: Result<_, SubscriberError> =
                async { calling!(self.database, conn => self.fetch(conn, id)) }.await;
            let (state, version) = found?;
            conditions.version = Some(version);
            let state = encode(change(decode(state)?)?.as_ref())?;
            if let Some(delivery) = conditions.delivery.as_ref().filter(|_| event.is_some()) {
                delivery.note();
            }
            if let Stored::Yes = self.put_if(id, state.as_ref(), &conditions).await? {
                return Ok(());
            }
        }
    }
}
