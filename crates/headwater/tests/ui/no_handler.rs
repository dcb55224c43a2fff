//! A subscription is complete when it has a handler.
use headwater::{Namespace, Queue, Subscription};

fn nodes(shop: Namespace) {
    _ = shop.node("one").run(Subscription::new("search").partitions(16));
    _ = shop.node("two").run(Queue::new("thumbnails").workers(8));
}

fn main() {}
