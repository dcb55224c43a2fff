//! The audit: compares what subscribers settled with the log.

use headwater_core::{AuditFinding, AuditReport};

use super::Result;
use super::partition::Partition;
use super::registry::Registry;
use crate::state::State;

impl Registry {
    /// Audits these subscribers, or all if none is named.
    pub(super) fn audit(&mut self, subscriber_ids: &[String], log: &State) -> Result<AuditReport> {
        subscriber_ids.iter().try_for_each(|subscriber_id| self.named(subscriber_id).map(drop))?;
        let mut report = AuditReport { permanent_gaps: self.permanent_gaps.len() as u64, ..AuditReport::default() };
        let wrongly_missing = log.within(&self.permanent_gaps).into_iter();
        report.findings.extend(wrongly_missing.map(|event| AuditFinding::EventInPermanentGap {
            global_sequence: event.sequence().get(),
            event_id: event.id,
        }));
        for (subscriber_id, subscriber) in &self.subscribers {
            if subscriber_ids.is_empty() || subscriber_ids.contains(subscriber_id) {
                for partition in &subscriber.partitions {
                    report.subscribers += 1;
                    partition.audit(subscriber_id, log, &mut report);
                }
            }
        }
        Ok(report)
    }
}

impl Partition {
    fn audit(&self, subscriber_id: &str, log: &State, report: &mut AuditReport) {
        let (subscriber_id, after, position) = (subscriber_id.to_owned(), self.counts.after, self.position);
        let is_counted = |sequence: u64| sequence > after || self.counts.ledger.contains(sequence);
        let sequences = log.after(0).map(|event| event.sequence().get());
        let counted = sequences.take_while(|sequence| *sequence <= position).filter(|sequence| is_counted(*sequence));
        let due = counted.filter(|sequence| !self.ledger.contains(*sequence));
        let (in_log, sum) = due.fold((0, 0), |(count, sum), sequence| (count + 1, sum + sequence));
        let settled = self.counts.settled;
        report.events += in_log;
        if in_log != settled {
            let missing = if in_log == settled + 1 { sum.checked_sub(self.counts.settled_sum) } else { None };
            let missing = missing.filter(|missing| *missing <= position && is_counted(*missing));
            report.findings.push(AuditFinding::CountDiffers {
                subscriber_id,
                after,
                position,
                in_log,
                settled,
                missing,
            });
        } else if sum != self.counts.settled_sum {
            report.findings.push(AuditFinding::SumDiffers { subscriber_id, after, position });
        }
    }
}
