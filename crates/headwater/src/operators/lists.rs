//! What operators list of all namespaces at once. Each list is one statement, or a page of bounded
//! size, however many namespaces there are.

use headwater_core::{
    AdminError, DeadLetter, DeadLetterQuery, NodeInfo, Schedule, ScheduleError, SubscriberError, SubscriberInfo,
};
use headwater_postgres::{GroupSummary, QueueInfo, StoredState};

use super::Admin;

impl Admin {
    /// The subscribers of all namespaces, each with its namespace's name, in one statement for any
    /// number of them.
    pub async fn subscribers(&self) -> Result<Vec<(String, SubscriberInfo)>, SubscriberError> {
        self.headwater.database.subscribers_of_all().await
    }

    /// The nodes of all namespaces.
    pub async fn nodes(&self) -> Result<Vec<NodeInfo>, SubscriberError> {
        self.headwater.database.nodes().await
    }

    /// The queues of a namespace's shared subscribers, or of one.
    pub async fn queues_of(&self, namespace: &str, subscriber_id: Option<&str>) -> Result<Vec<QueueInfo>, AdminError> {
        self.headwater.database.queues(namespace, subscriber_id).await
    }

    /// The queues of shared subscribers of all namespaces.
    pub async fn queues(&self) -> Result<Vec<QueueInfo>, AdminError> {
        self.headwater.database.all_queues().await
    }

    /// The groups of all namespaces.
    pub async fn groups(&self) -> Result<Vec<GroupSummary>, SubscriberError> {
        self.headwater.database.groups_of_all().await
    }

    /// The schedules of all namespaces, each with the name of its namespace.
    pub async fn schedules(&self) -> Result<Vec<(String, Schedule)>, ScheduleError> {
        self.headwater.database.schedules_of_all().await
    }

    /// A page of the dead letters of all namespaces, each with the name of its namespace. The next
    /// page begins after the last one: `after` is its namespace, subscriber and sequence.
    pub async fn dead_letters(
        &self,
        query: &DeadLetterQuery,
        after: Option<(&str, &str, u64)>,
    ) -> Result<Vec<(String, DeadLetter)>, SubscriberError> {
        self.headwater.database.dead_letters_of_all(query, after).await
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
        self.headwater.database.states(namespace, projection, after, limit, None).await
    }

    /// The state of an id, if there is one.
    pub async fn state(
        &self,
        namespace: &str,
        projection: &str,
        id: &str,
    ) -> Result<Option<StoredState>, SubscriberError> {
        Ok(self.headwater.database.states(namespace, projection, None, 1, Some(id)).await?.pop())
    }
}
