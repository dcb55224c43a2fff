//! What each function and view of the schema `headwater` costs, in databases of two sizes: pages
//! touched, temporary files, and locks held at its end.
//!
//! `public_costs_calls.sql` lists the calls, and the dimensions in which a call may touch more
//! pages because its answer grows. In all other dimensions it must touch about the same pages. No
//! call may hold more locks in a larger database, and none may write temporary files.
//!
//! Each call is measured with custom plans and with generic plans, after the session has loaded its
//! plans and catalogs. Then it is rolled back. Set `HEADWATER_SHOW_COSTS=1` to print all figures.

use std::collections::BTreeMap;
use std::fmt;

use crate::common::run;
use futures::future::join_all;
use headwater_core::{NamespaceConfig, Storage};
use headwater_postgres::LogOptions;
use headwater_testing::TestDatabase;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection, Row};

/// The most locks that a call may hold (on tables, indexes, sequences and so on), unless the list
/// allows it more. Most of them are on the current months and their indexes.
const MOST_LOCKS: i64 = 80;

/// Pages that a call may touch in addition without growing: for another level of an index, a page
/// that has no room, or a small table that is read whole.
const MORE_PAGES: i64 = 32;
/// Locks that it may hold in addition: one more month, with its indexes.
const MORE_LOCKS: i64 = 8;

/// How many events a call asks for while something else grows.
const FEW: i64 = 10;
/// How many it asks for where that is the dimension.
const ASKED: [i64; 2] = [30, 300];

/// A call that grows may touch this many times the pages that linear growth explains, because the
/// contents of a larger database are not all alike.
const SLACK: i64 = 2;

/// What a database has of everything.
#[derive(Clone, Copy)]
struct Size {
    namespaces: u32,
    /// Past months of the namespace that is asked.
    months: u32,
    /// Events of this month in that namespace.
    events: u32,
    /// The number of other objects of each kind beside the one that is asked for: subscribers,
    /// queues, claims, retries, dead letters, gaps, schedules, nodes and so on.
    beside: u32,
    /// How that namespace stores its events.
    storage: Storage,
}

const SMALL: Size = Size { namespaces: 3, months: 2, events: 300, beside: 3, storage: Storage::Shared };

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
    /// A database that is large in this dimension, and how many times larger it is there.
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
#[derive(Clone)]
struct Call {
    /// The function or view.
    name: &'static str,
    /// What comes before it in its transaction.
    before: &'static str,
    statement: &'static str,
    most_locks: i64,
    /// The dimensions in which it may touch more pages, as many times as there is more of it.
    grows: Vec<Dimension>,
}

impl Call {
    fn asks_for_many(&self) -> bool {
        self.statement.contains("$n$")
    }
}

fn calls() -> Vec<Call> {
    let (mut calls, mut grows, mut before, mut most_locks) = (Vec::new(), None, "", MOST_LOCKS);
    for line in include_str!("public_costs_calls.sql").lines() {
        if let Some(dimensions) = line.strip_prefix("-- grows: ") {
            grows = Some(dimensions.split(", ").filter(|name| *name != "nothing").map(Dimension::named).collect());
        } else if let Some(statement) = line.strip_prefix("-- before: ") {
            before = statement;
        } else if let Some(locks) = line.strip_prefix("-- locks: ") {
            most_locks = locks.parse().expect("a number");
        } else if line.starts_with("SELECT ") {
            let name = line.split_once("headwater.").expect("a name of the schema").1;
            let name = name.split(|char: char| !char.is_alphanumeric() && char != '_').next().unwrap_or_default();
            let grows: Vec<Dimension> = grows.clone().expect("a line that says what makes the calls cost more");
            let statement = line.trim_end_matches(';');
            calls.push(Call { name, before, statement, most_locks, grows });
            (before, most_locks) = ("", MOST_LOCKS);
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

/// Sessions in a database of this size: the owner with custom plans, a role with all grants and
/// generic plans, and the owner with generic plans for what no role can be granted.
async fn sessions(size: Size) -> [PgConnection; 3] {
    let db = TestDatabase::create().await;
    db.log_with(NamespaceConfig::new("shop").storage(size.storage), LogOptions::default()).await;
    db.past_months("shop", size.months, 60).await;
    let role = db.role().await;
    let mut session = db.session().await;
    let script = include_str!("public_costs.sql")
        .replace("$namespaces$", &size.namespaces.to_string())
        .replace("$events$", &size.events.to_string())
        .replace("$beside$", &size.beside.to_string())
        .replace("$role$", &role.name);
    for step in script.split("\n-- step").skip(1) {
        run(&mut session, &format!("-- step{step}")).await;
    }
    assert_eq!(db.database.maintain("shop", false).await.unwrap().left, []);
    run(&mut session, "VACUUM ANALYZE").await;
    let mut sessions = [session, role.session().await, db.session().await];
    for (session, plans) in sessions.iter_mut().zip(["custom", "generic", "generic"]) {
        run(session, &format!("SET plan_cache_mode = force_{plans}_plan")).await;
    }
    sessions
}

/// Runs a call and rolls it back. Returns what it and all statements of its functions touched, and
/// how many locks it held; `None` if the session's role may not call it.
async fn measured(session: &mut PgConnection, call: &Call, asked: i64) -> Option<Cost> {
    let statement = call.statement.replace("$n$", &asked.to_string());
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING off, FORMAT json) {statement}");
    let before = sqlx::raw_sql(AssertSqlSafe(format!("BEGIN; {}", call.before))).execute(&mut *session).await;
    let plan = match before {
        Ok(_) => sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(&mut *session).await,
        Err(error) => Err(error),
    };
    let plan: Value = match plan {
        Ok(row) => row.get(0),
        Err(error) => {
            let code = error.as_database_error().and_then(|error| error.code());
            let refused = code.is_some_and(|code| ["WH015", "42501"].contains(&&*code));
            assert!(refused, "{statement}: {error}");
            run(session, "ROLLBACK").await;
            return None;
        }
    };
    let held = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype NOT IN ('virtualxid', 'transactionid')";
    let locks = sqlx::query_scalar(held).fetch_one(&mut *session).await.unwrap();
    run(session, "ROLLBACK").await;
    let count = |names: &[&str]| names.iter().map(|name| plan[0]["Plan"][name].as_i64().expect("a count")).sum();
    Some(Cost {
        pages: count(&["Shared Hit Blocks", "Shared Read Blocks", "Local Hit Blocks", "Local Read Blocks"]),
        temporary: count(&["Temp Read Blocks", "Temp Written Blocks"]),
        locks,
    })
}

/// What a call costs a session when nothing has to be loaded or made room for.
async fn cost_in(session: &mut PgConnection, call: &Call, asked: i64) -> Option<Cost> {
    let mut cost = measured(session, call, asked).await?;
    for _ in 0..2 {
        let again = measured(session, call, asked).await?;
        cost = Cost { pages: cost.pages.min(again.pages), ..cost.most(again) };
    }
    Some(cost)
}

/// What a call costs in the worse of both kinds of plans.
async fn cost([owner, role, owner_again]: &mut [PgConnection; 3], call: &Call, asked: i64) -> Cost {
    let custom = cost_in(owner, call, asked).await.expect("the owner may call everything");
    let generic = match cost_in(role, call, asked).await {
        Some(cost) => cost,
        None => cost_in(owner_again, call, asked).await.expect("the owner may call everything"),
    };
    custom.most(generic)
}

async fn costs(size: Size, calls: &[Call]) -> Vec<Cost> {
    let mut sessions = sessions(size).await;
    let mut costs = Vec::new();
    for call in calls {
        costs.push(cost(&mut sessions, call, FEW).await);
    }
    costs
}

/// What is wrong with the costs of a call at two sizes.
fn broken(call: &Call, dimension: Dimension, times: i64, small: Cost, large: Cost) -> Option<String> {
    let most = MORE_PAGES
        + match dimension {
            // Larger indexes are deeper.
            Asked => small.pages * times * 8 / 5,
            grows if call.grows.contains(&grows) => small.pages * times * SLACK,
            _ => small.pages * 3 / 2,
        };
    // Who asks for more events may read them in more months.
    let more = if dimension == Asked { call.most_locks } else { small.locks + MORE_LOCKS };
    let most_locks = call.most_locks.min(more);
    if large.pages <= most && large.locks <= most_locks && small.locks <= call.most_locks && large.temporary == 0 {
        return None;
    }
    Some(format!(
        "{}, {dimension:?} × {times}: {small} → {large} (at most {most} pages, {most_locks} locks): {}",
        call.name, call.statement
    ))
}

/// What is wrong with the costs of calls at two sizes, by their places in the list.
fn wrong(calls: &[Call], dimension: Dimension, small: &[Cost], large: &[Cost]) -> Vec<(usize, String)> {
    let show = std::env::var_os("HEADWATER_SHOW_COSTS").is_some();
    let (_, times) = dimension.large();
    let mut all = Vec::new();
    for (nth, call) in calls.iter().enumerate() {
        let (small, large) = (small[nth], large[nth]);
        if show {
            println!("{dimension:?} × {times}: {small} → {large}: {}", call.statement);
        }
        all.extend(broken(call, dimension, times, small, large).map(|what| (nth, what)));
    }
    all
}

/// Fails with all calls that cost too much in one of the larger databases, twice: also in new
/// databases in which nothing else was called. Calls leave dead rows behind when they are rolled
/// back, and what the server does with these meanwhile is another matter.
async fn check(calls: &[Call], small: Size, large: &[(Dimension, Size)]) {
    let costs_of_small = costs(small, calls);
    let costs_of_large = join_all(large.iter().map(|(_, size)| costs(*size, calls)));
    let (costs_of_small, costs_of_large) = tokio::join!(costs_of_small, costs_of_large);
    let mut all = Vec::new();
    for ((dimension, size), of_large) in large.iter().zip(costs_of_large) {
        let first = wrong(calls, *dimension, &costs_of_small, &of_large);
        if first.is_empty() {
            continue;
        }
        let again: Vec<Call> = first.iter().map(|(nth, _)| calls[*nth].clone()).collect();
        let (small, large) = tokio::join!(costs(small, &again), costs(*size, &again));
        all.extend(wrong(&again, *dimension, &small, &large).into_iter().map(|(_, what)| what));
    }
    assert!(all.is_empty(), "{} calls cost too much:\n{}", all.len(), all.join("\n"));
}

#[tokio::test]
async fn every_call_costs_the_same_whatever_else_there_is() {
    let large = [Namespaces, Months, Log, Beside].map(|dimension| (dimension, dimension.large().0));
    check(&calls(), SMALL, &large).await;
}

#[tokio::test]
async fn months_of_its_own_cost_a_namespace_nothing() {
    let storage = Storage::Own;
    let large = Size { storage, ..Months.large().0 };
    check(&calls(), Size { storage, ..SMALL }, &[(Months, large)]).await;
}

#[tokio::test]
async fn a_call_costs_as_much_as_it_asks_for() {
    let calls: Vec<Call> = calls().into_iter().filter(Call::asks_for_many).collect();
    let mut sessions = sessions(Asked.large().0).await;
    let (mut few, mut many) = (Vec::new(), Vec::new());
    for call in &calls {
        few.push(cost(&mut sessions, call, ASKED[0]).await);
        many.push(cost(&mut sessions, call, ASKED[1]).await);
    }
    let all: Vec<String> = wrong(&calls, Asked, &few, &many).into_iter().map(|(_, what)| what).collect();
    assert!(all.is_empty(), "{} calls cost too much:\n{}", all.len(), all.join("\n"));
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
