-- Poison is told to every kind of notifier at least once, and recorded gaps do not overlap.
-- Frozen once shipped.

-- The kinds of notifiers that nodes have. Poison that is found from then on is told to each of them.
CREATE TABLE headwater_private.poison_notifiers (
    namespace_id int NOT NULL,
    notifier     text COLLATE "C" NOT NULL CHECK (octet_length(notifier) BETWEEN 1 AND 255),
    since        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace_id, notifier)
);

-- Poison that a notifier was not told of yet.
CREATE TABLE headwater_private.untold_poison (
    namespace_id    int NOT NULL,
    notifier        text COLLATE "C" NOT NULL,
    global_sequence bigint NOT NULL,
    PRIMARY KEY (namespace_id, notifier, global_sequence)
);

-- Ranges that overlap are taken apart: each sequence is in one range, as poison or trimmed where it is that.
DO $$
DECLARE
    gap  record;
    part record;
BEGIN
    CREATE TEMPORARY TABLE gaps_before ON COMMIT DROP AS SELECT g.* FROM headwater_private.permanent_gaps g;
    DELETE FROM headwater_private.permanent_gaps;
    FOR gap IN SELECT g.* FROM gaps_before g
                ORDER BY g.namespace_id, array_position(ARRAY['trimmed', 'poison', 'aborted'], g.proof), g.first_sequence, g.last_sequence LOOP
        FOR part IN SELECT coalesce(max(k.last) OVER (ORDER BY k.first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), gap.first_sequence - 1) + 1 AS first,
                           k.first - 1 AS last
                      FROM (SELECT p.first_sequence AS first, p.last_sequence AS last FROM headwater_private.permanent_gaps p
                             WHERE p.namespace_id = gap.namespace_id AND p.first_sequence <= gap.last_sequence AND p.last_sequence >= gap.first_sequence
                             UNION ALL
                            SELECT gap.last_sequence + 1, gap.last_sequence + 1) k LOOP
            IF part.first <= part.last THEN
                INSERT INTO headwater_private.permanent_gaps (namespace_id, first_sequence, last_sequence, proof, recorded_at)
                VALUES (gap.namespace_id, part.first, part.last, gap.proof, gap.recorded_at);
            END IF;
        END LOOP;
    END LOOP;
END
$$;

-- No two ranges of a namespace overlap, whoever records them at the same time. (A namespace's sequences are below 2^63.)
ALTER TABLE headwater_private.permanent_gaps ADD CONSTRAINT permanent_gaps_do_not_overlap EXCLUDE USING gist (
    numrange(namespace_id * 9223372036854775808 + first_sequence, namespace_id * 9223372036854775808 + last_sequence, '[]') WITH &&
);

-- Its answer has one more column.
DROP FUNCTION IF EXISTS headwater.cdc_status(headwater.caller);
