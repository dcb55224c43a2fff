//! Laws of changes of the number of partitions: no event is lost, and the events of a key stay in
//! order.

use headwater_core::{Fence, PartitionId};

use super::TestSubscribers;
use super::support::{LONG, Process, fenced, in_use, invalid, not_found, sequence, settled};

async fn positions(process: &Process) -> Vec<u64> {
    let group = process.group("g").await.expect("the group is there");
    group.partitions.iter().map(|partition| partition.position).collect()
}

async fn release_all(process: &Process, partitions: u32) {
    let ids = (0..partitions).map(|partition| PartitionId { subscriber_id: "g".into(), partition });
    process.release(&process.instance, &ids.collect::<Vec<_>>()).await.expect("a release must pass");
}

pub(crate) async fn old_partitions_end_at_the_barrier_before_new_ones_begin(test: &TestSubscribers) {
    let events = test.append(5).await;
    let (third, last) = (sequence(&events[2]), sequence(&events[4]));
    let process = test.first();
    process.begin_group("g", 2).await;
    process.join_group("g").await;
    let old: Vec<Fence> = process.take("g", [0, 1], None).await.into_iter().flatten().collect();
    process.advance(&old[0], &settled(0, &events[..3])).await.unwrap();
    process.advance(&old[1], &settled(0, &events[..1])).await.unwrap();

    // First, the owners give up their partitions.
    test.second().resize("g", 3).await.unwrap();
    let group = test.second().group("g").await.unwrap();
    assert_eq!((group.resize_to, group.barrier), (Some(3), None));
    assert!(process.join_group("g").await.halted);
    process.advance(&old[1], &settled(sequence(&events[0]), &events[1..2])).await.unwrap();
    release_all(process, 1).await;
    assert!(process.join_group("g").await.halted, "one is owned still");
    assert_eq!(process.take("g", [0], None).await, [None], "nobody begins anew");
    release_all(process, 2).await;

    // Then the old partitions go on to the barrier, and not past it.
    let view = process.join_group("g").await;
    assert_eq!((view.partitions, view.halted), (2, false));
    assert_eq!(test.second().group("g").await.unwrap().barrier, Some(third));
    fenced("an old term", process.advance(&old[1], &settled(sequence(&events[1]), &events[2..3])).await);
    let again: Vec<Fence> = process.take("g", [0, 1], None).await.into_iter().flatten().collect();
    assert_eq!(process.load(&again[0]).await.unwrap().barrier, Some(third));
    fenced("past the barrier", process.advance(&again[0], &settled(third, &events[3..])).await);
    assert_eq!(process.join_group("g").await.partitions, 2, "one is not there yet");
    process.advance(&again[1], &settled(sequence(&events[1]), &events[2..3])).await.unwrap();

    // Then the new partitions begin there.
    assert_eq!(process.join_group("g").await.partitions, 3);
    assert_eq!(positions(test.second()).await, [third; 3]);
    fenced("an old partition", process.advance(&again[0], &settled(third, &events[3..])).await);
    let new: Vec<Fence> = process.take("g", [0, 1, 2], None).await.into_iter().flatten().collect();
    for fence in &new {
        assert!(fence.term > again[0].term && fence.term > again[1].term);
        assert_eq!(process.load(fence).await.unwrap().barrier, None);
        process.advance(fence, &settled(third, &events[3..])).await.unwrap();
    }
    assert_eq!(positions(test.second()).await, [last; 3]);
    let group = test.second().group("g").await.unwrap();
    assert_eq!((group.resize_to, group.barrier), (None, None));
    assert_eq!(process.findings("g").await, []);
}

pub(crate) async fn a_group_that_stands_even_and_that_nobody_runs_changes_at_once(test: &TestSubscribers) {
    test.append(2).await;
    test.first().begin_group("g", 4).await;
    for partitions in [2, 7, 1, 1] {
        test.second().resize("g", partitions).await.unwrap();
        assert_eq!(positions(test.first()).await, vec![0; partitions as usize]);
    }
}

pub(crate) async fn who_asks_again_takes_the_next_step(test: &TestSubscribers) {
    let events = test.append(2).await;
    test.first().begin_group("g", 2).await;
    let fences = test.first().take("g", [0, 1], None).await;
    test.first().advance(fences[0].as_ref().unwrap(), &settled(0, &events)).await.unwrap();
    test.second().resize("g", 3).await.unwrap();
    release_all(test.first(), 2).await;
    assert_eq!(test.second().group("g").await.unwrap().barrier, None);
    test.second().resize("g", 3).await.unwrap();
    assert_eq!(test.second().group("g").await.unwrap().barrier, Some(sequence(&events[1])));
    let fences = test.first().take("g", [1], None).await;
    test.first().advance(fences[0].as_ref().unwrap(), &settled(0, &events)).await.unwrap();
    test.second().resize("g", 3).await.unwrap();
    assert_eq!(positions(test.second()).await.len(), 3);
}

pub(crate) async fn a_dead_owner_does_not_hold_up_a_change(test: &TestSubscribers) {
    test.first().begin_group("g", 2).await;
    test.first().take("g", [0], None).await;
    test.second().resize("g", 3).await.unwrap();
    assert!(test.second().join_group("g").await.halted);
    test.pass(LONG).await;
    let view = test.second().join_group("g").await;
    assert_eq!((view.partitions, view.halted), (3, false));
}

pub(crate) async fn one_change_at_a_time(test: &TestSubscribers) {
    test.first().begin_group("g", 2).await;
    test.first().take("g", [0], None).await;
    test.second().resize("g", 3).await.unwrap();
    in_use("another number", test.second().resize("g", 4).await);
    in_use("the old number", test.second().resize("g", 2).await);
    test.second().resize("g", 3).await.unwrap();
}

pub(crate) async fn a_reset_drops_a_change(test: &TestSubscribers) {
    test.first().begin_group("g", 2).await;
    test.first().take("g", [0], None).await;
    test.second().resize("g", 3).await.unwrap();
    test.second().reset("g", 0).await.unwrap();
    let group = test.second().group("g").await.unwrap();
    assert_eq!((group.partitions.len(), group.resize_to), (2, None));
    assert!(test.first().take("g", [0], None).await[0].is_some());
}

pub(crate) async fn only_groups_are_changed_and_within_limits(test: &TestSubscribers) {
    test.first().begin("alone").await;
    test.first().share("queue").await;
    test.first().begin_group("g", 2).await;
    in_use("an exclusive subscriber", test.first().resize("alone", 2).await);
    in_use("a shared subscriber", test.first().resize("queue", 2).await);
    not_found("nobody", test.first().resize("unknown", 2).await);
    for partitions in [0, 1025] {
        invalid("partitions", test.first().resize("g", partitions).await);
    }
}
