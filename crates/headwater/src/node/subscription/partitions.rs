//! How many partitions a subscriber has, and which of them are this instance's.

/// The partitions of a subscription: a number, or a number and the ones that this instance owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partitions {
    pub(super) count: u32,
    pub(super) assigned: Option<Vec<u32>>,
}

impl Partitions {
    /// This many partitions, shared out among the instances.
    pub fn of(count: u32) -> Self {
        Partitions { count, assigned: None }
    }

    /// This instance owns these partitions and no others, for users who share them out by hand. All
    /// instances of the subscriber must do so, and each partition must belong to one of them.
    pub fn only(mut self, partitions: impl IntoIterator<Item = u32>) -> Self {
        self.assigned = Some(partitions.into_iter().collect());
        self
    }
}

impl From<u32> for Partitions {
    fn from(count: u32) -> Self {
        Partitions::of(count)
    }
}
