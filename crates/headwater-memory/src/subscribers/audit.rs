//! What subscribers settled, compared with the log.

use headwater_core::{AuditFinding, AuditReport};

use super::Result;
use super::registry::Registry;
use super::subscriber::Subscriber;
use crate::state::State;

impl Registry {
    /// Of these subscribers, or of all if none is named.
    pub(super) fn audit(&mut self, subscriber_ids: &[String], log: &State) -> Result<AuditReport> {
        subscriber_ids.iter().try_for_each(|subscriber_id| self.named(subscriber_id).map(drop))?;
        let mut report = AuditReport { permanent_gaps: self.permanent_gaps.len() as u64, ..AuditReport::default() };
        let wrongly_missing = log.within(&self.permanent_gaps).into_iter();
        report.findings.extend(wrongly_missing.map(|event| AuditFinding::EventInPermanentGap {
            global_sequence: event.global_sequence.unwrap_or_default(),
            event_id: event.id,
        }));
        for (subscriber_id, subscriber) in &self.subscribers {
            if subscriber_ids.is_empty() || subscriber_ids.contains(subscriber_id) {
                report.subscribers += 1;
                subscriber.audit(subscriber_id, log, &mut report);
            }
        }
        Ok(report)
    }
}

impl Subscriber {
    fn audit(&self, subscriber_id: &str, log: &State, report: &mut AuditReport) {
        let (subscriber_id, after, position) = (subscriber_id.to_owned(), self.counted_after, self.position);
        let is_counted = |sequence: u64| sequence > after || self.counted_ledger.contains(sequence);
        let sequences = log.after(0).filter_map(|event| event.global_sequence);
        let counted = sequences.take_while(|sequence| *sequence <= position).filter(|sequence| is_counted(*sequence));
        let due = counted.filter(|sequence| !self.ledger.contains(*sequence));
        let (in_log, sum) = due.fold((0, 0), |(count, sum), sequence| (count + 1, sum + sequence));
        let settled = self.settled;
        report.events += in_log;
        if in_log != settled {
            let missing = if in_log == settled + 1 { sum.checked_sub(self.settled_sum) } else { None };
            let missing = missing.filter(|missing| *missing <= position && is_counted(*missing));
            report.findings.push(AuditFinding::CountDiffers {
                subscriber_id,
                after,
                position,
                in_log,
                settled,
                missing,
            });
        } else if sum != self.settled_sum {
            report.findings.push(AuditFinding::SumDiffers { subscriber_id, after, position });
        }
    }
}
