//! Nodes and handlers: services that register, emit messages, and handle messages of their types in
//! transactions.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example nodes

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use headwater::node::NodeOptions;
use headwater::{Delivery, HandlerError, Headwater};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserCreated {
    user_id: String,
    email: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    // Migrates the database, makes the namespace if it is not there, and opens it.
    let system = Headwater::connect(&url).migrate().namespace("example-users").await?;
    let pool = sqlx::PgPool::connect(&url).await?;
    let tables = "CREATE TABLE IF NOT EXISTS users (user_id text, email text);
                  CREATE TABLE IF NOT EXISTS welcomes (user_id text, message_id bigint)";
    sqlx::raw_sql(tables).execute(&pool).await?;

    let api = NodeOptions::new("api-server-1").display_name("API Server").metadata(json!({ "role": "producer" }));
    let api = system.register_node(api).await?;
    let mailer = system.register_node(NodeOptions::new("mailer-1").display_name("Mailer")).await?;

    // Two handlers of one type: what both do is in one transaction, with the acknowledgement.
    mailer.on_event("user.created", |event: Delivery, mut tx| async move {
        let user: UserCreated = event.payload()?;
        let insert = sqlx::query("INSERT INTO users VALUES ($1, $2)").bind(user.user_id).bind(user.email);
        insert.execute(&mut *tx).await?;
        Ok(())
    })?;
    mailer.on_event("user.*", |event: Delivery, mut tx| async move {
        let user: UserCreated = event.payload()?;
        if user.email.is_empty() {
            // Nothing of the first handler is left either; the message becomes a dead letter.
            return Err(HandlerError::permanent("a user without an address"));
        }
        let insert = sqlx::query("INSERT INTO welcomes VALUES ($1, $2)").bind(user.user_id);
        insert.bind(i64::try_from(event.message_id())?).execute(&mut *tx).await?;
        println!("mailer-1 handles {:?}", event.envelope());
        Ok(())
    })?;

    // Every node that listens is told.
    let told = Arc::new(Semaphore::new(0));
    for node in [&api, &mailer] {
        let (told, id) = (told.clone(), node.node_id().to_owned());
        node.on_broadcast("settings.changed", move |event: Delivery, _tx| {
            println!("{id} hears of {}", event.data_text());
            told.add_permits(1);
            async { Ok(()) }
        })?;
    }
    api.start().await?;
    mailer.start().await?;

    let message_id = api.emit("user.created", json!({ "userId": "123", "email": "user@example.com" })).await?;
    api.emit("user.created", json!({ "userId": "124", "email": "" })).await?;
    let welcomed = "SELECT EXISTS (SELECT FROM welcomes WHERE message_id = $1)";
    while !sqlx::query_scalar(welcomed).bind(i64::try_from(message_id)?).fetch_one(&pool).await? {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    api.broadcast("settings.changed", json!({ "theme": "dark" })).await?;
    told.acquire_many(2).await?.forget();

    let (users, welcomes): (i64, i64) =
        sqlx::query_as("SELECT (SELECT count(*) FROM users), (SELECT count(*) FROM welcomes)").fetch_one(&pool).await?;
    ensure!(users == welcomes && users > 0, "{users} users, {welcomes} welcomes");
    for node in system.nodes().list(None).await? {
        println!("{} is alive: {}, handles {:?}", node.node_id, node.alive, node.event_types);
    }
    mailer.shutdown().await?;
    api.shutdown().await?;
    Ok(())
}
