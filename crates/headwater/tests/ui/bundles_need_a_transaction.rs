//! Bundles are transactions: a handler without one has no use for them.
use headwater::{Bundle, Delivery, HandlerError, Subscription};

async fn index(_: Delivery) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    _ = Subscription::new("search").bundled_by(Bundle::Key).each(index);
}
