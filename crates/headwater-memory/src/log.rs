//! The log as users hold it: checks and a lock around the model.

use std::sync::{Arc, RwLock, RwLockReadGuard};

use async_trait::async_trait;
use chrono::{SubsecRound, TimeZone, Utc};
use headwater_core::{
    AdminError, Append, AppendError, Appended, DEFAULT_MAX_PAYLOAD_BYTES, Event, EventLog, Gaps, History, Horizon,
    Json, LogPage, LogQuery, LookAhead, NamespaceConfig, ReadError, RecordedEvent, StreamQuery,
};
use uuid::Uuid;

use crate::state::State;

/// The log of one namespace in memory. Clones share it.
#[derive(Debug, Clone)]
pub struct MemoryLog {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    namespace: String,
    max_payload_bytes: usize,
    state: RwLock<State>,
}

impl MemoryLog {
    /// An empty log with default settings.
    ///
    /// # Panics
    ///
    /// If the name breaks the rules for namespaces. [`with_config`](MemoryLog::with_config) returns
    /// an error instead.
    pub fn new(namespace: impl Into<String>) -> Self {
        MemoryLog::with_config(NamespaceConfig::new(namespace)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// An empty log.
    pub fn with_config(config: NamespaceConfig) -> Result<Self, AdminError> {
        config.validate()?;
        let inner = Inner {
            namespace: config.name,
            max_payload_bytes: config.max_payload_bytes.unwrap_or(DEFAULT_MAX_PAYLOAD_BYTES) as usize,
            state: RwLock::default(),
        };
        Ok(MemoryLog { inner: Arc::new(inner) })
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.inner.state.read().expect("the model does not panic")
    }
}

/// Refuses events that only PostgreSQL refuses: a test that passes here should not fail there.
fn storable(event: &Event) -> Result<(), AppendError> {
    let first_day = Utc.with_ymd_and_hms(-4713, 11, 24, 0, 0, 0).single();
    if first_day.is_some_and(|first_day| event.created_at < first_day) {
        return Err(AppendError::InvalidInput(format!(
            "invalid created_at {}: PostgreSQL's time begins in 4714 BC",
            event.created_at
        )));
    }
    Ok(event.data.as_ref().map(Json::validate).transpose().map(drop)?)
}

#[async_trait]
impl EventLog for MemoryLog {
    fn namespace(&self) -> &str {
        &self.inner.namespace
    }

    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        append.validate(self.inner.max_payload_bytes)?;
        append.events().iter().try_for_each(storable)?;
        // Read the clock under the lock, so that recorded_at follows the log's order.
        let mut state = self.inner.state.write().expect("the model does not panic");
        state.append(&append, Utc::now().trunc_subsecs(6))
    }

    async fn stream_page(&self, query: &StreamQuery) -> Result<Vec<RecordedEvent>, ReadError> {
        query.validate()?;
        Ok(self.state().stream_page(query))
    }

    async fn log_page(&self, query: &LogQuery) -> Result<LogPage, ReadError> {
        query.validate()?;
        Ok(self.state().log_page(query))
    }

    async fn event(&self, id: Uuid) -> Result<Option<RecordedEvent>, ReadError> {
        Ok(self.state().event(id).cloned())
    }

    async fn correlated(&self, correlation_id: Uuid, after: u64, limit: u32) -> Result<Vec<RecordedEvent>, ReadError> {
        Ok(self.state().correlated(correlation_id, after, limit))
    }

    async fn causation_chain(&self, id: Uuid, limit: u32) -> Result<Vec<RecordedEvent>, ReadError> {
        Ok(self.state().causation_chain(id, limit))
    }

    async fn horizon(&self) -> Result<Horizon, ReadError> {
        let head = self.state().head();
        Ok(Horizon { horizon: head, head, writers: Vec::new() })
    }

    /// The log in memory has one history.
    fn under(&self, _: History) -> Arc<dyn EventLog> {
        Arc::new(self.clone())
    }

    async fn look_ahead(&self, after: u64, gaps: &Gaps, limit: u32) -> Result<LookAhead, ReadError> {
        let query = LogQuery::after(after).page_size(limit);
        query.validate()?;
        let state = self.state();
        let LogPage { events, cursor, more, .. } = state.log_page(&query);
        Ok(LookAhead {
            events,
            filled: state.within(gaps),
            seen: cursor,
            settled: cursor,
            more,
            ..LookAhead::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_is_checked() {
        for name in ["", "Orders", "1st", "a b", &"a".repeat(49)] {
            let refused = MemoryLog::with_config(NamespaceConfig::new(name));
            assert!(matches!(refused, Err(AdminError::InvalidInput(_))), "{name:?}");
        }
        assert!(MemoryLog::with_config(NamespaceConfig::new("orders").max_payload_bytes(0)).is_err());
        assert!(MemoryLog::with_config(NamespaceConfig::new("a".repeat(48))).is_ok());
    }

    #[tokio::test]
    async fn everything_is_settled() {
        let log = MemoryLog::new("orders");
        for _ in 0..5 {
            log.append(Event::raw("E", serde_json::json!({})).into()).await.unwrap();
        }
        let sequences =
            |events: &[RecordedEvent]| events.iter().map(|event| event.sequence().get()).collect::<Vec<_>>();
        let gaps = Gaps::from_iter([(1, 1), (3, 3), (9, 9)]);
        let look = log.look_ahead(3, &gaps, 1).await.unwrap();
        assert_eq!((sequences(&look.events), sequences(&look.filled)), (vec![4], vec![1, 3]));
        assert_eq!((look.seen, look.settled), (4, 4));
        let look = log.look_ahead(5, &Gaps::new(), 10).await.unwrap();
        assert_eq!((look.events.len(), look.seen, look.settled), (0, 5, 5));
    }

    #[tokio::test]
    async fn clones_share_the_log() {
        let log = MemoryLog::new("orders");
        let placed = Event::raw("OrderPlaced", serde_json::json!({}));
        let id = placed.id;
        log.clone().append(placed.into()).await.unwrap();
        assert!(log.event(id).await.unwrap().is_some());
    }
}
