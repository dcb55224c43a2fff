//! The worker in shell and SQL, as users run it.

use std::process::Command;

use headwater_testing::TestDatabase;

#[tokio::test]
async fn a_worker_in_sql_alone_works_through_its_queue() {
    let db = TestDatabase::create().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../headwater/examples/sql_worker.sh");
    let output =
        Command::new(script).arg("12").env("DATABASE_URL", &db.url).output().expect("failed to run the example");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    assert_eq!(err, "");
    assert!(
        out.contains("event 5: no mail to customer-5 yet\n") && out.contains("event 5: mail to customer-5\n"),
        "{out}"
    );
    assert!(out.ends_with("settled up to 12, 0 in flight, 0 to deliver again\ndone: 12 mails\n"), "{out}");
}
