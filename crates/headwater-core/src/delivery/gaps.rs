//! A set of global sequences, as ranges.

/// A set of global sequences, kept as ordered ranges that neither touch nor overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    ranges: Vec<(u64, u64)>,
}

impl Gaps {
    /// An empty set.
    pub fn new() -> Self {
        Gaps::default()
    }

    /// The ranges, first and last included, in order.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether the sequence is in it.
    pub fn contains(&self, sequence: u64) -> bool {
        let at = self.ranges.partition_point(|(_, last)| *last < sequence);
        self.ranges.get(at).is_some_and(|(first, _)| *first <= sequence)
    }

    /// What is below the sequence.
    pub fn below(mut self, sequence: u64) -> Self {
        self.remove(sequence, u64::MAX);
        self
    }

    /// Adds `first..=last`.
    pub fn insert(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        // Ranges that overlap the new one or touch it become one with it.
        let start = self.ranges.partition_point(|range| range.1.saturating_add(1) < first);
        let end = self.ranges.partition_point(|range| range.0 <= last.saturating_add(1));
        let joined =
            self.ranges[start..end].iter().fold((first, last), |all, range| (all.0.min(range.0), all.1.max(range.1)));
        self.ranges.splice(start..end, [joined]);
    }

    /// Takes `first..=last` out.
    pub fn remove(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        let start = self.ranges.partition_point(|range| range.1 < first);
        let end = self.ranges.partition_point(|range| range.0 <= last);
        let mut rest = Vec::new();
        for range in &self.ranges[start..end] {
            if range.0 < first {
                rest.push((range.0, first - 1));
            }
            if range.1 > last {
                rest.push((last + 1, range.1));
            }
        }
        self.ranges.splice(start..end, rest);
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

    use super::Gaps;

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
                    gaps.remove(first, last);
                    model.retain(|number| !(first..=last).contains(number));
                }
                prop_assert!((0..60).all(|number| gaps.contains(number) == model.contains(&number)));
                prop_assert!(gaps.ranges().iter().all(|range| range.0 <= range.1));
                prop_assert!(gaps.ranges().windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
            }
        }
    }
}
