//! Watches the namespace's durable slot. Every node that has an inbox does this, whichever node
//! owns the slot.

use headwater_postgres::SlotHealth;

/// Returns what may go wrong, and what to do about it.
pub(crate) fn warnings(slot: &str, health: &SlotHealth, warn_retained_bytes: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    match health.wal_status.as_deref() {
        Some("extended") => warnings
            .push(format!("slot {slot} makes the server keep more WAL than max_wal_size (wal_status is extended)")),
        Some("unreserved") => warnings
            .push(format!("slot {slot} is about to be lost (wal_status is unreserved): raise max_slot_wal_keep_size")),
        Some("lost") => {
            warnings.push(format!("slot {slot} is lost: it is made anew, and what was missed is read from the log"))
        }
        _ => {}
    }
    if health.keep_bytes.is_none() {
        warnings.push(format!(
            "max_slot_wal_keep_size is -1: if nobody reads slot {slot}, its WAL fills the disk; set a limit"
        ));
    }
    if health.retained_bytes.unsigned_abs() > warn_retained_bytes && health.retained_bytes > 0 {
        let reader = match health.active {
            true => "its reader is slow, or a long transaction holds it",
            false => "nobody reads it: start a node, or drop it with `headwater cdc drop-slot`",
        };
        warnings
            .push(format!("slot {slot} makes the server keep {} MiB of WAL: {reader}", health.retained_bytes >> 20));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> SlotHealth {
        SlotHealth {
            plugin: Some("pgoutput".into()),
            wal_status: Some("reserved".into()),
            safe_wal_bytes: Some(1 << 20),
            retained_bytes: 64 << 20,
            keep_bytes: Some(1 << 30),
            active: true,
        }
    }

    #[test]
    fn a_slot_that_is_well_is_nothing_to_warn_of() {
        assert_eq!(warnings("s", &health(), 64 << 20), Vec::<String>::new());
    }

    #[test]
    fn what_may_go_wrong_is_said_with_what_to_do() {
        let said = |health: SlotHealth| warnings("s", &health, 64 << 20).join("; ");
        assert!(said(SlotHealth { keep_bytes: None, ..health() }).starts_with("max_slot_wal_keep_size is -1: "));
        assert_eq!(
            said(SlotHealth { retained_bytes: 65 << 20, active: false, ..health() }),
            "slot s makes the server keep 65 MiB of WAL: nobody reads it: start a node, or drop it with `headwater cdc drop-slot`"
        );
        for (status, word) in [("extended", "max_wal_size"), ("unreserved", "about to be lost"), ("lost", "made anew")]
        {
            let said = said(SlotHealth { wal_status: Some(status.into()), ..health() });
            assert!(said.contains(word), "{said}");
        }
    }
}
