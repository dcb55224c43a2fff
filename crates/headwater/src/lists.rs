//! What operators list of all namespaces at once. Each list is one statement, or a page of bounded
//! size, however many namespaces there are.

use headwater_core::{AdminError, DeadLetter, DeadLetterQuery, Schedule, ScheduleError, SubscriberError};
use headwater_postgres::{GroupSummary, QueueInfo, StoredState};

use crate::Headwater;

impl Headwater {
    /// The queues of shared subscribers of all namespaces.
    pub async fn queues_of_all(&self) -> Result<Vec<QueueInfo>, AdminError> {
        self.database.all_queues().await
    }

    /// The groups of all namespaces.
    pub async fn groups_of_all(&self) -> Result<Vec<GroupSummary>, SubscriberError> {
        self.database.groups_of_all().await
    }

    /// The schedules of all namespaces, each with the name of its namespace.
    pub async fn schedules_of_all(&self) -> Result<Vec<(String, Schedule)>, ScheduleError> {
        self.database.schedules_of_all().await
    }

    /// A page of the dead letters of all namespaces, each with the name of its namespace. The next
    /// page begins after the last one: `after` is its
    /// namespace, subscriber and sequence.
    pub async fn dead_letters_of_all(
        &self,
        query: &DeadLetterQuery,
        after: Option<(&str, &str, u64)>,
    ) -> Result<Vec<(String, DeadLetter)>, SubscriberError> {
        self.database.dead_letters_of_all(query, after).await
    }

    /// Returns up to `limit` states of a projection or saga, as JSON, in the order of their ids,
    /// after the id `after`.
    pub async fn states(
        &self,
        namespace: &str,
        projection: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<StoredState>, SubscriberError> {
        self.database.states(namespace, projection, after, limit, None).await
    }

    /// The state of an id, if there is one.
    pub async fn state(
        &self,
        namespace: &str,
        projection: &str,
        id: &str,
    ) -> Result<Option<StoredState>, SubscriberError> {
        Ok(self.database.states(namespace, projection, None, 1, Some(id)).await?.pop())
    }
}
