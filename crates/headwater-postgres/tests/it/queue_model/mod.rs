//! The same random commands for the queue in memory and for PostgreSQL's: the answers must be the
//! same.
//!
//! `PROPTEST_CASES` sets the number of cases. What fails is shrunk, printed, and kept beside this
//! file in `regressions.txt`, which later runs try first: commit it with the fix.

mod command;
mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use headwater_core::{NamespaceConfig, Ordering};
use headwater_memory::{MemoryLog, MemorySubscribers};
use headwater_postgres::{LogOptions, PgSubscribers, SubscribersOptions};
use headwater_testing::TestDatabase;
use proptest::collection::vec;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};

use self::session::{Session, Side};

const CASES: u32 = 64;
const MOST_COMMANDS: usize = 40;

fn config() -> Config {
    let regressions = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/queue_model/regressions.txt");
    let default = Config::default();
    Config {
        cases: if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { CASES },
        // Every try makes a namespace.
        max_shrink_iters: 500,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions))),
        ..default
    }
}

#[test]
fn memory_and_postgres_agree() {
    let runtime = tokio::runtime::Runtime::new().expect("failed to start a runtime");
    let database = runtime.block_on(TestDatabase::create());
    let cases = AtomicU32::new(0);
    let run = TestRunner::new(config()).run(&vec(command::command(), 1..MOST_COMMANDS), |commands| {
        let namespace = format!("case-{}", cases.fetch_add(1, Relaxed));
        runtime.block_on(async {
            // Without holes, so that sequences are the same on both sides.
            let config = NamespaceConfig::new(&namespace).ordering(Ordering::Gapless);
            let log = database.log_with(config, LogOptions { flushers: 1, ..LogOptions::default() }).await;
            let store =
                PgSubscribers::new(database.database.clone(), log.info().clone(), SubscribersOptions::default());
            let postgres = Side { log: Arc::new(log.clone()), store: Arc::new(store) };
            let memory_log = MemoryLog::new(&namespace);
            let memory = MemorySubscribers::new(memory_log.clone());
            let model = Side { log: Arc::new(memory_log), store: Arc::new(memory.clone()) };
            let compared = Session::new(model, postgres, memory, &database).await.run(&commands).await;
            log.close().await;
            compared
        })
    });
    if let Err(difference) = run {
        panic!("memory and PostgreSQL disagree: {difference}");
    }
}
