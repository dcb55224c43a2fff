//! The owner as managed services give it: a role with CREATE on the database, not a superuser,
//! without the statistics of others.

use crate::common::{Recorder, quick, soon};
use headwater::admin::{DoctorOptions, GrantKind, NamespaceConfig};
use headwater::delivery::{OperatorStore, ReliableDeliveryConfig};
use headwater::{Event, Headwater, Json, Queue, Subscription};
use headwater_testing::TestDatabase;

async fn run(db: &TestDatabase, statement: String) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut db.session().await).await.unwrap();
}

#[tokio::test]
async fn an_owner_without_any_special_right_can_do_all_of_it() {
    let db = TestDatabase::create_empty().await;
    let owner = db.role().await;
    let name = db.url.rsplit_once('/').unwrap().1;
    run(&db, format!("GRANT CREATE ON DATABASE {name} TO {}", owner.name)).await;
    let headwater = Headwater::connect(&owner.url).await.unwrap();
    let rights: Vec<bool> = sqlx::query_scalar(
        "SELECT unnest(ARRAY[r.rolsuper, r.rolcreaterole, r.rolcreatedb, r.rolreplication, r.rolbypassrls,
                             pg_has_role(r.oid, 'pg_read_all_stats', 'MEMBER')]) FROM pg_roles r WHERE r.rolname = current_user",
    )
    .fetch_all(headwater.pool())
    .await
    .unwrap();
    assert_eq!(rights, [false; 6]);

    headwater.migrate().await.unwrap();
    for config in
        [NamespaceConfig::new("shop"), NamespaceConfig::new("ledger").ordering(headwater::admin::Ordering::Gapless)]
    {
        headwater.create_namespace(config).await.unwrap();
    }
    let shop = headwater.namespace("shop").await.unwrap();
    let (exclusive, group, queue) = (Recorder::new("exclusive"), Recorder::new("group"), Recorder::new("queue"));
    let config = || ReliableDeliveryConfig { max_retries: 0, ..quick() };
    let node = shop
        .node("one")
        .run(Subscription::of(exclusive.clone()).config(config()))
        .run(Subscription::of(group.clone()).config(config()).partitions(3))
        .run(Queue::of(queue.clone()).config(config()))
        .start()
        .await
        .unwrap();

    // Another role, with its own grants, that holds the log back: its session is named by its pid.
    let app = db.role().await;
    headwater.admin().grant("shop", &app.name, GrantKind::Producer).await.unwrap();
    let mut writer = app.session().await;
    sqlx::raw_sql("BEGIN; SELECT headwater.emit('shop', 'late')").execute(&mut writer).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut writer).await.unwrap();
    shop.emit(Event::raw("a", Json::null())).await.unwrap();
    let horizon = headwater.admin().horizon("shop").await.unwrap();
    assert_eq!(horizon.writers.iter().map(|writer| writer.pid).collect::<Vec<_>>(), [Some(pid)], "{horizon:?}");
    sqlx::raw_sql("COMMIT").execute(&mut writer).await.unwrap();

    let last = shop.emit(Event::raw("b", Json::null())).await.unwrap().global_sequence();
    soon(node.wait_for("exclusive", last)).await.unwrap();
    soon(node.wait_for("group", last)).await.unwrap();
    queue.handled(3).await;
    assert_eq!(exclusive.sequences().len(), 3);
    node.shutdown().await.unwrap();

    assert_eq!(shop.subscribers().audit(&[]).await.unwrap().findings, []);
    headwater.admin().maintain("shop", false).await.unwrap();
    headwater.admin().diagnose(&DoctorOptions::default()).await.unwrap();
    headwater.admin().replication_settings().await.unwrap();
    headwater.admin().publish_namespace("shop").await.unwrap();
    headwater.admin().revoke("shop", &app.name, None).await.unwrap();
    headwater.shutdown().await;
}
