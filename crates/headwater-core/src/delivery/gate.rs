//! The gate: which events may go to a subscriber now.
//!
//! Pure: what is visible and what is proved come in, and so does the time; what may be handled comes out, in order. A hole in what is
//! visible is permanent up to `settled`, and is stepped over. Beyond, its writer may still commit: the events behind it are held for
//! `hold_for`, then the gap is passed. A passed gap goes into the subscriber's ledger with the checkpoint, and its events
//! are delivered late, if they commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Gaps;
use crate::{Event, missing_runs};

/// Most ranges in a subscriber's ledger: beyond, gaps are held, however long.
const MAX_PASSED: usize = 1_000;

/// A piece of the log as it was seen: everything visible in `after..=seen`, `after` excluded.
#[derive(Debug, Clone, Default)]
pub struct Segment {
    /// Where it begins; not part of it.
    pub after: u64,
    /// What is visible, in order.
    pub events: Vec<Arc<Event>>,
    /// How far it reaches.
    pub seen: u64,
    /// At or below, what is missing will never come.
    pub settled: u64,
}

/// An event that may be handled.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The event.
    pub event: Arc<Event>,
    /// The gap before it that was passed.
    pub passed: Option<(u64, u64)>,
}

/// What holds events back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The first missing sequence.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// When it is passed; `None`: never.
    pub until: Option<Instant>,
}

/// Decides which events may go out, for one subscriber.
#[derive(Debug)]
pub struct Gate {
    position: u64,
    hold_for: Duration,
    /// Gaps that were pending when last looked at, with the time when each was first seen.
    pending: Vec<(u64, u64, Instant)>,
}

impl Gate {
    /// A gate behind which everything up to `position` is.
    pub fn new(position: u64, hold_for: Duration) -> Self {
        Gate { position, hold_for, pending: Vec::new() }
    }

    /// Everything at or below went out, is no event, or was passed.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Lets out what may go. `ledger` has the gaps passed so far. A segment that begins beyond the position, or holds nothing
    /// new, lets nothing out.
    pub fn admit(&mut self, segment: &Segment, ledger: &Gaps, now: Instant) -> (Vec<Admitted>, Option<Hold>) {
        if segment.after > self.position {
            return (Vec::new(), None);
        }
        self.note_pending(segment, now);
        let mut room = MAX_PASSED.saturating_sub(ledger.ranges().len());
        let start = segment.events.partition_point(|event| sequence(event) <= self.position);
        let mut admitted = Vec::with_capacity(segment.events.len() - start);
        for event in &segment.events[start..] {
            let next = sequence(event);
            let first = self.position.max(segment.settled) + 1;
            let passed = (first < next).then(|| (first, next - 1));
            if let Some((first, last)) = passed {
                let until = self.passes_at(first, now);
                if room == 0 || until.is_none_or(|until| until > now) {
                    return (admitted, Some(Hold { first, last, until: until.filter(|_| room > 0) }));
                }
                room -= 1;
            }
            admitted.push(Admitted { event: event.clone(), passed });
            self.position = next;
        }
        self.position = self.position.max(segment.settled.min(segment.seen));
        (admitted, None)
    }

    /// Gaps only shrink: what is left of one is as old as it was.
    fn note_pending(&mut self, segment: &Segment, now: Instant) {
        let last = segment.events.last().map_or(0, |event| sequence(event));
        let start = self.position.max(segment.settled);
        let present = segment.events.iter().map(|event| sequence(event)).filter(|sequence| *sequence > start);
        let runs = if last > start { missing_runs(start, last, present) } else { Vec::new() };
        let known = std::mem::take(&mut self.pending);
        self.pending = runs
            .into_iter()
            .map(|(first, last)| {
                let overlapping = known.iter().filter(|old| old.0 <= last && first <= old.1);
                (first, last, overlapping.map(|old| old.2).min().unwrap_or(now))
            })
            .collect();
    }

    fn passes_at(&self, first: u64, now: Instant) -> Option<Instant> {
        let since = self.pending.iter().find(|gap| (gap.0..=gap.1).contains(&first)).map_or(now, |gap| gap.2);
        since.checked_add(self.hold_for)
    }
}

/// What became of passed gaps.
#[derive(Debug, Clone, Default)]
pub struct Late {
    /// Events that committed after all, in order.
    pub events: Vec<Arc<Event>>,
    /// Ranges in which none will.
    pub permanent: Vec<(u64, u64)>,
}

impl Late {
    /// Compares a ledger with what is visible of it (in order) and with how far the log is settled.
    pub fn of(ledger: &Gaps, visible: Vec<Arc<Event>>, settled: u64) -> Late {
        let events: Vec<_> = visible.into_iter().filter(|event| ledger.contains(sequence(event))).collect();
        let ended = ledger.ranges().iter().filter(|(first, _)| *first <= settled);
        let permanent = ended.flat_map(|(first, last)| {
            let present =
                events.iter().map(|event| sequence(event)).filter(|sequence| (first..=last).contains(&sequence));
            missing_runs(first - 1, *last.min(&settled), present)
        });
        Late { permanent: permanent.filter(|(first, last)| first <= last).collect(), events }
    }
}

fn sequence(event: &Event) -> u64 {
    event.global_sequence.unwrap_or_default()
}
