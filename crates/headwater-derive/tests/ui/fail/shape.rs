use headwater_derive::EventData;
use serde::{Deserialize, Serialize};

#[derive(EventData)]
union Bits {
    a: u32,
    b: f32,
}

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
enum Nothing {}

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
enum Generic<T> {
    A(T),
}

#[derive(Debug, Clone, Serialize, EventData)]
struct Borrowed<'a> {
    text: &'a str,
}

fn main() {}
