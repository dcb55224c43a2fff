use headwater_derive::EventData;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[event(crate = "headwater_core")]
enum Twice {
    Placed,
    #[event(type = "paid")]
    Paid,
    #[event(type = "Placed")]
    Ordered,
    #[event(type = "paid")]
    Settled,
}

fn main() {}
