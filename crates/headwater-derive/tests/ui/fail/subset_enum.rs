use headwater_derive::{EventData, subset_enum};
use serde::{Deserialize, Serialize};

#[subset_enum(Unknown, A, Q)]
#[subset_enum(Twice, A, B, A)]
#[subset_enum(Empty)]
#[subset_enum(AppEvent, A)]
#[subset_enum()]
#[subset_enum("Text", A)]
#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[event(crate = "headwater_core")]
enum AppEvent {
    A,
    B,
}

#[subset_enum(Part, A)]
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Generic<T> {
    A(T),
}

#[subset_enum(Part, A)]
#[derive(Debug, Clone, Serialize, Deserialize)]
struct NoEnum;

fn main() {}
