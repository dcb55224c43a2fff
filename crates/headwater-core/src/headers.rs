//! Headers that mean something to Headwater. Those of others are passed on as they are.

/// The node that emitted an event; nodes put it there, whatever the event had.
pub const PRODUCER_NODE_ID: &str = "producer_node_id";
/// The task of a schedule that emitted an event.
pub const SCHEDULED_TASK_ID: &str = "scheduled_task_id";
/// Metadata that is no text, as a JSON object: headers are text, and its numbers, booleans and the like would not be told from that.
pub const METADATA: &str = "metadata";
/// The event is for every node, not for one of those that handle its type.
pub const BROADCAST: &str = "broadcast";
