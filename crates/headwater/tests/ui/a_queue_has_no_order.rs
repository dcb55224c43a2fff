//! A queue has no order: no partitions, no bundles, no checkpoint, and no wait for gaps.
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
