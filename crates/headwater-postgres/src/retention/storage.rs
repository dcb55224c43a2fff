//! Moves a namespace to other storage while it is in use, step by step (`headwater.set_storage`).
//!
//! Who has authority: the database. Each step is one statement that commits by itself. The next
//! call, here or in another process, knows where the last one stopped. A move that is cut off
//! leaves a namespace that works: before the switch it has its old storage, after it the new one.
//! The switch needs a moment without appends in flight. It waits for 200 ms, and is tried again for
//! `patience`, with pauses in which appends continue. Then this gives up with
//! [`AdminError::NamespaceHeld`], which names who is in the way.

use std::time::Duration;

use headwater_core::{AdminError, NamespaceInfo, Storage};
use sqlx::{Connection, PgConnection, Row};
use tokio::time::Instant;

use crate::database::error::admin_error;
use crate::database::number::sequence;
use crate::{Database, sql};

/// The pause between two tries of a step that somebody blocks.
const PAUSE: Duration = Duration::from_millis(500);

/// One step of a move to other storage.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StorageStep {
    /// What was done: `begun`, `copied`, `switched`, `moved`, `dropped`, `undone`, or `done` at the
    /// end.
    pub step: String,
    /// How many events were copied.
    pub events: u64,
    /// About how many sequences are left to copy before the switch.
    pub behind: u64,
}

impl Database {
    /// Moves a namespace to its own tables, or to the months that namespaces share, while it is in
    /// use. Calls `on_step` after each step. Returns when all its events are in the new place. Only
    /// the owner of the tables can do this. If somebody is in the way for longer than `patience`,
    /// the error is [`AdminError::NamespaceHeld`]: a second call continues where this one stopped.
    pub async fn set_storage(
        &self,
        name: &str,
        storage: Storage,
        patience: Duration,
        mut on_step: impl FnMut(&StorageStep),
    ) -> Result<NamespaceInfo, AdminError> {
        self.require_migrated().await?;
        let mut conn = self.session().await.map_err(admin_error)?;
        let mut waiting_since = None;
        loop {
            let done = match take_step(&mut conn, name, storage).await {
                Ok(done) => done,
                Err(error) if matches!(error, AdminError::NamespaceHeld(_)) || error.is_retryable() => {
                    if waiting_since.get_or_insert_with(Instant::now).elapsed() >= patience {
                        return Err(error);
                    }
                    tokio::time::sleep(PAUSE).await;
                    if !matches!(error, AdminError::NamespaceHeld(_)) && conn.ping().await.is_err() {
                        conn = self.session().await.map_err(admin_error)?;
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            waiting_since = None;
            on_step(&done);
            if done.step == "done" {
                _ = conn.close().await;
                return self.namespace(name).await;
            }
        }
    }
}

async fn take_step(conn: &mut PgConnection, name: &str, storage: Storage) -> Result<StorageStep, AdminError> {
    let statement = sqlx::query(sql::retention::SET_STORAGE).bind(name).bind(storage.as_str());
    let row = statement.fetch_one(conn).await.map_err(admin_error)?;
    Ok(StorageStep {
        step: row.get("step"),
        events: sequence(&row, "events").map_err(admin_error)?,
        behind: sequence(&row, "behind").map_err(admin_error)?,
    })
}
