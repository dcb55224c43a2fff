//! The events of a queue have no order: it has no partitions, no bundles, no checkpoint, and waits for no gap.
use std::time::Duration;

use headwater::delivery::CheckpointMode;
use headwater::{Bundle, Queue};

fn main() {
    _ = Queue::new("thumbnails").partitions(16);
    _ = Queue::new("thumbnails").bundled_by(Bundle::Key);
    _ = Queue::new("thumbnails").checkpoint(CheckpointMode::Synchronous);
    _ = Queue::new("thumbnails").hold_for(Duration::ZERO);
    _ = Queue::new("thumbnails").stream_prefix("order-");
}
