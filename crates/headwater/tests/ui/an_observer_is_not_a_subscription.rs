//! An observer becomes a subscription by `Subscription::of`.
use headwater::{Delivery, EventObserver, HandlerError, Namespace};

struct Audit;

impl EventObserver for Audit {
    fn subscriber_id(&self) -> &str {
        "audit"
    }

    async fn on_event(&self, _: Delivery) -> Result<(), HandlerError> {
        Ok(())
    }
}

fn node(shop: Namespace) {
    _ = shop.node("one").run(Audit);
}

fn main() {}
