"""Consumes a subscriber's backlog by SQL, in pages of one transaction each, and prints how many events and seconds that took.

    ordered_consume.py URL NAMESPACE SUBSCRIBER PAGE
"""

import sys
import time
import uuid

import psycopg2

url, namespace, subscriber, page = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
db = psycopg2.connect(url)
cursor = db.cursor()
begun = time.monotonic()
cursor.execute("SELECT partition, term FROM headwater.lease_partitions(%s, %s, %s, lease => '10 minutes')", [namespace, subscriber, str(uuid.uuid4())])
partition, term = cursor.fetchone()
db.commit()
events = 0
while True:
    cursor.execute(
        "SELECT cursor, global_sequence, event_id, event_type, key, data FROM headwater.next_events(%s, %s, %s, %s, max_events => %s)",
        [namespace, subscriber, partition, term, page],
    )
    rows = cursor.fetchall()
    if not rows:
        break
    for row in rows:
        cursor.execute("INSERT INTO effects (global_sequence) VALUES (%s)", [row[1]])
    cursor.execute("SELECT headwater.settle(%s, %s, %s, %s, %s)", [namespace, subscriber, partition, term, rows[-1][0]])
    db.commit()
    events += len(rows)
print(events, time.monotonic() - begun)
