//! A closure has no subscriber id.
use headwater::{Delivery, Subscription};

fn main() {
    _ = Subscription::of(|_: Delivery| async { Ok(()) });
}
