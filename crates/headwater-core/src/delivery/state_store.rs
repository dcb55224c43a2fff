//! Where projections and sagas keep their states.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, Mutex, MutexGuard};

use async_trait::async_trait;
use futures::lock::Mutex as AsyncMutex;

use super::{HandlerError, StateError};

/// How a state changes. It gets the state before (`None`: there is none) and returns the state
/// after (`None`: delete it).
pub type StateChange<'c, S> = dyn Fn(Option<S>) -> Result<Option<S>, HandlerError> + Send + Sync + 'c;

/// Keeps one state per id.
#[async_trait]
pub trait StateStore<S>: Send + Sync {
    /// The state of `id`, if there is one.
    async fn get(&self, id: &str) -> Result<Option<S>, StateError>;

    /// Keeps the state of `id`; `None` deletes it.
    async fn put(&self, id: &str, state: Option<S>) -> Result<(), StateError>;

    /// Reads the state of `id`, changes it and keeps it, as one step: if several changes come at
    /// the same time, none is lost. If another change comes first, `change` is called again with
    /// the newer state.
    ///
    /// `event` is the sequence of the event that changes the state. A store that outlives the
    /// process notes it, so that an event that comes again after a crash changes nothing.
    ///
    /// The default calls `get`, then `put`, one change at a time in this process, and does not note
    /// `event`. Implement it yourself if several processes write to the same states: lock the
    /// state, or compare it when you write.
    async fn update(&self, id: &str, event: Option<u64>, change: &StateChange<'_, S>) -> Result<(), StateError>
    where
        S: Send + 'async_trait,
    {
        _ = event;
        let _alone = change_lock(id).lock().await;
        let state = self.get(id).await?;
        self.put(id, change(state)?).await
    }
}

/// Serialises the changes of one id. Different ids rarely share a lock; if they do, they wait for
/// each other.
fn change_lock(id: &str) -> &'static AsyncMutex<()> {
    static LOCKS: LazyLock<Vec<AsyncMutex<()>>> = LazyLock::new(|| (0..256).map(|_| AsyncMutex::new(())).collect());
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    &LOCKS[hasher.finish() as usize % LOCKS.len()]
}

/// States in memory: for tests, and for states that are cheap to build again from the log at every
/// start.
#[derive(Debug)]
pub struct MemoryStateStore<S> {
    states: Mutex<Versions<S>>,
}

#[derive(Debug)]
struct Versions<S> {
    /// The states, each with the number of the write that made it.
    states: HashMap<String, (u64, S)>,
    writes: u64,
}

impl<S> Versions<S> {
    fn put(&mut self, id: &str, state: Option<S>) {
        self.writes += 1;
        match state {
            Some(state) => self.states.insert(id.to_owned(), (self.writes, state)),
            None => self.states.remove(id),
        };
    }
}

impl<S> Default for MemoryStateStore<S> {
    fn default() -> Self {
        MemoryStateStore { states: Mutex::new(Versions { states: HashMap::new(), writes: 0 }) }
    }
}

impl<S: Clone> MemoryStateStore<S> {
    /// An empty store.
    pub fn new() -> Self {
        MemoryStateStore::default()
    }

    /// All states, by id.
    pub fn states(&self) -> HashMap<String, S> {
        self.lock().states.iter().map(|(id, (_, state))| (id.clone(), state.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Versions<S>> {
        self.states.lock().expect("no holder of this lock panics")
    }
}

#[async_trait]
impl<S: Clone + Send + Sync> StateStore<S> for MemoryStateStore<S> {
    async fn get(&self, id: &str) -> Result<Option<S>, StateError> {
        Ok(self.lock().states.get(id).map(|(_, state)| state.clone()))
    }

    async fn put(&self, id: &str, state: Option<S>) -> Result<(), StateError> {
        self.lock().put(id, state);
        Ok(())
    }

    async fn update(&self, id: &str, _event: Option<u64>, change: &StateChange<'_, S>) -> Result<(), StateError>
    where
        S: 'async_trait,
    {
        loop {
            let (version, state) = self.lock().states.get(id).cloned().unzip();
            // Not under the lock: `change` is the application's code and may panic.
            let state = change(state)?;
            let mut present = self.lock();
            if present.states.get(id).map(|(version, _)| *version) == version {
                present.put(id, state);
                return Ok(());
            }
        }
    }
}
