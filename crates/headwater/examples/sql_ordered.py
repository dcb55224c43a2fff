#!/usr/bin/env python3
"""Ordered, exactly-once consuming from Python, with psycopg2: a transaction per host and user, over the partitions of a group.

    DATABASE_URL=postgres://… crates/headwater/examples/sql_ordered.py            emits events, runs three workers, kills one, compares
    DATABASE_URL=postgres://… crates/headwater/examples/sql_ordered.py worker     one worker, until it is told to stop

The database must be migrated (`headwater migrate`). `work` is all that a consumer needs; the rest is the demonstration.
"""

import os
import select
import signal
import subprocess
import sys
import time
import uuid

try:
    import psycopg2
except ImportError:
    sys.exit("error: psycopg2 was not found: apt-get install python3-psycopg2")

NAMESPACE, SUBSCRIBER = "example-ordered", "user-query"


def work(url, handle, batch_size=100, lease="2 s", wait=0.2):
    """Handles events until SIGTERM: those of one host and user in one transaction, with the progress."""
    running = True

    def stop(*_):
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    worker = str(uuid.uuid4())
    db = psycopg2.connect(url)
    cursor = db.cursor()
    cursor.execute(f'LISTEN "headwater_{NAMESPACE}"')
    while running:
        cursor.execute("SELECT partition, term FROM headwater.lease_partitions(%s, %s, %s, lease => %s)", [NAMESPACE, SUBSCRIBER, worker, lease])
        owned = cursor.fetchall()
        db.commit()
        busy = False
        for partition in owned:
            of = [NAMESPACE, SUBSCRIBER, *partition]
            bundle = None
            try:
                cursor.execute(
                    "SELECT cursor, global_sequence, key, actor_id, event_type, data"
                    "  FROM headwater.next_events(%s, %s, %s, %s, max_events => %s, scope => 'key_and_actor')", [*of, batch_size],
                )
                page = cursor.fetchall()
                db.commit()
                busy = busy or bool(page)
                for bundle in bundles(page):
                    for _, *event in bundle:
                        handle(cursor, *event)
                    cursor.execute("SELECT headwater.settle(%s, %s, %s, %s, %s)", [*of, bundle[-1][0]])
                    db.commit()
                bundle = None
            except Exception as error:
                if db.closed:
                    raise
                db.rollback()
                if is_lost(error):
                    continue
                if bundle is None:
                    raise
                # The whole bundle was rolled back, so all of it failed. The rest of the page waits
                # behind it.
                failed = [sequence for _, sequence, *_ in bundle]
                fail = "SELECT outcome FROM headwater.fail_events(%s, %s, %s, %s, %s, error => %s, max_attempts => 2)"
                try:
                    cursor.execute(fail, [*of, failed, str(error)])
                    db.commit()
                except psycopg2.Error as refused:
                    if not is_lost(refused):
                        raise
                    db.rollback()
        if running and not busy:
            select.select([db], [], [], wait)
            db.poll()
            db.notifies.clear()
    cursor.execute("SELECT headwater.release_partitions(%s, %s, %s)", [NAMESPACE, SUBSCRIBER, worker])
    db.commit()


def is_lost(error):
    """Whether another worker owns the partition by now: nothing of ours was kept."""
    return getattr(error, "pgcode", None) in ("WH011", "WH050")


def bundles(page):
    """The events of a page by transaction: the last of each has a cursor."""
    bundle = []
    for event in page:
        bundle.append(event)
        if event[0]:
            yield bundle
            bundle = []


def handle(cursor, sequence, host, user, event_type, data):
    """The effect of an event: any SQL."""
    if event_type == "Broken":
        raise ValueError("it cannot be handled")
    cursor.execute(
        "INSERT INTO effects (host, username, sequence, by, handled_in) VALUES (%s, %s, %s, %s, pg_current_xact_id()::text)",
        [host, user, sequence, os.getpid()],
    )


def main(url):
    db = psycopg2.connect(url)
    db.autocommit = True
    cursor = db.cursor()
    cursor.execute("SELECT headwater.create_namespace(%s)", [NAMESPACE])
    cursor.execute("SELECT headwater.register_subscriber(%s, %s, mode => 'partitioned', partitions => 8)", [NAMESPACE, SUBSCRIBER])
    cursor.execute("CREATE TABLE effects (host text, username text, sequence bigint, by int, handled_in text)")
    emit = "SELECT headwater.emit(%s, 'Changed', key => 'host-' || n %% 5, actor_id => 'user-' || n %% 3) FROM generate_series(1, %s) n"
    for _ in range(20):
        cursor.execute(emit, [NAMESPACE, 100])
    # An instance is cloned: more events than a batch has, in one transaction.
    cursor.execute("SELECT headwater.emit(%s, 'Cloned', key => 'host-1', actor_id => 'ada') FROM generate_series(1, 250)", [NAMESPACE])
    # An event in the middle of these cannot be handled.
    emit_broken = "SELECT headwater.emit(%s, CASE n WHEN 2 THEN 'Broken' ELSE 'Changed' END, key => 'host-9', actor_id => 'nobody') FROM generate_series(1, 3) n"
    cursor.execute(emit_broken, [NAMESPACE])

    workers = [subprocess.Popen([sys.executable, __file__, "worker"]) for _ in range(3)]
    while True:
        cursor.execute("SELECT count(DISTINCT by) FROM effects")
        if cursor.fetchone()[0] > 1:
            break
        time.sleep(0.05)
    workers[0].kill()
    print("killed a worker: its partitions go to the others when its lease ends")
    for _ in range(5):
        cursor.execute(emit, [NAMESPACE, 100])
    while True:
        cursor.execute("SELECT bool_and(position >= headwater.log_end(%s)) FROM headwater.group_status(%s, %s)", [NAMESPACE, NAMESPACE, SUBSCRIBER])
        if cursor.fetchone()[0]:
            break
        time.sleep(0.1)
    for worker in workers[1:]:
        worker.terminate()
        assert worker.wait() == 0

    cursor.execute("SELECT count(*), count(DISTINCT sequence), count(DISTINCT by) FROM effects")
    effects, events, workers = cursor.fetchone()
    print(f"{effects} effects of {events} events, by {workers} workers")
    assert effects == events == 2750, (effects, events)
    cursor.execute("SELECT count(DISTINCT handled_in) FROM effects WHERE username = 'ada'")
    assert cursor.fetchone()[0] == 1, "a bundle was split"
    cursor.execute("SELECT (SELECT count(*) FROM effects WHERE username = 'nobody'), count(*) FROM headwater.read_dead_letters(%s, %s)", [NAMESPACE, SUBSCRIBER])
    assert cursor.fetchone() == (0, 3), "a bundle that failed was split"
    cursor.execute("SELECT count(*) FROM headwater.audit_subscribers(%s) WHERE in_log <> settled OR sums_differ_by <> 0", [NAMESPACE])
    assert cursor.fetchone()[0] == 0, "the audit found something"
    print("done")


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        work(os.environ["DATABASE_URL"], handle)
    else:
        main(os.environ["DATABASE_URL"])
