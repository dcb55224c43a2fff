//! The server's settings: what Headwater needs, then what the builder was given, which overrides
//! the former.

use crate::EmbeddedError;

/// The settings of every server. Logical decoding and two-phase commit are on because Headwater's
/// tests and followers use them. Each node that follows the WAL has a slot and a sender.
const COMMON: [(&str, &str); 12] = [
    ("listen_addresses", "127.0.0.1"),
    // Not "$user": that is headwater, like the schema, which is not for the tables of others.
    ("search_path", "public"),
    ("wal_level", "logical"),
    ("max_wal_senders", "50"),
    ("max_replication_slots", "50"),
    ("max_prepared_transactions", "16"),
    ("max_connections", "200"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    // We search the log for a few messages, which must not be translated.
    ("lc_messages", "C"),
    // It is on even if fsync is off. If it were off, a commit would be visible before it is in the
    // WAL, and no test should depend on that.
    ("synchronous_commit", "on"),
    ("log_line_prefix", "%m [%p] %q%u@%d "),
];

/// A setting of disposable servers, if the server knows it: Headwater's tests follow the WAL with
/// both plugins.
pub(crate) const OUTPUT_PLUGINS: (&str, &str) = ("output_plugin_libraries", "pgoutput, wal2json");

/// Settings that have a method of their own, or that the handle depends on.
const OWNED: [(&str, &str); 7] = [
    ("port", "use .port()"),
    ("fsync", "use .fsync()"),
    ("full_page_writes", "it goes with fsync: use .fsync()"),
    ("data_directory", "it is the folder of the server"),
    ("unix_socket_directories", "it is chosen for you: see Server::socket_dir"),
    ("unix_socket_permissions", "nobody but the server's user may use the socket: no password is asked for there"),
    ("logging_collector", "the log goes to server.log in the data folder"),
];

/// Returns all settings except the port and the socket, in the order in which the server gets them:
/// the last one counts.
pub(crate) fn resolve(
    durable: bool,
    fsync: bool,
    extra: Vec<(String, String)>,
) -> Result<Vec<(String, String)>, EmbeddedError> {
    if durable && !fsync {
        return Err(invalid("fsync", "off", "a durable server has it on; use ServerBuilder::disposable"));
    }
    let on_off = if fsync { "on" } else { "off" };
    let mut settings: Vec<(String, String)> = COMMON
        .iter()
        .chain(&[("fsync", on_off), ("full_page_writes", on_off)])
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    for (name, value) in extra {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(invalid(&name, &value, "a name has letters, digits, `_` and `.` only"));
        }
        if value.contains('\0') {
            return Err(invalid(&name, &value, "a value can not hold a zero byte"));
        }
        if let Some((_, reason)) = OWNED.iter().find(|(owned, _)| name.eq_ignore_ascii_case(owned)) {
            return Err(invalid(&name, &value, reason));
        }
        settings.push((name, value));
    }
    Ok(settings)
}

fn invalid(name: &str, value: &str, reason: &'static str) -> EmbeddedError {
    EmbeddedError::InvalidSetting { name: name.into(), value: value.into(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_server_is_never_without_fsync() {
        assert!(resolve(true, false, vec![]).is_err());
        let extra = vec![("fsync".to_owned(), "off".to_owned())];
        let error = resolve(true, true, extra).unwrap_err().to_string();
        assert_eq!(error, "the setting `fsync` can not be `off`: use .fsync()");
    }

    #[test]
    fn settings_of_the_caller_come_last() {
        let extra = vec![("max_connections".to_owned(), "400".to_owned())];
        let settings = resolve(false, false, extra).unwrap();
        assert_eq!(settings.last().unwrap().1, "400");
    }

    #[test]
    fn a_name_that_is_no_name_is_refused() {
        assert!(resolve(false, false, vec![("a b".into(), "1".into())]).is_err());
        assert!(resolve(false, false, vec![(String::new(), "1".into())]).is_err());
    }
}
