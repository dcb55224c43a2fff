//! A transaction that is lent to handlers, and must come back.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::HandlerError;
use sqlx::{PgConnection, Postgres, Transaction};

type Owned = Transaction<'static, Postgres>;

/// A handler that ended its transaction by itself has failed: what others did in it may be gone, and what follows is not in it.
pub(super) fn ended() -> HandlerError {
    HandlerError::message(
        "the handler ended its transaction: leave COMMIT and ROLLBACK to the node, and use savepoints",
    )
}

/// The transaction in which an event is handled, while no handler has it as its own.
pub(super) struct Lent {
    tx: Option<Owned>,
    /// Of the event that it is lent for.
    pub(super) redelivery_count: u32,
}

impl Lent {
    pub(super) fn new(tx: Owned) -> Self {
        Lent { tx: Some(tx), redelivery_count: 0 }
    }

    /// `None`: a handler kept it, or was ended in the middle. Then it is rolled back.
    pub(super) fn into_inner(self) -> Option<Owned> {
        self.tx
    }

    /// Gives it to a handler, and takes it back when that is done.
    pub(super) async fn lend<F>(&mut self, handling: impl FnOnce(HandlerTransaction) -> F) -> Result<(), HandlerError>
    where
        F: Future<Output = Result<(), HandlerError>>,
    {
        let home = Arc::new(Mutex::new(None));
        let outcome = handling(HandlerTransaction { tx: self.tx.take(), home: home.clone() }).await;
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

impl Deref for Lent {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.tx.as_ref().expect("handlers that kept it have failed")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.tx.as_mut().expect("handlers that kept it have failed")
    }
}

/// The transaction of an event: what handlers do in it commits together with the acknowledgement, or not at all. Use it as a connection:
/// `sqlx::query(…).execute(&mut *tx)`. It commits after the last handler of the event, so it must not be kept beyond the handler's end, nor be
/// committed or rolled back by it: savepoints, as by `tx.begin()`, are the handler's own.
pub struct HandlerTransaction {
    tx: Option<Owned>,
    home: Arc<Mutex<Option<Owned>>>,
}

impl Deref for HandlerTransaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.tx.as_ref().expect("it is there until the drop")
    }
}

impl DerefMut for HandlerTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.tx.as_mut().expect("it is there until the drop")
    }
}

impl Drop for HandlerTransaction {
    fn drop(&mut self) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = self.tx.take();
    }
}

impl std::fmt::Debug for HandlerTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandlerTransaction").finish_non_exhaustive()
    }
}
