//! What each function and view of the schema `headwater` costs, at two sizes of the database: pages touched, temporary files, and locks held at its end.
//!
//! `public_costs_calls.sql` has the calls, with the dimensions in which a call may touch more pages, as its answer does. In all other dimensions it touches about
//! the same pages. No call holds more locks in a larger database, whatever it answers, and none spills. Each call is measured in plans for the values at hand and in
//! plans for all values, when the session has its plans and catalogs at hand, and is undone.

use std::collections::BTreeMap;
use std::fmt;

use crate::common::months::sessions;
use crate::common::run;
use headwater_conformance::TestDatabase;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection, Row};

/// No call holds more locks than this: tables, their indexes, sequences, advisory locks.
const MOST_LOCKS: i64 = 40;

/// What a call may cost more without growing: another level of an index, or a page that has no room.
const MORE_PAGES: i64 = 16;
const MORE_LOCKS: i64 = 2;

/// Pages of a call that asks for ten times as much, in tenths of ten times the pages.
const ASKED: [i64; 2] = [30, 300];

/// What a database has of everything.
#[derive(Clone, Copy)]
struct Size {
    namespaces: u32,
    /// Past months of the namespace that is asked.
    months: u32,
    /// Events of this month in that namespace.
    events: u32,
    /// Of subscribers, queues, claims, retries, dead letters, gaps, schedules, nodes and so on beside the one that is asked for.
    beside: u32,
}

const SMALL: Size = Size { namespaces: 3, months: 2, events: 300, beside: 3 };

#[derive(Clone, Copy, PartialEq, Debug)]
enum Dimension {
    Namespaces,
    Months,
    Log,
    Beside,
    /// How much the call itself asks for, or brings.
    Asked,
}

use Dimension::{Asked, Beside, Log, Months, Namespaces};

impl Dimension {
    /// A database that is large in this dimension, and how many times the size of the small one it is there.
    fn large(self) -> (Size, i64) {
        match self {
            Namespaces => (Size { namespaces: 200, ..SMALL }, 67),
            Months => (Size { months: 24, ..SMALL }, 12),
            Log | Asked => (Size { events: 3_000, ..SMALL }, 10),
            Beside => (Size { beside: 80, ..SMALL }, 27),
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "namespaces" => Namespaces,
            "months" => Months,
            "log" => Log,
            "beside" => Beside,
            other => panic!("public_costs_calls.sql: no dimension is called {other:?}"),
        }
    }
}

/// A line of `public_costs_calls.sql`.
struct Call {
    /// The function or view.
    name: &'static str,
    /// What comes before it in its transaction.
    before: &'static str,
    statement: &'static str,
    /// The dimensions in which it may touch more pages, as many times as there is more of it.
    grows: Vec<Dimension>,
}

impl Call {
    fn asks_for_many(&self) -> bool {
        self.statement.contains("$n$")
    }
}

fn calls() -> Vec<Call> {
    let (mut calls, mut grows, mut before) = (Vec::new(), None, "");
    for line in include_str!("public_costs_calls.sql").lines() {
        if let Some(dimensions) = line.strip_prefix("-- grows: ") {
            grows = Some(dimensions.split(", ").filter(|name| *name != "nothing").map(Dimension::named).collect());
        } else if let Some(statement) = line.strip_prefix("-- before: ") {
            before = statement;
        } else if line.starts_with("SELECT ") {
            let name = line.split_once("headwater.").expect("a name of the schema").1;
            let name = name.split(|char: char| !char.is_alphanumeric() && char != '_').next().unwrap_or_default();
            let grows: Vec<Dimension> = grows.clone().expect("a line that says what makes the calls cost more");
            calls.push(Call { name, before: std::mem::take(&mut before), statement: line.trim_end_matches(';'), grows });
        } else {
            assert!(line.is_empty() || line.starts_with("-- "), "public_costs_calls.sql: {line}");
        }
    }
    calls
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Cost {
    pages: i64,
    temporary: i64,
    locks: i64,
}

impl Cost {
    fn most(self, other: Cost) -> Cost {
        Cost {
            pages: self.pages.max(other.pages),
            temporary: self.temporary.max(other.temporary),
            locks: self.locks.max(other.locks),
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages, {} locks", self.pages, self.locks)?;
        if self.temporary > 0 {
            write!(f, ", {} temporary pages", self.temporary)?;
        }
        Ok(())
    }
}

async fn database(size: Size) -> TestDatabase {
    let db = TestDatabase::create().await;
    db.log("shop").await;
    db.past_months("shop", size.months, 20).await;
    let mut session = db.session().await;
    let script = include_str!("public_costs.sql")
        .replace("$namespaces$", &size.namespaces.to_string())
        .replace("$events$", &size.events.to_string())
        .replace("$beside$", &size.beside.to_string());
    for step in script.split("\n-- step").skip(1) {
        run(&mut session, &format!("-- step{step}")).await;
    }
    assert_eq!(db.database.maintain("shop", false).await.unwrap().left, []);
    run(&mut session, "VACUUM ANALYZE").await;
    db
}

/// Runs a call, undoes it, and answers what it and all statements of its functions touched, and which locks it held.
async fn measured(session: &mut PgConnection, call: &Call, asked: i64) -> Cost {
    let statement = call.statement.replace("$n$", &asked.to_string());
    run(session, &format!("BEGIN; {}", call.before)).await;
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT json) {statement}");
    let plan = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut *session).await;
    let plan: Value = plan.unwrap_or_else(|error| panic!("{statement}: {error}")).get(0);
    let held = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype NOT IN ('virtualxid', 'transactionid')";
    let locks = sqlx::query_scalar(held).fetch_one(&mut *session).await.unwrap();
    run(session, "ROLLBACK").await;
    let count = |names: &[&str]| names.iter().map(|name| plan[0]["Plan"][name].as_i64().expect("a count")).sum();
    Cost {
        pages: count(&["Shared Hit Blocks", "Shared Read Blocks", "Local Hit Blocks", "Local Read Blocks"]),
        temporary: count(&["Temp Read Blocks", "Temp Written Blocks"]),
        locks,
    }
}

/// What a call costs when nothing has to be loaded or made room for, in the worse of both kinds of plans.
async fn cost(sessions: &mut [PgConnection; 2], call: &Call, asked: i64) -> Cost {
    let mut worst = Cost { pages: 0, temporary: 0, locks: 0 };
    for session in sessions {
        let mut best = measured(session, call, asked).await;
        for _ in 0..2 {
            let again = measured(session, call, asked).await;
            best = Cost { pages: best.pages.min(again.pages), ..best.most(again) };
        }
        worst = worst.most(best);
    }
    worst
}

async fn costs(size: Size, calls: &[Call]) -> Vec<Cost> {
    let db = database(size).await;
    let mut sessions = sessions(&db).await;
    let mut costs = Vec::new();
    for call in calls {
        costs.push(cost(&mut sessions, call, 10).await);
    }
    costs
}

/// What is wrong with the costs of a call at two sizes.
fn broken(call: &Call, dimension: Dimension, times: i64, small: Cost, large: Cost) -> Option<String> {
    let may_grow = dimension == Asked || call.grows.contains(&dimension);
    let most = if may_grow { small.pages * times } else { small.pages * 3 / 2 } + MORE_PAGES;
    let most_locks = MOST_LOCKS.min(small.locks + MORE_LOCKS);
    if large.pages <= most && large.locks <= most_locks && small.locks <= MOST_LOCKS && large.temporary == 0 {
        return None;
    }
    Some(format!(
        "{}, {dimension:?} × {times}: {small} → {large} (at most {most} pages, {most_locks} locks): {}",
        call.name, call.statement
    ))
}

#[tokio::test]
async fn every_call_costs_the_same_whatever_else_there_is() {
    let calls = calls();
    let of = |dimension: Dimension| costs(dimension.large().0, &calls);
    let (small, namespaces, months, log, beside) =
        tokio::join!(costs(SMALL, &calls), of(Namespaces), of(Months), of(Log), of(Beside));
    let mut all = Vec::new();
    for (dimension, large) in [(Namespaces, namespaces), (Months, months), (Log, log), (Beside, beside)] {
        let (_, times) = dimension.large();
        for ((call, small), large) in calls.iter().zip(&small).zip(large) {
            println!("{dimension:?}\t{}\t{}\t{}\t{}\t{}", small.pages, large.pages, small.locks, large.locks, call.statement);
            all.extend(broken(call, dimension, times, *small, large));
        }
    }
    assert!(all.is_empty(), "{} calls cost more:\n{}", all.len(), all.join("\n"));
}

#[tokio::test]
async fn what_is_asked_for_is_all_that_counts() {
    let (size, times) = Asked.large();
    let db = database(size).await;
    let mut sessions = sessions(&db).await;
    let mut all = Vec::new();
    for call in calls().iter().filter(|call| call.asks_for_many()) {
        let few = cost(&mut sessions, call, ASKED[0]).await;
        let many = cost(&mut sessions, call, ASKED[1]).await;
        println!("Asked\t{}\t{}\t{}\t{}\t{}", few.pages, many.pages, few.locks, many.locks, call.statement);
        all.extend(broken(call, Asked, times, few, many));
    }
    assert!(all.is_empty(), "{} calls cost more:\n{}", all.len(), all.join("\n"));
}

#[tokio::test]
async fn every_function_and_view_has_a_call() {
    let db = TestDatabase::create().await;
    // As many calls as there are functions of the name.
    let there: Vec<(String, i64)> = sqlx::query_as(
        "SELECT p.proname::text, count(*) FROM pg_proc p WHERE p.pronamespace = 'headwater'::regnamespace GROUP BY 1
         UNION ALL SELECT c.relname, 1 FROM pg_class c WHERE c.relnamespace = 'headwater'::regnamespace AND c.relkind = 'v'",
    )
    .fetch_all(&mut db.session().await)
    .await
    .unwrap();
    let mut called: BTreeMap<&str, i64> = BTreeMap::new();
    for call in calls() {
        *called.entry(call.name).or_default() += 1;
    }
    let missing: Vec<_> = there.iter().filter(|(name, count)| called.get(name.as_str()) < Some(count)).collect();
    assert!(missing.is_empty(), "add calls to public_costs_calls.sql for {missing:?}");
}
