//! A transaction moves the checkpoint: there is one at a time.
use headwater::{Delivery, HandlerError, Subscription, Transaction};

async fn mail(_: Delivery, _: Transaction) -> Result<(), HandlerError> {
    Ok(())
}

fn main() {
    _ = Subscription::new("mailer").concurrency(8).transactional(mail);
}
