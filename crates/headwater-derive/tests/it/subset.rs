//! Subsets of an enum, declared by its producer (`subset_enum`) and by a consumer (`subset_of`).

use headwater_core::{Event, EventData as _, NotInSubset};
use headwater_derive::{EventData, subset_enum};
use serde::{Deserialize, Serialize};

/// Events of the whole application.
#[subset_enum(UserEvent, UserRenamed, UserCreated)]
#[subset_enum(AllEvent, UserCreated, UserRenamed, OrderPaid, Stopped)]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, EventData)]
#[event(crate = "headwater_core", schema_version = 2)]
pub(crate) enum AppEvent {
    /// Somebody came.
    #[event(type = "user.created", schema_version = 3)]
    UserCreated {
        /// Who.
        #[serde(rename = "n")]
        name: String,
    },
    /// Somebody took another name.
    UserRenamed(String, Option<String>),
    /// Somebody paid.
    OrderPaid {
        /// How much.
        total: u64,
    },
    /// Nothing more will come.
    #[default]
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
#[subset_enum(PartOfBelow, B, derive(PartialEq))]
#[subset_enum(OtherPartOfBelow, A)]
#[event(crate = "headwater_core")]
enum Below {
    A,
    B {
        #[serde(rename = "y")]
        x: u8,
    },
}

mod split {
    use super::*;

    #[derive(Debug, Clone)]
    #[subset_enum(Part, A)]
    #[derive(Serialize, Deserialize, EventData)]
    #[event(crate = "headwater_core")]
    pub(crate) enum Whole {
        A,
        #[cfg(any())]
        B(NoSuchType),
    }
}

mod billing {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
    #[event(crate = "headwater_core")]
    #[subset_of(super::AppEvent)]
    pub(crate) enum BillingEvent {
        Stopped,
        OrderPaid {
            total: u64,
        },
        #[event(type = "user.created")]
        UserCreated {
            name: String,
        },
        UserRenamed(String, Option<String>),
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
    #[event(crate = "headwater_core")]
    #[subset_of(super::AppEvent)]
    #[subset_of(BillingEvent)]
    pub(crate) enum PaidEvent {
        OrderPaid { total: u64 },
    }
}

use billing::{BillingEvent, PaidEvent};

fn every_event() -> [AppEvent; 4] {
    [
        AppEvent::UserCreated { name: "Ada".into() },
        AppEvent::UserRenamed("Ada".into(), None),
        AppEvent::OrderPaid { total: 5 },
        AppEvent::Stopped,
    ]
}

#[test]
fn a_subset_is_event_data_of_the_same_names_and_versions() {
    assert_eq!(UserEvent::EVENT_TYPES, ["user.created", "UserRenamed"]);
    let event = UserEvent::UserCreated { name: "Ada".into() };
    assert_eq!((event.event_type(), event.schema_version()), ("user.created", 3));
    assert_eq!(event.encode().unwrap().as_str(), r#"{"n":"Ada"}"#);
    assert_eq!(UserEvent::UserRenamed("a".into(), None).schema_version(), 2);
}

#[test]
fn a_subset_takes_its_events_and_gives_them_back() {
    for event in every_event() {
        match UserEvent::try_from(event.clone()) {
            Ok(user) => assert_eq!(AppEvent::from(user), event),
            Err(NotInSubset { event_type, subset }) => {
                assert_eq!(subset, "UserEvent");
                assert!(["OrderPaid", "Stopped"].contains(&event_type.as_str()));
            }
        }
        assert_eq!(AppEvent::from(AllEvent::try_from(event.clone()).unwrap()), event);
        assert_eq!(AppEvent::from(BillingEvent::try_from(event.clone()).unwrap()), event);
    }
    assert_eq!(AllEvent::default(), AllEvent::Stopped);
}

#[test]
fn a_consumer_may_be_a_subset_of_several() {
    let paid = PaidEvent::OrderPaid { total: 5 };
    assert_eq!(AppEvent::from(paid.clone()), AppEvent::OrderPaid { total: 5 });
    assert_eq!(PaidEvent::try_from(BillingEvent::from(paid.clone())).unwrap(), paid);
    let error = PaidEvent::try_from(AppEvent::Stopped).unwrap_err();
    assert_eq!(error, NotInSubset { event_type: "Stopped".into(), subset: "PaidEvent" });
}

#[test]
fn works_below_the_derive_line() {
    let event = Event::from(Below::B { x: 1 });
    let part = event.to_subset_event::<PartOfBelow>().unwrap();
    assert_eq!(part.data, Some(PartOfBelow::B { x: 1 }));
    assert_eq!(part.clone().encode().unwrap().data_text(), r#"{"y":1}"#);
    assert_eq!(part.to_superset_event::<Below>(), event);
    assert!(event.to_subset_event::<OtherPartOfBelow>().is_err());
}

#[test]
fn works_between_two_derive_lines_and_with_variants_configured_out() {
    let part = split::Part::try_from(split::Whole::A).unwrap();
    assert_eq!(format!("{:?}", split::Whole::from(part.clone())), format!("{part:?}"));
}
