//! Sealed months: claims, streams and subscriber reports look only into the leaves that they need,
//! and still miss nothing.

use crate::common::months::{looked_into, seal, sessions};
use crate::common::{emit, raw, run, sqlstate_of};
use chrono::{DateTime, Utc};
use headwater_core::{
    Append, Event, EventLog, ExpectedVersion, GapState, Gaps, LogQuery, NamespaceConfig, StreamQuery,
};
use headwater_postgres::{GrantKind, LogOptions, PgLog};
use headwater_testing::TestDatabase;
use sqlx::{AssertSqlSafe, PgConnection};

fn in_stream(stream: &str) -> Event {
    let mut event = raw("event");
    event.stream_id = Some(stream.into());
    event
}

/// How many rows a query has, and how many past months were looked into for it.
async fn ask(session: &mut PgConnection, query: &str) -> (i64, usize) {
    let counted = format!("SELECT count(*) FROM ({query}) q");
    let rows: i64 = sqlx::query_scalar(AssertSqlSafe(counted)).fetch_one(&mut *session).await.unwrap();
    (rows, looked_into(session).await.len())
}

#[tokio::test]
async fn of_60_months_claims_and_status_look_only_into_those_that_they_need() {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.past_months("shop", 60, 20).await;
    let mut owner = db.session().await;
    run(
        &mut owner,
        "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared'), headwater.register_subscriber('shop', 'tail')",
    )
    .await;
    for _ in 0..30 {
        emit(&mut owner, "shop", "now").await;
    }
    let sealed = seal(&mut owner, "shop").await;
    assert_eq!(sealed, 60);
    let claim = "SELECT * FROM headwater.claim('shop', 'work', 5)";
    let nack = "SELECT headwater.nack('shop', 'work', c.claim_id, delay => interval '0') FROM (SELECT DISTINCT claim_id FROM headwater_private.claims WHERE NOT done) c";
    for (position, query, rows, leaves) in [
        (1_200, claim, 5, 0),
        (1_200, "SELECT * FROM headwater.claim('shop', 'work', 5, '30 s', ARRAY['now'])", 5, 0),
        (1_200, "SELECT * FROM headwater.claim('shop', 'work', 5, '30 s', ARRAY['n*'])", 5, 0),
        (1_200, "SELECT * FROM headwater.claim('shop', 'work', 5, '30 s', ARRAY['other*'])", 0, 0),
        (1_196, "SELECT * FROM headwater.claim('shop', 'work', 5)", 5, 1),
        (405, claim, 5, 2),
        (405, "SELECT * FROM headwater.claim('shop', 'work', 5, '30 s', ARRAY['past'])", 5, 12),
        (1_200, "SELECT * FROM headwater.subscriber_status('shop')", 2, 0),
        (1_200, "SELECT * FROM headwater.group_status('shop', 'tail')", 1, 0),
        (1_200, "SELECT * FROM headwater.subscriber_lag", 2, 0),
        (1_200, "SELECT * FROM headwater.queue_metrics", 1, 0),
        (405, "SELECT * FROM headwater.subscriber_status('shop', 'tail')", 1, 2),
        (405, "SELECT * FROM headwater.group_status('shop', 'tail')", 1, 2),
    ] {
        for mut session in sessions(&db).await {
            let reset = format!(
                "SELECT headwater.reset_subscriber('shop', s, {position}) FROM unnest(ARRAY['work', 'tail']) s"
            );
            run(&mut owner, &reset).await;
            if query.contains("claim") {
                // The first claim after a reset is made with care; most are not the first.
                run(&mut owner, "SELECT headwater.claim('shop', 'work', 1)").await;
            }
            let (got, looked) = ask(&mut session, query).await;
            assert_eq!(got, rows, "{position}: {query}");
            assert!(looked <= leaves, "{position}: {query}: {looked} leaves");
            if query == claim {
                // What was claimed, handed back and claimed again is where it was.
                let mut again = db.session().await;
                run(&mut again, nack).await;
                assert_eq!(ask(&mut again, query).await.0, 5, "{position}");
                let looked = looked_into(&mut again).await.len();
                assert!(looked <= leaves, "{position}: handed back and taken again: {looked} leaves");
            }
        }
    }
}

/// A queue walks through months whose sequences overlap. Some of the months were trimmed. It gets
/// each event once.
#[tokio::test]
async fn claims_over_ragged_months_miss_nothing() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    for _ in 0..40 {
        log.append(raw("event").into()).await.unwrap();
    }
    for (first, last, months_ago) in
        [(1, 9, 6), (10, 12, 5), (12, 12, 4), (11, 11, 4), (13, 20, 3), (19, 24, 2), (22, 22, 1)]
    {
        db.backdate("shop", first, last, months_ago).await;
    }
    let mut session = db.session().await;
    run(&mut session, "DELETE FROM headwater_private.events WHERE global_sequence IN (5, 23, 24, 33)").await;
    run(&mut session, "SELECT headwater.register_subscriber('shop', 'work', mode => 'shared')").await;
    seal(&mut session, "shop").await;
    let all: Vec<i64> = sqlx::query_scalar("SELECT global_sequence FROM headwater_private.events ORDER BY 1")
        .fetch_all(&mut session)
        .await
        .unwrap();
    for size in [1, 3, 7, 100] {
        run(&mut session, "SELECT headwater.reset_subscriber('shop', 'work', 0)").await;
        let mut got = Vec::new();
        loop {
            let claimed: Vec<(uuid::Uuid, i64)> =
                sqlx::query_as("SELECT claim_id, global_sequence FROM headwater.claim('shop', 'work', $1)")
                    .bind(size)
                    .fetch_all(&mut session)
                    .await
                    .unwrap();
            let Some((claim_id, _)) = claimed.first() else { break };
            run(&mut session, &format!("SELECT headwater.ack('shop', 'work', '{claim_id}')")).await;
            got.extend(claimed.iter().map(|(_, sequence)| *sequence));
        }
        assert_eq!(got, all, "{size} at a time");
    }
}

/// In each of 60 past months two events of the stream `long` and one of a stream of that month.
async fn sixty_months(db: &TestDatabase) -> PgLog {
    let log = db.log("shop").await;
    for month in 0..60 {
        for stream in ["long".to_owned(), "long".to_owned(), format!("short-{month}")] {
            log.append(in_stream(&stream).into()).await.unwrap();
        }
    }
    for month in 0..60_u32 {
        let first = u64::from(3 * month + 1);
        db.backdate("shop", first, first + 2, 60 - month).await;
    }
    seal(&mut db.session().await, "shop").await;
    log.look_up_months().await.unwrap();
    log
}

#[tokio::test]
async fn of_60_months_a_stream_is_looked_for_only_where_it_lies() {
    let db = TestDatabase::create().await;
    let log = sixty_months(&db).await;
    for (query, events, leaves) in [
        (StreamQuery::new("short-30"), 1, 1),
        (StreamQuery::new("short-30").from_version(2), 0, 0),
        (StreamQuery::new("none"), 0, 0),
        (StreamQuery::new("long").from_version(119), 2, 1),
        (StreamQuery::new("long").page_size(4), 4, 2),
        (StreamQuery::new("long").from_version(1).to_version(2), 2, 1),
        (StreamQuery::new("long").backwards().page_size(3), 3, 2),
        (StreamQuery::new("long"), 120, 60),
    ] {
        for mut session in sessions(&db).await {
            let page = log.stream_page_in(&mut session, &query).await.unwrap();
            let looked = looked_into(&mut session).await.len();
            assert_eq!((page.len(), looked), (events, leaves), "{query:?}");
        }
    }
    // A reader that may not append knows it as well.
    let role = db.role().await;
    db.database.grant("shop", &role.name, GrantKind::Consumer).await.unwrap();
    let mut session = role.session().await;
    assert_eq!(ask(&mut session, "SELECT * FROM headwater.read_stream('shop', 'short-30')").await, (1, 1));
    drop(session);
    db.database.revoke("shop", &role.name, None).await.unwrap();
    db.database.grant("shop", &role.name, GrantKind::Producer).await.unwrap();
    assert_eq!(
        sqlstate_of(&mut role.session().await, "SELECT * FROM headwater.read_stream('shop', 'short-30')").await,
        "WH015"
    );
    db.database.revoke("shop", &role.name, None).await.unwrap();
    db.drop_role(role).await;
}

/// Later versions in earlier months, as after a clock was set back; versions that were trimmed; and
/// a stream whose times are not known.
#[tokio::test]
async fn a_stream_over_ragged_months_misses_nothing() {
    let db = TestDatabase::create().await;
    let log = db.log("shop").await;
    for _ in 0..24 {
        log.append(in_stream("one").into()).await.unwrap();
    }
    for (first, last, months_ago) in
        [(1, 4, 9), (5, 7, 8), (8, 8, 9), (9, 9, 5), (10, 14, 4), (12, 12, 6), (15, 20, 3), (16, 16, 2), (21, 21, 1)]
    {
        db.backdate("shop", first, last, months_ago).await;
    }
    let mut session = db.session().await;
    seal(&mut session, "shop").await;
    let stored: Vec<(i64, DateTime<Utc>)> =
        sqlx::query_as("SELECT stream_version, recorded_at FROM headwater_private.events ORDER BY 1")
            .fetch_all(&mut session)
            .await
            .unwrap();
    let all_ranges = async |session: &mut PgConnection, log: &PgLog, case: &str| {
        let kept = "SELECT nullif(kept_from, '-infinity') FROM headwater_private.namespaces";
        let kept: Option<DateTime<Utc>> = sqlx::query_scalar(kept).fetch_one(&mut *session).await.unwrap();
        let all: Vec<i64> =
            stored.iter().filter(|(_, at)| kept.is_none_or(|kept| *at >= kept)).map(|(v, _)| *v).collect();
        for from in 1..=25 {
            for (to, size) in [(None, 1), (None, 3), (None, 100), (Some(from + 2), 2), (Some(from + 9), 100)] {
                let within = |version: &i64| *version >= from && to.is_none_or(|to| *version <= to);
                for backwards in [false, true] {
                    let mut expected: Vec<i64> = all.iter().copied().filter(within).collect();
                    if backwards {
                        expected.reverse();
                    }
                    expected.truncate(size as usize);
                    let query = StreamQuery::new("one").from_version(from as u64).page_size(size);
                    let query = StreamQuery { to_version: to.map(|to| to as u64), ..query };
                    let query = if backwards { query.backwards() } else { query };
                    let page = log.stream_page_in(&mut *session, &query).await.unwrap();
                    let got: Vec<i64> =
                        page.iter().filter_map(|event| event.stream_version).map(|v| v as i64).collect();
                    assert_eq!(got, expected, "{case}: {query:?}");
                }
            }
        }
    };
    log.look_up_months().await.unwrap();
    all_ranges(&mut session, &log, "times known").await;
    run(&mut session, "UPDATE headwater_private.streams SET first_at = DEFAULT, last_at = DEFAULT").await;
    all_ranges(&mut session, &log, "times not known").await;
    db.keep_months("shop", 5).await;
    assert_eq!(db.database.maintain("shop", false).await.unwrap().trimmed.len(), 3);
    log.look_up_months().await.unwrap();
    all_ranges(&mut session, &log, "trimmed").await;
}

/// What an append notes of its streams: the first moment and the last, whatever the clock does.
#[tokio::test]
async fn streams_know_when_their_events_were_recorded() {
    let db = TestDatabase::create().await;
    let log = db.log_with(NamespaceConfig::new("shop"), LogOptions::default()).await;
    let mut session = db.session().await;
    let apart = "SELECT count(*) FROM headwater_private.streams s
                   JOIN LATERAL (SELECT min(e.recorded_at) AS first_at, max(e.recorded_at) AS last_at FROM headwater_private.events e
                                  WHERE e.namespace_id = s.namespace_id AND e.stream_id = s.stream_id) e ON true
                  WHERE (s.first_at, s.last_at) IS DISTINCT FROM (e.first_at, e.last_at)";
    for (stream, expected) in [("a", None), ("a", Some(1)), ("b", Some(0)), ("a", None), ("a", Some(3))] {
        let mut append = Append::from(in_stream(stream));
        if let Some(version) = expected {
            append = append.expect(stream, ExpectedVersion::Exact(version));
        }
        log.append(append).await.unwrap();
    }
    assert_eq!(sqlx::query_scalar::<_, i64>(apart).fetch_one(&mut session).await.unwrap(), 0);
    // Of an old stream nobody knows, and an append does not make it seem otherwise.
    run(
        &mut session,
        "UPDATE headwater_private.streams SET first_at = DEFAULT, last_at = DEFAULT WHERE stream_id = 'a'",
    )
    .await;
    log.append(in_stream("a").into()).await.unwrap();
    let unknown: bool = sqlx::query_scalar(
        "SELECT first_at = '-infinity' AND last_at = 'infinity' FROM headwater_private.streams WHERE stream_id = 'a'",
    )
    .fetch_one(&mut session)
    .await
    .unwrap();
    assert!(unknown);
}

/// A reader knows months that another process has trimmed and dropped since. It reads on with the
/// months that are left, and skips none of them.
#[tokio::test]
async fn months_that_were_dropped_behind_a_readers_back_hide_no_others() {
    for (months, events_each, kept, page_size) in [(6, 3, 2, 2), (6, 3, 1, 4), (12, 5, 3, 10)] {
        let db = TestDatabase::create().await;
        let log = db.log("shop").await;
        db.past_months("shop", months, events_each).await;
        emit(&mut db.session().await, "shop", "now").await;
        seal(&mut db.session().await, "shop").await;
        log.look_up_months().await.unwrap();
        let other = headwater_postgres::Database::connect(&db.url, Default::default()).await.unwrap();
        db.keep_months("shop", kept).await;
        assert_eq!(other.maintain("shop", false).await.unwrap().trimmed.len() as u32, months - kept);
        let trimmed_to = u64::from((months - kept) * events_each);
        let all: Vec<u64> = (trimmed_to + 1..=u64::from(months * events_each) + 1).collect();
        for settled in [false, true] {
            let (mut seen, mut gaps, mut after) = (Vec::new(), Vec::new(), 0);
            loop {
                let page = if settled {
                    let horizon = log.horizon().await.unwrap().horizon;
                    log.settled_page(after, horizon, page_size).await.unwrap()
                } else {
                    log.log_page(&LogQuery::after(after).page_size(page_size)).await.unwrap()
                };
                seen.extend(page.events.iter().filter_map(|event| event.global_sequence));
                gaps.extend(page.gaps);
                if !page.more || page.cursor == after {
                    break;
                }
                after = page.cursor;
            }
            assert_eq!(seen, all, "{months} months, pages of {page_size}, settled: {settled}");
            let trimmed = gaps.iter().all(|gap| gap.state == GapState::Trimmed && gap.last <= trimmed_to);
            assert!(trimmed && !gaps.is_empty(), "{gaps:?}");
        }
        let ahead = log.look_ahead(0, &Gaps::default(), page_size).await.unwrap();
        assert_eq!(ahead.events[0].global_sequence, Some(trimmed_to + 1));
    }
}
