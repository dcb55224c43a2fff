//! A transaction that is lent to handlers and must come back.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::HandlerError;
use sqlx::{PgConnection, Postgres};

type Owned = sqlx::Transaction<'static, Postgres>;

/// The error of a handler that ended its transaction by itself: the work of other handlers in it
/// may be gone, and later statements are not part of it.
pub(in crate::node) fn ended() -> HandlerError {
    HandlerError::message(
        "the handler ended its transaction: leave COMMIT and ROLLBACK to the node, and use savepoints",
    )
}

/// The transaction in which an event is handled, while no handler holds it.
pub(in crate::node) struct OpenTransaction {
    tx: Option<Owned>,
}

impl OpenTransaction {
    pub(in crate::node) fn new(tx: Owned) -> Self {
        OpenTransaction { tx: Some(tx) }
    }

    /// Returns the transaction. `None`: a handler kept it or was stopped in the middle, and it is
    /// rolled back.
    pub(in crate::node) fn into_inner(self) -> Option<Owned> {
        self.tx
    }

    /// Lends the transaction to a handler, and takes it back when the handler is done.
    pub(in crate::node) async fn lend<F>(&mut self, handling: impl FnOnce(Transaction) -> F) -> Result<(), HandlerError>
    where
        F: Future<Output = Result<(), HandlerError>>,
    {
        let home = Arc::new(Mutex::new(None));
        let outcome = handling(Transaction { tx: self.tx.take(), home: home.clone() }).await;
        self.tx = home.lock().unwrap_or_else(PoisonError::into_inner).take();
        outcome?;
        match &self.tx {
            Some(_) => Ok(()),
            None => {
                Err(HandlerError::message("the handler kept its transaction: end what it started before it returns"))
            }
        }
    }
}

impl Deref for OpenTransaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.tx.as_ref().expect("handlers that kept it have failed")
    }
}

impl DerefMut for OpenTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.tx.as_mut().expect("handlers that kept it have failed")
    }
}

/// The transaction of an event. Everything that handlers do in it commits together with the
/// acknowledgement, or not at all. Use it as a connection: `sqlx::query(…).execute(&mut *tx)`. It
/// commits after the last handler of the event. So a handler must not keep it beyond its own end,
/// and must not commit it or roll it back. Savepoints, such as those of `tx.begin()`, are up to the
/// handler.
pub struct Transaction {
    tx: Option<Owned>,
    home: Arc<Mutex<Option<Owned>>>,
}

impl Deref for Transaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.tx.as_ref().expect("it is there until the drop")
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.tx.as_mut().expect("it is there until the drop")
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = self.tx.take();
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}
