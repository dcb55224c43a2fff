#!/usr/bin/env bash
# A worker of a queue in SQL alone, as any language can have one: claim, work, ack or hand back, again and again. Any number of these share the work. The
# database must be migrated (`headwater migrate`, or a Rust program's migrate()).
#
#   DATABASE_URL=postgres://… crates/headwater/examples/sql_worker.sh [COUNT]
#
# It works until the queue is empty: COUNT events (default 20), every fifth of which fails at first.

set -euo pipefail
: "${DATABASE_URL:?DATABASE_URL is not set}"
command -v psql >/dev/null || { echo "error: psql was not found: apt-get install postgresql-client" >&2; exit 1; }

sql() { psql --no-psqlrc --quiet --tuples-only --no-align --field-separator ' ' --set ON_ERROR_STOP=1 "$@" "$DATABASE_URL"; }

sql --output /dev/null --set count="${1:-20}" <<'SQL'
SET client_min_messages = warning;
SELECT headwater.create_namespace('example-queue');
SELECT headwater.register_subscriber('example-queue', 'mailer', mode => 'shared');
SELECT headwater.emit('example-queue', 'MailOrdered', jsonb_build_object('to', 'customer-' || n)) FROM generate_series(1, :count) n;
SQL

# One claim for up to 7 events: a line for each, with the claim's id, how often the event was delivered before, its sequence and its data.
claim() {
    sql <<'SQL'
SELECT claim_id, redelivery_count, global_sequence, data ->> 'to'
  FROM headwater.claim('example-queue', 'mailer', max_events => 7, visibility => '30 s', worker => 'sql_worker', max_attempts => 3);
SQL
}

# An ack of one event of its claim: when all are settled, the claim is done.
ack() {
    sql --output /dev/null --set claim="$1" --set event="$2" <<'SQL'
SELECT headwater.ack('example-queue', 'mailer', :'claim', ARRAY[:event]);
SQL
}

# Handed back: delivered again, after the delay if there is one; a dead letter after the third time.
nack() {
    sql --output /dev/null --set claim="$1" --set event="$2" --set error="$3" <<'SQL'
SELECT headwater.nack('example-queue', 'mailer', :'claim', ARRAY[:event], delay => '0 s', error => :'error');
SQL
}

sent=0
while lines=$(claim) && [ -n "$lines" ]; do
    while read -r claim_id redelivered event customer; do
        # A claim that has looked far and found nothing has a row without a claim: the next one looks on.
        if [ -z "$claim_id" ]; then continue; fi
        if [ $((event % 5)) -eq 0 ] && [ "$redelivered" -eq 0 ]; then
            echo "event $event: no mail to $customer yet"
            nack "$claim_id" "$event" "the mail server is busy"
        else
            echo "event $event: mail to $customer"
            ack "$claim_id" "$event"
            sent=$((sent + 1))
        fi
    done <<<"$lines"
done

sql <<'SQL'
SELECT format('settled up to %s, %s in flight, %s to deliver again', position, in_flight, retries)
  FROM headwater.queue_status('example-queue', 'mailer');
SQL
echo "done: $sent mails"
