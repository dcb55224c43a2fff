//! States of projections and sagas in PostgreSQL.

use std::fmt;
use std::marker::PhantomData;

use async_trait::async_trait;
use headwater_core::{HandlerError, History, Json, NamespaceInfo, StateChange, StateStore, SubscriberError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{PgConnection, Row};

use crate::delivery::{Delivery, delivery_to};
use crate::error::subscriber_error;
use crate::number::{bigint, bound, int};
use crate::row::PgJson;
use crate::subscribers::call::calling;
use crate::{Database, sql};

/// The states of one projection or saga, as JSON, one row an id. They go when their subscriber is removed.
///
/// What a handler of the subscriber writes here counts only while its node owns the subscriber: if it was replaced or removed, nothing is
/// written, and the event is not handled. [`update`](StateStore::update) compares: a state that was changed since it was read is read again. Called
/// with an event that the subscriber is being given, it notes that with the state, so that the event changes the state once, whatever crashes.
///
/// In a transactional handler, read with [`get_in`](PgStateStore::get_in) and write with [`put_in`](PgStateStore::put_in): states and checkpoint
/// are then written together.
pub struct PgStateStore<S> {
    database: Database,
    namespace_id: i32,
    owner: String,
    state: PhantomData<fn() -> S>,
}

impl<S> Clone for PgStateStore<S> {
    fn clone(&self) -> Self {
        let (database, owner) = (self.database.clone(), self.owner.clone());
        PgStateStore { database, namespace_id: self.namespace_id, owner, state: PhantomData }
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
        PgStateStore { database, namespace_id: info.id, owner: owner.into(), state: PhantomData }
    }

    /// The state of `id` in a transaction of the caller's, which keeps it until it ends: others that ask for it so wait, also if there is no
    /// state yet.
    pub async fn get_in(&self, conn: &mut PgConnection, id: &str) -> Result<Option<S>, HandlerError> {
        let statement =
            sqlx::query_scalar(sql::GET_STATE_FOR_UPDATE).bind(self.namespace_id).bind(&self.owner).bind(id);
        let state: Option<PgJson> = statement.fetch_one(conn).await.map_err(subscriber_error)?;
        decode(state.map(|PgJson(state)| state))
    }

    /// Keeps the state of `id` in a transaction of the caller's; `None` deletes it.
    pub async fn put_in(&self, conn: &mut PgConnection, id: &str, state: Option<&S>) -> Result<(), HandlerError> {
        // Its transaction moves the checkpoint too, which is fenced.
        self.store(conn, id, encode(state)?.as_ref(), &Conditions::default()).await?;
        Ok(())
    }

    /// The state, and its version; 0: there is none.
    async fn fetch(&self, conn: &mut PgConnection, id: &str) -> Result<(Option<Json>, i64), SubscriberError> {
        let statement = sqlx::query(sql::GET_STATE).bind(self.namespace_id).bind(&self.owner).bind(id);
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
        let statement = sqlx::query_scalar(sql::PUT_STATE)
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
            // Or it was before, by the same event.
            _ => Stored::Yes,
        })
    }

    async fn put_if(&self, id: &str, state: Option<&Json>, conditions: &Conditions) -> Result<Stored, HandlerError> {
        let stored: Result<_, SubscriberError> =
            async { calling!(self.database, conn => self.store(conn, id, state, conditions)) }.await;
        match stored {
            Ok(Stored::Fenced) => {
                Err(HandlerError::not_handled("the subscriber was taken over or removed: its state was not written"))
            }
            // The event may not be in the log that the server has now.
            Err(error) if error.is_other_history() => Err(HandlerError::not_handled(error.to_string())),
            stored => Ok(stored?),
        }
    }
}

/// What must hold for a state to be written.
#[derive(Debug, Default)]
struct Conditions {
    /// It is what was read.
    version: Option<i64>,
    /// The subscriber is this node's.
    delivery: Option<Delivery>,
    /// The event has not changed it before.
    event: Option<u64>,
}

enum Stored {
    Yes,
    /// It was changed since it was read.
    Stale,
    /// The subscriber is not this node's.
    Fenced,
}

fn encode<S: Serialize>(state: Option<&S>) -> Result<Option<Json>, HandlerError> {
    state.map(Json::encode).transpose().map_err(HandlerError::permanent)
}

fn decode<S: DeserializeOwned>(state: Option<Json>) -> Result<Option<S>, HandlerError> {
    state.map(|state| state.decode()).transpose().map_err(HandlerError::permanent)
}

#[async_trait]
impl<S: Serialize + DeserializeOwned + Send + Sync> StateStore<S> for PgStateStore<S> {
    async fn get(&self, id: &str) -> Result<Option<S>, HandlerError> {
        let found: Result<_, SubscriberError> = async { calling!(self.database, conn => self.fetch(conn, id)) }.await;
        decode(found?.0)
    }

    async fn put(&self, id: &str, state: Option<S>) -> Result<(), HandlerError> {
        let state = encode(state.as_ref())?;
        let delivery = delivery_to(self.namespace_id, &self.owner);
        self.put_if(id, state.as_ref(), &Conditions { delivery, ..Conditions::default() }).await?;
        Ok(())
    }

    async fn update(&self, id: &str, event: Option<u64>, change: &StateChange<'_, S>) -> Result<(), HandlerError>
    where
        S: 'async_trait,
    {
        let delivery = delivery_to(self.namespace_id, &self.owner);
        // Notes are deleted by who delivers: nobody else makes any.
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
