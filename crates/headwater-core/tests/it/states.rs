//! Changes of states, when several come at the same time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::FutureExt;
use futures::executor::block_on;
use futures::future::join;
use headwater_core::{HandlerError, MemoryStateStore, StateError, StateStore};

/// A user's store that does not implement `update`, and lets other tasks run during each call.
#[derive(Default)]
struct Plain(Mutex<Option<u32>>);

async fn let_others_in() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[async_trait]
impl StateStore<u32> for Plain {
    async fn get(&self, _: &str) -> Result<Option<u32>, StateError> {
        let state = *self.0.lock().unwrap();
        let_others_in().await;
        Ok(state)
    }

    async fn put(&self, _: &str, state: Option<u32>) -> Result<(), StateError> {
        let_others_in().await;
        *self.0.lock().unwrap() = state;
        Ok(())
    }
}

fn add(count: u32) -> impl Fn(Option<u32>) -> Result<Option<u32>, HandlerError> + Send + Sync {
    move |state| Ok(Some(state.unwrap_or_default() + count))
}

#[test]
fn changes_of_a_store_without_update_are_made_one_after_the_other() {
    let store = Plain::default();
    let (one, ten) = (add(1), add(10));
    let both = join(store.update("a", None, &one), store.update("a", None, &ten));
    let (first, second) = block_on(both);
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(*store.0.lock().unwrap(), Some(11));
}

#[test]
fn a_change_in_memory_is_made_again_if_another_came_first() {
    let store = MemoryStateStore::new();
    let raced = AtomicBool::new(false);
    let change = |state: Option<u32>| {
        if !raced.swap(true, Ordering::Relaxed) {
            store.put("a", Some(10)).now_or_never().expect("it does not wait")?;
        }
        add(1)(state)
    };
    block_on(store.update("a", None, &change)).unwrap();
    assert_eq!(store.states(), [("a".to_owned(), 11)].into());
}
