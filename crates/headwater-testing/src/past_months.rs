//! Logs with a past, because no test can wait for months. The tests of Headwater itself need them,
//! and write to its tables.

use sqlx::AssertSqlSafe;

use crate::TestDatabase;

impl TestDatabase {
    /// Adds `months` months before this month with `events_each` events each, the oldest first, as
    /// if the events had been appended then. Their sequences follow the namespace's existing ones.
    #[doc(hidden)]
    pub async fn past_months(&self, namespace: &str, months: u32, events_each: u32) {
        let script = format!(
            "DO $$ DECLARE ns headwater_private.namespaces := headwater_private.namespace_row('{namespace}'); at timestamptz; BEGIN
                 FOR i IN REVERSE {months} .. 1 LOOP
                     at := (date_trunc('month', now() AT TIME ZONE 'UTC') - i * interval '1 month') AT TIME ZONE 'UTC';
                     PERFORM headwater_private.create_leaf(ns.namespace_id, at);
                     UPDATE headwater_private.namespaces n SET tail_from = least(n.tail_from, at) WHERE n.namespace_id = ns.namespace_id;
                     EXECUTE format(
                         'INSERT INTO headwater_private.%I (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id,
                                                            event_type, data)
                          SELECT nextval($1), $2, $3 + n * interval ''1 second'', $3 + n * interval ''1 second'', $4,
                                 gen_random_uuid(), ''past'', to_jsonb(n)
                            FROM generate_series(1, {events_each}) AS n', headwater_private.log_table(ns)) USING ns.sequence, i, at, ns.namespace_id;
                 END LOOP;
             END $$"
        );
        self.script(&script).await;
    }

    /// Moves events of this month to an earlier one, as if they had been appended `months_ago`
    /// months ago.
    #[doc(hidden)]
    pub async fn backdate(&self, namespace: &str, first_sequence: u64, last_sequence: u64, months_ago: u32) {
        let script = format!(
            "DO $$ DECLARE ns headwater_private.namespaces := headwater_private.namespace_row('{namespace}');
                 at timestamptz := (date_trunc('month', now() AT TIME ZONE 'UTC') - {months_ago} * interval '1 month') AT TIME ZONE 'UTC';
             BEGIN
                 PERFORM headwater_private.create_leaf(ns.namespace_id, at);
                 UPDATE headwater_private.namespaces n SET tail_from = least(n.tail_from, at) WHERE n.namespace_id = ns.namespace_id;
                 UPDATE headwater_private.events e SET recorded_at = at + interval '1 day'
                  WHERE e.namespace_id = ns.namespace_id AND e.global_sequence BETWEEN {first_sequence} AND {last_sequence};
                 UPDATE headwater_private.streams s SET first_at = e.first_at, last_at = e.last_at
                   FROM (SELECT e.stream_id, min(e.recorded_at) AS first_at, max(e.recorded_at) AS last_at FROM headwater_private.events e
                          WHERE e.namespace_id = ns.namespace_id AND e.stream_id IS NOT NULL GROUP BY e.stream_id) e
                  WHERE s.namespace_id = ns.namespace_id AND s.stream_id = e.stream_id;
             END $$"
        );
        self.script(&script).await;
    }

    /// Sets the retention of a namespace so that it keeps this month and `months` before it,
    /// whatever day today is.
    #[doc(hidden)]
    pub async fn keep_months(&self, namespace: &str, months: u32) {
        let script = format!(
            "UPDATE headwater_private.namespaces
                SET retention = now() - (date_trunc('month', now() AT TIME ZONE 'UTC') - {months} * interval '1 month') AT TIME ZONE 'UTC'
              WHERE namespace = '{namespace}'"
        );
        self.script(&script).await;
    }

    async fn script(&self, script: &str) {
        let ran = sqlx::raw_sql(AssertSqlSafe(script.to_owned())).execute(self.database.pool()).await;
        ran.expect("failed to make a past");
    }
}
