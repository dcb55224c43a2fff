use headwater_derive::EventData;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[serde(tag = "type", content = "data")]
enum Adjacent {
    A,
}

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[serde(untagged)]
enum Untagged {
    A,
}

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[serde(rename_all = "snake_case")]
enum Renamed {
    A,
}

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[serde(from = "u8", into = "u8")]
enum Converted {
    A,
}

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
enum Variants {
    #[serde(rename(serialize = "b", deserialize = "c"))]
    A,
    #[serde(alias = "x", skip)]
    B,
    #[serde(other)]
    C,
}

impl From<u8> for Converted {
    fn from(_: u8) -> Self {
        Converted::A
    }
}

impl From<Converted> for u8 {
    fn from(_: Converted) -> Self {
        0
    }
}

fn main() {}
