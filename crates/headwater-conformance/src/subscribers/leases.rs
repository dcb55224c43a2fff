//! Laws of ownership: each term has one owner, by the store's clock.

use std::time::Duration;

use futures::future::join;
use headwater_core::{Advance, Fence, Instance, LeaseRequest, Report, RunnerState};

use super::TestSubscribers;
use super::support::{LONG, ask, invalid};

/// Longer than any of these laws takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn one_instance_owns_at_a_time(test: &TestSubscribers) {
    test.first().begin_and_own("s").await;
    for _ in 0..3 {
        assert_eq!(test.second().ask_for("s", None, LONG).await.term, None);
    }
    let info = test.second().subscriber("s").await.unwrap();
    assert_eq!(info.owner.as_ref(), Some(&test.first().instance));
}

pub(crate) async fn an_owner_goes_on_in_its_term(test: &TestSubscribers) {
    let fence = test.first().begin_and_own("s").await;
    for _ in 0..3 {
        assert_eq!(test.first().ask_for("s", fence.term, LONG).await.term, fence.term);
    }
    assert_eq!(test.first().subscriber("s").await.unwrap().term, fence.term.unwrap());
}

pub(crate) async fn a_release_hands_over_at_once(test: &TestSubscribers) {
    let first = test.first().begin_and_own("s").await;
    test.first().give_up("s").await;
    let info = test.first().subscriber("s").await.unwrap();
    assert_eq!((info.owner, info.lease_left), (None, None));
    let second = test.second().own("s").await;
    assert!(second.term > first.term, "{second:?} follows {first:?}");
    assert_eq!(test.first().ask_for("s", None, LONG).await.term, None);
}

pub(crate) async fn only_what_is_owned_is_released(test: &TestSubscribers) {
    let fence = test.first().begin_and_own("s").await;
    test.second().give_up("s").await;
    test.second().give_up("unknown").await;
    assert_eq!(test.second().ask_for("s", None, LONG).await.term, None);
    assert_eq!(test.first().ask_for("s", fence.term, LONG).await.term, fence.term);
}

pub(crate) async fn a_lease_ends_by_itself(test: &TestSubscribers) {
    test.first().begin("s").await;
    let term = test.first().ask_for("s", None, Duration::from_millis(1)).await.term;
    let taken = async {
        loop {
            if let Some(term) = test.second().ask_for("s", None, LONG).await.term {
                break term;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let next = tokio::time::timeout(PATIENCE, taken).await.expect("a lease of 1 ms must end");
    assert!(Some(next) > term);
    assert_eq!(test.first().ask_for("s", term, LONG).await.term, None);
}

pub(crate) async fn each_owner_has_a_higher_term(test: &TestSubscribers) {
    test.first().begin("s").await;
    let mut terms = Vec::new();
    for round in 0..6 {
        let process = if round % 2 == 0 { test.first() } else { test.second() };
        terms.push(process.own("s").await.term);
        process.give_up("s").await;
    }
    assert!(terms.is_sorted_by(|a, b| a < b), "{terms:?}");
}

pub(crate) async fn an_owner_whose_answer_was_lost_owns_again(test: &TestSubscribers) {
    let lost = test.first().begin_and_own("s").await;
    let again = test.first().ask_for("s", None, LONG).await.term;
    assert!(again >= lost.term && again.is_some());
    assert_eq!(test.second().ask_for("s", None, LONG).await.term, None);
}

pub(crate) async fn a_term_that_is_over_is_not_renewed(test: &TestSubscribers) {
    let first = test.first().begin_and_own("s").await;
    test.first().give_up("s").await;
    let second = test.second().own("s").await;
    assert_eq!(test.first().ask_for("s", first.term, LONG).await.term, None);
    // The term of another owner does not help either.
    assert_eq!(test.first().ask_for("s", second.term, LONG).await.term, None);
    assert_eq!(test.second().ask_for("s", second.term, LONG).await.term, second.term);
}

pub(crate) async fn a_restarted_node_is_another_instance(test: &TestSubscribers) {
    let fence = test.first().begin_and_own("s").await;
    let restarted = Instance::new(test.first().instance.node.clone());
    for term in [None, fence.term] {
        let held = test.second().keep(&restarted, &[ask("s", term)], LONG).await.unwrap();
        assert_eq!(held[0].term, None);
    }
}

pub(crate) async fn answers_come_in_the_order_of_the_asks(test: &TestSubscribers) {
    for subscriber_id in ["b", "d", "a"] {
        test.first().begin(subscriber_id).await;
    }
    test.second().own("d").await;
    let asks: Vec<LeaseRequest> = ["d", "unknown", "b", "a"].iter().map(|id| ask(id, None)).collect();
    let held = test.first().keep(&test.first().instance, &asks, LONG).await.unwrap();
    let ids: Vec<_> = held.iter().map(|held| held.subscriber_id.as_str()).collect();
    assert_eq!(ids, ["d", "unknown", "b", "a"]);
    let owned: Vec<_> = held.iter().map(|held| held.term.is_some()).collect();
    assert_eq!(owned, [false, false, true, true]);
    assert!(test.first().keep(&test.first().instance, &[], LONG).await.unwrap().is_empty());
}

pub(crate) async fn two_that_ask_at_once_do_not_both_own(test: &TestSubscribers) {
    for number in 0..20 {
        let subscriber_id = format!("s{number}");
        test.first().begin(&subscriber_id).await;
        let first = test.first().ask_for(&subscriber_id, None, LONG);
        let second = test.second().ask_for(&subscriber_id, None, LONG);
        let (first, second) = tokio::time::timeout(PATIENCE, join(first, second)).await.expect("asking hangs");
        assert!(first.term.is_none() || second.term.is_none(), "{first:?} {second:?}");
    }
}

pub(crate) async fn a_paused_subscriber_can_be_owned(test: &TestSubscribers) {
    test.first().begin("s").await;
    test.second().set_paused("s", true).await.unwrap();
    let held = test.first().ask_for("s", None, LONG).await;
    assert!(held.term.is_some() && held.paused);
    assert!(test.second().ask_for("s", None, LONG).await.paused, "also whoever stands by is told");
    test.second().set_paused("s", false).await.unwrap();
    let held = test.first().ask_for("s", held.term, LONG).await;
    assert!(held.term.is_some() && !held.paused);
}

pub(crate) async fn what_the_owner_reports_is_shown(test: &TestSubscribers) {
    let fence = test.first().begin_and_own("s").await;
    let detail = Some("gap 5..7 ☃".into());
    let report = Report { state: RunnerState::Held, detail, rate: 12.5, transactional: true };
    let mine = LeaseRequest { report: report.clone(), ..ask("s", fence.term) };
    test.first().keep(&test.first().instance, &[mine], LONG).await.unwrap();
    let theirs = LeaseRequest { report: Report { rate: 1.0, ..Report::default() }, ..ask("s", None) };
    test.second().keep(&test.second().instance, &[theirs], LONG).await.unwrap();
    assert_eq!(test.second().subscriber("s").await.unwrap().report, Some(report));
}

pub(crate) async fn the_lease_is_shown(test: &TestSubscribers) {
    test.first().begin("s").await;
    let info = test.second().subscriber("s").await.unwrap();
    assert_eq!((info.owner, info.lease_left), (None, None));
    let fence = test.first().own("s").await;
    let info = test.second().subscriber("s").await.unwrap();
    assert_eq!((info.owner.as_ref(), Some(info.term)), (Some(&test.first().instance), fence.term));
    assert!(info.lease_left.is_some_and(|left| !left.is_zero() && left <= LONG), "{:?}", info.lease_left);
}

pub(crate) async fn leases_without_length_are_refused(test: &TestSubscribers) {
    test.first().begin("s").await;
    for lease in [Duration::ZERO, Duration::MAX] {
        invalid("lease", test.first().keep(&test.first().instance, &[ask("s", None)], lease).await);
    }
}

/// An owner that makes progress is alive, even if its request for the lease gets no turn beside the
/// work.
pub(crate) async fn a_checkpoint_that_moves_renews_the_lease(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    let fence = test.first().begin_and_own("s").await;
    let left = async || test.second().subscriber("s").await.unwrap().lease_left.expect("the lease runs");
    let mut before = left().await;
    while before > LONG - Duration::from_millis(100) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        before = left().await;
    }
    // Without a renewal, the remaining time only shrinks.
    let renewed = async {
        for position in 1.. {
            test.first().advance(&fence, &Advance { position, ..Advance::default() }).await.unwrap();
            if left().await > before {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            // A store in memory never waits, so give the clock a turn.
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, renewed).await.expect("a move must renew the lease");
}

pub(crate) async fn a_move_makes_no_lease(test: &TestSubscribers) {
    test.hand_out(10_000).await;
    test.first().begin("s").await;
    let none = Fence { subscriber_id: "s".into(), partition: 0, term: None, history: None };
    let present = Fence { term: Some(test.first().position("s").await.unwrap().term), ..none.clone() };
    for (position, fence) in [(1, none), (2, present)] {
        test.first().advance(&fence, &Advance { position, ..Advance::default() }).await.unwrap();
        assert_eq!(test.first().subscriber("s").await.unwrap().lease_left, None);
    }
    let owned = test.first().own("s").await;
    test.first().give_up("s").await;
    test.first().advance(&owned, &Advance { position: 3, ..Advance::default() }).await.unwrap();
    assert_eq!(test.first().subscriber("s").await.unwrap().lease_left, None);
    assert!(test.second().ask_for("s", None, LONG).await.term.is_some());
}
