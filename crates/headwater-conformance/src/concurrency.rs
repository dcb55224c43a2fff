//! Laws of writers and readers that run at the same time, each through one of two handles.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use headwater_core::ExpectedVersion::{Any, Exact, Exists, NoStream};
use headwater_core::{Append, AppendError, Appended, Event, LogQuery};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::TestLog;
use crate::support::{
    conflict, event, ids, interleaved, invalid, is_increasing, log_of, reused, sequences, stored, stream_of, to_stream,
    whole_log,
};

/// Longer than any of these laws takes. A test that hangs should say where.
const PATIENCE: Duration = Duration::from_secs(60);

fn send(log: &TestLog, writer: usize, append: Append) -> JoinHandle<Result<Appended, AppendError>> {
    let log = log.handle(writer);
    tokio::spawn(async move { log.append(append).await })
}

/// Sends all appends at once.
async fn race(log: &TestLog, appends: Vec<Append>) -> Vec<Result<Appended, AppendError>> {
    let sent: Vec<_> = appends.into_iter().enumerate().map(|(writer, append)| send(log, writer, append)).collect();
    let answers = tokio::time::timeout(PATIENCE, join_all(sent)).await.expect("the appends hang");
    answers.into_iter().map(|answer| answer.expect("an append panicked")).collect()
}

pub(crate) async fn one_writer_wins_each_version(log: &TestLog) {
    for version in 0..8 {
        let answers = race(log, (0..6).map(|_| to_stream("s", Exact(version), 1)).collect()).await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1, "at version {version}: {won:?} {lost:?}");
        assert_eq!(won[0].as_ref().unwrap().stream_version(), Some(version + 1));
        for lost in lost {
            match lost {
                Err(AppendError::Conflict { stream_id, expected, actual }) => {
                    assert_eq!((&*stream_id, expected, actual), ("s", Exact(version), version + 1));
                }
                other => panic!("expected a conflict, got {other:?}"),
            }
        }
    }
    assert_eq!(stream_of(log, "s").await.len(), 8);
}

pub(crate) async fn any_version_leaves_no_holes(log: &TestLog) {
    let answers = race(log, (0..40).map(|number| to_stream("s", Any, 1 + number % 3)).collect()).await;
    let mut given: Vec<u64> = Vec::new();
    for appended in answers {
        let versions: Vec<u64> = appended.unwrap().events.iter().map(|placed| placed.stream_version.unwrap()).collect();
        assert!(versions.is_sorted_by(|a, b| a + 1 == *b), "an append is not torn apart: {versions:?}");
        given.extend(versions);
    }
    given.sort_unstable();
    let read = stream_of(log, "s").await;
    assert_eq!(given, (1..=read.len() as u64).collect::<Vec<_>>());
    let sequences: Vec<u64> = read.iter().map(|event| event.sequence().get()).collect();
    assert!(is_increasing(&sequences), "a stream's order is the log's order");
}

pub(crate) async fn every_reader_sees_the_same_order(log: &TestLog) {
    let appends: Vec<Append> = (0..40).map(|_| interleaved(&["", ""])).collect();
    let given: HashSet<Uuid> = appends.iter().flat_map(|append| ids(append.events())).collect();
    for appended in race(log, appends).await {
        assert!(is_increasing(&sequences(&appended.unwrap())));
    }
    let read = whole_log(log).await;
    assert_eq!((read.len(), ids(&read).into_iter().collect::<HashSet<_>>()), (80, given));
    assert_eq!(whole_log(&log.handle(1)).await, read);
    let mut backwards = log_of(&log.handle(1), LogQuery::default().backwards().page_size(7)).await;
    backwards.reverse();
    assert_eq!(backwards, read);
}

pub(crate) async fn the_same_append_sent_at_once_is_stored_once(log: &TestLog) {
    for append in [to_stream("s", NoStream, 2), to_stream("s", Any, 1), interleaved(&["", "a", "b"])] {
        let answers = race(log, vec![append; 6]).await;
        let answers: Vec<Appended> = answers.into_iter().map(|answer| answer.unwrap()).collect();
        assert_eq!(answers.iter().filter(|appended| !appended.retried).count(), 1, "{answers:?}");
        assert!(answers.iter().all(|appended| appended.events == answers[0].events), "{answers:?}");
    }
    assert_eq!(whole_log(log).await.len(), 6);
}

/// Appends that are sent together may be written together. A mistake in one must not affect the
/// others.
pub(crate) async fn each_answer_is_its_own(log: &TestLog) {
    let known = to_stream("known", NoStream, 2);
    let first = stored(log, known.clone()).await;
    let mixed = Append::new().event(known.events()[0].clone()).event(event("New"));
    for round in 0..5 {
        let unstorable = Event::raw("Bad", serde_json::json!("\0"));
        let appends = vec![
            to_stream(&format!("a-{round}"), NoStream, 2),
            to_stream("known", Exact(7), 1),
            known.clone(),
            mixed.clone(),
            to_stream("grows", Exact(round), 1),
            unstorable.into(),
            interleaved(&["", ""]),
            to_stream("grows-too", Any, 1),
            to_stream("grows-too", Any, 1),
            interleaved(&[&format!("b-{round}"), "absent"]).expect("absent", Exists),
            interleaved(&[&format!("b-{round}"), ""]).expect(format!("b-{round}"), NoStream),
        ];
        // All go through one handle, so that they can meet in one batch.
        let answers = join_all(appends.into_iter().map(|append| log.append(append))).await;
        let [a, late, again, some, grows, bad, emitted, too, too_again, half, b] = answers.try_into().unwrap();
        assert_eq!(a.unwrap().stream_version(), Some(2));
        assert_eq!(conflict(late), ("known".into(), Exact(7), 2));
        assert_eq!(again.unwrap(), Appended { events: first.events.clone(), retried: true });
        reused(some);
        assert_eq!(grows.unwrap().stream_version(), Some(round + 1));
        invalid(bad);
        assert_eq!(emitted.unwrap().events.len(), 2);
        let mut both = [too.unwrap().stream_version(), too_again.unwrap().stream_version()];
        both.sort_unstable();
        assert_eq!(both, [Some(2 * round + 1), Some(2 * round + 2)]);
        assert_eq!(conflict(half), ("absent".into(), Exists, 0));
        assert!(!b.unwrap().retried);
    }
    assert_eq!(whole_log(log).await.len(), 2 + 5 * 9);
}

pub(crate) async fn streams_in_opposite_order_do_not_block_each_other(log: &TestLog) {
    let streams = ["a", "b", "c"];
    let append = |number: usize| {
        let mut order = streams;
        order.rotate_left(number % 3);
        if number.is_multiple_of(2) {
            order.reverse();
        }
        interleaved(&order)
    };
    for appended in race(log, (0..30).map(append).collect()).await {
        appended.unwrap();
    }
    for stream in streams {
        let versions: Vec<_> = stream_of(log, stream).await.iter().map(|event| event.stream_version.unwrap()).collect();
        assert_eq!(versions, (1..=30).collect::<Vec<_>>());
    }
}

/// The most important law: a reader that reads on from its cursor gets every event, once and in
/// order, while others write.
pub(crate) async fn a_reader_that_follows_misses_nothing(log: &TestLog) {
    const WRITERS: usize = 6;
    const APPENDS: usize = 25;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let log = log.handle(writer);
            tokio::spawn(async move {
                for number in 0..APPENDS {
                    let append = match number % 3 {
                        0 => interleaved(&["shared", ""]),
                        1 => event("E").in_stream(format!("own-{writer}")).into(),
                        _ => event("E").into(),
                    };
                    log.append(append.clone()).await.unwrap();
                    // This retry may leave a gap.
                    assert!(log.append(append).await.unwrap().retried);
                }
            })
        })
        .collect();
    let expected = WRITERS * (APPENDS + APPENDS.div_ceil(3));
    let follow = async |handle: usize, query: LogQuery| {
        let (log, mut query, mut seen) = (log.handle(handle), query, Vec::new());
        while seen.len() < expected {
            let page = log.log_page(&query).await.unwrap();
            query.after = page.cursor;
            seen.extend(page.events);
            tokio::task::yield_now().await;
        }
        seen
    };
    let filtered = LogQuery::default().event_types(["E", "Happened", "Emitted"]);
    let readers = async { tokio::join!(follow(0, LogQuery::default().page_size(3)), follow(1, filtered)) };
    let (one, other) = tokio::time::timeout(PATIENCE, readers).await.expect("a reader lost an event");
    for writer in writers {
        writer.await.unwrap();
    }
    let whole = whole_log(log).await;
    assert_eq!((whole.len(), ids(&one), ids(&other)), (expected, ids(&whole), ids(&whole)));
}
