//! Visibility, prefetch and priority are about claims, and a subscription has none.
use std::time::Duration;

use headwater::Subscription;

fn main() {
    _ = Subscription::new("search").visibility(Duration::from_secs(60));
    _ = Subscription::new("search").prefetch(10);
    _ = Subscription::new("search").priority(["urgent"]);
}
