//! States of projections and sagas in PostgreSQL.

use std::fmt;
use std::marker::PhantomData;

use async_trait::async_trait;
use headwater_core::{HandlerError, Json, NamespaceInfo, StateStore, SubscriberError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;

use crate::error::subscriber_error;
use crate::row::PgJson;
use crate::subscribers::call::calling;
use crate::{Database, sql};

/// The states of one projection or saga, as JSON, one row an id. They go when their subscriber is removed.
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
        PgStateStore { database, namespace_id: info.id.into(), owner: owner.into(), state: PhantomData }
    }

    /// The state of `id` in a transaction of the caller's, which keeps it until it ends.
    pub async fn get_in(&self, conn: &mut PgConnection, id: &str) -> Result<Option<S>, HandlerError> {
        decode(self.fetch(conn, sql::GET_STATE_FOR_UPDATE, id).await?)
    }

    /// Keeps the state of `id` in a transaction of the caller's; `None` deletes it.
    pub async fn put_in(&self, conn: &mut PgConnection, id: &str, state: Option<&S>) -> Result<(), HandlerError> {
        Ok(self.store(conn, id, encode(state)?.as_ref()).await?)
    }

    async fn fetch(
        &self,
        conn: &mut PgConnection,
        text: &'static str,
        id: &str,
    ) -> Result<Option<Json>, SubscriberError> {
        let statement = sqlx::query_scalar(text).bind(self.namespace_id).bind(&self.owner).bind(id);
        let state: Option<PgJson> = statement.fetch_optional(conn).await.map_err(subscriber_error)?;
        Ok(state.map(|PgJson(state)| state))
    }

    async fn store(&self, conn: &mut PgConnection, id: &str, state: Option<&Json>) -> Result<(), SubscriberError> {
        let statement = match state {
            Some(_) => sqlx::query(sql::PUT_STATE),
            None => sqlx::query(sql::DELETE_STATE),
        };
        let mut statement = statement.bind(self.namespace_id).bind(&self.owner).bind(id);
        if let Some(state) = state {
            statement = statement.bind(PgJson(state.clone()));
        }
        statement.execute(conn).await.map(drop).map_err(subscriber_error)
    }
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
        let found: Result<_, SubscriberError> =
            async { calling!(self.database, conn => self.fetch(conn, sql::GET_STATE, id)) }.await;
        decode(found?)
    }

    async fn put(&self, id: &str, state: Option<S>) -> Result<(), HandlerError> {
        let state = encode(state.as_ref())?;
        let stored: Result<_, SubscriberError> =
            async { calling!(self.database, conn => self.store(conn, id, state.as_ref())) }.await;
        Ok(stored?)
    }
}
