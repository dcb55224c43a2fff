//! Followers: a live stream of a log's events, in order, with a resume position and no subscriber.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Shop, soon};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use headwater::admin::{GrantKind, NamespaceChanges, NamespaceConfig, Storage};
use headwater::log::{
    Append, AppendError, Appended, EventLog, FollowError, FollowQuery, Followed, Follower, Followers, Horizon, LogPage,
    LogQuery, ReadError, StreamQuery,
};
use headwater::{Event, Headwater, Json, RecordedEvent};
use headwater_core::{Gaps, History, Look, LookAhead};
use headwater_embedded::{Server, Shutdown};
use headwater_memory::MemoryLog;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

async fn next(follower: &mut Follower) -> Followed {
    soon(follower.next()).await.expect("the follower goes on").expect("the log can be followed")
}

async fn failure(follower: &mut Follower) -> FollowError {
    let failure = loop {
        match soon(follower.next()).await.expect("it says why it ends") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(soon(follower.next()).await.is_none(), "it has ended");
    failure
}

/// The next event, whatever comes before it.
async fn event(follower: &mut Follower) -> Arc<RecordedEvent> {
    loop {
        if let Followed::Event(event) = next(follower).await {
            return event;
        }
    }
}

/// The sequences of the next events, up to one.
async fn up_to(follower: &mut Follower, last: u64) -> Vec<u64> {
    let mut sequences = Vec::new();
    while sequences.last() != Some(&last) {
        sequences.extend(event(follower).await.global_sequence);
    }
    sequences
}

/// Emits in a transaction that stays open.
async fn dawdle(session: &mut PgConnection, event_type: &str) -> u64 {
    sqlx::raw_sql("BEGIN").execute(&mut *session).await.unwrap();
    let emitted = sqlx::query("SELECT headwater.emit('shop', $1)").bind(event_type).fetch_one(session).await.unwrap();
    emitted.get::<i64, _>(0) as u64
}

async fn end(session: &mut PgConnection, how: &'static str) {
    sqlx::raw_sql(how).execute(session).await.unwrap();
}

async fn pid(session: &mut PgConnection) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(session).await.unwrap()
}

#[tokio::test]
async fn backfill_and_live_events_come_once_and_in_order_while_writers_commit_and_roll_back() {
    let shop = Shop::open().await;
    shop.emit_many(2_500).await;
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let url = shop.db.url.clone();
            tokio::spawn(async move {
                let mut session = <PgConnection as sqlx::Connection>::connect(&url).await.unwrap();
                for turn in 0..100 {
                    dawdle(&mut session, "live").await;
                    sqlx::query("SELECT headwater.emit('shop', 'live')").execute(&mut session).await.unwrap();
                    end(&mut session, if (turn + writer) % 3 == 0 { "ROLLBACK" } else { "COMMIT" }).await;
                }
            })
        })
        .collect();
    let mut follower = shop.shop.follow(0);
    let mut seen = up_to(&mut follower, 2_500).await;
    for writer in writers {
        writer.await.unwrap();
    }
    let last = shop.emit(&["last"]).await;
    seen.extend(up_to(&mut follower, last).await);
    let stored: Vec<u64> =
        shop.shop.read_log(LogQuery::after(0)).map(|event| event.unwrap().sequence().get()).collect().await;
    assert_eq!(seen, stored);
    assert_eq!(u64::from(follower.position()), last);
}

#[tokio::test]
async fn an_open_writer_holds_it_and_is_named() {
    let shop = Shop::open().await;
    for (how, comes) in [("COMMIT", true), ("ROLLBACK", false)] {
        let mut session = shop.db.session().await;
        let begin = shop.emit(&["before"]).await;
        let first = dawdle(&mut session, "first").await;
        let second = shop.emit(&["second"]).await;
        let mut follower = shop.shop.follow(FollowQuery::after(begin - 1).stall_after(Duration::ZERO));
        assert_eq!(event(&mut follower).await.global_sequence, Some(begin));
        let Followed::Stalled { from, to, writers } = next(&mut follower).await else { panic!("it says who holds it") };
        assert_eq!((u64::from(from), u64::from(to)), (first, first));
        assert_eq!(writers.iter().map(|writer| writer.pid).collect::<Vec<_>>(), [Some(pid(&mut session).await)]);
        assert_eq!(u64::from(follower.position()), begin, "what is behind the gap was not given");
        end(&mut session, how).await;
        let Followed::Resumed(position) = next(&mut follower).await else { panic!("it goes on") };
        assert_eq!(u64::from(position), begin);
        let expected = if comes { vec![first, second] } else { vec![second] };
        assert_eq!(up_to(&mut follower, second).await, expected);
    }
}

#[tokio::test]
async fn the_next_writer_that_holds_it_is_named_in_its_turn() {
    let shop = Shop::open().await;
    let (mut one, mut other) = (shop.db.session().await, shop.db.session().await);
    let first = dawdle(&mut one, "first").await;
    let second = dawdle(&mut other, "second").await;
    let third = shop.emit(&["third"]).await;
    let mut follower = shop.shop.follow(FollowQuery::after(0).stall_after(Duration::ZERO));
    let Followed::Stalled { from, to, writers } = next(&mut follower).await else { panic!("it says who holds it") };
    assert_eq!((u64::from(from), u64::from(to), writers.len()), (first, second, 2));
    end(&mut one, "COMMIT").await;
    let Followed::Resumed(_) = next(&mut follower).await else { panic!("it goes on") };
    assert_eq!(event(&mut follower).await.global_sequence, Some(first));
    let Followed::Stalled { from, writers, .. } = next(&mut follower).await else { panic!("another holds it") };
    assert_eq!(u64::from(from), second);
    assert_eq!(writers.iter().map(|writer| writer.pid).collect::<Vec<_>>(), [Some(pid(&mut other).await)]);
    end(&mut other, "COMMIT").await;
    assert_eq!(up_to(&mut follower, third).await, [second, third]);
}

#[tokio::test]
async fn who_never_wants_to_hear_of_stalls_waits_in_silence() {
    let shop = Shop::open().await;
    let mut session = shop.db.session().await;
    let first = dawdle(&mut session, "first").await;
    let second = shop.emit(&["second"]).await;
    let mut told = shop.shop.follow(FollowQuery::after(0).stall_after(Duration::ZERO));
    let mut silent = shop.shop.follow(FollowQuery::after(0).stall_after(Duration::MAX));
    // Both have the same reader: what holds the log is known to it from here on.
    assert!(matches!(next(&mut told).await, Followed::Stalled { .. }));
    assert!(futures::poll!(silent.next()).is_pending());
    end(&mut session, "COMMIT").await;
    for sequence in [first, second] {
        assert!(matches!(next(&mut silent).await, Followed::Event(event) if event.global_sequence == Some(sequence)));
    }
}

#[tokio::test]
async fn it_resumes_where_it_was() {
    let shop = Shop::open().await;
    shop.emit(&["a", "b", "c", "d", "e"]).await;
    let mut follower = shop.shop.follow(0);
    assert_eq!(up_to(&mut follower, 2).await, [1, 2]);
    let position = follower.position();
    drop(follower);
    let mut follower = shop.shop.follow(position);
    assert_eq!(up_to(&mut follower, 5).await, [3, 4, 5]);
    shop.emit(&["f"]).await;
    assert_eq!(up_to(&mut follower, 6).await, [6]);
}

#[tokio::test]
async fn a_filtered_follower_learns_where_it_is() {
    let shop = Shop::open().await;
    let order = |stream: &str| Event::raw("order.placed", Json::null()).in_stream(stream);
    shop.shop.emit(order("eu-1")).await.unwrap();
    shop.shop.emit(order("us-1")).await.unwrap();
    let noise = shop.emit_many(1_500).await;
    let query = FollowQuery::after(0).event_types(["order.*"]).stream_prefix("eu-");
    let mut follower = shop.shop.follow(query);
    assert_eq!(event(&mut follower).await.global_sequence, Some(1));
    let mut positions = Vec::new();
    while u64::from(follower.position()) < noise {
        let Followed::Position(position) = next(&mut follower).await else { panic!("nothing else is for it") };
        assert_eq!(position, follower.position());
        positions.push(u64::from(position));
    }
    assert!(positions.len() <= 3 && positions.is_sorted(), "{positions:?}");
    shop.emit(&["noise"]).await;
    let last = shop.shop.emit(order("eu-2")).await.unwrap().global_sequence();
    assert_eq!(event(&mut follower).await.global_sequence, Some(last));
}

#[tokio::test]
async fn a_slow_follower_reads_what_the_ring_has_forgotten() {
    let shop = Shop::open().await;
    shop.emit(&["first"]).await;
    let (mut slow, mut fast) = (shop.shop.follow(0), shop.shop.follow(0));
    assert_eq!(up_to(&mut slow, 1).await, [1]);
    let mut last = 0;
    for _ in 0..20 {
        last = shop.emit_many(1_000).await;
        // More than the ring holds.
        up_to(&mut fast, last).await;
    }
    assert_eq!(up_to(&mut slow, last).await, (2..=last).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_retention_took_away_is_an_error_that_says_where_the_log_begins() {
    let shop = Shop::open().await;
    shop.db.past_months("shop", 6, 3).await;
    shop.db.keep_months("shop", 3).await;
    shop.headwater.admin().maintain("shop", true).await.unwrap();
    let FollowError::Trimmed { position, resume_after } = failure(&mut shop.shop.follow(2)).await else {
        panic!("it is trimmed")
    };
    assert_eq!((u64::from(position), u64::from(resume_after)), (2, 9));
    assert_eq!(up_to(&mut shop.shop.follow(resume_after), 18).await, (10..=18).collect::<Vec<_>>());
    assert_eq!(up_to(&mut shop.shop.follow(0), 18).await, (10..=18).collect::<Vec<_>>(), "from the beginning there is");
}

/// The position and the beginning of the log that an error about a trimmed log names.
async fn trimmed(follower: &mut Follower) -> (u64, u64) {
    match failure(follower).await {
        FollowError::Trimmed { position, resume_after } => (position.into(), resume_after.into()),
        other => panic!("it is trimmed: {other:?}"),
    }
}

#[tokio::test]
async fn an_event_that_retention_took_away_is_trimmed_and_not_of_another_history() {
    let shop = Shop::open().await;
    shop.db.past_months("shop", 6, 3).await;
    let ids: Vec<Uuid> = shop.shop.read_log(LogQuery::after(0)).map_ok(|event| event.id).try_collect().await.unwrap();
    let after = |sequence: u64| shop.shop.follow(FollowQuery::after_event(sequence, ids[sequence as usize - 1]));
    assert_eq!(up_to(&mut after(2), 18).await, (3..=18).collect::<Vec<_>>());
    shop.db.keep_months("shop", 3).await;
    shop.headwater.admin().maintain("shop", true).await.unwrap();
    for sequence in [2, 9] {
        assert_eq!(trimmed(&mut after(sequence)).await, (sequence, 9));
    }
    assert_eq!(up_to(&mut after(10), 18).await, (11..=18).collect::<Vec<_>>());
    let other = failure(&mut shop.shop.follow(FollowQuery::after_event(10, Uuid::now_v7()))).await;
    assert_eq!(other.code(), Some("WH050"), "what is kept is compared");
}

#[tokio::test]
async fn a_crash_after_retention_took_the_last_event_away_is_trimmed_and_not_another_history() {
    let shop = Shop::open().await;
    shop.db.past_months("shop", 6, 3).await;
    let log = Counting::of(&shop);
    let crashes = log.crashes.clone();
    let followers = Followers::new(Arc::new(log), Duration::from_millis(10));
    let mut reader = followers.follow(0);
    assert_eq!(up_to(&mut reader, 18).await, (1..=18).collect::<Vec<_>>());
    shop.db.keep_months("shop", 0).await;
    shop.headwater.admin().maintain("shop", true).await.unwrap();
    crashes.fetch_add(1, Ordering::Release);
    assert_eq!(trimmed(&mut reader).await, (18, 18));
    let last = shop.emit(&["on"]).await;
    assert_eq!(up_to(&mut followers.follow(18), last).await, [last]);
}

#[tokio::test]
async fn a_position_that_is_not_in_the_log_is_an_error() {
    let shop = Shop::open().await;
    let last = shop.emit(&["a", "b"]).await;
    let beyond = failure(&mut shop.shop.follow(last + 1)).await;
    assert_eq!(beyond.code(), Some("WH050"));
    assert!(beyond.to_string().contains(&format!("position {} is not in this log", last + 1)), "{beyond}");
    let other = failure(&mut shop.shop.follow(FollowQuery::after_event(last, Uuid::now_v7()))).await;
    assert_eq!(other.code(), Some("WH050"));
    let stored = shop.shop.read_log(LogQuery::after(last - 1)).next().await.unwrap().unwrap();
    let mut follower = shop.shop.follow(FollowQuery::after_event(last, stored.id));
    let next = shop.emit(&["c"]).await;
    assert_eq!(up_to(&mut follower, next).await, [next]);
}

#[tokio::test]
async fn terminated_backends_cost_nothing() {
    let shop = Shop::open().await;
    let mut follower = shop.shop.follow(0);
    let mut session = shop.db.session().await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        let last = shop.emit_many(20).await;
        let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                          WHERE datname = current_database() AND pid <> pg_backend_pid()";
        sqlx::query(terminate).execute(&mut session).await.unwrap();
        seen.extend(up_to(&mut follower, last).await);
    }
    assert_eq!(seen, (1..=100).collect::<Vec<_>>());
}

#[tokio::test]
async fn server_restarts_cost_nothing_own_server() {
    let mut server = Server::builder().start().expect("failed to start a server");
    let headwater = Headwater::connect(&server.url("headwater")).await.unwrap();
    headwater.migrate().await.unwrap();
    headwater.create_namespace(NamespaceConfig::new("shop")).await.unwrap();
    let shop = headwater.namespace("shop").await.unwrap();
    let mut follower = shop.follow(0);
    let mut last = 0;
    // The second one is a crash: the server then has another history, with the same events.
    for mode in [Shutdown::Fast, Shutdown::Immediate] {
        for _ in 0..3 {
            let next = shop.emit(Event::raw("e", Json::null())).await.unwrap().global_sequence();
            assert_eq!(up_to(&mut follower, next).await, [next]);
            last = next;
        }
        let restart = move || {
            server.restart(mode).expect("failed to restart");
            server
        };
        server = tokio::task::spawn_blocking(restart).await.unwrap();
    }
    let next = shop.emit(Event::raw("e", Json::null())).await.unwrap().global_sequence();
    assert!(next > last);
    assert_eq!(up_to(&mut follower, next).await, [next]);
}

#[tokio::test]
async fn a_namespace_that_is_dropped_ends_it() {
    let shop = Shop::open().await;
    shop.emit(&["a"]).await;
    let mut follower = shop.shop.follow(0);
    assert_eq!(up_to(&mut follower, 1).await, [1]);
    shop.headwater.admin().drop_namespace("shop", false).await.unwrap();
    assert_eq!(failure(&mut follower).await.code(), Some("WH001"));
}

#[tokio::test]
async fn shutdown_ends_it() {
    let shop = Shop::open().await;
    shop.emit(&["a"]).await;
    let mut follower = shop.shop.follow(0);
    assert_eq!(up_to(&mut follower, 1).await, [1]);
    shop.headwater.shutdown().await;
    assert!(soon(follower.next()).await.is_none());
}

/// They keep the handle that they came from, while new callers get another.
#[tokio::test]
async fn followers_of_a_namespace_that_was_changed_go_on_until_the_shutdown() {
    let shop = Shop::open().await;
    let admin = shop.headwater.admin();
    let mut followers = vec![shop.shop.follow(0)];
    admin.alter_namespace("shop", NamespaceChanges::default()).await.unwrap();
    followers.push(shop.headwater.namespace("shop").await.unwrap().follow(0));
    admin.set_storage("shop", Storage::Own, Duration::from_secs(30), |_| {}).await.unwrap();
    followers.push(shop.headwater.namespace("shop").await.unwrap().follow(0));
    shop.emit(&["a"]).await;
    for follower in &mut followers {
        assert_eq!(up_to(follower, 1).await, [1]);
    }
    shop.headwater.shutdown().await;
    for follower in &mut followers {
        assert!(soon(follower.next()).await.is_none());
    }
}

#[tokio::test]
async fn a_role_needs_a_grant() {
    let shop = Shop::open().await;
    shop.emit(&["a"]).await;
    let role = shop.db.role().await;
    for kind in [GrantKind::Producer, GrantKind::Consumer] {
        shop.headwater.admin().grant("shop", &role.name, kind).await.unwrap();
        let headwater = Headwater::connect(&role.url).await.unwrap();
        let mine = headwater.namespace("shop").await.unwrap();
        let mut follower = mine.follow(0);
        if kind == GrantKind::Consumer {
            assert_eq!(up_to(&mut follower, 1).await, [1]);
            shop.headwater.admin().revoke("shop", &role.name, None).await.unwrap();
        }
        assert_eq!(failure(&mut follower).await.code(), Some("WH015"));
        headwater.shutdown().await;
    }
    shop.db.drop_role(role).await;
}

#[tokio::test]
async fn it_outlives_the_handles_that_it_was_made_from() {
    let shop = Shop::open().await;
    let headwater = Headwater::connect(&shop.db.url).await.unwrap();
    let mut follower = headwater.namespace("shop").await.unwrap().follow(0);
    drop(headwater);
    for _ in 0..2 {
        let last = shop.emit(&["a"]).await;
        assert_eq!(up_to(&mut follower, last).await, [last]);
    }
}

#[tokio::test]
async fn it_follows_a_log_in_memory() {
    let log = Arc::new(MemoryLog::new("orders"));
    let followers = Followers::new(log.clone(), Duration::from_millis(10));
    log.append(Event::raw("a", Json::null()).into()).await.unwrap();
    let mut follower = followers.follow(0);
    assert_eq!(up_to(&mut follower, 1).await, [1]);
    log.append(Event::raw("b", Json::null()).into()).await.unwrap();
    assert_eq!(up_to(&mut follower, 2).await, [2]);
}

/// A log that counts what it is asked. Its server may crash: then it has another history.
#[derive(Clone)]
struct Counting {
    log: Arc<dyn EventLog>,
    asked: Arc<AtomicUsize>,
    crashes: Arc<AtomicU64>,
    /// The history that it is read in.
    under: Option<History>,
}

impl Counting {
    fn of(shop: &Shop) -> Self {
        let log = Arc::new(shop.shop.log().clone());
        Counting { log, asked: Arc::default(), crashes: Arc::default(), under: None }
    }

    fn log(&self) -> Result<&dyn EventLog, ReadError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.under {
            Some(history) if history != self.now() => Err(ReadError::OtherHistory("the server has crashed".into())),
            _ => Ok(&*self.log),
        }
    }

    fn now(&self) -> History {
        History::new(Uuid::from_u128(self.crashes.load(Ordering::Acquire).into()))
    }
}

#[async_trait]
impl EventLog for Counting {
    fn namespace(&self) -> &str {
        self.log.namespace()
    }

    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        self.log.append(append).await
    }

    async fn stream_page(&self, query: &StreamQuery) -> Result<Vec<RecordedEvent>, ReadError> {
        self.log()?.stream_page(query).await
    }

    async fn log_page(&self, query: &LogQuery) -> Result<LogPage, ReadError> {
        self.log()?.log_page(query).await
    }

    async fn event(&self, id: Uuid) -> Result<Option<RecordedEvent>, ReadError> {
        self.log()?.event(id).await
    }

    async fn correlated(&self, correlation_id: Uuid, after: u64, limit: u32) -> Result<Vec<RecordedEvent>, ReadError> {
        self.log()?.correlated(correlation_id, after, limit).await
    }

    async fn causation_chain(&self, id: Uuid, limit: u32) -> Result<Vec<RecordedEvent>, ReadError> {
        self.log()?.causation_chain(id, limit).await
    }

    async fn horizon(&self) -> Result<Horizon, ReadError> {
        self.log()?.horizon().await
    }

    async fn look_again(&self, look: Look<'_>) -> Result<LookAhead, ReadError> {
        self.log()?.look_again(look).await
    }

    async fn in_gaps(&self, gaps: &Gaps, limit: u32) -> Result<LookAhead, ReadError> {
        self.log()?.in_gaps(gaps, limit).await
    }

    async fn visible_page(&self, after: u64, up_to: u64, limit: u32) -> Result<LogPage, ReadError> {
        self.log()?.visible_page(after, up_to, limit).await
    }

    async fn settled_page(&self, after: u64, settled: u64, limit: u32) -> Result<LogPage, ReadError> {
        self.log()?.settled_page(after, settled, limit).await
    }

    async fn history(&self) -> Result<History, ReadError> {
        self.log()?;
        Ok(self.now())
    }

    fn under(&self, history: History) -> Arc<dyn EventLog> {
        Arc::new(Counting { under: Some(history), ..self.clone() })
    }
}

/// How often the log is asked while this many followers read a backlog, and then some events that
/// come one by one.
async fn asked_by(followers: usize) -> usize {
    let shop = Shop::open().await;
    let backlog = shop.emit_many(5_000).await;
    let log = Counting::of(&shop);
    let asked = log.asked.clone();
    let all = Followers::new(Arc::new(log), Duration::from_millis(50));
    let mut followers: Vec<_> = (0..followers).map(|_| all.follow(1)).collect();
    let read = |last| async move {
        futures::future::join_all(followers.iter_mut().map(|follower| up_to(follower, last))).await
    };
    for seen in read(backlog).await {
        assert_eq!(seen, (2..=backlog).collect::<Vec<_>>());
    }
    asked.load(Ordering::Relaxed)
}

#[tokio::test]
async fn a_hundred_followers_ask_the_log_about_as_often_as_one() {
    let (one, hundred) = (asked_by(1).await, asked_by(100).await);
    // While a hundred are served, the log is polled now and then.
    assert!(hundred <= one * 3 + 20, "{one} calls for one, {hundred} for a hundred");
}
