//! Spans: where long transactions end, found window by window.

use std::collections::HashMap;
use std::time::Instant;

use super::WaitingTransaction;
use crate::LongTransactions;

/// The long transactions of a part of the log.
#[derive(Debug, Clone, Default)]
pub struct Spans {
    /// Where the part begins. This sequence is not in it.
    pub after: u64,
    /// All long transactions that begin at or below this sequence are known.
    pub up_to: u64,
    /// The log was settled up to here before the search began.
    pub settled: u64,
    /// When the search began. It has seen everything that was visible at that time.
    pub begun: Option<Instant>,
    /// The last sequence of each long transaction, by the transaction's id.
    pub last: HashMap<u64, u64>,
}

impl Spans {
    /// Whether the search tells where the transaction of these waiting events ends.
    pub fn cover(&self, part: &WaitingTransaction) -> bool {
        let looked_at = self.begun.is_some_and(|begun| part.came <= begun);
        (self.after..self.up_to).contains(&(part.first - 1)) && (part.last <= self.settled || looked_at)
    }
}

/// The size of the windows in which long transactions are searched, in sequences.
const WINDOW: u64 = 100_000;

/// Scans the log for [`Spans`], window by window.
///
/// A later window recognizes a transaction from an earlier one by its id. Ids are given out in
/// order, so a transaction may have begun before a window unless its id is above all ids before
/// that window. There are few such transactions: they were open when the window began.
#[derive(Debug)]
pub struct SpanScan {
    spans: Spans,
    /// The log is scanned up to here.
    scanned: u64,
    /// Where the scan ends.
    end: u64,
    /// The highest transaction id so far.
    newest: u64,
}

/// The scan found more long transactions than it may remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManySpans(pub usize);

impl SpanScan {
    /// Starts after a sequence. All that was visible at `begun` lies at or below `end`, and the log
    /// was settled up to `settled`.
    pub fn begin(after: u64, end: u64, settled: u64, begun: Instant) -> Self {
        let spans = Spans { after, up_to: u64::MAX, settled, begun: Some(begun), last: HashMap::new() };
        SpanScan { spans, scanned: after, end, newest: 0 }
    }

    /// Whether the finished scan will tell where a transaction ends.
    pub fn would_cover(&self, part: &WaitingTransaction) -> bool {
        self.spans.cover(part)
    }

    /// The next window: its start (excluded) and its end. `None`: the scan is finished.
    pub fn window(&self) -> Option<(u64, u64)> {
        (self.scanned < self.end).then(|| (self.scanned, self.end.min(self.scanned.saturating_add(WINDOW))))
    }

    /// The highest transaction id before the next window.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Adds what a window showed.
    pub fn add(&mut self, window: (u64, u64), found: LongTransactions, most: usize) -> Result<(), TooManySpans> {
        for (transaction, _, last) in &found.transactions {
            let known = self.spans.last.entry(*transaction).or_default();
            *known = (*known).max(*last);
        }
        (self.scanned, self.newest) = (window.1, self.newest.max(found.newest));
        if found.transactions.len() >= most || self.spans.last.len() >= most {
            return Err(TooManySpans(most));
        }
        Ok(())
    }

    /// The long transactions. Call it when the scan is finished.
    pub fn into_spans(self) -> Spans {
        self.spans
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Instant;

    use super::{SpanScan, TooManySpans, WINDOW};
    use crate::LongTransactions;
    use crate::delivery::LONG_SPAN;

    /// Answers a window like a store would. `log` has (sequence, transaction) pairs.
    fn window_of(log: &[(u64, u64)], window: (u64, u64), newest: u64) -> LongTransactions {
        let mut parts: HashMap<u64, (u64, u64)> = HashMap::new();
        for (sequence, id) in log.iter().filter(|(sequence, _)| (window.0 + 1..=window.1).contains(sequence)) {
            let part = parts.entry(*id).or_insert((*sequence, *sequence));
            part.1 = *sequence;
        }
        let newest_here = parts.keys().copied().max().unwrap_or(newest).max(newest);
        let long = parts.into_iter().filter(|(id, (first, last))| *id <= newest || last - first >= LONG_SPAN);
        LongTransactions {
            transactions: long.map(|(id, (first, last))| (id, first, last)).collect(),
            newest: newest_here,
        }
    }

    #[test]
    fn a_scan_in_windows_finds_every_transaction_that_is_spread() {
        // Each transaction has one event, except for two. One continues after 250,000 other events,
        // and one crosses the end of a window.
        let mut log: Vec<(u64, u64)> = (1..=300_000).map(|sequence| (sequence, sequence + 1_000)).collect();
        log[9].1 = 1_003;
        log[10].1 = 1_003;
        log[250_010].1 = 1_003;
        log[99_998].1 = 100_900;
        log[100_002].1 = 100_900;
        let mut scan = SpanScan::begin(0, 300_000, 300_000, Instant::now());
        let mut windows = 0;
        while let Some(window) = scan.window() {
            assert!(window.1 - window.0 <= WINDOW);
            let newest = scan.newest();
            scan.add(window, window_of(&log, window, newest), 100).unwrap();
            windows += 1;
        }
        let spans = scan.into_spans();
        assert_eq!((windows, spans.last.get(&1_003), spans.last.get(&100_900)), (3, Some(&250_011), Some(&100_003)));
        assert!(spans.last.len() < 100, "of {} nothing needs to be known", log.len());
    }

    #[test]
    fn a_scan_that_would_remember_too_much_fails() {
        let mut scan = SpanScan::begin(0, 10, 10, Instant::now());
        let transactions = (1..=3).map(|id| (id, id, id + LONG_SPAN)).collect();
        let found = LongTransactions { transactions, newest: 3 };
        assert_eq!(scan.add((0, 10), found, 3), Err(TooManySpans(3)));
    }
}
