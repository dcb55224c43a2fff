//! Dead letters and states.

use crate::common::subscribers::{HANDLE, LONG, Process, attempt, fence, letter};
use crate::common::{pid, run, until_it_waits};
use headwater_core::DeadLetterState::{Dead, Discarded, Parked, Redriven, Redriving};
use headwater_core::{
    DeadLetter, DeadLetterQuery, Event, Fence, GroupStore, HandlerError, OperatorStore, ProgressStore, RecordedEvent,
    StartFrom, StateStore, SubscriberError,
};
use headwater_postgres::PgStateStore;
use headwater_testing::TestDatabase;

/// A process that owns `totals`.
async fn owner() -> (TestDatabase, Process, Fence) {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    db.hand_out("shop", 100).await;
    let a = Process::start(&db, &log, "a").await;
    a.register("totals", StartFrom::Beginning).await;
    let fence = fence("totals", a.take("totals").await);
    (db, a, fence)
}

fn all() -> DeadLetterQuery {
    DeadLetterQuery { limit: 100, ..DeadLetterQuery::default() }
}

fn sequences(letters: &[DeadLetter]) -> Vec<u64> {
    letters.iter().map(DeadLetter::global_sequence).collect()
}

async fn states(a: &Process) -> Vec<(u64, headwater_core::DeadLetterState)> {
    let query = DeadLetterQuery { states: vec![Dead, Parked, Redriving, Redriven, Discarded], ..all() };
    let letters = a.store.dead_letters(&query).await.unwrap();
    letters.iter().map(|letter| (letter.global_sequence(), letter.state)).collect()
}

async fn due(a: &Process, fence: &Fence) -> Vec<u64> {
    let letters = sequences(&a.store.redrives(fence, 100).await.unwrap());
    // keep says the same, and again, whatever it noted.
    for _ in 0..2 {
        assert_eq!(a.keep("totals", fence.term, LONG).await.redrives, !letters.is_empty());
    }
    letters
}

#[tokio::test]
async fn a_letter_is_kept_whole_and_a_second_burial_merges() {
    let (_db, a, fence) = owner().await;
    let first = letter(4, "k", Dead, "boom\0");
    a.store.bury(&fence, std::slice::from_ref(&first)).await.unwrap();
    a.store.bury(&fence, std::slice::from_ref(&first)).await.unwrap();
    let kept = a.store.dead_letters(&all()).await.unwrap().remove(0);
    assert_eq!((kept.event.id, kept.event.key.as_deref()), (first.event.id, Some("k")));
    assert_eq!(kept.event, first.event);
    assert_eq!(kept.attempts.len(), 1, "the same burial twice is one");
    assert_eq!((kept.error(), kept.attempts[0].at), ("boom\u{fffd}", first.attempts[0].at));
    assert_eq!((kept.state, kept.parks_key, kept.order_key.as_str()), (Dead, true, "k"));

    let again = DeadLetter { attempts: vec![attempt("worse")], parks_key: false, ..first };
    a.store.bury(&fence, &[again]).await.unwrap();
    let merged = a.store.dead_letters(&all()).await.unwrap().remove(0);
    assert_eq!(merged.attempts.len(), 2);
    assert_eq!((merged.error(), merged.created_at, merged.parks_key), ("worse", kept.created_at, false));
    assert_eq!(a.store.subscriber("totals").await.unwrap().dead_letters, 1);
}

#[tokio::test]
async fn who_does_not_own_buries_nothing() {
    let (_db, a, fence) = owner().await;
    let zombie = Fence { term: Some(7), ..fence.clone() };
    let fenced = |result: Result<(), SubscriberError>| assert!(matches!(result, Err(SubscriberError::Fenced(_))));
    fenced(a.store.bury(&zombie, &[letter(4, "k", Dead, "boom")]).await);
    assert!(a.store.dead_letters(&all()).await.unwrap().is_empty());
    a.store.bury(&fence, &[letter(4, "k", Dead, "boom")]).await.unwrap();
    fenced(a.store.redriven(&zombie, 4, None).await);
    fenced(a.store.redrives(&zombie, 1).await.map(drop));
    fenced(a.store.is_parked(&zombie, "k").await.map(drop));
    assert_eq!(states(&a).await, [(4, Dead)]);
    let unstored = Event { global_sequence: None, ..letter(4, "k", Dead, "boom").event.into_event() };
    assert!(RecordedEvent::new(unstored).is_err(), "there is no letter of an event without a place");
}

#[tokio::test]
async fn a_list_holds_what_is_asked_for() {
    let (_db, a, owned) = owner().await;
    a.register("mails", StartFrom::Beginning).await;
    let letters = [letter(4, "k", Dead, "disk full"), letter(5, "k", Parked, ""), letter(9, "l", Dead, "no network")];
    a.store.bury(&owned, &letters).await.unwrap();
    let other = letter(4, "k", Dead, "disk full");
    let event = Event { event_type: "MailSent".into(), ..other.event.clone().into_event() };
    let other = DeadLetter { event: RecordedEvent::new(event).unwrap(), ..other };
    a.store.bury(&fence("mails", None), &[other]).await.unwrap();
    let list = async |query: DeadLetterQuery| {
        let letters = a.store.dead_letters(&query).await.unwrap();
        letters
            .iter()
            .map(|letter| format!("{} {}", letter.subscriber_id, letter.global_sequence()))
            .collect::<Vec<_>>()
    };
    assert_eq!(list(all()).await, ["mails 4", "totals 4", "totals 5", "totals 9"]);
    let totals = DeadLetterQuery { subscriber_id: Some("totals".into()), ..all() };
    assert_eq!(list(DeadLetterQuery { limit: 2, ..totals.clone() }).await, ["totals 4", "totals 5"]);
    assert_eq!(list(DeadLetterQuery { after: 5, ..totals.clone() }).await, ["totals 9"]);
    assert_eq!(list(DeadLetterQuery { states: vec![Parked], ..all() }).await, ["totals 5"]);
    assert_eq!(list(DeadLetterQuery { states: vec![Redriven], ..all() }).await, [] as [&str; 0]);
    assert_eq!(list(DeadLetterQuery { global_sequence: Some(9), ..all() }).await, ["totals 9"]);
    assert_eq!(list(DeadLetterQuery { event_type: Some("MailSent".into()), ..all() }).await, ["mails 4"]);
    assert_eq!(list(DeadLetterQuery { order_key: Some("l".into()), ..all() }).await, ["totals 9"]);
    assert_eq!(list(DeadLetterQuery { error_contains: Some("full".into()), ..all() }).await, ["mails 4", "totals 4"]);
    assert_eq!(list(DeadLetterQuery { error_contains: Some("%".into()), ..all() }).await, [] as [&str; 0]);
    assert_eq!(list(DeadLetterQuery::default()).await.len(), 4, "without a limit, a page");
}

#[tokio::test]
async fn one_is_redriven_with_its_key_and_in_order() {
    let (_db, a, fence) = owner().await;
    let letters =
        [letter(4, "k", Dead, "x"), letter(5, "l", Dead, "x"), letter(7, "k", Parked, ""), letter(8, "k", Parked, "")];
    a.store.bury(&fence, &letters).await.unwrap();
    assert_eq!(due(&a, &fence).await, [] as [u64; 0]);
    let loaded = a.store.load(&fence).await.unwrap();
    assert_eq!(loaded.parked_keys, ["k", "l"]);
    let one = DeadLetterQuery { global_sequence: Some(4), ..all() };
    assert_eq!(a.store.redrive(&one).await.unwrap(), 3);
    assert_eq!(a.store.redrive(&one).await.unwrap(), 0, "they are under way");
    assert_eq!(due(&a, &fence).await, [4, 7, 8]);

    // It fails again: what is behind it waits again.
    a.store.redriven(&fence, 4, Some(attempt("y"))).await.unwrap();
    assert_eq!(states(&a).await, [(4, Dead), (5, Dead), (7, Parked), (8, Parked)]);
    assert_eq!(due(&a, &fence).await, [] as [u64; 0]);
    assert_eq!(a.store.dead_letters(&one).await.unwrap()[0].attempts.len(), 2);

    // A parked one takes the whole key with it: it must not overtake.
    let parked = DeadLetterQuery { global_sequence: Some(8), ..all() };
    assert_eq!(a.store.redrive(&parked).await.unwrap(), 3);
    for sequence in [4, 7] {
        a.store.redriven(&fence, sequence, None).await.unwrap();
    }
    assert_eq!(due(&a, &fence).await, [8]);
    assert!(a.store.is_parked(&fence, "k").await.unwrap());
    a.store.redriven(&fence, 8, None).await.unwrap();
    assert!(!a.store.is_parked(&fence, "k").await.unwrap());
    assert_eq!(states(&a).await, [(4, Redriven), (5, Dead), (7, Redriven), (8, Redriven)]);
    assert_eq!(a.store.load(&fence).await.unwrap().parked_keys, ["l"]);
}

#[tokio::test]
async fn those_that_park_nothing_are_redriven_by_themselves() {
    let (_db, a, fence) = owner().await;
    let plain = |sequence| DeadLetter { parks_key: false, ..letter(sequence, "k", Dead, "x") };
    a.store.bury(&fence, &[plain(4), plain(5), plain(6)]).await.unwrap();
    assert!(a.store.load(&fence).await.unwrap().parked_keys.is_empty());
    assert_eq!(a.store.redrive(&DeadLetterQuery { global_sequence: Some(5), ..all() }).await.unwrap(), 1);
    assert_eq!(due(&a, &fence).await, [5]);
    assert_eq!(a.store.redrive(&all()).await.unwrap(), 2);
    assert_eq!(sequences(&a.store.redrives(&fence, 2).await.unwrap()), [4, 5]);
    a.store.redriven(&fence, 4, Some(attempt("y"))).await.unwrap();
    assert_eq!(due(&a, &fence).await, [5, 6], "the others are tried all the same");
}

#[tokio::test]
async fn a_discarded_head_releases_what_is_parked_one_by_one() {
    let (_db, a, fence) = owner().await;
    let letters = [
        letter(4, "k", Dead, "x"),
        letter(5, "k", Parked, ""),
        letter(6, "k", Parked, ""),
        letter(7, "m", Dead, "x"),
        letter(8, "m", Parked, ""),
    ];
    a.store.bury(&fence, &letters).await.unwrap();
    assert_eq!(due(&a, &fence).await, [] as [u64; 0]);
    let head = DeadLetterQuery { global_sequence: Some(4), ..all() };
    assert_eq!(a.store.discard(&head, "not wanted").await.unwrap(), 1);
    assert_eq!(a.store.discard(&head, "not wanted").await.unwrap(), 0);
    let query = DeadLetterQuery { states: vec![Discarded], ..all() };
    assert_eq!(a.store.dead_letters(&query).await.unwrap()[0].reason.as_deref(), Some("not wanted"));
    assert_eq!(due(&a, &fence).await, [5]);
    a.store.redriven(&fence, 5, None).await.unwrap();
    assert_eq!(due(&a, &fence).await, [6]);
    a.store.redriven(&fence, 6, Some(attempt("y"))).await.unwrap();
    assert_eq!(due(&a, &fence).await, [] as [u64; 0]);
    let six = a.store.dead_letters(&DeadLetterQuery { global_sequence: Some(6), ..all() }).await.unwrap().remove(0);
    assert!(six.parks_key, "it belongs to a parked key");
    a.store.redriven(&fence, 4, None).await.unwrap();
    assert_eq!(states(&a).await[0], (4, Discarded), "what was given up stays so");
}

#[tokio::test]
async fn an_event_that_comes_again_does_not_wait_behind_itself() {
    let (_db, a, fence) = owner().await;
    a.store.bury(&fence, &[letter(4, "k", Dead, "x"), letter(5, "k", Parked, "")]).await.unwrap();
    a.store.bury(&fence, &[letter(4, "k", Parked, ""), letter(5, "k", Parked, "")]).await.unwrap();
    assert_eq!(states(&a).await, [(4, Dead), (5, Parked)]);
    assert_eq!(a.store.discard(&all(), "all").await.unwrap(), 2);
    a.store.bury(&fence, &[letter(4, "k", Dead, "z")]).await.unwrap();
    let again = a.store.dead_letters(&all()).await.unwrap().remove(0);
    assert_eq!((again.state, again.reason), (Dead, None));
}

#[tokio::test]
async fn a_new_owner_is_told_of_what_waits() {
    let (_db, a, fence) = owner().await;
    a.store.bury(&fence, &[letter(4, "k", Dead, "x")]).await.unwrap();
    a.store.redrive(&all()).await.unwrap();
    a.store.release(&a.instance, &["totals".into()]).await.unwrap();
    let held = a.keep("totals", None, LONG).await;
    assert_eq!((held.term, held.redrives), (Some(3), true));
}

#[tokio::test]
async fn redriven_in_a_transaction_is_undone_with_it() {
    let (db, a, fence) = owner().await;
    a.store.bury(&fence, &[letter(4, "k", Dead, "x")]).await.unwrap();
    a.store.redrive(&all()).await.unwrap();
    let mut session = db.session().await;
    run(&mut session, HANDLE).await;
    a.store.redriven_in(&mut session, &fence, 4, None).await.unwrap();
    run(&mut session, "ROLLBACK").await;
    assert_eq!(states(&a).await, [(4, Redriving)]);
    // A handler has ended its transaction: this would be written at once.
    let ended = a.store.redriven_in(&mut session, &fence, 4, None).await;
    assert!(matches!(ended, Err(SubscriberError::Fenced(_))), "{ended:?}");
    assert_eq!(states(&a).await, [(4, Redriving)]);
    run(&mut session, HANDLE).await;
    a.store.redriven_in(&mut session, &fence, 4, None).await.unwrap();
    run(&mut session, "COMMIT").await;
    assert_eq!(states(&a).await, [(4, Redriven)]);
}

#[tokio::test]
async fn a_redrive_with_effects_happens_once_however_slow_its_commit() {
    let (db, a, fence) = owner().await;
    a.store.bury(&fence, &[letter(4, "k", Dead, "x")]).await.unwrap();
    a.store.redrive(&all()).await.unwrap();
    let (mut slow, mut again, mut session) = (db.session().await, db.session().await, db.session().await);
    run(&mut slow, HANDLE).await;
    a.store.redriven_in(&mut slow, &fence, 4, None).await.unwrap();
    run(&mut again, HANDLE).await;
    let pid = pid(&mut again).await;
    let second = tokio::spawn({
        let (store, fence) = (a.store.clone(), fence.clone());
        async move { store.redriven_in(&mut again, &fence, 4, None).await }
    });
    until_it_waits(&mut session, pid).await;
    run(&mut slow, "COMMIT").await;
    let fenced = |result: Result<(), SubscriberError>| assert!(matches!(result, Err(SubscriberError::Fenced(_))));
    fenced(second.await.unwrap());
    run(&mut session, HANDLE).await;
    fenced(a.store.redriven_in(&mut session, &fence, 4, Some(&attempt("y"))).await);
    fenced(a.store.redriven_in(&mut session, &fence, 5, None).await);
    run(&mut session, "ROLLBACK").await;
    // Without effects, the same again is nothing new.
    a.store.redriven(&fence, 4, None).await.unwrap();
    assert_eq!(states(&a).await, [(4, Redriven)]);
}

#[tokio::test]
async fn states_are_kept_and_go_with_their_subscriber() {
    let (db, a, fence) = owner().await;
    let states: PgStateStore<Vec<u64>> = PgStateStore::new(db.database.clone(), a.store.info(), "totals");
    let others: PgStateStore<Vec<u64>> = PgStateStore::new(db.database.clone(), a.store.info(), "mails");
    assert_eq!(states.get("x").await.unwrap(), None);
    states.put("x", Some(vec![1, 2])).await.unwrap();
    states.put("x", Some(vec![3])).await.unwrap();
    others.put("x", Some(vec![9])).await.unwrap();
    assert_eq!(states.get("x").await.unwrap(), Some(vec![3]));
    states.put("y", Some(vec![])).await.unwrap();
    states.put("y", None).await.unwrap();
    assert_eq!(states.get("y").await.unwrap(), None);

    let (mut session, mut other) = (db.session().await, db.session().await);
    run(&mut session, "BEGIN").await;
    assert_eq!(states.get_in(&mut session, "x").await.unwrap(), Some(vec![3]));
    states.put_in(&mut session, "x", Some(&vec![4])).await.unwrap();
    run(&mut other, "BEGIN; SET LOCAL lock_timeout = '1ms'").await;
    assert!(states.get_in(&mut other, "x").await.is_err(), "it is kept for the first");
    run(&mut other, "ROLLBACK").await;
    run(&mut session, "ROLLBACK").await;
    assert_eq!(states.get("x").await.unwrap(), Some(vec![3]));

    let wrong: PgStateStore<String> = PgStateStore::new(db.database.clone(), a.store.info(), "totals");
    let error = wrong.get("x").await.unwrap_err();
    assert!(HandlerError::from(error).is_permanent(), "a handler that meets it need not try again");

    a.store.bury(&fence, &[letter(4, "k", Dead, "x")]).await.unwrap();
    a.store.remove("totals", true).await.unwrap();
    assert_eq!(states.get("x").await.unwrap(), None);
    assert_eq!(others.get("x").await.unwrap(), Some(vec![9]));
    assert!(a.store.dead_letters(&all()).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_and_operators_do_not_deadlock_and_nothing_stays_behind() {
    let (_db, a, fence) = owner().await;
    let work = async {
        for round in 0..40u64 {
            let (dead, parked) = (round * 2 + 1, round * 2 + 2);
            let key = format!("key {}", round % 5);
            a.store.bury(&fence, &[letter(dead, &key, Dead, "x"), letter(parked, &key, Parked, "")]).await.unwrap();
            for due in a.store.redrives(&fence, 3).await.unwrap() {
                let failure = (round % 4 == 0).then(|| attempt("again"));
                a.store.redriven(&fence, due.global_sequence(), failure).await.unwrap();
            }
        }
    };
    let redrive = async {
        for round in 0..40 {
            let order_key = (round % 2 == 0).then(|| format!("key {}", round % 5));
            a.store.redrive(&DeadLetterQuery { order_key, ..all() }).await.unwrap();
        }
    };
    let discard = async {
        for round in 0..40u64 {
            a.store.discard(&DeadLetterQuery { global_sequence: Some(round + 1), ..all() }, "no").await.unwrap();
        }
    };
    tokio::join!(work, redrive, discard);
    a.store.redrive(&all()).await.unwrap();
    while a.keep("totals", fence.term, LONG).await.redrives {
        for due in a.store.redrives(&fence, 7).await.unwrap() {
            a.store.redriven(&fence, due.global_sequence(), None).await.unwrap();
        }
    }
    assert_eq!(a.store.subscriber("totals").await.unwrap().dead_letters, 0);
}
