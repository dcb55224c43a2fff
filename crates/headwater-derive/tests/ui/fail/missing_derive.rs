use headwater_derive::EventData;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize, EventData)]
#[event(crate = "headwater_core")]
struct WithoutClone;

fn main() {}
