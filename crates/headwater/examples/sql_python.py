#!/usr/bin/env python3
"""Headwater from Python, with psycopg2 and nothing else: append, read, work off a queue, mend what failed, be a node, schedule.

    DATABASE_URL=postgres://… crates/headwater/examples/sql_python.py

The database must be migrated (`headwater migrate`). Other languages do the same: it is all SQL.
"""

import json
import os
import sys

try:
    import psycopg2
except ImportError:
    sys.exit("error: psycopg2 was not found: apt-get install python3-psycopg2")

NAMESPACE = "example-python"


def call(cursor, function, *args, **named):
    """Calls a function of Headwater's, and answers its rows."""
    places = ["%s"] * len(args) + [f"{name} => %s" for name in named]
    cursor.execute(f"SELECT * FROM headwater.{function}({', '.join(places)})", [*args, *named.values()])
    columns = [column.name for column in cursor.description]
    return [dict(zip(columns, row)) for row in cursor.fetchall()]


def main():
    db = psycopg2.connect(os.environ["DATABASE_URL"])

    # One transaction: what the application writes, and the events about it.
    with db, db.cursor() as cursor:
        call(cursor, "create_namespace", NAMESPACE)
        call(cursor, "register_subscriber", NAMESPACE, "mailer", mode="shared")
        cursor.execute("CREATE TEMPORARY TABLE sent (customer text)")
        for customer in ["ada", "grace", "nobody"]:
            call(cursor, "emit", NAMESPACE, "OrderPlaced", json.dumps({"customer": customer}), key=customer)
        events = [{"type": "CartOpened"}, {"type": "ItemAdded", "data": {"sku": "b-7"}}]
        stored = call(cursor, "append", NAMESPACE, f"cart-{os.getpid()}", json.dumps(events), expected_version=0)
        print(f"stream at version {stored[-1]['stream_version']}")

    # A version that is not as expected is an error with a code, and its DETAIL is JSON.
    try:
        with db, db.cursor() as cursor:
            call(cursor, "append", NAMESPACE, f"cart-{os.getpid()}", json.dumps(events), expected_version=0)
        raise SystemExit("a conflict was expected")
    except psycopg2.Error as error:
        assert error.pgcode == "WH007", error.pgcode
        print(f"conflict: the stream is at version {json.loads(error.diag.message_detail)['actual']}")

    # A reader of its own: it keeps the last sequence, and misses nothing.
    with db, db.cursor() as cursor:
        seen = call(cursor, "read_log", NAMESPACE, after_sequence=0, max_events=1000)
        print(f"the log has {len(seen)} events, the last is number {seen[-1]['global_sequence']}")

    # A worker: claim, work, ack in the transaction of the work; hand back what fails.
    while True:
        with db, db.cursor() as cursor:
            claimed = call(
                cursor, "claim", NAMESPACE, "mailer", max_events=10, visibility="30 s",
                event_types=["OrderPlaced"], worker=f"python-{os.getpid()}", max_attempts=2,
            )
        if not claimed:
            break
        for event in claimed:
            customer = event["data"]["customer"]
            with db, db.cursor() as cursor:
                claim = (NAMESPACE, "mailer", event["claim_id"], [event["global_sequence"]])
                if customer == "nobody":
                    call(cursor, "nack", *claim, error="no such customer")
                else:
                    cursor.execute("INSERT INTO sent VALUES (%s)", [customer])
                    call(cursor, "ack", *claim)
                    print(f"mail to {customer}, delivered {event['redelivery_count']} times before")

    # What failed twice is a dead letter. This one is given up.
    with db, db.cursor() as cursor:
        letters = call(cursor, "read_dead_letters", NAMESPACE, "mailer")
        for letter in letters:
            print(f"dead letter {letter['global_sequence']}: {letter['error']}, {len(letter['attempts'])} attempts")
        given_up = call(cursor, "discard", NAMESPACE, "a customer that never was", "mailer")[0]["discard"]
        cursor.execute("SELECT count(*) FROM sent")
        assert (len(letters), given_up, cursor.fetchone()[0]) == (1, 1, 2), letters
        cursor.execute("SELECT waiting, in_flight, retries FROM headwater.queue_metrics WHERE namespace = %s", [NAMESPACE])
        print("waiting, in flight, to deliver again:", *cursor.fetchone())

    # A process sends a heartbeat every 30 s, in its own transaction. A later process that registers
    # with the same id replaces it.
    with db, db.cursor() as cursor:
        node = call(cursor, "register_node", NAMESPACE, f"python-{os.getpid()}", event_types=["report.*"])[0]
    with db, db.cursor() as cursor:
        call(cursor, "heartbeat", NAMESPACE, node["node_id"], node["incarnation"])
        cursor.execute("SELECT alive, event_types FROM headwater.node_status WHERE namespace = %s AND node_id = %s", [NAMESPACE, node["node_id"]])
        alive, handles = cursor.fetchone()
        assert alive, node
        print(f"the node is alive, and handles {', '.join(handles)}")
    try:
        with db, db.cursor() as cursor:
            call(cursor, "heartbeat", NAMESPACE, node["node_id"], node["incarnation"] - 1)
        raise SystemExit("a heartbeat of another incarnation was expected to be refused")
    except psycopg2.Error as error:
        assert error.pgcode == "WH018", error.pgcode

    # A task that is due now. Nodes would fire it after the commit. Here it runs before, and still
    # fires only once.
    with db, db.cursor() as cursor:
        cursor.execute("SELECT now()")
        task = call(cursor, "schedule", NAMESPACE, "report", "report.asked", due_at=cursor.fetchone()[0], payload=json.dumps({"of": "today"}))[0]["schedule"]
        print("the task:", call(cursor, "run_scheduled_task", task)[0]["run_scheduled_task"])
        call(cursor, "fire_schedules", NAMESPACE)
        runs = call(cursor, "schedule_history", NAMESPACE, "report")
        assert [run["outcome"] for run in runs] == ["fired"], runs
    with db, db.cursor() as cursor:
        claimed = call(
            cursor, "claim", NAMESPACE, "mailer", max_events=10, visibility="30 s", event_types=handles, worker=node["node_id"],
        )
        assert [event["global_sequence"] for event in claimed] == [runs[0]["global_sequence"]], claimed
        print(f"claimed {claimed[0]['event_type']} of the schedule {claimed[0]['headers']['schedule']}")
        call(cursor, "ack", NAMESPACE, "mailer", claimed[0]["claim_id"])
    with db, db.cursor() as cursor:
        call(cursor, "unschedule", NAMESPACE, "report")
        assert call(cursor, "stop_node", NAMESPACE, node["node_id"], node["incarnation"])[0]["stop_node"]
        cursor.execute("SELECT lag_events, dead_letters FROM headwater.subscriber_lag WHERE namespace = %s AND subscriber_id = 'mailer'", [NAMESPACE])
        print("behind, dead letters:", *cursor.fetchone())
    print("done")


if __name__ == "__main__":
    main()
