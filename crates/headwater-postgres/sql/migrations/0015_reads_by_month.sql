-- What reads need to know to open no months but theirs: when the events of a stream were recorded, and where the sealed months end.
-- Frozen once shipped.

ALTER TABLE headwater.streams
    -- no event of the stream was recorded before, none after; of streams that are older than these columns, nobody knows
    ADD COLUMN first_at timestamptz NOT NULL DEFAULT '-infinity',
    ADD COLUMN last_at timestamptz NOT NULL DEFAULT 'infinity';

ALTER TABLE headwater.namespaces
    -- what was recorded before tail_from has a sequence at or below tail_after: whoever reads after that needs no older leaf
    ADD COLUMN tail_after bigint NOT NULL DEFAULT 0,
    ADD COLUMN tail_from timestamptz NOT NULL DEFAULT '-infinity';
UPDATE headwater.namespaces n SET tail_after = m.high_sequence, tail_from = m.ends_at
  FROM (SELECT DISTINCT ON (m.namespace_id) m.* FROM headwater.months m ORDER BY m.namespace_id, m.starts_at DESC) m
 WHERE m.namespace_id = n.namespace_id;

-- Whoever may read the events may know of the streams.
CREATE POLICY readers ON headwater.streams FOR SELECT USING (namespace_id = ANY ((SELECT headwater.granted('consumer'))::int[]));

-- Their signatures change (in a new database there are none yet).
DROP FUNCTION IF EXISTS headwater.log_bounds(int, bigint, bigint, int);
DROP FUNCTION IF EXISTS headwater.advance_streams(int, int[], text[], int[], bigint[]);
DROP FUNCTION IF EXISTS headwater.stream_page(int, text, bigint, bigint, int);
DROP FUNCTION IF EXISTS headwater.stream_page_back(int, text, bigint, bigint, int);
