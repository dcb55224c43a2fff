use headwater_derive::EventData;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[event(crate = "headwater_core")]
enum AppEvent {
    #[event(type = "order.paid")]
    Paid,
    Noted(String),
}

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[event(crate = "headwater_core")]
#[subset_of(AppEvent)]
enum Subset {
    Paid,
    Noted(String),
}

fn main() {}
