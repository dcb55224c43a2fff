//! A batch handler is given one batch at a time.
use headwater::{Delivery, HandlerError, Subscription};

async fn count(_: Vec<Delivery>) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    _ = Subscription::new("stats").batch(count).concurrency(8);
}
