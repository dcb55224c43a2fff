//! Which transactions have ended, for a reader of the WAL, which hears of transactions before their
//! events become visible.

use headwater_core::{Fault, History, ReadError};

use crate::database::acquire::within;
use crate::database::error::read_error;
use crate::{Database, sql};

impl Database {
    /// Returns whether every new snapshot sees these transactions. `xids` are their ids in the WAL,
    /// which was read in `history` (`None`: any).
    pub async fn have_ended(&self, history: Option<History>, xids: &[u32]) -> Result<bool, ReadError> {
        let mut conn = self.pin().await.map_err(read_error)?;
        let statement = sqlx::query_scalar::<_, String>(sql::log::SNAPSHOT).bind(history.map(History::id));
        let text = within(self.call_timeout, statement.fetch_one(&mut *conn)).await.map_err(read_error);
        let text = conn.end(text, read_error).await?;
        let snapshot = Snapshot::parse(&text).ok_or_else(|| {
            let message = format!("failed to read the snapshot {text:?}");
            ReadError::Unavailable(Fault { message, retryable: false, source: None })
        })?;
        Ok(xids.iter().all(|xid| snapshot.has_ended(*xid)))
    }
}

/// A snapshot as PostgreSQL prints it: `xmin:xmax:xip,xip`.
#[derive(Debug, PartialEq, Eq)]
struct Snapshot {
    /// The lowest id that is still running: all lower ones have ended.
    lowest: u64,
    /// The first id that had not been handed out.
    next: u64,
    under_way: Vec<u64>,
}

impl Snapshot {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (lowest, next) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let listed = parts.next()?.split(',').filter(|xid| !xid.is_empty());
        Some(Snapshot { lowest, next, under_way: listed.map(|xid| xid.parse().ok()).collect::<Option<_>>()? })
    }

    /// Ids in the WAL are the low half of these ids, and never far from `next`.
    fn has_ended(&self, xid: u32) -> bool {
        let behind = (self.next as u32).wrapping_sub(xid).cast_signed();
        if behind <= 0 {
            return false;
        }
        let xid = self.next - u64::from(behind.unsigned_abs());
        xid < self.lowest || !self.under_way.contains(&xid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_has_ended_when_the_snapshot_shows_it() {
        let snapshot = Snapshot::parse("10:20:10,15").unwrap();
        assert_eq!(snapshot, Snapshot { lowest: 10, next: 20, under_way: vec![10, 15] });
        let ended: Vec<u32> = (8..22).filter(|xid| snapshot.has_ended(*xid)).collect();
        assert_eq!(ended, [8, 9, 11, 12, 13, 14, 16, 17, 18, 19]);
        assert_eq!(Snapshot::parse("10:10:").unwrap().under_way, Vec::<u64>::new());
        assert_eq!(Snapshot::parse("10:x:"), None);
    }

    #[test]
    fn ids_of_the_wal_are_found_across_a_wraparound() {
        let epoch = 7u64 << 32;
        let snapshot = Snapshot { lowest: epoch - 2, next: epoch + 5, under_way: vec![epoch - 2, epoch + 4] };
        assert!(snapshot.has_ended(u32::MAX), "the last of the epoch before");
        assert!(!snapshot.has_ended(u32::MAX - 1), "which is under way");
        assert!(snapshot.has_ended(3));
        assert!(!snapshot.has_ended(4));
        assert!(!snapshot.has_ended(5), "not given out");
    }
}
