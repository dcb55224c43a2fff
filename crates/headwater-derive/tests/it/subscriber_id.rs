//! `#[derive(SubscriberId)]`: ids of types.

use std::marker::PhantomData;

use headwater::SubscriberId as _;
use headwater_derive::SubscriberId;

#[derive(SubscriberId)]
struct OrderTotals;

#[derive(SubscriberId)]
struct HTTPServerLog {
    _path: String,
}

#[derive(SubscriberId)]
#[allow(non_camel_case_types)]
struct r#type;

#[derive(SubscriberId)]
#[subscriber_id(prefix = "projection")]
struct Prefixed(());

#[derive(SubscriberId)]
#[subscriber_id(name = "Totals v2 ☃")]
enum Named {
    One,
}

#[derive(SubscriberId)]
#[subscriber_id(prefix = "projection")]
#[subscriber_id(name = "totals-v2", crate = "headwater_core")]
struct Both;

#[derive(SubscriberId)]
struct Generic<'a, T: ?Sized, const N: usize>
where
    T: ToString,
{
    _text: &'a str,
    _of: PhantomData<T>,
}

#[test]
fn the_id_is_the_name_in_kebab_case() {
    assert_eq!(OrderTotals.subscriber_id(), "order-totals");
    assert_eq!(HTTPServerLog { _path: String::new() }.subscriber_id(), "http-server-log");
    assert_eq!(r#type.subscriber_id(), "type");
}

#[test]
fn attributes_change_it() {
    assert_eq!(Prefixed(()).subscriber_id(), "projection:prefixed");
    assert_eq!(Named::One.subscriber_id(), "Totals v2 ☃");
    assert_eq!(Both.subscriber_id(), "projection:totals-v2");
}

#[test]
fn a_generic_type_has_one_id() {
    assert_eq!(Generic::<u8, 2> { _text: "", _of: PhantomData }.subscriber_id(), "generic");
    // A parameter that threads cannot share makes the type no subscriber, but the type itself
    // compiles.
    _ = Generic::<dyn std::fmt::Display, 3> { _text: "", _of: PhantomData };
}
