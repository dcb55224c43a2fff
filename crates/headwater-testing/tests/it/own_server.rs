//! What a user meets who sets no `HEADWATER_TEST_URL`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use headwater_testing::TestDatabase;

const IN_HELPER: &str = "HEADWATER_TESTING_HELPER";
const PATIENCE: Duration = Duration::from_secs(50);

/// The process of the test below: its environment names no server.
#[tokio::test]
async fn helper_that_makes_two_databases() {
    if std::env::var_os(IN_HELPER).is_none() {
        return;
    }
    let (first, second) = tokio::join!(TestDatabase::create(), TestDatabase::create_empty());
    for database in [&first, &second] {
        let folder: String = sqlx::query_scalar("SHOW data_directory")
            .fetch_one(database.database.pool())
            .await
            .expect("failed to ask for the server's folder");
        println!("\nfolder {folder}");
    }
    first.log("shop").await;
    assert_eq!(second.database.schema_version().await.expect("failed to ask for the version"), 0);
}

#[test]
fn own_server_starts_by_itself_and_goes_with_its_process() {
    let helper = Command::new(std::env::current_exe().expect("a test has a binary"))
        .args(["--exact", "own_server::helper_that_makes_two_databases", "--nocapture"])
        .env(IN_HELPER, "yes")
        .env_remove("HEADWATER_TEST_URL")
        .output();
    let helper = helper.expect("failed to run this binary again");
    let printed = String::from_utf8_lossy(&helper.stdout);
    assert!(helper.status.success(), "{printed}{}", String::from_utf8_lossy(&helper.stderr));

    let folders: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("folder ")).collect();
    let [first, second] = folders[..] else { panic!("the helper says where both databases are: {printed}") };
    assert_eq!(first, second, "the databases are on one server");
    let deadline = Instant::now() + PATIENCE;
    while Path::new(first).exists() {
        assert!(Instant::now() < deadline, "the server's folder is still there: {first}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
