//! Events without Rust types: raw JSON, headers, and the threads that tie events together.
//!
//!     DATABASE_URL=postgres://… cargo run -p headwater --example raw_json

use anyhow::Context;
use futures::TryStreamExt;
use headwater::admin::NamespaceConfig;
use headwater::log::LogQuery;
use headwater::{Event, Headwater};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    let headwater = Headwater::connect(&url).await?;
    headwater.migrate().await?;
    headwater.create_namespace(NamespaceConfig::new("example-raw")).await?;
    let raw = headwater.namespace("example-raw").await?;

    // The first cause. A request's trace context travels in a header.
    let uploaded: Event = Event::builder()
        .event_type("image.uploaded")
        .json(json!({ "image": 7, "bytes": 48_213 }))
        .key("user-3")
        .actor_id("ada")
        .traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .header("source", "camera")
        .build()?;
    // What it led to, and what that led to.
    let scaled =
        Event::builder().event_type("image.scaled").json(json!({ "width": 640 })).caused_by(&uploaded).build()?;
    let published = Event::builder().event_type("image.published").json(json!({})).caused_by(&scaled).build()?;

    let first = raw.emit(uploaded.clone()).await?;
    raw.emit(scaled.clone()).await?;
    raw.emit(published.clone()).await?;
    println!("emitted three events from global_sequence {}", first.global_sequence());

    // Emit it again, as after a lost answer: the same id is stored once, and the answer is the
    // first one.
    let again = raw.emit(uploaded.clone()).await?;
    assert!(again.retried && again.global_sequence() == first.global_sequence());
    println!("emitted again with the same id: still global_sequence {}", again.global_sequence());

    let stored = raw.event(uploaded.id).await?.context("it was just emitted")?;
    let data: Value = stored.data.as_ref().context("it has data")?.decode()?;
    assert_eq!(data["bytes"], 48_213);
    assert_eq!(stored.headers["source"], "camera");
    println!("headers: {:?}", stored.headers);

    let chain = raw.causation_chain(scaled.id, 100).await?;
    let types: Vec<_> = chain.iter().map(|event| event.event_type.as_str()).collect();
    println!("around image.scaled: {}", types.join(" -> "));
    assert_eq!(types, ["image.uploaded", "image.scaled", "image.published"]);

    // The first cause's id is the correlation of all that follow from it.
    let correlated: Vec<_> = raw.read_correlated(uploaded.id).try_collect().await?;
    assert_eq!(correlated.iter().map(|event| event.id).collect::<Vec<_>>(), [scaled.id, published.id]);

    let query = LogQuery::after(first.global_sequence() - 1).event_types(["image.published"]);
    let from_log: Vec<_> = raw.read_log(query).try_collect().await?;
    assert!(from_log.iter().any(|event| event.id == published.id));
    println!("found {} by its type in the log", published.event_type);

    headwater.shutdown().await;
    Ok(())
}
