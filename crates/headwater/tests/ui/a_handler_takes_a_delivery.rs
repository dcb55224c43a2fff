//! Every handler is given a `Delivery`.
use headwater::{Event, HandlerError, Subscription};

async fn index(_: Event) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    _ = Subscription::new("search").each(index);
}
