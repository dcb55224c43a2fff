//! The same random commands for the log in memory and for PostgreSQL: the answers must be the same.
//!
//! `PROPTEST_CASES` sets the number of cases. What fails is shrunk, printed, and kept beside this
//! file in `regressions-….txt`, which later runs try first: commit it with the fix.

mod answers;
mod command;
mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use headwater_core::{NamespaceConfig, Ordering};
use headwater_memory::MemoryLog;
use headwater_postgres::LogOptions;
use headwater_testing::TestDatabase;
use proptest::collection::vec;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};

use crate::model::session::Session;

const CASES: u32 = 64;
const MOST_COMMANDS: usize = 30;

fn config(ordering: Ordering) -> Config {
    // One each, since both tests may write at the same time.
    let regressions = match ordering {
        Ordering::Sequence => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/model/regressions-sequence.txt"),
        Ordering::Gapless => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/model/regressions-gapless.txt"),
    };
    let default = Config::default();
    Config {
        cases: if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { CASES },
        // Every try makes a namespace.
        max_shrink_iters: 1_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions))),
        ..default
    }
}

fn memory_and_postgres_agree(ordering: Ordering) {
    let runtime = tokio::runtime::Runtime::new().expect("failed to start a runtime");
    let database = runtime.block_on(TestDatabase::create());
    let cases = AtomicU32::new(0);
    let run = TestRunner::new(config(ordering)).run(&vec(command::command(), 1..MOST_COMMANDS), |commands| {
        let namespace = format!("case-{}", cases.fetch_add(1, Relaxed));
        runtime.block_on(async {
            let config = NamespaceConfig::new(&namespace).ordering(ordering);
            let postgres = database.log_with(config, LogOptions { flushers: 1, ..LogOptions::default() }).await;
            let mut session = Session::new(Arc::new(MemoryLog::new(&namespace)), Arc::new(postgres.clone()), ordering);
            let compared = session.run(&commands).await;
            postgres.close().await;
            compared
        })
    });
    if let Err(difference) = run {
        panic!("memory and PostgreSQL disagree: {difference}");
    }
}

#[test]
fn sequence() {
    memory_and_postgres_agree(Ordering::Sequence);
}

#[test]
fn gapless() {
    memory_and_postgres_agree(Ordering::Gapless);
}
