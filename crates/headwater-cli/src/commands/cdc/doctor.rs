//! `headwater cdc doctor`

use clap::Args;
use headwater::Headwater;
use headwater::cdc::{ReplicationSettings, ReplicationSlot};
use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// A slot that retains more bytes of WAL than this gets a warning.
const MUCH: i64 = 1024 * 1024 * 1024;

/// Check what a node needs to follow the WAL: settings, privileges, free slots, and retained WAL
///
/// The exit code is 7 if no node can follow the WAL with the present settings.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater cdc doctor
  headwater cdc doctor --json | jq 'select(.verdict != \"ok\")'")]
pub(crate) struct Doctor {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, PartialEq, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    is: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
}

impl Doctor {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let settings = headwater.admin().replication_settings().await?;
        let slots = headwater.admin().replication_slots().await?;
        let findings = examine(&settings, &slots);
        for finding in &findings {
            if self.json {
                output.json(finding)?;
                continue;
            }
            let verdict = match finding.verdict {
                Verdict::Ok => "ok  ",
                Verdict::Warn => "warn",
                Verdict::Fail => "FAIL",
            };
            output.line(format_args!("{verdict}  {}: {}", finding.check, finding.is))?;
            if let Some(advice) = finding.advice {
                output.line(format_args!("      {advice}"))?;
            }
        }
        match findings.iter().any(|finding| finding.verdict == Verdict::Fail) {
            true => Err(Failure::new(Exit::Findings, "the WAL cannot be followed as things are: nodes poll the log")),
            false => Ok(()),
        }
    }
}

fn examine(settings: &ReplicationSettings, slots: &[ReplicationSlot]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut note = |check, verdict, is: String, advice: &'static str| {
        findings.push(Finding { check, verdict, is, advice: (verdict != Verdict::Ok).then_some(advice) });
    };
    let or = |fine: bool, otherwise| if fine { Verdict::Ok } else { otherwise };
    note(
        "wal_level",
        or(settings.wal_level == "logical", Verdict::Fail),
        settings.wal_level.clone(),
        "set wal_level = logical and restart the server",
    );
    note(
        "role",
        or(settings.may_replicate, Verdict::Fail),
        format!("{} {}", settings.role, if settings.may_replicate { "may replicate" } else { "may not replicate" }),
        "ALTER ROLE … REPLICATION",
    );
    let missing = &settings.not_published;
    note(
        "publications",
        or(missing.is_empty() || settings.may_publish, Verdict::Fail),
        match missing.as_slice() {
            [] => "all namespaces are published".into(),
            missing => format!("not published yet: {}", missing.join(", ")),
        },
        "this role may not publish Headwater's tables: let their owner run `headwater up --live cdc` or headwater.publish_namespace",
    );
    for (check, used, max) in [
        ("max_replication_slots", settings.slots, settings.max_slots),
        ("max_wal_senders", settings.senders, settings.max_senders),
    ] {
        let verdict = match max - used {
            ..1 => Verdict::Fail,
            1..3 => Verdict::Warn,
            _ => Verdict::Ok,
        };
        note(check, verdict, format!("{used} of {max} in use"), "each node that follows the WAL needs one: raise it");
    }
    let durable = slots.iter().any(|slot| !slot.temporary);
    note(
        "max_slot_wal_keep_size",
        or(settings.max_slot_wal_keep_bytes.is_some() || !durable, Verdict::Warn),
        settings.max_slot_wal_keep_bytes.map_or("no limit".into(), bytes),
        "a durable slot that nobody reads fills the disk: set a limit; a lost slot is created again, and the log has every event",
    );
    note(
        "server",
        or(!settings.is_standby, Verdict::Fail),
        if settings.is_standby { "a standby" } else { "a primary" }.into(),
        "follow the primary",
    );
    for slot in slots {
        let lost = slot.wal_status.as_deref() == Some("lost");
        let orphan = slot.active_pid.is_none();
        let retained = slot.retained_bytes.unwrap_or_default();
        if lost || orphan || retained > MUCH {
            let state = if lost { ", lost" } else { "" };
            let reader = if orphan { ", read by nobody" } else { "" };
            note(
                "slot",
                Verdict::Warn,
                format!("{} retains {}{state}{reader}", slot.slot, bytes(retained)),
                if orphan {
                    "drop it with `headwater cdc drop-slot`"
                } else {
                    "its reader is slow, or a long transaction holds it"
                },
            );
        }
    }
    findings
}

pub(super) fn bytes(bytes: i64) -> String {
    match bytes {
        ..0 => "none".into(),
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes / 1_048_576),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> ReplicationSettings {
        ReplicationSettings {
            wal_level: "logical".into(),
            max_slots: 10,
            slots: 1,
            max_senders: 10,
            senders: 1,
            max_slot_wal_keep_bytes: None,
            is_standby: false,
            role: "app".into(),
            may_replicate: true,
            may_publish: false,
            not_published: vec![],
        }
    }

    fn bad(settings: &ReplicationSettings, slots: &[ReplicationSlot]) -> Vec<(&'static str, Verdict)> {
        let findings = examine(settings, slots).into_iter();
        findings
            .map(|finding| (finding.check, finding.verdict))
            .filter(|(_, verdict)| *verdict != Verdict::Ok)
            .collect()
    }

    #[test]
    fn what_is_wrong_is_found() {
        assert_eq!(bad(&settings(), &[]), []);
        let wrong = ReplicationSettings {
            wal_level: "replica".into(),
            slots: 10,
            senders: 8,
            may_replicate: false,
            not_published: vec!["shop".into()],
            ..settings()
        };
        let expected = [
            ("wal_level", Verdict::Fail),
            ("role", Verdict::Fail),
            ("publications", Verdict::Fail),
            ("max_replication_slots", Verdict::Fail),
            ("max_wal_senders", Verdict::Warn),
        ];
        assert_eq!(bad(&wrong, &[]), expected);
    }

    #[test]
    fn slots_that_nobody_reads_are_found() {
        let slot = ReplicationSlot {
            slot: "headwater_n1".into(),
            plugin: "pgoutput".into(),
            temporary: false,
            active_pid: None,
            application_name: None,
            wal_status: Some("extended".into()),
            safe_wal_bytes: None,
            retained_bytes: Some(5),
            behind_bytes: None,
        };
        let expected = [("max_slot_wal_keep_size", Verdict::Warn), ("slot", Verdict::Warn)];
        assert_eq!(bad(&settings(), &[slot]), expected);
    }
}
