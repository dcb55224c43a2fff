//! A shop in one program: streams, a projection, mails that are written exactly once, a queue of 8
//! workers and a daily report. It runs until Ctrl-C or SIGTERM.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example shop
//!
//! Place an order from another shell:
//!
//!     headwater append --namespace shop --stream order-1 Placed '{"total": 120, "customer": "Ada"}'

use headwater::{Delivery, Event, EventData, HandlerError, Headwater, Queue, Subscription, Task, Transaction};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
enum OrderEvent {
    Placed { total: u32, customer: String },
    Paid,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let shop = Headwater::from_env().migrate().namespace("shop").await?;
    sqlx::raw_sql(include_str!("shop.sql")).execute(shop.pool()).await?;
    shop.schedule_task(Task::cron("daily-report", "0 6 * * *").emits("report.daily", json!({}))).await?;
    shop.node_from_host()
        .run(Subscription::project("order-totals", order_total))
        .run(Subscription::new("mailer").transactional(write_mail))
        .run(Queue::new("invoices").workers(8).retries(2).each(make_invoice))
        .on_event("report.daily", report)
        .run_until_signal()
        .await?;
    Ok(())
}

/// The total of an order. Events of its stream change it.
fn order_total(total: Option<u32>, event: &Event<OrderEvent>) -> Option<u32> {
    match &event.data {
        Some(OrderEvent::Placed { total, .. }) => Some(*total),
        Some(OrderEvent::Paid) | None => total,
    }
}

/// Writes a mail in the transaction that moves the checkpoint: exactly one per order.
async fn write_mail(event: Delivery<OrderEvent>, mut tx: Transaction) -> Result<(), HandlerError> {
    if let Some(OrderEvent::Placed { customer, .. }) = &event.data {
        sqlx::query("INSERT INTO mails (recipient) VALUES ($1)").bind(customer).execute(&mut *tx).await?;
    }
    Ok(())
}

/// Makes an invoice. Up to 8 at once, on this node; more on others.
async fn make_invoice(event: Delivery<OrderEvent>) -> Result<(), HandlerError> {
    if let (Some(order), Some(OrderEvent::Placed { total, .. })) = (&event.stream_id, &event.data) {
        println!("invoice of {order}: {total}");
    }
    Ok(())
}

/// One node of the namespace gets the event of the schedule.
async fn report(_: Delivery, mut tx: Transaction) -> Result<(), HandlerError> {
    let mails: i64 = sqlx::query_scalar("SELECT count(*) FROM mails").fetch_one(&mut *tx).await?;
    println!("{mails} mails so far");
    Ok(())
}
