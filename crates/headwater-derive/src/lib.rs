//! Derive macros of Headwater. Users get them from the crate `headwater`.

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

mod attrs;
mod event_data;
mod kebab;
mod subscriber_id;
mod subset_enum;
mod subset_of;

/// Implements `EventData` for an enum (one event type per variant) or a struct (one event type).
///
/// The type must also derive `Clone`, `Debug` and serde's `Serialize` and `Deserialize`. Only the
/// content of the variant is stored, as serde writes it. Field attributes of serde work. Attributes
/// that change the variant's tag are refused, because the event's type is stored beside the data.
///
/// ```
/// # extern crate headwater_core as headwater;
/// # use headwater_derive::EventData;
/// # use serde::{Deserialize, Serialize};
/// #[derive(Debug, Clone, Serialize, Deserialize, EventData)]
/// #[event(schema_version = 2)]                 // of all variants; 1 if not given
/// enum OrderEvent {
///     OrderPlaced { total: u64 },              // event type "OrderPlaced"
///     #[event(type = "order.cancelled", schema_version = 3)]
///     Cancelled,
/// }
/// # fn main() {}
/// ```
///
/// An event of a newer schema version than the declared one is refused when it is decoded.
///
/// On the consumer's side `#[subset_of(AppEvent)]` declares an enum that holds some variants of
/// another enum. It generates `TryFrom<AppEvent>` for the subset, and `From` of the subset for
/// `AppEvent`. Variants and fields must be the same as in the other enum.
///
/// `#[event(crate = "…")]` names another path to Headwater than `::headwater`.
#[proc_macro_derive(EventData, attributes(event, subset_of))]
pub fn derive_event_data(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    event_data::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Generates an enum that holds some of the variants of the annotated enum, on the producer's side.
///
/// ```
/// # extern crate headwater_core as headwater;
/// # use headwater_derive::{EventData, subset_enum};
/// # use serde::{Deserialize, Serialize};
/// #[subset_enum(UserEvent, UserCreated, UserNameUpdated)]
/// #[subset_enum(BillingEvent, OrderPaid)]
/// #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
/// enum AppEvent { UserCreated { name: String }, UserNameUpdated { name: String }, OrderPaid }
/// # fn main() {}
/// ```
///
/// The subset has the enum's visibility, attributes and derives, `From<UserEvent> for AppEvent`,
/// and `TryFrom<AppEvent> for UserEvent`. The compiler hides derives that stand above an attribute.
/// So if the attribute stands below the derive line, the subset derives only what events need
/// (`Clone`, `Debug`, `Serialize`, `Deserialize`, `EventData`), and what you add:
/// `#[subset_enum(UserEvent, UserCreated, derive(PartialEq))]`.
#[proc_macro_attribute]
pub fn subset_enum(args: TokenStream, item: TokenStream) -> TokenStream {
    subset_enum::expand(args.into(), item.into()).into()
}

/// Implements `SubscriberId`. The id is the type's name in kebab case, unless an attribute names
/// another one.
///
/// ```
/// # extern crate headwater_core as headwater;
/// # use headwater_core::SubscriberId as _;
/// # use headwater_derive::SubscriberId;
/// #[derive(SubscriberId)]
/// struct HTTPAccessLog;
///
/// #[derive(SubscriberId)]
/// #[subscriber_id(prefix = "projection")]
/// struct OrderTotals;
///
/// #[derive(SubscriberId)]
/// #[subscriber_id(name = "totals-v2")]
/// struct NewTotals;
///
/// # fn main() {
/// assert_eq!(HTTPAccessLog.subscriber_id(), "http-access-log");
/// assert_eq!(OrderTotals.subscriber_id(), "projection:order-totals");
/// assert_eq!(NewTotals.subscriber_id(), "totals-v2");
/// # }
/// ```
///
/// The id names the subscriber's progress in the database. Set `name` before you rename the type,
/// or the subscriber starts from the beginning. With both `prefix` and `name` the id is
/// `prefix:name`. A generic type has one id, whatever its parameters are.
///
/// `#[subscriber_id(crate = "…")]` names another path to Headwater than `::headwater`.
#[proc_macro_derive(SubscriberId, attributes(subscriber_id))]
pub fn derive_subscriber_id(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    subscriber_id::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
