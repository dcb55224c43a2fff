//! Where projections and sagas keep their states.

use std::collections::HashMap;
use std::sync::Mutex;

use async_trait::async_trait;

use super::HandlerError;

/// Keeps one state an id.
#[async_trait]
pub trait StateStore<S>: Send + Sync {
    /// The state of `id`, if there is one.
    async fn get(&self, id: &str) -> Result<Option<S>, HandlerError>;

    /// Keeps the state of `id`; `None` deletes it.
    async fn put(&self, id: &str, state: Option<S>) -> Result<(), HandlerError>;
}

/// States in memory: for tests, and for what is cheap to build again from the log at every start.
#[derive(Debug)]
pub struct MemoryStateStore<S> {
    states: Mutex<HashMap<String, S>>,
}

impl<S> Default for MemoryStateStore<S> {
    fn default() -> Self {
        MemoryStateStore { states: Mutex::default() }
    }
}

impl<S: Clone> MemoryStateStore<S> {
    /// An empty store.
    pub fn new() -> Self {
        MemoryStateStore::default()
    }

    /// All states, by id.
    pub fn states(&self) -> HashMap<String, S> {
        self.states.lock().expect("no holder of this lock panics").clone()
    }
}

#[async_trait]
impl<S: Clone + Send + Sync> StateStore<S> for MemoryStateStore<S> {
    async fn get(&self, id: &str) -> Result<Option<S>, HandlerError> {
        Ok(self.states.lock().expect("no holder of this lock panics").get(id).cloned())
    }

    async fn put(&self, id: &str, state: Option<S>) -> Result<(), HandlerError> {
        let mut states = self.states.lock().expect("no holder of this lock panics");
        match state {
            Some(state) => states.insert(id.to_owned(), state),
            None => states.remove(id),
        };
        Ok(())
    }
}
