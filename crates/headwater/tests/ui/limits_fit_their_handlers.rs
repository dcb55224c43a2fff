//! Only batches have a limit of bytes, and only handlers without a transaction a limit of events.
use headwater::{Delivery, HandlerError, Queue, Subscription, Transaction};

async fn index(_: Delivery) -> Result<(), HandlerError> {
    Ok(())
}

async fn mail(_: Delivery, _: Transaction) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    _ = Subscription::new("search").each(index).at_once(10, 1024);
    _ = Subscription::new("mailer").transactional(mail).at_most(10);
    _ = Queue::new("search").each(index).batch_size(10);
}
