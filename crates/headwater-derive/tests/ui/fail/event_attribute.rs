use headwater_derive::EventData;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[event(crate = "headwater_core", type = "a")]
enum TypeOnEnum {
    A,
}

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[event(crate = "headwater_core")]
enum OnVariants {
    #[event(name = "a")]
    Unknown,
    #[event(type = "")]
    Empty,
    #[event(type = "a\nb")]
    Control,
    #[event(
        type = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    )]
    Long,
    #[event(schema_version = 0)]
    Zero,
    #[event(schema_version = "2")]
    NoNumber,
    #[event(type = "a", type = "b")]
    Twice,
    #[event(crate = "headwater_core")]
    Crate,
    #[event(type)]
    NoValue,
}

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[event(colour = "red")]
struct UnknownOnStruct;

fn main() {}
