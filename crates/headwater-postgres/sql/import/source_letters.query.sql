-- Reads the next dead letters of another event bus, with the rows that they belong to.
-- src/import/carry.rs fills in what stands in braces.
SELECT letter.{subscriber}::text AS subscriber_id, letter.{event}::text AS event_id, {id}::text AS id, {time} AS happened_at, {error} AS error,
       {retries} AS retries, {created} AS created_at, {updated} AS updated_at
  FROM {letters} letter
  LEFT JOIN {from} ON {id} = letter.{event}::text::{id_type}
 WHERE $1::text IS NULL OR (letter.{subscriber}::text, letter.{event}::text) > ($1::text, $2::text)
 ORDER BY letter.{subscriber}::text, letter.{event}::text
 LIMIT {limit}
