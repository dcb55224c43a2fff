//! Headers that mean something to Headwater. All other headers are passed on unchanged.

/// The node that emitted an event. Nodes set it and replace any value that the event had.
pub const PRODUCER_NODE_ID: &str = "producer_node_id";
/// The task of the schedule that emitted an event.
pub const SCHEDULED_TASK_ID: &str = "scheduled_task_id";
/// Metadata that is not text, as a JSON object. Headers are text, so numbers and booleans would
/// look like strings there.
pub const METADATA: &str = "metadata";
/// The event is for every node, not only for one of those that handle its type.
pub const BROADCAST: &str = "broadcast";
