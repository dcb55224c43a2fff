//! Every SQL text of Headwater, by name. The texts are in `sql/`; tests prepare each statement, and check that these
//! lists hold every file.

macro_rules! sql {
    ($folder:literal, $name:literal) => {
        include_str!(concat!("../sql/", $folder, "/", $name, ".sql"))
    };
}

macro_rules! texts {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[$(($name, sql!($folder, $name))),+]
    };
}

/// Migrations, in order: applied once, frozen once shipped.
pub(crate) const MIGRATIONS: &[(&str, &str)] = texts!("migrations":
    "0001_log",
    "0002_delivery",
    "0003_groups",
    "0004_queues",
    "0005_due",
    "0006_settled_ahead",
    "0007_nodes",
    "0008_schedules",
    "0009_months",
    "0010_roles",
    "0011_imports",
    "0012_poison",
    "0013_cdc_inbox",
    "0014_claims_at_once",
    "0015_reads_by_month",
    "0016_cdc_owner",
    "0017_poison_resets",
    "0018_handled_types",
    "0019_wall",
    "0020_histories",
    "0021_queue_locks",
    "0022_readable",
    "0023_state_versions",
    "0024_missed_nodes",
    "0025_poison_told",
    "0026_checked_at_the_door",
    "0027_present_history",
    "0028_shared_months",
    "0029_one_claim",
    "0030_counters",
    "0031_ledger_chunks",
    "0032_ordered_in_sql",
    "0033_one_table",
    "0034_month_by_month",
    "0035_type_index",
    "0036_storage_moves",
    "0037_followed_imports",
    "0038_month_races",
    "0039_known_runs",
    "0040_failures",
);

/// Functions: replaced whole when [`FUNCTIONS_REVISION`] is above the database's.
pub(crate) const FUNCTIONS: &[(&str, &str)] = texts!("functions":
    "ack",
    "ack_claims",
    "ack_once",
    "add_poison_notifier",
    "advance",
    "advance_chunks",
    "advance_in",
    "advance_streams",
    "alter_namespace",
    "any_visible",
    "append",
    "append_batch",
    "append_due",
    "append_event_log",
    "append_runs",
    "append_streams",
    "append_writes",
    "apply_grants",
    "are_attempts",
    "are_readable",
    "are_writes",
    "as_likes",
    "attend_alone",
    "audit_gaps",
    "audit_queues",
    "audit_subscribers",
    "authorize",
    "begin_event",
    "begin_history",
    "begin_maintenance",
    "begin_move",
    "begin_turn",
    "bundle_cursors",
    "bundle_end",
    "bundle_numbers",
    "bury",
    "bury_events",
    "by_month",
    "cancel_due",
    "causation_chain",
    "cdc_begin",
    "cdc_caught_up",
    "cdc_evict",
    "cdc_fence",
    "cdc_inbox_head",
    "cdc_inbox_page",
    "cdc_left",
    "cdc_orphans",
    "cdc_own",
    "cdc_receive",
    "cdc_release",
    "cdc_report",
    "cdc_status",
    "cdc_tidy",
    "check_advance",
    "check_claim",
    "check_event",
    "check_grant",
    "check_granted",
    "check_index",
    "check_imported",
    "check_imported_queues",
    "check_interval",
    "check_max_events",
    "check_name",
    "check_namespace_settings",
    "check_node",
    "check_patterns",
    "check_per_claim",
    "check_schedule",
    "check_sequences",
    "check_slot",
    "check_subscriber",
    "check_time",
    "check_timezone",
    "check_visibility",
    "check_writes",
    "claim",
    "claim_lost",
    "claimed_events",
    "claimed_sequences",
    "clock_change",
    "clock_shows",
    "close_counter",
    "close_gaps",
    "complete_move",
    "copy_events",
    "correlation_page",
    "count_dead_letters",
    "count_events",
    "count_gaps",
    "count_month",
    "counted",
    "create_leaf",
    "create_namespace",
    "cron_after",
    "cron_before",
    "cron_day",
    "cron_field",
    "cron_fields",
    "cron_local_after",
    "cron_next",
    "cron_value",
    "cron_walk",
    "dead_letter_queue_name_for_namespace",
    "discard",
    "doctor_namespaces",
    "drop_cron_job",
    "drop_month",
    "drop_namespace",
    "drop_steps",
    "emit",
    "emit_at",
    "emit_batch",
    "emit_one",
    "end_claim",
    "end_maintenance",
    "end_turn",
    "enter_log",
    "equip_leaf",
    "event_json",
    "events_at",
    "events_in",
    "expire_claims",
    "export_events",
    "export_rows",
    "extend",
    "fail",
    "fail_claimed",
    "fail_events",
    "faults",
    "find_events",
    "fire_all_due",
    "fire_all_schedules",
    "fire_due",
    "fire_schedules",
    "fire_tasks",
    "first_due",
    "forget_ahead",
    "forget_applied",
    "forget_claims",
    "forget_nodes",
    "gap_events",
    "get_state",
    "get_state_for_update",
    "grant_role",
    "granted_to",
    "group_members",
    "group_status",
    "guard_month",
    "has_index",
    "heads_query",
    "heartbeat",
    "held_claim",
    "held_rows",
    "highest_event",
    "history",
    "holders",
    "horizon",
    "horizon_of",
    "import_advance",
    "import_begin",
    "import_checksum",
    "import_events",
    "import_finish",
    "import_follow",
    "import_follow_advance",
    "import_follow_move",
    "import_letters",
    "import_lines",
    "import_namespace",
    "import_queue",
    "import_range",
    "import_subscribers",
    "import_verified",
    "indexed_types",
    "is_granted",
    "is_idle",
    "is_node",
    "is_parked",
    "join_groups",
    "json_time",
    "keep_leases",
    "keep_ledger",
    "kept_position",
    "kept_until",
    "lags_query",
    "latch",
    "lease_partitions",
    "leave_groups",
    "leaves",
    "leaves_of",
    "ledger_after",
    "ledger_at",
    "ledger_chunks",
    "ledger_cover",
    "ledger_holds",
    "ledger_of",
    "ledger_size",
    "ledger_with",
    "ledger_without",
    "letters_again",
    "letters_handled",
    "letters_to_redrive",
    "list_dead_letters",
    "list_due",
    "list_losses",
    "list_namespaces",
    "load_subscriber",
    "lock_queue",
    "lock_subscribers",
    "lockers",
    "log_bounds",
    "log_end",
    "log_page",
    "log_page_back",
    "log_table",
    "long_transactions",
    "look_ahead",
    "look_at",
    "look_by",
    "look_for",
    "maintain",
    "maintain_index",
    "maintain_namespace",
    "maintain_shared",
    "make_leaf",
    "make_leaves",
    "matches_pattern",
    "matching_letters",
    "may_notify",
    "member_lock",
    "merge_open",
    "missing_months",
    "month_bounds",
    "month_holders",
    "month_tables",
    "move_month",
    "move_target",
    "nack",
    "name_tail",
    "namespace_again",
    "namespace_row",
    "namespace_status",
    "need_month",
    "new_leaf_name",
    "new_claim",
    "newest_sequence",
    "next_due",
    "next_events",
    "next_recorded_at",
    "next_runs",
    "node_gone",
    "node_name",
    "node_statuses",
    "note_dropped",
    "note_handled",
    "note_poison",
    "older_snapshots",
    "open_indexed",
    "only_granted",
    "only_table",
    "open_namespace",
    "ordered_mode",
    "own_heads",
    "page_types",
    "owned_partition",
    "partition_lags",
    "partition_lost",
    "partition_of",
    "partitions",
    "partman_drop",
    "partman_months",
    "partman_of",
    "pass_types",
    "passed_by_type",
    "pause_schedule",
    "pause_self",
    "pause_subscriber",
    "paused_subscribers",
    "plan_runs",
    "poison",
    "poison_to_tell",
    "poison_told",
    "position_at",
    "prepare_months",
    "prune_runs",
    "publish_namespace",
    "published_table",
    "purge_dropped",
    "put_state",
    "queue_lags",
    "queue_letters",
    "queue_name_for_namespace",
    "queue_status",
    "read_claims",
    "read_cursor",
    "read_dead_letters",
    "read_log",
    "read_stream",
    "reap_unhandled",
    "record_gaps",
    "redeliver_in_order",
    "redeliver_poison",
    "redrivable_letters",
    "redrive",
    "redriven",
    "refuse_held",
    "refuse_sealed",
    "register_node",
    "register_subscriber",
    "release_leases",
    "release_partitions",
    "release_unlocked",
    "remove_subscriber",
    "rename_namespace",
    "requeue_letters",
    "require_history",
    "require_in_log",
    "require_owner",
    "require_proof",
    "require_shared",
    "reset_active",
    "reset_on_poison",
    "reset_subscriber",
    "resize_group",
    "resume_schedule",
    "resume_subscriber",
    "retire_month",
    "revoke_role",
    "rewrite_month",
    "role_grants",
    "run_ahead",
    "run_of_types",
    "run_schedule_now",
    "run_scheduled_task",
    "save_queue",
    "schedule",
    "schedule_event_id",
    "schedule_history",
    "schedule_row",
    "schedule_status",
    "seal_months",
    "seal_past",
    "set_cron_job",
    "set_index",
    "set_storage",
    "settle",
    "settle_ahead_in",
    "settle_resize",
    "shown_namespace",
    "split_claim",
    "stale_nodes",
    "step_of_month",
    "stop_node",
    "store_due",
    "stored_append",
    "stored_events",
    "stream_page",
    "stream_page_back",
    "subscriber_lags",
    "subscriber_lock",
    "subscriber_position",
    "subscriber_status",
    "switch_storage",
    "tables_by_namespace",
    "tail_tables",
    "tail_events",
    "take_claims",
    "take_indexed",
    "take_new",
    "take_open",
    "take_retry",
    "tend_queue",
    "touch_node_heartbeat",
    "trim_month",
    "turn_back",
    "typed_ahead",
    "typed_page",
    "typed_sequences",
    "undo_move",
    "unhandled_in",
    "unschedule",
    "uuid_v7",
    "visible_in",
    "waiting_in_past",
    "wake",
    "wake_due",
    "wake_firing",
    "whole_bundles",
    "writer_key",
    "writers",
    "zoned_time",
);

/// Raised by one with every change to a function that ships, so that of two builds at work on one database the newer
/// one's functions stay.
pub(crate) const FUNCTIONS_REVISION: i64 = 16;

pub(crate) const ACK_CLAIM: &str = sql!("statements", "ack_claim");
pub(crate) const ACK_ONCE: &str = sql!("statements", "ack_once");
pub(crate) const ADD_POISON_NOTIFIER: &str = sql!("statements", "add_poison_notifier");
pub(crate) const ADVANCE: &str = sql!("statements", "advance");
pub(crate) const ADVANCE_CHUNKS: &str = sql!("statements", "advance_chunks");
pub(crate) const ADVANCE_IN: &str = sql!("statements", "advance_in");
pub(crate) const ALL_SUBSCRIBERS: &str = sql!("statements", "all_subscribers");
pub(crate) const ALTER_NAMESPACE: &str = sql!("statements", "alter_namespace");
pub(crate) const APPEND_BATCH: &str = sql!("statements", "append_batch");
pub(crate) const APPLIED_MIGRATIONS: &str = sql!("statements", "applied_migrations");
pub(crate) const APPLY_GRANTS: &str = sql!("statements", "apply_grants");
pub(crate) const ATTEND_ALONE: &str = sql!("statements", "attend_alone");
pub(crate) const AUDIT_GAPS: &str = sql!("statements", "audit_gaps");
pub(crate) const AUDIT_QUEUES: &str = sql!("statements", "audit_queues");
pub(crate) const AUDIT_SUBSCRIBERS: &str = sql!("statements", "audit_subscribers");
pub(crate) const BEGIN_MAINTENANCE: &str = sql!("session", "begin_maintenance");
pub(crate) const BEGIN_MAINTENANCE_LOCAL: &str = sql!("session", "begin_maintenance_local");
pub(crate) const BEGIN_EVENT: &str = sql!("statements", "begin_event");
pub(crate) const BEGIN_SNAPSHOT: &str = sql!("session", "begin_snapshot");
pub(crate) const BEGIN_TURN: &str = sql!("statements", "begin_turn");
pub(crate) const BURY: &str = sql!("statements", "bury");
pub(crate) const CANCEL_DUE: &str = sql!("statements", "cancel_due");
pub(crate) const CAUSATION_CHAIN: &str = sql!("statements", "causation_chain");
pub(crate) const CDC_BEGIN: &str = sql!("statements", "cdc_begin");
pub(crate) const CDC_CAUGHT_UP: &str = sql!("statements", "cdc_caught_up");
pub(crate) const CDC_EVICT: &str = sql!("statements", "cdc_evict");
pub(crate) const CDC_INBOX_HEAD: &str = sql!("statements", "cdc_inbox_head");
pub(crate) const CDC_INBOX_PAGE: &str = sql!("statements", "cdc_inbox_page");
pub(crate) const CDC_LEFT: &str = sql!("statements", "cdc_left");
pub(crate) const CDC_NODES: &str = sql!("statements", "cdc_nodes");
pub(crate) const CDC_ORPHANS: &str = sql!("statements", "cdc_orphans");
pub(crate) const CDC_OWN: &str = sql!("statements", "cdc_own");
pub(crate) const CDC_RECEIVE: &str = sql!("statements", "cdc_receive");
pub(crate) const CDC_RELEASE: &str = sql!("statements", "cdc_release");
pub(crate) const CDC_REPORT: &str = sql!("statements", "cdc_report");
pub(crate) const CDC_SLOT_HEALTH: &str = sql!("statements", "cdc_slot_health");
pub(crate) const CDC_TIDY: &str = sql!("statements", "cdc_tidy");
pub(crate) const CLAIM_EVENTS: &str = sql!("statements", "claim_events");
pub(crate) const CORRELATION_PAGE: &str = sql!("statements", "correlation_page");
pub(crate) const COUNT_GAPS: &str = sql!("statements", "count_gaps");
pub(crate) const COUNT_MONTH: &str = sql!("statements", "count_month");
pub(crate) const CREATE_NAMESPACE: &str = sql!("statements", "create_namespace");
pub(crate) const DATABASE_OID: &str = sql!("statements", "database_oid");
pub(crate) const DEAD_LETTERS: &str = sql!("statements", "dead_letters");
pub(crate) const DISCARD: &str = sql!("statements", "discard");
pub(crate) const DOCTOR_NAMESPACES: &str = sql!("statements", "doctor_namespaces");
pub(crate) const DOCTOR_SERVER: &str = sql!("statements", "doctor_server");
pub(crate) const DOCTOR_SLOTS: &str = sql!("statements", "doctor_slots");
pub(crate) const DOCTOR_SNAPSHOTS: &str = sql!("statements", "doctor_snapshots");
pub(crate) const DROP_NAMESPACE: &str = sql!("statements", "drop_namespace");
pub(crate) const DROP_SLOT: &str = sql!("statements", "drop_slot");
pub(crate) const DROP_STEPS: &str = sql!("statements", "drop_steps");
pub(crate) const DUE_EVENTS: &str = sql!("statements", "due_events");
pub(crate) const EMIT_BATCH: &str = sql!("statements", "emit_batch");
pub(crate) const EMIT_ONE: &str = sql!("statements", "emit_one");
pub(crate) const EXPORT_EVENTS: &str = sql!("statements", "export_events");
pub(crate) const EXPORT_ROWS: &str = sql!("statements", "export_rows");
pub(crate) const HISTORY: &str = sql!("statements", "history");
pub(crate) const END_TURN: &str = sql!("statements", "end_turn");
pub(crate) const EXTEND_CLAIM: &str = sql!("statements", "extend_claim");
pub(crate) const FAULTS: &str = sql!("statements", "faults");
pub(crate) const FIND_EVENTS: &str = sql!("statements", "find_events");
pub(crate) const FIRE_ALL_DUE: &str = sql!("statements", "fire_all_due");
pub(crate) const FIRE_ALL_SCHEDULES: &str = sql!("statements", "fire_all_schedules");
pub(crate) const FIRE_DUE: &str = sql!("statements", "fire_due");
pub(crate) const FIRE_SCHEDULES: &str = sql!("statements", "fire_schedules");
pub(crate) const FORGET_NODES: &str = sql!("statements", "forget_nodes");
pub(crate) const FORGET_STATEMENTS: &str = sql!("session", "forget_statements");
pub(crate) const FORGET_APPLIED: &str = sql!("statements", "forget_applied");
pub(crate) const FORGET_AHEAD: &str = sql!("statements", "forget_ahead");
pub(crate) const FUNCTIONS_REVISION_ROW: &str = sql!("statements", "functions_revision_row");
pub(crate) const GAP_EVENTS: &str = sql!("statements", "gap_events");
pub(crate) const GET_STATE: &str = sql!("statements", "get_state");
pub(crate) const GET_STATE_FOR_UPDATE: &str = sql!("statements", "get_state_for_update");
pub(crate) const GRANT_ROLE: &str = sql!("statements", "grant_role");
pub(crate) const GROUP_MEMBERS: &str = sql!("statements", "group_members");
pub(crate) const GROUP_STATUS: &str = sql!("statements", "group_status");
pub(crate) const HEARTBEAT: &str = sql!("statements", "heartbeat");
pub(crate) const HOLDERS: &str = sql!("statements", "holders");
pub(crate) const HORIZON: &str = sql!("statements", "horizon");
pub(crate) const IMPORT_ADVANCE: &str = sql!("statements", "import_advance");
pub(crate) const IMPORT_BEGIN: &str = sql!("statements", "import_begin");
pub(crate) const IMPORT_CHECKSUM: &str = sql!("statements", "import_checksum");
pub(crate) const IMPORT_COLUMNS: &str = sql!("import", "columns");
pub(crate) const IMPORT_CHECKPOINTS: &str = sql!("import", "checkpoints");
pub(crate) const IMPORT_EPOCH: &str = sql!("import", "epoch");
pub(crate) const IMPORT_FIELDS: &str = sql!("import", "fields");
pub(crate) const IMPORT_FINISH: &str = sql!("statements", "import_finish");
pub(crate) const IMPORT_FOLLOW: &str = sql!("statements", "import_follow");
pub(crate) const IMPORT_FOLLOW_ADVANCE: &str = sql!("statements", "import_follow_advance");
pub(crate) const IMPORT_FOLLOW_MOVE: &str = sql!("statements", "import_follow_move");
pub(crate) const IMPORT_LETTERS: &str = sql!("statements", "import_letters");
pub(crate) const IMPORT_LINES: &str = sql!("statements", "import_lines");
pub(crate) const IMPORT_LOCKING: &str = sql!("import", "locking");
pub(crate) const IMPORT_NAMESPACE: &str = sql!("statements", "import_namespace");
pub(crate) const IMPORT_NOTES_DROP: &str = sql!("import", "notes_drop");
pub(crate) const IMPORT_NOTES_FORGET: &str = sql!("import", "notes_forget");
pub(crate) const IMPORT_NOTES_KEEP: &str = sql!("import", "notes_keep");
pub(crate) const IMPORT_NOTES_LAST: &str = sql!("import", "notes_last");
pub(crate) const IMPORT_NOTES_LOCK: &str = sql!("import", "notes_lock");
pub(crate) const IMPORT_NOTES_MAKE: &str = sql!("import", "notes_make");
pub(crate) const IMPORT_NOTES_PAGE: &str = sql!("import", "notes_page");
pub(crate) const IMPORT_NOTES_THERE: &str = sql!("import", "notes_there");
pub(crate) const IMPORT_PAGE: &str = sql!("import", "page");
pub(crate) const IMPORT_RANGE: &str = sql!("statements", "import_range");
pub(crate) const IMPORT_SOURCE_CHECKSUM: &str = sql!("import", "checksum");
pub(crate) const IMPORT_SOURCE_LETTERS: &str = sql!("import", "letters");
pub(crate) const IMPORT_SUBSCRIBERS: &str = sql!("statements", "import_subscribers");
pub(crate) const IMPORT_TRIGGER_DROP: &str = sql!("import", "trigger_drop");
pub(crate) const IMPORT_VERIFIED: &str = sql!("statements", "import_verified");
pub(crate) const IMPORT_WRITERS: &str = sql!("import", "writers");
pub(crate) const IMPORT_WRITERS_LEFT: &str = sql!("import", "writers_left");
pub(crate) const IS_NODE: &str = sql!("statements", "is_node");
pub(crate) const IS_PARKED: &str = sql!("statements", "is_parked");
pub(crate) const JOIN_GROUPS: &str = sql!("statements", "join_groups");
pub(crate) const KEEP_LEASES: &str = sql!("statements", "keep_leases");
pub(crate) const LEAVE_GROUPS: &str = sql!("statements", "leave_groups");
pub(crate) const BEGIN_LIMITED: &str = sql!("session", "begin_limited");
pub(crate) const LOAD_SUBSCRIBER: &str = sql!("statements", "load_subscriber");
pub(crate) const LOG_END: &str = sql!("statements", "log_end");
pub(crate) const LOG_PAGE: &str = sql!("statements", "log_page");
pub(crate) const LOG_PAGE_BACK: &str = sql!("statements", "log_page_back");
pub(crate) const LONG_TRANSACTIONS: &str = sql!("statements", "long_transactions");
pub(crate) const LOSSES: &str = sql!("statements", "losses");
pub(crate) const MAINTAIN_INDEX: &str = sql!("statements", "maintain_index");
pub(crate) const MAINTAIN_NAMESPACE: &str = sql!("statements", "maintain_namespace");
pub(crate) const END_MAINTENANCE: &str = sql!("statements", "end_maintenance");
pub(crate) const RENAME_NAMESPACE: &str = sql!("statements", "rename_namespace");
pub(crate) const TAKE_MAINTENANCE: &str = sql!("statements", "take_maintenance");
pub(crate) const MIGRATIONS_TABLE: &str = sql!("statements", "migrations_table");
pub(crate) const MIGRATION_LOCK: &str = sql!("statements", "migration_lock");
pub(crate) const MONTHS: &str = sql!("statements", "months");
pub(crate) const NACK_CLAIMS: &str = sql!("statements", "nack_claims");
pub(crate) const NAMESPACE: &str = sql!("statements", "namespace");
pub(crate) const NAMESPACE_STATUS: &str = sql!("statements", "namespace_status");
pub(crate) const NAMESPACES: &str = sql!("statements", "namespaces");
pub(crate) const NEXT_RUNS: &str = sql!("statements", "next_runs");
pub(crate) const NODES: &str = sql!("statements", "nodes");
pub(crate) const NOTE_DROPPED: &str = sql!("statements", "note_dropped");
pub(crate) const NOTE_FUNCTIONS: &str = sql!("statements", "note_functions");
pub(crate) const NOTE_MIGRATION: &str = sql!("statements", "note_migration");
pub(crate) const NOTE_POISON: &str = sql!("statements", "note_poison");
pub(crate) const MAINTAIN_SHARED: &str = sql!("statements", "maintain_shared");
pub(crate) const MIGRATE_SAFELY: &str = sql!("session", "migrate_safely");
pub(crate) const NOTICE_LOSS: &str = sql!("session", "notice_loss");
pub(crate) const OWN_FUNCTIONS: &str = sql!("statements", "own_functions");
pub(crate) const PARTITIONS: &str = sql!("statements", "partitions");
pub(crate) const PAUSED_SUBSCRIBERS: &str = sql!("statements", "paused_subscribers");
pub(crate) const PASS_TYPES: &str = sql!("statements", "pass_types");
pub(crate) const PAUSE_SCHEDULE: &str = sql!("statements", "pause_schedule");
pub(crate) const PAUSE_SELF: &str = sql!("statements", "pause_self");
pub(crate) const PAUSE_SUBSCRIBER: &str = sql!("statements", "pause_subscriber");
pub(crate) const PIN: &str = sql!("session", "pin");
pub(crate) const PING: &str = sql!("statements", "ping");
pub(crate) const POISON: &str = sql!("statements", "poison");
pub(crate) const POISON_TOLD: &str = sql!("statements", "poison_told");
pub(crate) const POISON_TO_TELL: &str = sql!("statements", "poison_to_tell");
pub(crate) const POSITION_AT: &str = sql!("statements", "position_at");
pub(crate) const PUBLISH_NAMESPACE: &str = sql!("statements", "publish_namespace");
pub(crate) const PURGE_DROPPED: &str = sql!("statements", "purge_dropped");
pub(crate) const PUT_STATE: &str = sql!("statements", "put_state");
pub(crate) const READ_CLAIMS: &str = sql!("statements", "read_claims");
pub(crate) const READ_STREAM: &str = sql!("statements", "read_stream");
pub(crate) const QUEUE_STATUS: &str = sql!("statements", "queue_status");
pub(crate) const REAP_UNHANDLED: &str = sql!("statements", "reap_unhandled");
pub(crate) const RECORD_GAPS: &str = sql!("statements", "record_gaps");
pub(crate) const REDELIVER_IN_ORDER: &str = sql!("statements", "redeliver_in_order");
pub(crate) const REDELIVER_POISON: &str = sql!("statements", "redeliver_poison");
pub(crate) const REDRIVABLE_LETTERS: &str = sql!("statements", "redrivable_letters");
pub(crate) const REDRIVE: &str = sql!("statements", "redrive");
pub(crate) const REDRIVEN: &str = sql!("statements", "redriven");
pub(crate) const REGISTER_NODE: &str = sql!("statements", "register_node");
pub(crate) const REGISTER_SUBSCRIBER: &str = sql!("statements", "register_subscriber");
pub(crate) const RELEASE_LEASES: &str = sql!("statements", "release_leases");
pub(crate) const REMOVE_SUBSCRIBER: &str = sql!("statements", "remove_subscriber");
pub(crate) const REPLICATION_SETTINGS: &str = sql!("statements", "replication_settings");
pub(crate) const REPLICATION_SLOTS: &str = sql!("statements", "replication_slots");
pub(crate) const RESET_ON_POISON: &str = sql!("statements", "reset_on_poison");
pub(crate) const RESET_SUBSCRIBER: &str = sql!("statements", "reset_subscriber");
pub(crate) const RESIZE_GROUP: &str = sql!("statements", "resize_group");
pub(crate) const RESUME_SCHEDULE: &str = sql!("statements", "resume_schedule");
pub(crate) const RESUME_SUBSCRIBER: &str = sql!("statements", "resume_subscriber");
pub(crate) const REVOKE_ROLE: &str = sql!("statements", "revoke_role");
pub(crate) const ROLE_GRANTS: &str = sql!("statements", "role_grants");
pub(crate) const RUN_SCHEDULE_NOW: &str = sql!("statements", "run_schedule_now");
pub(crate) const SCHEDULE: &str = sql!("statements", "schedule");
pub(crate) const SCHEDULE_HISTORY: &str = sql!("statements", "schedule_history");
pub(crate) const SCHEDULE_STATUS: &str = sql!("statements", "schedule_status");
pub(crate) const SCHEMA_VERSION: &str = sql!("statements", "schema_version");
pub(crate) const SEAL_MONTHS: &str = sql!("statements", "seal_months");
pub(crate) const SET_STORAGE: &str = sql!("statements", "set_storage");
pub(crate) const SERVER_STATUS: &str = sql!("statements", "server_status");
pub(crate) const SETTLE_AHEAD_IN: &str = sql!("statements", "settle_ahead_in");
pub(crate) const SNAPSHOT: &str = sql!("statements", "snapshot");
pub(crate) const STILL_HANDLING: &str = sql!("statements", "still_handling");
pub(crate) const STOP_NODE: &str = sql!("statements", "stop_node");
pub(crate) const STORE_DUE: &str = sql!("statements", "store_due");
pub(crate) const STREAM_PAGE: &str = sql!("statements", "stream_page");
pub(crate) const STREAM_PAGE_BACK: &str = sql!("statements", "stream_page_back");
pub(crate) const SUBSCRIBER_POSITION: &str = sql!("statements", "subscriber_position");
pub(crate) const SUBSCRIBER_STATUS: &str = sql!("statements", "subscriber_status");
pub(crate) const TAKES_NO_WRITES: &str = sql!("session", "takes_no_writes");
pub(crate) const TRIM_MONTH: &str = sql!("statements", "trim_month");
pub(crate) const UNPIN: &str = sql!("session", "unpin");
pub(crate) const UNPIN_FAILED: &str = sql!("session", "unpin_failed");
pub(crate) const UNSCHEDULE: &str = sql!("statements", "unschedule");
pub(crate) const WAKE: &str = sql!("statements", "wake");
pub(crate) const WAKE_DUE: &str = sql!("statements", "wake_due");
pub(crate) const WRITERS: &str = sql!("statements", "writers");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    fn files(folder: &str) -> BTreeSet<String> {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sql").join(folder);
        let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.map(|name| name.trim_end_matches(".sql").to_owned()).collect()
    }

    #[test]
    fn the_lists_hold_every_file() {
        let names = |list: &[(&str, &str)]| list.iter().map(|(name, _)| name.to_string()).collect::<BTreeSet<_>>();
        assert_eq!(names(super::MIGRATIONS), files("migrations"));
        assert_eq!(names(super::FUNCTIONS), files("functions"));
        let source = include_str!("sql.rs");
        for name in files("statements") {
            assert!(source.contains(&format!("sql!(\"statements\", \"{name}\")")), "statements/{name}.sql is not used");
        }
    }

    /// Statements run with the session's own path, in which somebody else may have a function that fits better.
    #[test]
    fn statements_call_functions_by_their_whole_names() {
        const KEYWORDS: &[&str] = &[
            "all", "and", "any", "array", "as", "by", "coalesce", "conflict", "exists", "extract", "filter", "from",
            "greatest", "in", "interval", "join", "key", "lateral", "least", "nullif", "not", "on", "or", "over",
            "row", "select", "then", "union", "using", "values", "when", "where", "with",
        ];
        for name in files("statements") {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("sql/statements/{name}.sql"));
            let text = std::fs::read_to_string(path).unwrap();
            let code: String =
                text.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n");
            // What is between quotes is no code.
            let code = code.split('\'').step_by(2).collect::<Vec<_>>().join("''");
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
            for (at, _) in code.match_indices('(') {
                let before = &code[..at];
                let called = &before[before.rfind(|c| !is_name(c)).map_or(0, |i| i + 1)..];
                let is_alias = before[..at - called.len()].trim_end().to_lowercase().ends_with(" as");
                let is_whole = called.is_empty() || called.contains('.') || KEYWORDS.contains(&&*called.to_lowercase());
                assert!(is_whole || is_alias || called.starts_with('$'), "statements/{name}.sql calls {called}");
            }
        }
    }
}
