//! Your own transaction: a business table and the events about it change together, or not at all.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example own_transaction

use anyhow::Context;
use futures::TryStreamExt;
use headwater::admin::NamespaceConfig;
use headwater::log::LogQuery;
use headwater::{EventData, ExpectedVersion, Headwater, Namespace};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, EventData)]
enum AccountEvent {
    Opened { owner: String },
    Deposited { amount: i64 },
}

const ACCOUNTS: &str = "CREATE TABLE IF NOT EXISTS example_accounts (id uuid PRIMARY KEY, balance bigint NOT NULL)";
const OPEN: &str = "INSERT INTO example_accounts (id, balance) VALUES ($1, 0)";
const DEPOSIT: &str = "UPDATE example_accounts SET balance = balance + $2 WHERE id = $1";
const BALANCE: &str = "SELECT balance FROM example_accounts WHERE id = $1";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    // The application's pool, which Headwater joins.
    let pool = PgPool::connect(&url).await?;
    let headwater = Headwater::builder().with_pool(pool.clone());
    headwater.migrate().await?;
    headwater.create_namespace(NamespaceConfig::new("example-accounts")).await?;
    let accounts = headwater.namespace("example-accounts").await?;
    sqlx::query(ACCOUNTS).execute(&pool).await?;

    let account = Uuid::now_v7();
    let mut tx = pool.begin().await?;
    sqlx::query(OPEN).bind(account).execute(&mut *tx).await?;
    let opened = AccountEvent::Opened { owner: "ada".into() };
    accounts.append_in(&mut tx, account, ExpectedVersion::NoStream, [opened]).await?;
    assert_eq!(stream(&accounts, account).await?, [], "nothing is seen before the commit");
    tx.commit().await?;
    println!("committed: the row and the event are there");
    assert_eq!(stream(&accounts, account).await?.len(), 1);

    let mut tx = pool.begin().await?;
    sqlx::query(DEPOSIT).bind(account).bind(50_i64).execute(&mut *tx).await?;
    let deposited = AccountEvent::Deposited { amount: 50 };
    let lost = accounts.append_in(&mut tx, account, ExpectedVersion::Exact(1), [deposited]).await?;
    tx.rollback().await?;
    let balance: i64 = sqlx::query_scalar(BALANCE).bind(account).fetch_one(&pool).await?;
    println!("rolled back: the balance is {balance}, and there is no event");
    assert_eq!(balance, 0);
    assert_eq!(stream(&accounts, account).await?.len(), 1);

    // The log goes on. The place of the event that never was is a gap, which no reader waits for.
    let mut tx = pool.begin().await?;
    sqlx::query(DEPOSIT).bind(account).bind(70_i64).execute(&mut *tx).await?;
    let deposited = AccountEvent::Deposited { amount: 70 };
    let kept = accounts.append_in(&mut tx, account, ExpectedVersion::Exact(1), [deposited.clone()]).await?;
    tx.commit().await?;
    let query = LogQuery::after(lost.global_sequence() - 1).up_to(kept.global_sequence());
    let pages: Vec<_> = accounts.read_log_pages(query).try_collect().await?;
    for gap in pages.iter().flat_map(|page| &page.gaps) {
        println!("a gap in the log: {} to {}, {:?}", gap.first, gap.last, gap.state);
    }
    let last = accounts.last_event(account).await?.context("the account has events")?;
    assert_eq!((last.stream_version, last.decode::<AccountEvent>()?.into_data()), (Some(2), Some(deposited)));

    headwater.shutdown().await;
    Ok(())
}

async fn stream(accounts: &Namespace, account: Uuid) -> anyhow::Result<Vec<AccountEvent>> {
    let events: Vec<_> = accounts.read_stream_as::<AccountEvent>(account).try_collect().await?;
    Ok(events.into_iter().filter_map(|event| event.into_data()).collect())
}
