//! What subscribers ask the tail for: events after a place, what lies in gaps, long transactions.

use std::sync::Arc;
use std::time::Instant;

use headwater_core::{
    Fault, Gaps, LONG_SPAN, LookAhead, PassedOver, ReadError, Segment, SpanScan, Spans, TooManySpans,
    WaitingTransaction,
};

use super::{FAR_BEHIND, Tail, timed};
use crate::node::reading::pages::{PageSlice, PageSource};
use crate::node::reading::ring::Ring;

/// The most long transactions that are known at once (about 50 MB).
const MAX_SPANS: u32 = 500_000;

/// A scan for long transactions.
#[derive(Default)]
pub(super) struct Scan {
    /// The generation in which the known transactions were found.
    generation: u64,
    known: Arc<Spans>,
    /// The progress of a scan that is not finished.
    under_way: Option<SpanScan>,
}

impl Tail {
    /// Returns what comes after `after`, at most `limit` events.
    pub(in crate::node) async fn segment(&self, after: u64, limit: usize) -> Result<Segment, ReadError> {
        self.read_on(after, limit).await.map(|(segment, _)| segment)
    }

    /// Returns what comes after `after`, at most `limit` events. Also returns up to where retention
    /// has dropped events, if that is behind `after`.
    pub(in crate::node) async fn read_on(&self, after: u64, limit: usize) -> Result<(Segment, Option<u64>), ReadError> {
        self.want(after);
        let (settled, behind, history, log, pages, ahead) = {
            let past = self.past();
            let Some(ring) = past.ring.as_ref() else { return Ok((Segment { after, ..Segment::default() }, None)) };
            if let Some(segment) = ring.segment(after, limit) {
                return Ok((segment, None));
            }
            let known = past.ahead.version();
            if known != ring.version() {
                past.ahead.give_up(ring.changes_since(known), ring.version());
            }
            let behind = ring.behind(after);
            (ring.settled(), behind, past.history, past.log.clone(), past.pages.clone(), past.ahead.clone())
        };
        if after < settled {
            let slice = timed(pages.slice(&log, after, PageSource::Settled(settled), limit)).await?;
            self.record(history, &slice.gaps).await;
            return Ok((slice.segment, Some(slice.trimmed_to).filter(|trimmed_to| *trimmed_to > after)));
        }
        // The place is behind the ring and not settled: a long transaction holds up more events
        // than the ring has room for.
        let (known, source) = behind;
        let PageSlice { segment: read, gaps: poison, .. } = timed(ahead.slice(&log, after, source, limit)).await?;
        self.tell_of(&poison.iter().map(|gap| gap.first).collect::<Vec<_>>());
        let gaps_seen = self.past().ring.as_ref().map_or_else(Vec::new, |ring| ring.gaps_seen(after, read.seen));
        Ok((Segment { events: read.events, seen: read.seen, gaps_seen, ..known }, None))
    }

    /// Notes that somebody needs what comes after `after`.
    pub(in crate::node) fn want(&self, after: u64) {
        self.wanted.send_if_modified(|wanted| {
            let further = after > *wanted;
            *wanted = after.max(*wanted);
            further
        });
    }

    /// Returns what a subscriber of some types may pass after `after`, if it is far behind the
    /// ring.
    pub(in crate::node) async fn pass_types(
        &self,
        after: u64,
        event_types: &[String],
    ) -> Result<Option<PassedOver>, ReadError> {
        let (settled, log) = {
            let past = self.past();
            let Some(ring) = past.ring.as_ref() else { return Ok(None) };
            if ring.settled().saturating_sub(after) < FAR_BEHIND || ring.segment(after, 1).is_some() {
                return Ok(None);
            }
            (ring.settled(), past.log.clone())
        };
        timed(log.pass_types(after, settled, event_types)).await
    }

    /// Returns the long transactions that cover `part`. Concurrent callers share one scan. The scan
    /// goes over the log once, in windows. If a read fails or its caller has gone, the next caller
    /// continues it.
    pub(in crate::node) async fn spans(&self, part: &WaitingTransaction) -> Result<Arc<Spans>, ReadError> {
        let mut scan = self.spans.lock().await;
        let generation = self.generation();
        if scan.generation == generation && scan.known.cover(part) {
            return Ok(scan.known.clone());
        }
        let (settled, log) = {
            let past = self.past();
            (past.ring.as_ref().map_or(0, Ring::settled), past.log.clone())
        };
        if scan.generation != generation || scan.under_way.as_ref().is_some_and(|scan| !scan.would_cover(part)) {
            scan.under_way = None;
        }
        scan.generation = generation;
        if scan.under_way.is_none() {
            let begun = Instant::now();
            // Everything that is visible by now lies below.
            let end = timed(log.horizon()).await?.head;
            scan.under_way = Some(SpanScan::begin(part.first.saturating_sub(1), end, settled, begun));
        }
        while let Some(window) = scan.under_way.as_ref().and_then(SpanScan::window) {
            let newest = scan.under_way.as_ref().map_or(0, SpanScan::newest);
            let found = timed(log.long_transactions(window, newest, LONG_SPAN, MAX_SPANS)).await?;
            let added = scan.under_way.as_mut().map(|under_way| under_way.add(window, found, MAX_SPANS as usize));
            if let Some(Err(error)) = added {
                scan.under_way = None;
                return Err(too_many(error));
            }
        }
        if let Some(done) = scan.under_way.take() {
            scan.known = Arc::new(done.into_spans());
        }
        Ok(scan.known.clone())
    }

    /// Returns the events that have come in these gaps by now, in order, at most `limit`.
    pub(in crate::node) async fn in_gaps(&self, gaps: &Gaps, limit: u32) -> Result<LookAhead, ReadError> {
        let look = timed(self.log().in_gaps(gaps, limit)).await?;
        self.tell_of(&look.poison);
        Ok(look)
    }
}

fn too_many(TooManySpans(most): TooManySpans) -> ReadError {
    let message = format!(
        "more than {most} transactions are spread over the log: handle its events in another scope than a transaction per key"
    );
    ReadError::Unavailable(Fault { message, retryable: true, source: None })
}
