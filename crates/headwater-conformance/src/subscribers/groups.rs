//! Laws of groups: each partition has one owner, and its members share all of them.

use headwater_core::{
    Fence, Instance, PartitionId, RunnerState, StartFrom, SubscriberConfig, SubscriberError, SubscriberMode,
    partition_of, share_of,
};

use super::TestSubscribers;
use super::support::{LONG, all, dead, fenced, in_use, invalid, sequence, settled};

/// A key that belongs to this partition.
fn key_in(partition: u32, partitions: u32) -> String {
    let keys = (0..).map(|number| format!("key-{number}"));
    keys.into_iter().find(|key| partition_of(key, partitions) == partition).expect("each partition has keys")
}

pub(crate) async fn each_partition_has_an_owner_a_term_and_a_checkpoint(test: &TestSubscribers) {
    let events = test.append(4).await;
    test.first().begin_group("g", 3).await;
    let first = test.first().take("g", [0, 1], None).await;
    let second = test.second().take("g", [0, 1, 2], None).await;
    assert!(first.iter().all(|fence| fence.is_some()), "{first:?}");
    assert!(second[0].is_none() && second[1].is_none() && second[2].is_some(), "{second:?}");
    let (mine, theirs) = (first[1].clone().unwrap(), second[2].clone().unwrap());
    test.first().advance(&mine, &settled(0, &events)).await.unwrap();
    test.second().advance(&theirs, &settled(0, &events[..2])).await.unwrap();
    fenced(
        "another's partition",
        test.first().advance(&Fence { partition: 2, ..mine.clone() }, &settled(0, &events)).await,
    );
    let group = test.second().group("g").await.unwrap();
    let positions: Vec<u64> = group.partitions.iter().map(|partition| partition.position).collect();
    assert_eq!(positions, [0, sequence(&events[3]), sequence(&events[1])]);
    let owners: Vec<_> = group.partitions.iter().map(|partition| partition.owner.as_ref()).collect();
    let (first, second) = (&test.first().instance, &test.second().instance);
    assert_eq!(owners, [Some(first), Some(first), Some(second)]);
    assert_eq!(test.first().load(&mine).await.unwrap().partitions, 3);
    assert_eq!(test.first().findings("g").await, []);
}

pub(crate) async fn a_partition_that_is_not_there_is_not_given(test: &TestSubscribers) {
    test.first().begin_group("g", 2).await;
    assert_eq!(test.first().take("g", [2, 7], None).await, [None, None]);
    let beyond = Fence { subscriber_id: "g".into(), partition: 2, term: Some(1), history: None };
    fenced("load", test.first().load(&beyond).await);
}

pub(crate) async fn nobody_takes_more_than_its_share(test: &TestSubscribers) {
    test.first().begin_group("g", 5).await;
    let taken = test.first().take("g", 0..5, Some(3)).await;
    assert_eq!(taken.iter().flatten().count(), 3);
    assert_eq!(test.first().take("g", [4], Some(3)).await, [None]);
    assert_eq!(test.second().take("g", 0..5, Some(2)).await.iter().flatten().count(), 2);
    // A partition that was given up makes room for another.
    test.first()
        .release(&test.first().instance, &[PartitionId { subscriber_id: "g".into(), partition: 0 }])
        .await
        .unwrap();
    assert_eq!(test.second().take("g", [0], Some(2)).await, [None]);
    assert!(test.first().take("g", [0], Some(3)).await[0].is_some());
}

pub(crate) async fn members_come_to_shares_that_add_up(test: &TestSubscribers) {
    test.first().begin_group("g", 5).await;
    let alone = test.first().join_group("g").await;
    assert_eq!(
        (alone.partitions, &alone.members[..], alone.halted),
        (5, &[test.first().instance.incarnation][..], false)
    );
    let both = test.second().join_group("g").await;
    assert!(both.members.is_sorted() && both.members.len() == 2, "{both:?}");
    assert_eq!(test.first().join_group("g").await.members, both.members);
    let shares = both.members.iter().map(|member| share_of(&both.members, *member, both.partitions));
    assert_eq!(shares.sum::<u32>(), 5);
    assert_eq!(test.first().group("g").await.unwrap().members.len(), 2);
}

pub(crate) async fn a_member_that_leaves_is_gone_at_once(test: &TestSubscribers) {
    test.first().begin_group("g", 2).await;
    test.first().join_group("g").await;
    let fences = test.first().take("g", [0, 1], None).await;
    test.second().join_group("g").await;
    test.first().leave(&test.first().instance, &["g".into()]).await.unwrap();
    assert_eq!(test.second().join_group("g").await.members, [test.second().instance.incarnation]);
    // An instance keeps the partitions that it owns until it releases them.
    assert_eq!(test.second().take("g", [0, 1], None).await, [None, None]);
    assert!(test.first().load(fences[0].as_ref().unwrap()).await.is_ok());
}

pub(crate) async fn a_member_that_does_not_come_back_is_gone(test: &TestSubscribers) {
    test.first().begin_group("g", 2).await;
    test.first().join_group("g").await;
    let lost = test.first().take("g", [0], None).await;
    test.pass(LONG).await;
    assert_eq!(test.second().join_group("g").await.members, [test.second().instance.incarnation]);
    assert!(test.second().take("g", [0], None).await[0].is_some(), "its lease is over too");
    fenced("load", test.first().load(lost[0].as_ref().unwrap()).await);
}

pub(crate) async fn groups_that_are_not_there_are_left_out(test: &TestSubscribers) {
    test.first().begin_group("g", 2).await;
    let views = test.first().join(&test.first().instance, &["unknown".into(), "g".into()], LONG).await.unwrap();
    assert_eq!(views.iter().map(|view| view.subscriber_id.as_str()).collect::<Vec<_>>(), ["g"]);
    test.first().leave(&test.first().instance, &["unknown".into()]).await.unwrap();
}

pub(crate) async fn a_subscriber_keeps_its_mode_and_its_partitions(test: &TestSubscribers) {
    let register = async |subscriber_id: &str, mode| {
        let (subscriber_id, start_from) = (subscriber_id.to_owned(), StartFrom::Beginning);
        test.first().register(&SubscriberConfig::new(subscriber_id, start_from, mode)).await
    };
    let modes = [SubscriberMode::Exclusive, SubscriberMode::Partitioned { partitions: 4 }, SubscriberMode::Shared];
    for mode in modes {
        register(mode.name(), mode).await.unwrap();
        for other in modes {
            let again = register(mode.name(), other).await;
            match mode == other {
                true => again.unwrap(),
                false => in_use("another mode", again),
            }
        }
        assert_eq!(test.second().subscriber(mode.name()).await.unwrap().mode, mode);
    }
    register("partitioned", SubscriberMode::Partitioned { partitions: 9 }).await.unwrap();
    assert_eq!(test.second().group("partitioned").await.unwrap().partitions.len(), 4);
    for partitions in [0, 1025] {
        invalid("partitions", register("g", SubscriberMode::Partitioned { partitions }).await);
    }
}

pub(crate) async fn letters_are_redriven_by_the_owner_of_their_key(test: &TestSubscribers) {
    let (low, high) = (key_in(0, 2), key_in(1, 2));
    let events = test.append_keys(&[&low, &high]).await;
    test.first().begin_group("g", 2).await;
    let fences = test.first().take("g", [0, 1], None).await;
    let fences: Vec<Fence> = fences.into_iter().flatten().collect();
    for (fence, event) in fences.iter().zip(&events) {
        test.first().bury(fence, &[dead(fence, event, "no")]).await.unwrap();
    }
    assert_eq!(test.second().redrive(&all()).await.unwrap(), 2);
    assert_eq!(test.first().due(&fences[0], &events).await, [1]);
    assert_eq!(test.first().due(&fences[1], &events).await, [2]);
    test.first().redriven(&fences[1], sequence(&events[1]), None).await.unwrap();
    let held = test.first().ask_for("g", fences[0].term, LONG).await;
    assert!(held.redrives, "{held:?}");
}

pub(crate) async fn the_whole_stands_where_the_furthest_behind_does(test: &TestSubscribers) {
    let events = test.append(3).await;
    test.first().begin_group("g", 2).await;
    let fences = test.first().take("g", [0, 1], None).await;
    test.first().advance(fences[1].as_ref().unwrap(), &settled(0, &events)).await.unwrap();
    assert_eq!(test.second().position("g").await.unwrap().position, 0);
    test.first().advance(fences[0].as_ref().unwrap(), &settled(0, &events[..1])).await.unwrap();
    assert_eq!(test.second().position("g").await.unwrap().position, sequence(&events[0]));
    let info = test.second().subscriber("g").await.unwrap();
    assert_eq!((info.position, info.lag_events), (sequence(&events[0]), 2));
    assert_eq!(info.mode, SubscriberMode::Partitioned { partitions: 2 });
}

pub(crate) async fn a_pause_by_an_owner_is_its_partitions_alone(test: &TestSubscribers) {
    test.first().begin_group("g", 2).await;
    let fences = test.first().take("g", [0, 1], None).await;
    test.first().pause_self(fences[1].as_ref().unwrap(), "tired").await.unwrap();
    let paused = async || {
        let group = test.first().group("g").await.unwrap();
        let state = |report: &headwater_core::Report| report.state == RunnerState::Paused;
        group.partitions.iter().map(|partition| partition.report.as_ref().is_some_and(state)).collect::<Vec<_>>()
    };
    assert_eq!(paused().await, [false, true]);
    assert!(!test.first().load(fences[0].as_ref().unwrap()).await.unwrap().paused);
    assert!(test.first().load(fences[1].as_ref().unwrap()).await.unwrap().paused);
    test.second().set_paused("g", false).await.unwrap();
    assert!(!test.first().load(fences[1].as_ref().unwrap()).await.unwrap().paused);
    test.second().set_paused("g", true).await.unwrap();
    assert!(test.first().load(fences[0].as_ref().unwrap()).await.unwrap().paused);
    let attended = [("g".into(), 0.0), ("unknown".into(), 0.0)];
    assert_eq!(test.second().attend_queues(&test.second().instance, &attended, LONG).await.unwrap(), ["g"]);
}

pub(crate) async fn a_reset_moves_all_partitions_in_a_new_term(test: &TestSubscribers) {
    let events = test.append(3).await;
    test.first().begin_group("g", 2).await;
    let fences = test.first().take("g", [0, 1], None).await;
    for fence in fences.iter().flatten() {
        test.first().advance(fence, &settled(0, &events)).await.unwrap();
    }
    test.second().reset("g", sequence(&events[0])).await.unwrap();
    for fence in fences.iter().flatten() {
        fenced("advance", test.first().advance(fence, &settled(0, &events)).await);
    }
    let group = test.first().group("g").await.unwrap();
    assert!(group.partitions.iter().all(|it| it.position == sequence(&events[0]) && it.owner.is_none()), "{group:?}");
}

pub(crate) async fn a_group_in_use_is_removed_only_by_force(test: &TestSubscribers) {
    test.first().begin_group("g", 3).await;
    test.first().take("g", [2], None).await;
    in_use("remove", test.second().remove("g", false).await);
    test.second().remove("g", true).await.unwrap();
    let gone = test.first().group("g").await;
    assert!(matches!(gone, Err(SubscriberError::NotFound(_))), "{gone:?}");
    let restarted = Instance::new("first");
    assert_eq!(test.first().join(&restarted, &["g".into()], LONG).await.unwrap(), []);
}
