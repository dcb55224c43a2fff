use headwater_derive::EventData;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
#[event(crate = "headwater_core")]
enum AppEvent {
    Placed {
        id: u64,
        total: u64,
    },
    #[event(type = "order.paid")]
    Paid,
    Noted(String),
}

mod missing_variant {
    use super::*;
    #[derive(Debug, Clone, Serialize, Deserialize, EventData)]
    #[event(crate = "headwater_core")]
    #[subset_of(AppEvent)]
    enum Subset {
        Lost,
    }
}

mod missing_field {
    use super::*;
    #[derive(Debug, Clone, Serialize, Deserialize, EventData)]
    #[event(crate = "headwater_core")]
    #[subset_of(AppEvent)]
    enum Subset {
        Placed { id: u64 },
    }
}

mod other_field {
    use super::*;
    #[derive(Debug, Clone, Serialize, Deserialize, EventData)]
    #[event(crate = "headwater_core")]
    #[subset_of(AppEvent)]
    enum Subset {
        Placed { id: u64, total: u64, extra: u64 },
    }
}

mod other_type {
    use super::*;
    #[derive(Debug, Clone, Serialize, Deserialize, EventData)]
    #[event(crate = "headwater_core")]
    #[subset_of(AppEvent)]
    enum Subset {
        Noted(u64),
    }
}

mod malformed {
    use super::*;
    #[derive(Debug, Clone, Serialize, Deserialize, EventData)]
    #[event(crate = "headwater_core")]
    #[subset_of(A, B)]
    enum Two {
        Paid,
    }

    #[derive(Debug, Clone, Serialize, Deserialize, EventData)]
    #[event(crate = "headwater_core")]
    #[subset_of(Itself)]
    enum Itself {
        Paid,
    }

    #[derive(Debug, Clone, Serialize, Deserialize, EventData)]
    #[event(crate = "headwater_core")]
    #[subset_of(AppEvent)]
    struct NoEnum;
}

fn main() {}
