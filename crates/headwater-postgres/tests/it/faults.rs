//! States that break a law, planted one by one. The doctor or the audit finds each. If a finding
//! gives a statement, that statement repairs the state.

use crate::common::run;
use headwater_core::{NamespaceConfig, OperatorStore, Ordering};
use headwater_postgres::{DoctorOptions, Finding, LogOptions, PgSubscribers, SubscribersOptions};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;

/// `shop` with three sealed past months and each kind of subscriber, and `ledger`, which is
/// gapless.
async fn filled() -> (TestDatabase, PgConnection) {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    let config = NamespaceConfig { ordering: Some(Ordering::Gapless), ..NamespaceConfig::new("ledger") };
    db.log_with(config, LogOptions::default()).await;
    db.past_months("shop", 6, 3).await;
    let mut session = db.session().await;
    run(
        &mut session,
        "SELECT headwater.seal_months('shop'); SELECT headwater.emit('shop', 'a'); SELECT headwater.emit('ledger', 'a');
         SELECT headwater.register_subscriber('shop', 'mailer'); SELECT headwater.register_subscriber('shop', 'work', mode => 'shared');
         SELECT headwater.register_subscriber('shop', 'sorted', mode => 'partitioned', partitions => 4);
         SELECT headwater.claim('shop', 'work');
         -- What is planted is what the database refuses.
         SET session_replication_role = replica",
    )
    .await;
    (db, session)
}

async fn found(db: &TestDatabase, check: &str) -> Vec<Finding> {
    let findings = db.database.diagnose(&DoctorOptions::default()).await.unwrap();
    assert!(findings.iter().all(|finding| !finding.consequence.is_empty() && !finding.mend.is_empty()), "{findings:?}");
    findings.into_iter().filter(|finding| finding.check == check).collect()
}

const FAULTS: [(&str, &str, &str); 19] = [
    (
        "position_beyond_head",
        "subscriber mailer stands at 9000, and the log ends at ",
        "UPDATE headwater_private.subscribers SET position = 9000 WHERE subscriber_id = 'mailer'",
    ),
    (
        "ledger_beyond_head",
        "subscriber mailer waits for gaps up to 9000",
        "UPDATE headwater_private.subscribers SET pending_gaps = '{8999, 9000}' WHERE subscriber_id = 'mailer'",
    ),
    (
        "claim_beyond_head",
        "the queue of subscriber work has claims up to 9000",
        "UPDATE headwater_private.claims SET last_sequence = 9000",
    ),
    (
        "claim_beyond_head",
        "the queue of subscriber work has claims up to 9001",
        "UPDATE headwater_private.claims SET state.frontier = 9001",
    ),
    (
        "claim_beyond_head",
        "the queue of subscriber work has claims up to 9002",
        "INSERT INTO headwater_private.retries (namespace_id, attempts, number, due_at, of_letter, subscriber_id, sequences, event_types, failures)
         SELECT namespace_id, 1, 1, now(), false, 'work', '{9002}', '{a}', '[]' FROM headwater_private.namespaces WHERE namespace = 'shop'",
    ),
    (
        "gap_beyond_head",
        "9000 to 9001 are recorded as gaps for ever (aborted)",
        "INSERT INTO headwater_private.permanent_gaps (namespace_id, first_sequence, last_sequence, proof)
         SELECT namespace_id, 9000, 9001, 'aborted' FROM headwater_private.namespaces WHERE namespace = 'shop'",
    ),
    (
        "sequence_behind_log",
        " stands at 1, and the log has events up to ",
        "SELECT setval(n.sequence, 1) FROM headwater_private.namespaces n WHERE n.namespace = 'shop'",
    ),
    ("sequence_behind_log", "counters stands at 0, and the log has events up to 1", "UPDATE headwater_private.counters SET last_sequence = 0"),
    (
        "sequence_settings",
        "CACHE 50 INCREMENT 1",
        "DO $$ BEGIN EXECUTE (SELECT format('ALTER SEQUENCE %s CACHE 50', n.sequence) FROM headwater_private.namespaces n WHERE n.namespace = 'shop'); END $$",
    ),
    (
        "missing_month",
        "no partition is there for events of ",
        "UPDATE headwater_private.namespaces SET leaves_until = leaves_until + interval '2 months' WHERE namespace = 'shop'",
    ),
    (
        "sealed_month",
        " is gone, which held ",
        "DO $$ BEGIN EXECUTE (SELECT format('DROP TABLE headwater_private.%I', l.leaf) FROM headwater_private.namespaces n, headwater_private.leaves(n.namespace_id) l
                             WHERE n.namespace = 'shop' ORDER BY l.starts_at OFFSET 1 LIMIT 1); END $$",
    ),
    (
        "missing_index",
        " has not its index stream",
        "DO $$ BEGIN EXECUTE (SELECT format('DROP INDEX headwater_private.%I', l.leaf || '_stream') FROM headwater_private.namespaces n,
                                    headwater_private.leaves(n.namespace_id) l WHERE n.namespace = 'shop' ORDER BY l.starts_at LIMIT 1); END $$",
    ),
    (
        "missing_index",
        " has not its index sequence",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = (SELECT format('headwater_private.%I', l.leaf || '_sequence')::regclass
           FROM headwater_private.namespaces n, headwater_private.leaves(n.namespace_id) l WHERE n.namespace = 'shop' ORDER BY l.starts_at LIMIT 1)",
    ),
    (
        "sealed_month",
        " is sealed up to ",
        "UPDATE headwater_private.months SET high_sequence = high_sequence - 1 WHERE last_sequence = high_sequence",
    ),
    (
        "sealed_month",
        " has not the trigger that refuses events",
        "DO $$ BEGIN EXECUTE (SELECT format('DROP TRIGGER headwater_sealed ON headwater_private.%I', m.leaf) FROM headwater_private.months m ORDER BY m.starts_at LIMIT 1); END $$",
    ),
    ("trigger", "trigger check_subscriber of ", "ALTER TABLE headwater_private.subscribers DISABLE TRIGGER check_subscriber"),
    (
        "missing_partition",
        "subscriber sorted has 3 of 4 partitions",
        "DELETE FROM headwater_private.subscribers WHERE subscriber_id = 'sorted' AND partition = 2",
    ),
    (
        "dead_letter",
        "a dead letter of subscriber mailer is of event ",
        "INSERT INTO headwater_private.dead_letters (namespace_id, subscriber_id, global_sequence, event_id, event_type, order_key, state, parks_key, error, node, attempts,
                                             event, term)
         SELECT namespace_id, 'mailer', 1, gen_random_uuid(), 'a', '', 'dead', false, '', '', '[]', '{}', 1 FROM headwater_private.namespaces WHERE namespace = 'shop'",
    ),
    (
        "lease",
        "the lease of subscriber mailer ends at ",
        "UPDATE headwater_private.subscribers SET owner_node = 'gone', owner_incarnation = gen_random_uuid(), lease = interval '10 s',
                lease_until = now() + interval '2 hours' WHERE subscriber_id = 'mailer'",
    ),
];

#[tokio::test]
async fn the_doctor_finds_each_state_that_breaks_a_law() {
    let (db, mut session) = filled().await;
    for (check, _, _) in FAULTS {
        assert_eq!(found(&db, check).await, [], "{check}");
    }
    for (check, message, plant) in FAULTS {
        let (db, mut session) = filled().await;
        run(&mut session, plant).await;
        let findings = found(&db, check).await;
        let found_it = findings.iter().find(|finding| finding.message.contains(message));
        let finding = found_it.unwrap_or_else(|| panic!("{check}: {findings:#?}"));
        assert!(finding.namespace.is_some(), "{finding:?}");
        // A statement mends what it names.
        if ["SELECT ", "ALTER ", "CREATE ", "DELETE ", "UPDATE ", "REINDEX "]
            .iter()
            .any(|verb| finding.mend.starts_with(verb))
        {
            run(&mut session, &finding.mend).await;
            let left = found(&db, check).await;
            assert!(left.iter().all(|left| left.message != finding.message), "{}: {left:#?}", finding.mend);
        }
    }
    run(&mut session, "SELECT 1").await;
}

#[tokio::test]
async fn what_is_due_and_nobody_fires_is_found() {
    let (db, mut session) = filled().await;
    run(&mut session, "SELECT headwater.emit_at('shop', 'late', now() + interval '1 day')").await;
    assert_eq!(found(&db, "overdue").await, []);
    run(&mut session, "UPDATE headwater_private.due_events SET fire_at = now() - interval '3 minutes'").await;
    assert!(found(&db, "overdue").await[0].message.ends_with("not fired: 1 events"));
}

/// What the doctor does not look for, since it would have to read the log.
#[tokio::test]
async fn the_audit_finds_gaps_over_events_and_events_that_are_gone() {
    let (db, mut session) = filled().await;
    let log = db.log("shop").await;
    let store = PgSubscribers::new(db.database.clone(), log.info().clone(), SubscribersOptions::default());
    assert_eq!(store.audit(&[]).await.unwrap().findings, []);
    run(
        &mut session,
        "INSERT INTO headwater_private.permanent_gaps (namespace_id, first_sequence, last_sequence, proof)
         SELECT namespace_id, 1, 2, 'aborted' FROM headwater_private.namespaces WHERE namespace = 'shop'",
    )
    .await;
    assert_eq!(store.audit(&[]).await.unwrap().findings.len(), 2);
}
