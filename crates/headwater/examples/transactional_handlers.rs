//! Transactional handlers: a handler's writes to the database, the events it emits, and its
//! progress commit together: exactly once.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example transactional_handlers

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use headwater::admin::NamespaceConfig;
use headwater::delivery::ReliableDeliveryConfig;
use headwater::{Delivery, EventData, HandlerError, Headwater, Subscription, Transaction};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
enum Checkout {
    OrderPlaced { customer: String },
    MailQueued { to: String },
}

const MAILS: &str = "CREATE TABLE IF NOT EXISTS example_mails (recipient text NOT NULL)";
const QUEUE: &str = "INSERT INTO example_mails (recipient) VALUES ($1)";
const COUNT: &str = "SELECT count(*) FROM example_mails";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    headwater.migrate().await?;
    headwater.create_namespace(NamespaceConfig::new("example-checkout")).await?;
    let checkout = headwater.namespace("example-checkout").await?;
    sqlx::query(MAILS).execute(headwater.pool()).await?;

    let (namespace, failed) = (checkout.clone(), Arc::new(AtomicBool::new(false)));
    let node = checkout
        .node("checkout-1")
        .run(
            Subscription::new("mailer")
                .transactional(move |event: Delivery<Checkout>, mut tx: Transaction| {
                    let (namespace, failed) = (namespace.clone(), failed.clone());
                    async move {
                        let Some(Checkout::OrderPlaced { customer }) = &event.data else { return Ok(()) };
                        sqlx::query(QUEUE).bind(customer).execute(&mut *tx).await?;
                        namespace.emit_in(&mut tx, Checkout::MailQueued { to: customer.clone() }).await?;
                        if !failed.swap(true, Ordering::Relaxed) {
                            // The mail and the event of this try are rolled back; the retry has its
                            // own.
                            return Err(HandlerError::message("the first try fails after its effects"));
                        }
                        Ok(())
                    }
                })
                .event_types(["OrderPlaced"])
                .config(ReliableDeliveryConfig {
                    initial_retry_delay: Duration::from_millis(10),
                    ..Default::default()
                }),
        )
        .start()
        .await?;

    let mut last = 0;
    for customer in ["ada", "grace"] {
        last = checkout.emit(Checkout::OrderPlaced { customer: customer.into() }).await?.global_sequence();
    }
    node.wait_for("mailer", last).await?;
    node.shutdown().await?;
    let mails: i64 = sqlx::query_scalar(COUNT).fetch_one(headwater.pool()).await?;
    println!("two orders, one of them tried twice: {mails} mails");
    assert_eq!(mails, 2);
    headwater.shutdown().await;
    Ok(())
}
