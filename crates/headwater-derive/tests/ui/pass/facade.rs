use headwater_derive::EventData;
use serde::{Deserialize, Serialize};

// Users depend on the facade alone, and it is enough.
extern crate headwater_core as headwater;

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[event(schema_version = 2)]
#[serde(rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum OrderEvent {
    OrderPlaced {
        total_cents: u64,
    },
    #[event(type = "order.cancelled")]
    #[serde(alias = "Revoked")]
    Cancelled,
}

fn main() {
    use headwater::EventData as _;
    assert_eq!(OrderEvent::EVENT_TYPES, ["OrderPlaced", "order.cancelled"]);
}
