//! The tables of epoch, an event bus that people come from.

use headwater_postgres::{ImportFollow, ImportOptions, ImportSource};
use sqlx::PgConnection;

use super::run;

/// As its migrations make them.
pub(crate) const TABLES: &str = "
    CREATE TABLE public.events (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(), stream_id uuid NOT NULL, stream_version bigint NOT NULL, event_type varchar(255) NOT NULL, data jsonb,
        created_at timestamptz NOT NULL DEFAULT clock_timestamp(), actor_id uuid, purger_id uuid, purged_at timestamptz, UNIQUE (stream_id, stream_version));
    CREATE SEQUENCE public.events_global_sequence_seq;
    ALTER TABLE public.events ADD COLUMN global_sequence bigint DEFAULT nextval('public.events_global_sequence_seq');
    ALTER TABLE public.events ALTER COLUMN global_sequence SET NOT NULL;
    CREATE INDEX ON public.events (global_sequence);
    CREATE TABLE public.epoch_event_bus_checkpoints (
        subscriber_id varchar(255) PRIMARY KEY, last_global_sequence bigint NOT NULL DEFAULT 0, last_event_id uuid, updated_at timestamptz NOT NULL DEFAULT now());
    CREATE TABLE public.epoch_event_bus_dlq (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(), subscriber_id varchar(255) NOT NULL, event_id uuid NOT NULL, global_sequence bigint NOT NULL,
        error_message text, retry_count int NOT NULL DEFAULT 0, created_at timestamptz NOT NULL DEFAULT now(), last_retry_at timestamptz,
        UNIQUE (subscriber_id, event_id));
    CREATE FUNCTION public.store(stream int, version bigint, sequence bigint DEFAULT nextval('public.events_global_sequence_seq')) RETURNS bigint
    LANGUAGE sql AS $$
        INSERT INTO public.events (stream_id, stream_version, event_type, data, global_sequence)
        VALUES (lpad(stream::text, 32, '0')::uuid, version, 'Happened', jsonb_build_object('sequence', sequence), sequence) RETURNING global_sequence
    $$;";

pub(crate) fn options(follow: Option<ImportFollow>) -> ImportOptions {
    ImportOptions { batch: 10, follow, ..ImportOptions::new("old", ImportSource::epoch("public.events")) }
}

/// Stores events as epoch does: each is the next version of its stream.
pub(crate) async fn store(session: &mut PgConnection, stream: i32, versions: std::ops::RangeInclusive<i64>) {
    for version in versions {
        run(session, &format!("SELECT public.store({stream}, {version})")).await;
    }
}

/// What follows the table, in the source: triggers, functions and tables.
pub(crate) async fn left_behind(session: &mut PgConnection) -> i64 {
    let count = r"SELECT (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'headwater\_note%') + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'headwater\_note%')
                       + (SELECT count(*) FROM pg_class WHERE relname LIKE 'headwater\_note%')";
    sqlx::query_scalar(count).fetch_one(session).await.unwrap()
}
