//! What handlers log says which subscriber and which events it is about.

use std::io::Write;
use std::sync::{Arc, Mutex};

use crate::common::{Shop, quick, until};
use headwater::{Delivery, Event, ExpectedVersion, Json, Queue, Subscription, Transaction};
use tracing_subscriber::fmt::MakeWriter;

/// The log of this process.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        self.clone()
    }
}

impl Log {
    /// The line that has this message.
    fn line(&self, message: &str) -> Option<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().find(|line| line.contains(message)).map(str::to_owned)
    }
}

#[tokio::test]
async fn handlers_of_every_kind_run_in_a_span_of_their_events() {
    let log = Log::default();
    // Each test is a process of its own.
    tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).init();
    let shop = Shop::open().await;
    let request = uuid::Uuid::now_v7();
    let event = Event { correlation_id: Some(request), ..Event::raw("order.placed", Json::null()) };
    let placed = shop.shop.append("order-1", ExpectedVersion::NoStream, [event]).await.unwrap().events.remove(0);
    let (first, last) = (placed.global_sequence, shop.emit(&["order.paid"]).await);

    let node = shop.shop.node("one");
    let node = node.run(Subscription::new("each").config(quick()).each(async |event: Delivery| {
        // Still in the span after it was suspended.
        tokio::task::yield_now().await;
        tracing::info!("each got {}", event.event_type);
        Ok(())
    }));
    let node = node.run(Subscription::new("batch").config(quick()).batch(async |events: Vec<Delivery>| {
        tracing::info!("batch got {}", events.len());
        Ok(())
    }));
    let transactional = async |event: Delivery, _: Transaction| {
        tracing::info!("transactional got {}", event.event_type);
        Ok(())
    };
    let node = node.run(Subscription::new("transactional").config(quick()).transactional(transactional));
    let node = node.run(Queue::new("queue").config(quick()).each(async |event: Delivery| {
        tracing::info!("queue got {}", event.event_type);
        Ok(())
    }));
    let node = node.start().await.unwrap();
    for (subscriber, message) in [
        ("each", "each got order.placed"),
        ("transactional", "transactional got order.placed"),
        ("queue", "queue got order.placed"),
    ] {
        until(|| async { log.line(message).is_some() }).await;
        let line = log.line(message).unwrap();
        for part in [
            format!("handle{{subscriber_id=\"{subscriber}\" sequence={first} event_id={}", placed.id),
            "event_type=\"order.placed\" stream_id=\"order-1\"".into(),
            format!("correlation_id={request}"),
        ] {
            assert!(line.contains(&part), "{part}: {line}");
        }
    }
    until(|| async { log.line("batch got 2").is_some() }).await;
    let line = log.line("batch got 2").unwrap();
    assert!(line.contains(&format!("handle{{subscriber_id=\"batch\" events=2 first={first} last={last}}}")), "{line}");
    node.shutdown().await.unwrap();
}
