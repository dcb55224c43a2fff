//! Idempotent handlers: an event may come twice, but its effect happens once.
//!
//! A plain handler gets each event at least once: after a crash between the effect and the
//! checkpoint, the event comes again. This example causes that by resetting the subscriber. It
//! shows the two usual solutions: store the event's id together with the effect, or make the effect
//! repeatable.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example idempotent_handlers

use anyhow::Context;
use headwater::admin::NamespaceConfig;
use headwater::delivery::OperatorStore;
use headwater::{Delivery, EventData, EventObserver, HandlerError, Headwater, SubscriberId, Subscription};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

#[derive(Debug, Clone, Serialize, Deserialize, EventData)]
enum AccountEvent {
    Deposited { account: String, amount: i64 },
    Renamed { account: String, name: String },
}

const TABLES: &str = "CREATE TABLE IF NOT EXISTS example_balances (account text PRIMARY KEY, balance bigint NOT NULL DEFAULT 0, name text);
                      CREATE TABLE IF NOT EXISTS example_deposits_seen (event_id uuid PRIMARY KEY)";
// The event's id and its effect in one statement: the second time, nothing is inserted and nothing
// is added.
const DEPOSIT: &str =
    "WITH seen AS (INSERT INTO example_deposits_seen (event_id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING event_id)
                       INSERT INTO example_balances AS b (account, balance) SELECT $2, $3 FROM seen
                       ON CONFLICT (account) DO UPDATE SET balance = b.balance + excluded.balance";
// An effect that says how things are, not how they change, can be repeated as it is.
const RENAME: &str = "INSERT INTO example_balances (account, name) VALUES ($1, $2) ON CONFLICT (account) DO UPDATE SET name = excluded.name";
const BALANCE: &str = "SELECT balance, name FROM example_balances WHERE account = $1";

#[derive(SubscriberId)]
struct Balances {
    pool: PgPool,
}

impl EventObserver<AccountEvent> for Balances {
    fn subscriber_id(&self) -> &str {
        SubscriberId::subscriber_id(self)
    }

    async fn on_event(&self, event: Delivery<AccountEvent>) -> Result<(), HandlerError> {
        match event.data.as_ref() {
            Some(AccountEvent::Deposited { account, amount }) => {
                sqlx::query(DEPOSIT).bind(event.id).bind(account).bind(amount).execute(&self.pool).await?;
            }
            Some(AccountEvent::Renamed { account, name }) => {
                sqlx::query(RENAME).bind(account).bind(name).execute(&self.pool).await?;
            }
            None => {}
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    headwater.migrate().await?;
    headwater.create_namespace(NamespaceConfig::new("example-bank")).await?;
    let bank = headwater.namespace("example-bank").await?;
    sqlx::raw_sql(TABLES).execute(headwater.pool()).await?;

    let account = || "ada".to_owned();
    bank.emit(AccountEvent::Deposited { account: account(), amount: 50 }).await?;
    let last = bank.emit(AccountEvent::Renamed { account: account(), name: "Ada".into() }).await?.global_sequence();

    let start = || bank.node("bank-1").run(Subscription::of(Balances { pool: headwater.pool().clone() })).start();
    let node = start().await?;
    node.wait_for("balances", last).await?;
    node.shutdown().await?;

    // Both events come a second time.
    bank.subscribers().reset("balances", 0).await?;
    let node = start().await?;
    node.wait_for("balances", last).await?;
    node.shutdown().await?;

    let (balance, name): (i64, String) = sqlx::query_as(BALANCE).bind("ada").fetch_one(headwater.pool()).await?;
    println!("delivered twice: {name} has {balance}");
    assert_eq!((balance, name.as_str()), (50, "Ada"));
    headwater.shutdown().await;
    Ok(())
}
