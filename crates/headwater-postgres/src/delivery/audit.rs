//! Compares what subscribers settled with what the log holds.

use headwater_core::{AuditFinding, AuditReport, NamespaceInfo};
use sqlx::{PgConnection, Row};

use super::Result;
use crate::database::error::subscriber_error;
use crate::database::number::{PgSequence, sequence, sequence_or_null};
use crate::sql;

/// The most events in permanent gaps that a report names.
const MAX_GAP_EVENTS: i32 = 1_000;

pub(super) async fn audit(
    conn: &mut PgConnection,
    info: &NamespaceInfo,
    subscriber_ids: &[String],
) -> Result<AuditReport> {
    let mut report = AuditReport::default();
    let subscribers = sqlx::query(sql::delivery::AUDIT_SUBSCRIBERS)
        .bind(&info.name)
        .bind((!subscriber_ids.is_empty()).then_some(subscriber_ids))
        .fetch_all(&mut *conn)
        .await
        .map_err(subscriber_error)?;
    for row in &subscribers {
        let number = |column: &str| sequence(row, column).map_err(subscriber_error);
        let (in_log, settled) = (number("in_log")?, number("settled")?);
        let subscriber_id = row.get("subscriber_id");
        let (after, position) = (number("after_sequence")?, number("position")?);
        report.subscribers += 1;
        report.events += in_log;
        if in_log != settled {
            let missing = sequence_or_null(row, "missing").map_err(subscriber_error)?;
            report.findings.push(AuditFinding::CountDiffers {
                subscriber_id,
                after,
                position,
                in_log,
                settled,
                missing,
            });
        } else if row.get("sums_differ") {
            report.findings.push(AuditFinding::SumDiffers { subscriber_id, after, position });
        }
    }
    let queues = sqlx::query(sql::queue::AUDIT_QUEUES)
        .bind(&info.name)
        .bind((!subscriber_ids.is_empty()).then_some(subscriber_ids))
        .fetch_all(&mut *conn)
        .await
        .map_err(subscriber_error)?;
    for row in &queues {
        let number = |column: &str| sequence(row, column).map_err(subscriber_error);
        report.findings.push(AuditFinding::QueueContradicts {
            subscriber_id: row.get("subscriber_id"),
            problem: row.get("problem"),
            first: number("first_sequence")?,
            last: number("last_sequence")?,
            events: number("events")?,
        });
    }
    let gaps = sqlx::query_scalar(sql::log::COUNT_GAPS).bind(info.id);
    PgSequence(report.permanent_gaps) = gaps.fetch_one(&mut *conn).await.map_err(subscriber_error)?;
    let events = sqlx::query(sql::log::AUDIT_GAPS).bind(&info.name).bind(MAX_GAP_EVENTS);
    for row in events.fetch_all(conn).await.map_err(subscriber_error)? {
        let global_sequence = sequence(&row, "global_sequence").map_err(subscriber_error)?;
        report.findings.push(AuditFinding::EventInPermanentGap { global_sequence, event_id: row.get("event_id") });
    }
    Ok(report)
}
