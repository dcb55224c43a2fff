//! Groups in PostgreSQL: partitions, members, and the number of partitions that changes.

use crate::common::subscribers::{LONG, Process, advance, ask, with_ledger};
use headwater_core::{
    Fence, GroupStore, GroupView, LeaseRequest, OperatorStore, PartitionId, ProgressStore, StartFrom, SubscriberConfig,
    SubscriberError, SubscriberMode, partition_of, share_of,
};
use headwater_postgres::{PgLog, SubscribersOptions};
use headwater_testing::TestDatabase;

struct Group {
    db: TestDatabase,
    log: PgLog,
}

impl Group {
    async fn of(partitions: u32) -> (Self, Process) {
        let db = TestDatabase::create().await;
        let log = db.log("shop").await;
        db.hand_out("shop", 100).await;
        let a = Process::start(&db, &log, "a").await;
        let mode = SubscriberMode::Partitioned { partitions };
        let config = SubscriberConfig::new("g", StartFrom::Beginning, mode);
        a.store.register(&config).await.unwrap();
        (Group { db, log }, a)
    }

    async fn process(&self, node: &str) -> Process {
        Process::start(&self.db, &self.log, node).await
    }
}

async fn join(process: &Process) -> GroupView {
    process.store.join(&process.instance, &["g".into()], LONG).await.unwrap().remove(0)
}

/// Asks for these partitions; answers the terms.
async fn take(process: &Process, partitions: impl IntoIterator<Item = u32>, share: Option<u32>) -> Vec<Option<u64>> {
    let asks: Vec<LeaseRequest> =
        partitions.into_iter().map(|partition| LeaseRequest { partition, share, ..ask("g", None) }).collect();
    let held = process.store.keep(&process.instance, &asks, LONG).await.unwrap();
    held.into_iter().map(|held| held.term).collect()
}

/// How many locks sessions hold in this database.
async fn locks(session: &mut sqlx::PgConnection) -> i64 {
    let held = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                 WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    sqlx::query_scalar(held).fetch_one(session).await.unwrap()
}

fn fence(partition: u32, term: Option<u64>) -> Fence {
    Fence { subscriber_id: "g".into(), partition, term, history: None }
}

fn partition(partition: u32) -> PartitionId {
    PartitionId { subscriber_id: "g".into(), partition }
}

#[tokio::test]
async fn keys_have_the_same_partitions_in_sql() {
    let db = TestDatabase::create().await;
    let mut conn = db.session().await;
    for line in include_str!("../../../headwater-core/testdata/partitions.tsv").lines() {
        let key = line.split('\t').next().unwrap();
        for partitions in [1, 2, 7, 16, 1024] {
            let in_sql: i32 = sqlx::query_scalar("SELECT headwater.partition_of($1, $2)")
                .bind(key)
                .bind(partitions)
                .fetch_one(&mut conn)
                .await
                .unwrap();
            assert_eq!(in_sql as u32, partition_of(key, partitions as u32), "{key:?} of {partitions}");
        }
    }
}

#[tokio::test]
async fn each_partition_has_a_lease_a_term_and_a_checkpoint_of_its_own() {
    let (group, a) = Group::of(3).await;
    let b = group.process("b").await;
    let of_a = take(&a, [0, 1], None).await;
    let of_b = take(&b, [0, 1, 2, 3], None).await;
    assert!(of_a.iter().all(Option::is_some) && of_a[0] != of_a[1]);
    assert_eq!(of_b.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true, false]);
    a.store.advance(&fence(0, of_a[0]), &advance(5, &[1, 2])).await.unwrap();
    a.store.advance(&fence(1, of_a[1]), &with_ledger(advance(9, &[]), [(3, 4)])).await.unwrap();
    let wrong = a.store.advance(&fence(2, of_a[0]), &advance(1, &[])).await;
    assert!(matches!(wrong, Err(SubscriberError::Fenced(_))), "{wrong:?}");
    let loaded = a.store.load(&fence(1, of_a[1])).await.unwrap();
    assert_eq!((loaded.position, loaded.partitions, loaded.barrier), (9, 3, None));
    let whole = a.store.position("g").await.unwrap();
    assert_eq!((whole.position, whole.pending_gaps.ranges()), (0, vec![(3, 4)]));
    let info = a.store.subscriber("g").await.unwrap();
    assert_eq!((info.mode, info.position), (SubscriberMode::Partitioned { partitions: 3 }, 0));
    // Of those with the same position, the one with an open gap is further behind.
    for (partition, store, term) in [(0, &a.store, of_a[0]), (2, &b.store, of_b[2])] {
        store.advance(&fence(partition, term), &advance(9, &[])).await.unwrap();
    }
    let info = a.store.subscriber("g").await.unwrap();
    assert_eq!((info.position, &info.pending_gaps[..]), (9, &[(3, 4)][..]));
    let partitions = a.store.group("g").await.unwrap().partitions;
    let seen: Vec<_> = partitions.iter().map(|p| (p.position, p.owner.as_ref().unwrap().node.as_str())).collect();
    assert_eq!(seen, [(9, "a"), (9, "a"), (9, "b")]);
}

#[tokio::test]
async fn nobody_takes_more_than_its_share_however_many_ask_at_once() {
    let (group, a) = Group::of(16).await;
    let mut members = vec![a];
    for node in ["b", "c"] {
        members.push(group.process(node).await);
    }
    for member in &members {
        join(member).await;
    }
    let views = futures::future::join_all(members.iter().map(join)).await;
    assert_eq!(views[0].members.len(), 3);
    let takes = members.iter().zip(&views).map(|(member, view)| async {
        take(member, 0..16, Some(share_of(&view.members, member.instance.incarnation, 16))).await
    });
    futures::future::join_all(takes).await;
    // Those who met at a row left it to each other: the next time, the rest is taken.
    for (member, view) in members.iter().zip(&views) {
        let share = share_of(&view.members, member.instance.incarnation, 16);
        take(member, 0..16, Some(share)).await;
    }
    let partitions = group_of(&members[0]).await;
    let mut shares: Vec<usize> = members
        .iter()
        .map(|member| partitions.iter().filter(|owner| **owner == Some(member.instance.node.clone())).count())
        .collect();
    shares.sort_unstable();
    assert_eq!(shares, [5, 5, 6]);
}

async fn group_of(process: &Process) -> Vec<Option<String>> {
    let partitions = process.store.group("g").await.unwrap().partitions;
    partitions.into_iter().map(|partition| partition.owner.map(|owner| owner.node)).collect()
}

#[tokio::test]
async fn a_member_is_gone_with_its_session_or_when_it_leaves() {
    let (group, a) = Group::of(2).await;
    let (b, c) = (group.process("b").await, group.process("c").await);
    join(&a).await;
    join(&b).await;
    assert_eq!(join(&c).await.members.len(), 3);
    b.store.close().await;
    let mut left = vec![a.instance.incarnation, c.instance.incarnation];
    left.sort();
    // Its session is closed; the server may still be at it.
    while join(&c).await.members != left {
        tokio::task::yield_now().await;
    }
    assert_eq!(join(&b).await.members.len(), 3, "it comes back");
    c.store.leave(&c.instance, &["g".into()]).await.unwrap();
    assert_eq!(join(&a).await.members.len(), 2);
}

#[tokio::test]
async fn without_session_locks_a_member_is_gone_when_its_lease_ends() {
    let (group, a) = Group::of(2).await;
    let options = SubscribersOptions { session_locks: false };
    let b = Process::start_with(&group.db, &group.log, "b", options).await;
    join(&a).await;
    assert_eq!(join(&b).await.members.len(), 2);
    b.store.close().await;
    assert_eq!(join(&a).await.members.len(), 2);
    let mut conn = group.db.session().await;
    let over = "UPDATE headwater_private.members SET member_until = clock_timestamp() WHERE node = 'b'";
    sqlx::query(over).execute(&mut conn).await.unwrap();
    assert_eq!(join(&a).await.members, [a.instance.incarnation]);
}

#[tokio::test]
async fn a_group_keeps_its_mode_and_its_number_of_partitions() {
    let (_group, a) = Group::of(4).await;
    let register = async |mode| {
        let config = SubscriberConfig::new("g", StartFrom::Beginning, mode);
        a.store.register(&config).await
    };
    register(SubscriberMode::Partitioned { partitions: 9 }).await.unwrap();
    assert_eq!(a.store.group("g").await.unwrap().partitions.len(), 4);
    let exclusive = register(SubscriberMode::Exclusive).await;
    assert!(
        matches!(&exclusive, Err(SubscriberError::InUse(message)) if message.contains("partitioned")),
        "{exclusive:?}"
    );
    let config =
        |partitions| SubscriberConfig::new("other", StartFrom::Beginning, SubscriberMode::Partitioned { partitions });
    for partitions in [0, 1025] {
        let wrong = a.store.register(&config(partitions)).await;
        assert!(matches!(wrong, Err(SubscriberError::InvalidInput(_))), "{wrong:?}");
    }
}

#[tokio::test]
async fn old_partitions_end_at_the_barrier_before_new_ones_begin() {
    let (group, a) = Group::of(2).await;
    let b = group.process("b").await;
    let terms = take(&a, [0, 1], None).await;
    a.store.advance(&fence(0, terms[0]), &advance(5, &[])).await.unwrap();
    a.store.advance(&fence(1, terms[1]), &with_ledger(advance(9, &[]), [(7, 8)])).await.unwrap();
    b.store.resize("g", 3).await.unwrap();
    let again = b.store.resize("g", 4).await;
    assert!(matches!(&again, Err(SubscriberError::InUse(message)) if message.contains("3 partitions")), "{again:?}");

    // Its owners are asked to give it up, and go on until they do.
    assert!(join(&a).await.halted && join(&b).await.halted);
    a.store.advance(&fence(1, terms[1]), &with_ledger(advance(11, &[]), [(7, 8)])).await.unwrap();
    a.store.release(&a.instance, &[partition(0)]).await.unwrap();
    assert!(join(&b).await.halted, "partition 1 is owned still");
    assert_eq!(take(&b, [0], None).await, [None], "nobody takes one before all are given up");
    a.store.release(&a.instance, &[partition(1)]).await.unwrap();
    assert!(!join(&b).await.halted);
    let late = a.store.advance(&fence(1, terms[1]), &with_ledger(advance(12, &[]), [(7, 8)])).await;
    assert!(matches!(late, Err(SubscriberError::Fenced(_))), "what was given up is in another term: {late:?}");

    // Now they end where the furthest had come.
    let terms = take(&b, [0, 1], None).await;
    let loaded = b.store.load(&fence(0, terms[0])).await.unwrap();
    assert_eq!((loaded.position, loaded.barrier, loaded.partitions), (5, Some(11), 2));
    let beyond = b.store.advance(&fence(0, terms[0]), &advance(12, &[])).await;
    assert!(matches!(beyond, Err(SubscriberError::Fenced(_))), "{beyond:?}");
    b.store.advance(&fence(0, terms[0]), &advance(11, &[])).await.unwrap();
    assert_eq!(join(&b).await.partitions, 2, "partition 1 still has a gap that partition 0 has not");
    b.store.advance(&fence(1, terms[1]), &advance(11, &[])).await.unwrap();
    assert_eq!(join(&b).await.partitions, 3);
    let late = b.store.advance(&fence(0, terms[0]), &advance(12, &[])).await;
    assert!(matches!(late, Err(SubscriberError::Fenced(_))), "{late:?}");
    let now = b.store.group("g").await.unwrap();
    assert_eq!((now.resize_to, now.barrier), (None, None));
    let positions: Vec<_> = now.partitions.iter().map(|partition| (partition.partition, partition.position)).collect();
    assert_eq!(positions, [(0, 11), (1, 11), (2, 11)]);
    assert!(take(&b, [0, 1, 2], None).await.iter().all(Option::is_some));
}

#[tokio::test]
async fn open_gaps_go_to_all_new_partitions() {
    let (_group, a) = Group::of(3).await;
    let terms = take(&a, [0, 1, 2], None).await;
    for (partition, term) in (0..).zip(&terms) {
        let to = with_ledger(advance(9, &[]), [(7, 8)]);
        a.store.advance(&fence(partition, *term), &to).await.unwrap();
    }
    a.store.release(&a.instance, &[0, 1, 2].map(partition)).await.unwrap();
    a.store.resize("g", 1).await.unwrap();
    let now = a.store.group("g").await.unwrap();
    assert_eq!(now.partitions.len(), 1, "nobody ran it, and it stood even: done at once");
    assert_eq!((now.partitions[0].position, &now.partitions[0].pending_gaps[..]), (9, &[(7, 8)][..]));
}

#[tokio::test]
async fn an_event_of_the_ledger_in_hand_is_not_cut_off_by_a_change() {
    let (_group, a) = Group::of(2).await;
    let terms = take(&a, [0, 1], None).await;
    let to = |position| with_ledger(advance(position, &[]), [(3, 4)]);
    a.store.advance(&fence(0, terms[0]), &to(5)).await.unwrap();
    a.store.advance(&fence(1, terms[1]), &to(9)).await.unwrap();
    a.store.resize("g", 3).await.unwrap();
    a.store.release(&a.instance, &[0, 1].map(partition)).await.unwrap();
    assert!(!join(&a).await.halted, "both go on to the barrier");
    let terms = take(&a, [0, 1], None).await;
    a.store.advance(&fence(0, terms[0]), &to(9)).await.unwrap();
    let view = join(&a).await;
    assert_eq!((view.partitions, view.halted), (2, true), "all stand even; an owner may have event 3 or 4 in hand");
    a.store.advance(&fence(0, terms[0]), &with_ledger(advance(9, &[3]), [(4, 4)])).await.unwrap();
    let view = join(&a).await;
    assert_eq!((view.partitions, view.halted), (2, false), "partition 1 has to settle it, too");
    a.store.advance(&fence(1, terms[1]), &with_ledger(advance(9, &[]), [(4, 4)])).await.unwrap();
    assert!(join(&a).await.halted);
    a.store.release(&a.instance, &[0, 1].map(partition)).await.unwrap();
    assert_eq!(join(&a).await.partitions, 3);
    let partitions = a.store.group("g").await.unwrap().partitions;
    assert!(partitions.iter().all(|partition| partition.position == 9 && partition.pending_gaps == [(4, 4)]));
}

#[tokio::test]
async fn who_asks_for_a_change_can_see_it_through_without_members() {
    let (_group, a) = Group::of(2).await;
    let terms = take(&a, [0, 1], None).await;
    a.store.advance(&fence(1, terms[1]), &advance(9, &[])).await.unwrap();
    a.store.resize("g", 4).await.unwrap();
    a.store.release(&a.instance, &[0, 1].map(partition)).await.unwrap();
    a.store.resize("g", 4).await.unwrap();
    assert_eq!(a.store.group("g").await.unwrap().barrier, Some(9));
    let terms = take(&a, [0], None).await;
    a.store.advance(&fence(0, terms[0]), &advance(9, &[])).await.unwrap();
    a.store.resize("g", 4).await.unwrap();
    let now = a.store.group("g").await.unwrap();
    assert_eq!((now.partitions.len(), now.resize_to), (4, None));
    a.store.resize("g", 4).await.unwrap();
    assert_eq!(a.store.group("g").await.unwrap().resize_to, None);
}

#[tokio::test]
async fn a_dead_owner_does_not_hold_up_a_change() {
    let (group, a) = Group::of(2).await;
    let b = group.process("b").await;
    let mut session = group.db.session().await;
    take(&a, [0, 1], None).await;
    let of_a = locks(&mut session).await;
    b.store.resize("g", 4).await.unwrap();
    assert!(join(&b).await.halted);
    let of_b = locks(&mut session).await - of_a;
    assert!(of_a > 0 && of_b > 0);
    a.store.close().await;
    // Its session is closed; the server may still be at it.
    while locks(&mut session).await > of_b {
        tokio::task::yield_now().await;
    }
    assert_eq!(join(&b).await.partitions, 4);
}

#[tokio::test]
async fn a_reset_drops_a_change_and_moves_all_partitions() {
    let (_group, a) = Group::of(2).await;
    let terms = take(&a, [0, 1], None).await;
    a.store.resize("g", 5).await.unwrap();
    a.store.reset("g", 0).await.unwrap();
    let now = a.store.group("g").await.unwrap();
    assert_eq!((now.resize_to, now.partitions.len()), (None, 2));
    assert!(a.store.load(&fence(1, terms[1])).await.is_err());
    a.store.remove("g", false).await.unwrap();
    assert!(matches!(a.store.group("g").await, Err(SubscriberError::NotFound(_))));
}

#[tokio::test]
async fn only_groups_are_resized_and_within_limits() {
    let (_group, a) = Group::of(2).await;
    a.register("single", StartFrom::Beginning).await;
    let single = a.store.resize("single", 2).await;
    assert!(matches!(&single, Err(SubscriberError::InUse(message)) if message.contains("exclusive")), "{single:?}");
    for partitions in [0, 1025, u32::MAX] {
        let wrong = a.store.resize("g", partitions).await;
        assert!(matches!(wrong, Err(SubscriberError::InvalidInput(_))), "{wrong:?}");
    }
    assert!(matches!(a.store.resize("none", 2).await, Err(SubscriberError::NotFound(_))));
}

#[tokio::test]
async fn a_row_that_is_no_subscriber_is_refused_whoever_writes_it() {
    let (group, _a) = Group::of(2).await;
    let mut session = group.db.session().await;
    for wrong in [
        "subscriber_id = ''",
        "partition = -1",
        "partition = 2",
        "partitions = 1025",
        "mode = 'other'",
        "mode = 'shared'",
        "resize_to = 0",
        "barrier = 5",
        "barrier = -1, resize_to = 3",
        "audit_ledger = '{1}'",
        "position = -1",
        "pending_gaps = '{1}'",
    ] {
        let update = format!("UPDATE headwater_private.subscribers SET {wrong} WHERE partition = 1");
        let refused = sqlx::query(sqlx::AssertSqlSafe(update)).execute(&mut session).await.expect_err(wrong);
        assert_eq!(refused.as_database_error().and_then(|error| error.code()).as_deref(), Some("23514"), "{wrong}");
    }
    sqlx::query("UPDATE headwater_private.subscribers SET resize_to = 3, barrier = 5")
        .execute(&mut session)
        .await
        .unwrap();
}
