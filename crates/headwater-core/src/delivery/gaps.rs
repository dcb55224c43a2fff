//! A set of global sequences, as ranges.
//!
//! A long transaction that emits while others do leaves a hole for each of its events. A set may
//! have 100,000 ranges, and a batch changes only a few of them. So a set is kept in chunks that
//! clones share. A clone costs one pointer per chunk, and a change copies one chunk. Two sets of
//! the same origin find their differences by comparing pointers.

use std::sync::Arc;

/// The number of ranges in a full chunk. A range that is added behind a full chunk starts the next
/// one.
const CHUNK: usize = 256;

/// A set of global sequences, kept as ordered ranges that neither touch nor overlap.
#[derive(Debug, Clone, Default, Eq)]
pub struct Gaps {
    chunks: Vec<Arc<Chunk>>,
    /// How many ranges there are.
    len: usize,
}

/// Neighbouring ranges of a set that are stored together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Identifies the chunk in its set. No range of the chunk begins below the key, and each range
    /// of an earlier chunk ends below it.
    pub key: u64,
    /// The ranges, first and last included, in order. There is at least one.
    pub ranges: Vec<(u64, u64)>,
}

/// What differs between two sets, chunk by chunk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedChunks {
    /// Chunks that are new or have changed.
    pub written: Vec<Arc<Chunk>>,
    /// Keys of chunks that are gone.
    pub removed: Vec<u64>,
}

impl Chunk {
    fn first(&self) -> u64 {
        self.ranges.first().map_or(self.key, |(first, _)| *first)
    }

    fn last(&self) -> u64 {
        self.ranges.last().map_or(self.key, |(_, last)| *last)
    }
}

impl PartialEq for Gaps {
    fn eq(&self, other: &Self) -> bool {
        let same = |(one, other): (&Arc<Chunk>, &Arc<Chunk>)| Arc::ptr_eq(one, other);
        self.len == other.len
            && (self.chunks.len() == other.chunks.len() && self.chunks.iter().zip(&other.chunks).all(same)
                || self.iter().eq(other.iter()))
    }
}

impl Gaps {
    /// An empty set.
    pub fn new() -> Self {
        Gaps::default()
    }

    /// Builds a set from stored chunks. Chunks that are out of order are put in order.
    pub fn from_chunks(chunks: impl IntoIterator<Item = Chunk>) -> Self {
        let mut gaps = Gaps::new();
        for chunk in chunks {
            let behind = gaps.chunks.last().map_or(0, |last| last.last().max(last.key)).saturating_add(1);
            let in_order = chunk.ranges.windows(2).all(|pair| pair[0].1.saturating_add(1) < pair[1].0)
                && chunk.ranges.iter().all(|range| range.0 <= range.1);
            let follows = gaps.is_empty() || chunk.key >= behind && chunk.first() > behind;
            if in_order && follows && !chunk.ranges.is_empty() && chunk.key <= chunk.first() {
                gaps.len += chunk.ranges.len();
                gaps.chunks.push(Arc::new(chunk));
            } else {
                chunk.ranges.into_iter().for_each(|(first, last)| gaps.insert(first, last));
            }
        }
        gaps
    }

    /// The ranges, first and last included, in order.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        self.iter().collect()
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.chunks.iter().flat_map(|chunk| chunk.ranges.iter().copied())
    }

    /// Its chunks, in order.
    pub fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many sequences the set has.
    pub fn size(&self) -> u64 {
        self.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The lowest sequence in the set.
    pub fn first(&self) -> Option<u64> {
        self.chunks.first().map(|chunk| chunk.first())
    }

    /// The highest sequence in the set.
    pub fn last(&self) -> Option<u64> {
        self.chunks.last().map(|chunk| chunk.last())
    }

    /// The index of the first chunk that ends at or after the sequence.
    fn chunk_at(&self, sequence: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.last() < sequence)
    }

    /// Whether the set has the sequence.
    pub fn contains(&self, sequence: u64) -> bool {
        self.chunks.get(self.chunk_at(sequence)).is_some_and(|chunk| {
            let at = chunk.ranges.partition_point(|(_, last)| *last < sequence);
            chunk.ranges.get(at).is_some_and(|(first, _)| *first <= sequence)
        })
    }

    /// The ranges in `first..=last`, cut off at both ends. The cost depends on these ranges and not
    /// on the size of the set.
    pub fn within(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let chunk = self.chunk_at(first);
        let skip = self.chunks.get(chunk).map_or(0, |chunk| chunk.ranges.partition_point(|range| range.1 < first));
        let ranges = self.chunks[chunk..].iter().flat_map(|chunk| chunk.ranges.iter().copied()).skip(skip);
        ranges.take_while(move |range| range.0 <= last).map(move |range| (range.0.max(first), range.1.min(last)))
    }

    /// The part of the set that is below the sequence.
    pub fn below(mut self, sequence: u64) -> Self {
        self.remove(sequence, u64::MAX);
        self
    }

    /// Adds `first..=last`.
    pub fn insert(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        // Ranges that overlap or touch the new one are merged with it.
        let (low, high) = (first.saturating_sub(1), last.saturating_add(1));
        let (mut first, mut last) = (first, last);
        if let Some((start, end)) = self
            .within(low, high)
            .fold(None, |all: Option<(u64, u64)>, range| Some(all.map_or(range, |all| (all.0, range.1))))
        {
            // `within` cut these ranges off at its ends. Extend the new range to their full
            // lengths.
            first = first.min(self.range_at(start).map_or(start, |range| range.0));
            last = last.max(self.range_at(end).map_or(end, |range| range.1));
            self.remove(first, last);
        }
        self.add(first, last);
    }

    /// The range that has the sequence.
    fn range_at(&self, sequence: u64) -> Option<(u64, u64)> {
        let chunk = self.chunks.get(self.chunk_at(sequence))?;
        let at = chunk.ranges.partition_point(|(_, last)| *last < sequence);
        chunk.ranges.get(at).copied().filter(|(first, _)| *first <= sequence)
    }

    /// Adds a range that touches no other.
    fn add(&mut self, first: u64, last: u64) {
        self.len += 1;
        let at = self.chunk_at(first);
        if at == self.chunks.len() {
            match self.chunks.last_mut().filter(|chunk| chunk.ranges.len() < CHUNK) {
                Some(chunk) => Arc::make_mut(chunk).ranges.push((first, last)),
                None => self.chunks.push(Arc::new(Chunk { key: first, ranges: vec![(first, last)] })),
            }
            return;
        }
        let chunk = Arc::make_mut(&mut self.chunks[at]);
        let place = chunk.ranges.partition_point(|range| range.1 < first);
        chunk.ranges.insert(place, (first, last));
        chunk.key = chunk.key.min(first);
        self.split(at);
    }

    fn split(&mut self, at: usize) {
        if self.chunks[at].ranges.len() > 2 * CHUNK {
            let ranges = Arc::make_mut(&mut self.chunks[at]).ranges.split_off(CHUNK);
            self.chunks.insert(at + 1, Arc::new(Chunk { key: ranges[0].0, ranges }));
        }
    }

    /// Removes `first..=last`. Returns whether the set had any of it.
    pub fn remove(&mut self, first: u64, last: u64) -> bool {
        if first > last {
            return false;
        }
        let start = self.chunk_at(first);
        let end = self.chunks.partition_point(|chunk| chunk.first() <= last);
        if start >= end {
            return false;
        }
        let mut any = false;
        for at in start..end {
            let from = self.chunks[at].ranges.partition_point(|range| range.1 < first);
            let to = self.chunks[at].ranges.partition_point(|range| range.0 <= last);
            if from >= to {
                continue;
            }
            any = true;
            let chunk = Arc::make_mut(&mut self.chunks[at]);
            let before = Some((chunk.ranges[from].0, first.saturating_sub(1))).filter(|_| chunk.ranges[from].0 < first);
            let behind = Some((last.saturating_add(1), chunk.ranges[to - 1].1)).filter(|rest| rest.1 > last);
            let rest: Vec<_> = before.into_iter().chain(behind).collect();
            self.len = self.len + rest.len() - (to - from);
            chunk.ranges.splice(from..to, rest);
        }
        if any {
            let emptied = (start..end).any(|at| self.chunks[at].ranges.is_empty());
            if emptied {
                self.chunks.retain(|chunk| !chunk.ranges.is_empty());
            } else {
                (start..end).rev().for_each(|at| self.split(at));
            }
        }
        any
    }

    /// Returns how this set differs from `from`, chunk by chunk. `but_last`: leave the last chunk
    /// of each set out of the comparison.
    pub fn changed_chunks(&self, from: &Gaps, but_last: bool) -> ChangedChunks {
        fn stored(gaps: &Gaps, but_last: bool) -> &[Arc<Chunk>] {
            &gaps.chunks[..gaps.chunks.len().saturating_sub(but_last.into())]
        }
        let (before, now) = (stored(from, but_last), stored(self, but_last));
        // Most changes are at one end of the set.
        let same = |(one, other): &(&Arc<Chunk>, &Arc<Chunk>)| Arc::ptr_eq(one, other);
        let begin = before.iter().zip(now).take_while(same).count();
        let (before, now) = (&before[begin..], &now[begin..]);
        let mut changed = ChangedChunks::default();
        let mut old = before.iter().peekable();
        for chunk in now {
            while let Some(gone) = old.next_if(|old| old.key < chunk.key) {
                changed.removed.push(gone.key);
            }
            let there = old.next_if(|old| old.key == chunk.key);
            if there.is_none_or(|old| !Arc::ptr_eq(old, chunk) && old != chunk) {
                changed.written.push(chunk.clone());
            }
        }
        changed.removed.extend(old.map(|gone| gone.key));
        changed
    }
}

impl FromIterator<(u64, u64)> for Gaps {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(ranges: I) -> Self {
        let mut gaps = Gaps::new();
        ranges.into_iter().for_each(|(first, last)| gaps.insert(first, last));
        gaps
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn holds(gaps: &Gaps, model: &BTreeSet<u64>, up_to: u64) {
        assert!((0..up_to).all(|number| gaps.contains(number) == model.contains(&number)));
        let ranges = gaps.ranges();
        assert_eq!((gaps.len(), gaps.size()), (ranges.len(), model.len() as u64));
        assert!(ranges.iter().all(|range| range.0 <= range.1));
        assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        assert!(gaps.chunks().iter().all(|chunk| chunk.key <= chunk.first() && chunk.ranges.len() <= 2 * CHUNK));
        assert!(gaps.chunks().windows(2).all(|pair| pair[0].last() < pair[1].key));
        assert_eq!((gaps.first(), gaps.last()), (model.first().copied(), model.last().copied()));
    }

    proptest! {
        #[test]
        fn it_holds_what_a_set_of_numbers_holds(steps in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..8), 0..60)) {
            let (mut gaps, mut model) = (Gaps::new(), BTreeSet::new());
            for (insert, first, length) in steps {
                let last = first + length;
                if insert {
                    gaps.insert(first, last);
                    model.extend(first..=last);
                } else {
                    let there = model.range(first..=last).next().is_some();
                    model.retain(|number| !(first..=last).contains(number));
                    prop_assert_eq!(gaps.remove(first, last), there);
                }
                holds(&gaps, &model, 60);
            }
        }

    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn so_it_does_with_many_chunks(steps in prop::collection::vec((any::<bool>(), 0u64..4_000, 0u64..900), 0..8)) {
            let mut gaps: Gaps = (0..2_000).map(|place| (place * 2, place * 2)).collect();
            let mut model: BTreeSet<u64> = (0..2_000).map(|place| place * 2).collect();
            for (insert, first, length) in steps {
                let (last, before) = (first + length, gaps.clone());
                if insert {
                    gaps.insert(first, last);
                    model.extend(first..=last);
                } else {
                    gaps.remove(first, last);
                    model.retain(|number| !(first..=last).contains(number));
                }
                holds(&gaps, &model, 5_000);
                let within: Vec<u64> = gaps.within(first, last + 50).flat_map(|range| range.0..=range.1).collect();
                prop_assert!(within.iter().eq(model.range(first..=last + 50)));
                // The old chunks with the changes applied are the new chunks.
                for but_last in [false, true] {
                    let stored = |gaps: &Gaps| {
                        let chunks = &gaps.chunks()[..gaps.chunks().len().saturating_sub(but_last.into())];
                        chunks.iter().map(|chunk| (chunk.key, chunk.clone())).collect::<std::collections::BTreeMap<_, _>>()
                    };
                    let (mut had, changed) = (stored(&before), gaps.changed_chunks(&before, but_last));
                    changed.removed.iter().for_each(|key| _ = had.remove(key).expect("what is gone was there"));
                    had.extend(changed.written.iter().map(|chunk| (chunk.key, chunk.clone())));
                    prop_assert_eq!(had, stored(&gaps));
                }
                let loaded = Gaps::from_chunks(gaps.chunks().iter().map(|chunk| (**chunk).clone()));
                prop_assert_eq!(loaded.chunks(), gaps.chunks());
            }
        }
    }

    /// The cost of a change depends on the change and not on the size of the set.
    #[test]
    fn a_change_touches_one_chunk_of_many() {
        let before: Gaps = (1..=100_000).map(|place| (place * 2, place * 2)).collect();
        let mut gaps = before.clone();
        gaps.insert(300_000, 300_000);
        assert_eq!(gaps.changed_chunks(&before, false).written.len(), 1);
        gaps.remove(2, 2);
        gaps.remove(100_000, 100_000);
        let changed = gaps.changed_chunks(&before, false);
        assert_eq!((changed.written.len(), changed.removed.len()), (3, 0));
        assert!(changed.written.iter().all(|chunk| chunk.ranges.len() <= CHUNK));
    }

    #[test]
    fn chunks_that_are_no_set_become_one() {
        let chunk = |key, ranges: &[(u64, u64)]| Chunk { key, ranges: ranges.to_vec() };
        let gaps = Gaps::from_chunks([chunk(5, &[(5, 6), (9, 9)]), chunk(8, &[(8, 12)]), chunk(20, &[])]);
        assert_eq!(gaps.ranges(), [(5, 6), (8, 12)]);
    }
}
