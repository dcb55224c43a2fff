//! Which holes a follower of the log looks into again: none while their writers live, and each one
//! when its writer has ended. Explicit steps, also between the statements of one look.
//!
//! To see whether a hole was looked into, a test puts an event there without a writer that ends.

use crate::common::{emit, run};
use headwater_core::{EventLog, Gaps, Look, LookAhead, NamespaceConfig, Writer, missing_runs};
use headwater_postgres::{LogOptions, PgLog};
use headwater_testing::TestDatabase;
use sqlx::PgConnection;
use tokio::task::JoinHandle;

/// Looks again and again, and remembers what the next look needs, as the ring of a node does.
struct Follower {
    log: PgLog,
    seen: u64,
    holes: Gaps,
    looked_to: u64,
    writers: Vec<Writer>,
}

/// What a look showed: new events, and events in holes.
type Shown = (Vec<u64>, Vec<u64>);

impl Follower {
    fn new(log: &PgLog) -> Self {
        Follower { log: log.clone(), seen: 0, holes: Gaps::default(), looked_to: 0, writers: Vec::new() }
    }

    async fn look(&mut self) -> Shown {
        let Follower { seen, looked_to, .. } = *self;
        let (gaps, writers) = (&self.holes, &self.writers);
        let look = Look { after: seen, limit: 100, gaps, looked_to, writers, kept_after: 0 };
        let look = self.log.look_again(look).await.expect("failed to look");
        self.take(look)
    }

    fn take(&mut self, look: LookAhead) -> Shown {
        let [events, filled] = [&look.events, &look.filled]
            .map(|events| events.iter().filter_map(|event| event.global_sequence).collect::<Vec<u64>>());
        (self.looked_to, self.writers) = (look.looked_to, look.writers);
        self.writers.extend(look.ended);
        for (first, last) in missing_runs(self.seen, look.seen, events.iter().copied()) {
            self.holes.insert(first, last);
        }
        for sequence in &filled {
            self.holes.remove(*sequence, *sequence);
        }
        self.seen = look.seen;
        self.holes.remove(0, look.settled);
        (events, filled)
    }
}

/// A namespace without wake-ups, which cannot be part of a prepared transaction.
async fn shop(db: &TestDatabase) -> PgLog {
    db.log_with(NamespaceConfig::new("shop").notify(false), LogOptions::default()).await
}

/// A session with an open transaction that has emitted an event.
async fn writer(db: &TestDatabase) -> (PgConnection, u64) {
    let mut session = db.session().await;
    run(&mut session, "BEGIN").await;
    let sequence = emit(&mut session, "shop", "slow").await;
    (session, sequence)
}

/// Hands out a sequence, as to a writer that has ended without a commit.
async fn hole(session: &mut PgConnection) -> u64 {
    let next = "SELECT nextval(sequence) FROM headwater_private.namespaces WHERE namespace = 'shop'";
    sqlx::query_scalar::<_, i64>(next).fetch_one(session).await.unwrap() as u64
}

/// Puts an event into a hole, which no writer does.
async fn plant(session: &mut PgConnection, sequence: u64) {
    let insert = "INSERT INTO headwater_private.events (global_sequence, transaction_id, created_at, recorded_at, namespace_id, event_id, event_type, data)
                  VALUES ($1, 1, now(), now(), 1, gen_random_uuid(), 'planted', '1')";
    sqlx::query(insert).bind(sequence as i64).execute(session).await.unwrap();
}

#[tokio::test]
async fn holes_are_looked_into_above_the_lowest_writer_that_has_ended_and_nowhere_else() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    let (mut stays, first) = writer(&db).await;
    let below = hole(&mut session).await;
    let (mut rolls_back, third) = writer(&db).await;
    let above = hole(&mut session).await;
    let (mut commits, fifth) = writer(&db).await;
    let seen = emit(&mut session, "shop", "fast").await;
    assert_eq!([first, below, third, above, fifth, seen], [1, 2, 3, 4, 5, 6]);

    let mut follower = Follower::new(&log);
    assert_eq!(follower.look().await, (vec![6], vec![]));
    assert_eq!(follower.holes.ranges(), [(1, 5)]);
    assert_eq!(follower.look().await, (vec![], vec![]), "all holes are looked into once");
    assert_eq!(follower.writers.len(), 3);

    plant(&mut session, below).await;
    plant(&mut session, above).await;
    for _ in 0..3 {
        assert_eq!(follower.look().await, (vec![], vec![]), "nobody has ended: no hole is looked into");
    }
    let next = emit(&mut session, "shop", "fast").await;
    assert_eq!(follower.look().await, (vec![next], vec![]), "nor when there is something new");

    run(&mut rolls_back, "ROLLBACK").await;
    assert_eq!(follower.look().await, (vec![], vec![above]), "above the one that has ended, not below");
    run(&mut commits, "COMMIT").await;
    assert_eq!(follower.look().await, (vec![], vec![fifth]));
    assert_eq!(follower.holes.ranges(), [(1, 3)], "the writer of the first one stays");
    assert_eq!(follower.look().await, (vec![], vec![]));
    run(&mut stays, "COMMIT").await;
    assert_eq!(follower.look().await, (vec![], vec![first, below]));
    assert!(follower.holes.is_empty(), "{:?}", follower.holes);

    // Of two that have ended since the last look, the lower one counts.
    let ((mut lower, eighth), (mut higher, ninth)) = (writer(&db).await, writer(&db).await);
    let tenth = emit(&mut session, "shop", "fast").await;
    assert_eq!(follower.look().await, (vec![tenth], vec![]));
    assert_eq!(follower.look().await, (vec![], vec![]));
    run(&mut lower, "COMMIT").await;
    run(&mut higher, "COMMIT").await;
    assert_eq!(follower.look().await, (vec![], vec![eighth, ninth]));
}

#[tokio::test]
async fn a_writer_is_its_transaction_and_not_its_session() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    let (mut again, first) = writer(&db).await;
    emit(&mut session, "shop", "fast").await;
    let mut follower = Follower::new(&log);
    for _ in 0..2 {
        follower.look().await;
    }
    // The same session writes again, and is on the list again.
    run(&mut again, "COMMIT; BEGIN").await;
    let third = emit(&mut again, "shop", "slow").await;
    assert_eq!(follower.look().await, (vec![], vec![first]));

    // ROLLBACK TO releases the lock. The transaction goes on under its name, with another lock.
    run(&mut again, "COMMIT; BEGIN; SAVEPOINT here").await;
    let gone = emit(&mut again, "shop", "slow").await;
    let fifth = emit(&mut session, "shop", "fast").await;
    assert_eq!(follower.look().await, (vec![third, fifth], vec![]));
    assert_eq!(follower.look().await, (vec![], vec![]));
    assert_eq!(follower.holes.ranges(), [(gone, gone)]);
    run(&mut again, "ROLLBACK TO here").await;
    let sixth = emit(&mut again, "shop", "slow").await;
    assert_eq!(follower.look().await, (vec![], vec![]));
    assert!(follower.holes.is_empty(), "what was rolled back will not come");

    // A prepared transaction is one of another name.
    let seventh = emit(&mut session, "shop", "fast").await;
    assert_eq!(follower.look().await, (vec![seventh], vec![]));
    assert_eq!(follower.look().await, (vec![], vec![]));
    let name = format!("look_{}", uuid::Uuid::now_v7().simple());
    run(&mut again, &format!("PREPARE TRANSACTION '{name}'")).await;
    for _ in 0..2 {
        assert_eq!(follower.look().await, (vec![], vec![]));
    }
    run(&mut session, &format!("COMMIT PREPARED '{name}'")).await;
    assert_eq!(follower.look().await, (vec![], vec![sixth]));
}

#[tokio::test]
async fn a_transaction_that_has_the_name_of_one_that_ended_is_not_taken_for_it() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    let (mut ends, first) = writer(&db).await;
    emit(&mut session, "shop", "fast").await;
    let mut follower = Follower::new(&log);
    for _ in 0..2 {
        follower.look().await;
    }
    run(&mut ends, "COMMIT").await;
    let (_stays, third) = writer(&db).await;
    assert_eq!((first, third), (1, 3));
    // As if the server had given the new one the name of the old one.
    let [writer] = &mut follower.writers[..] else { panic!("{:?}", follower.writers) };
    let now = log.horizon().await.unwrap().writers;
    assert_ne!(writer.transaction, now[0].transaction, "the server does not do that");
    writer.transaction.clone_from(&now[0].transaction);
    assert_eq!(follower.look().await, (vec![], vec![first]));
}

/// Where a look stops until it is told to go on: before which of its steps.
#[derive(Clone, Copy)]
enum Before {
    /// It has proved how far the log is settled, and has not read what is new.
    Reading,
    /// It has read what is new, and has not listed the writers.
    Listing,
    /// It has listed the writers, and has not looked into holes.
    Looking,
}

/// A look that stops half-way.
struct Stopped {
    /// Holds it.
    holder: PgConnection,
    look: JoinHandle<(Follower, Shown)>,
}

impl Stopped {
    /// Lets a look begin, and waits until it has come to this place.
    async fn at(before: Before, db: &TestDatabase, mut follower: Follower) -> Self {
        let (function, before, after) = match before {
            Before::Reading => ("log_page", "PERFORM aside.stop();", ""),
            Before::Listing => ("log_page", "", "PERFORM aside.stop();"),
            Before::Looking => ("gap_events", "PERFORM aside.stop();", ""),
        };
        let mut holder = db.session().await;
        run(&mut holder, include_str!("look_again.sql")).await;
        let around = "SELECT aside.put($1, $2, $3)";
        sqlx::query(around).bind(function).bind(before).bind(after).execute(&mut holder).await.unwrap();
        run(&mut holder, "SELECT pg_advisory_lock(7, 7)").await;
        let look = tokio::spawn(async move {
            let shown = follower.look().await;
            (follower, shown)
        });
        let waits = "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
                                     WHERE l.locktype = 'advisory' AND (l.classid, l.objid) = (7, 7) AND NOT l.granted)";
        while !sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut holder).await.unwrap() {
            assert!(!look.is_finished(), "a look does not come to this place");
            tokio::task::yield_now().await;
        }
        Stopped { holder, look }
    }

    async fn go_on(mut self) -> (Follower, Shown) {
        run(&mut self.holder, "SELECT pg_advisory_unlock(7, 7)").await;
        self.look.await.unwrap()
    }
}

/// A follower that has seen the second event and has looked into the hole of the first, and the
/// session that has emitted the first.
async fn behind_a_hole(db: &TestDatabase, log: &PgLog, session: &mut PgConnection) -> (Follower, PgConnection) {
    let (slow, first) = writer(db).await;
    let second = emit(session, "shop", "fast").await;
    let mut follower = Follower::new(log);
    assert_eq!(follower.look().await, (vec![second], vec![]));
    assert_eq!(follower.look().await, (vec![], vec![]));
    assert_eq!((follower.holes.ranges(), follower.looked_to), (vec![(first, first)], second));
    (follower, slow)
}

#[tokio::test]
async fn a_writer_that_ends_before_the_list_is_made_is_found_by_the_same_look() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    let (follower, mut slow) = behind_a_hole(&db, &log, &mut session).await;
    let third = emit(&mut session, "shop", "fast").await;
    let look = Stopped::at(Before::Listing, &db, follower).await;
    run(&mut slow, "COMMIT").await;
    let (mut follower, shown) = look.go_on().await;
    assert_eq!(shown, (vec![third], vec![1]));
    assert_eq!(follower.look().await, (vec![], vec![]));
    assert!(follower.holes.is_empty());
}

/// Who sees an event of a stream has seen what the stream had before, also if that came in a hole.
#[tokio::test]
async fn what_follows_an_event_in_a_hole_is_not_shown_without_it() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let (mut session, mut slow) = (db.session().await, db.session().await);
    let append = "SELECT headwater.append('shop', 'order', '[{\"type\": \"A\"}]')";
    run(&mut slow, "BEGIN").await;
    run(&mut slow, append).await;
    let second = emit(&mut session, "shop", "fast").await;
    let mut follower = Follower::new(&log);
    assert_eq!(follower.look().await, (vec![second], vec![]));
    assert_eq!(follower.look().await, (vec![], vec![]));
    // After the proof, and before the rows are read, the writer ends and lets another one follow.
    let look = Stopped::at(Before::Reading, &db, follower).await;
    run(&mut slow, "COMMIT").await;
    run(&mut session, append).await;
    let (_, shown) = look.go_on().await;
    assert_eq!(shown, (vec![3], vec![1]));
}

#[tokio::test]
async fn a_writer_that_ends_between_the_list_and_the_look_is_found() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    let (mut older, _) = writer(&db).await;
    let (mut slow, first) = writer(&db).await;
    let second = emit(&mut session, "shop", "fast").await;
    let mut follower = Follower::new(&log);
    assert_eq!(follower.look().await, (vec![second], vec![]));
    // Somebody has to end, or no hole is looked into.
    run(&mut older, "ROLLBACK").await;
    let look = Stopped::at(Before::Looking, &db, follower).await;
    run(&mut slow, "COMMIT").await;
    let (mut follower, shown) = look.go_on().await;
    assert_eq!(shown, (vec![], vec![first]));
    assert_eq!(follower.look().await, (vec![], vec![]));
    assert!(follower.holes.is_empty());
}

#[tokio::test]
async fn a_writer_that_begins_between_the_list_and_the_look_is_found() {
    for ends_at_once in [false, true] {
        let db = TestDatabase::create().await;
        let log = shop(&db).await;
        let mut session = db.session().await;
        let (mut older, _) = writer(&db).await;
        let (mut slow, first) = writer(&db).await;
        let second = emit(&mut session, "shop", "fast").await;
        let mut follower = Follower::new(&log);
        assert_eq!(follower.look().await, (vec![second], vec![]));
        run(&mut older, "ROLLBACK").await;
        let look = Stopped::at(Before::Looking, &db, follower).await;
        let (mut begins, third) = writer(&db).await;
        let fourth = emit(&mut session, "shop", "fast").await;
        if ends_at_once {
            run(&mut begins, "COMMIT").await;
        }
        let (mut follower, shown) = look.go_on().await;
        assert_eq!(shown, (vec![], vec![]));
        if ends_at_once {
            assert_eq!(follower.look().await, (vec![third, fourth], vec![]));
        } else {
            assert_eq!(follower.look().await, (vec![fourth], vec![]));
            assert_eq!(follower.look().await, (vec![], vec![]));
            run(&mut begins, "COMMIT").await;
            assert_eq!(follower.look().await, (vec![], vec![third]));
        }
        run(&mut slow, "COMMIT").await;
        assert_eq!(follower.look().await, (vec![], vec![first]));
        assert!(follower.holes.is_empty());
    }
}

/// It was on the list of the proof, and is on the next list no more.
#[tokio::test]
async fn a_writer_that_ends_between_the_two_lists_of_a_look_is_found() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    let (follower, _slow) = behind_a_hole(&db, &log, &mut session).await;
    let (mut begins, third) = writer(&db).await;
    let fourth = emit(&mut session, "shop", "fast").await;
    let look = Stopped::at(Before::Listing, &db, follower).await;
    run(&mut begins, "COMMIT").await;
    let (mut follower, shown) = look.go_on().await;
    assert_eq!(shown, (vec![fourth], vec![]));
    assert_eq!(follower.looked_to, fourth, "its hole is not looked into by itself again");
    assert_eq!(follower.look().await, (vec![], vec![third]));
}

/// A look sees its hole, but it was not on the list of the proof.
#[tokio::test]
async fn a_writer_that_begins_after_the_proof_is_found() {
    let db = TestDatabase::create().await;
    let log = shop(&db).await;
    let mut session = db.session().await;
    let (follower, _slow) = behind_a_hole(&db, &log, &mut session).await;
    let look = Stopped::at(Before::Reading, &db, follower).await;
    let (mut begins, third) = writer(&db).await;
    let fourth = emit(&mut session, "shop", "fast").await;
    let (mut follower, shown) = look.go_on().await;
    assert_eq!(shown, (vec![fourth], vec![]));
    assert!(follower.looked_to < third, "its hole counts as not looked into");
    run(&mut begins, "COMMIT").await;
    assert_eq!(follower.look().await, (vec![], vec![third]));
}
