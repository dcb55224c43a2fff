//! Nodes that are connected as roles with grants: all that they do works, and nothing beyond.

use crate::common::{Recorder, Shop, quick, soon, until};
use headwater::admin::{GrantKind, NamespaceConfig};
use headwater::delivery::{DeadLetterQuery, OperatorStore, ReliableDeliveryConfig};
use headwater::log::{AppendError, EventLog, LogQuery, ReadError};
use headwater::{Delivery, Event, HandlerError, Headwater, Json, Namespace, Queue, Subscription, Transaction};
use headwater_testing::TestRole;

/// `shop` as a role has it.
async fn as_role(shop: &Shop, kind: GrantKind) -> (TestRole, Headwater, Namespace) {
    let role = shop.db.role().await;
    shop.headwater.admin().grant("shop", &role.name, kind).await.unwrap();
    let headwater = Headwater::connect(&role.url).await.unwrap();
    let namespace = headwater.namespace("shop").await.unwrap();
    (role, headwater, namespace)
}

async fn end(shop: &Shop, role: TestRole, headwater: Headwater) {
    headwater.shutdown().await;
    shop.headwater.admin().revoke("shop", &role.name, None).await.unwrap();
    shop.db.drop_role(role).await;
}

#[tokio::test]
async fn a_consumer_has_all_that_subscribers_do() {
    let shop = Shop::open().await;
    let (role, headwater, mine) = as_role(&shop, GrantKind::Consumer).await;
    let config = ReliableDeliveryConfig { max_retries: 0, ..quick() };
    let oops = || HandlerError::message("oops");
    let exclusive = Recorder::new("exclusive").fail_with([oops()]);
    let (group, queue) = (Recorder::new("group"), Recorder::new("queue").fail_with([oops()]));
    let node = mine
        .node("n1")
        .run(Subscription::of(exclusive.clone()).config(config.clone()))
        .run(Subscription::of(group.clone()).config(config.clone()).partitions(3))
        .run(Queue::of(queue.clone()).config(config))
        .start()
        .await
        .unwrap();
    // A transaction that is rolled back leaves a gap, which is proved, passed and recorded.
    let mut tx = shop.headwater.pool().begin().await.unwrap();
    sqlx::query("SELECT headwater.emit('shop', 'gone')").execute(&mut *tx).await.unwrap();
    shop.emit(&["a"]).await;
    tx.rollback().await.unwrap();
    let last = shop.emit(&["b", "c"]).await;
    soon(node.wait_for("exclusive", last)).await.unwrap();
    soon(node.wait_for("group", last)).await.unwrap();
    exclusive.handled(2).await;
    group.handled(3).await;
    queue.handled(2).await;

    let subscribers = mine.subscribers();
    let query = DeadLetterQuery { limit: 10, ..Default::default() };
    until(|| async { subscribers.dead_letters(&query).await.unwrap().len() == 2 }).await;
    assert_eq!(subscribers.redrive(&query).await.unwrap(), 2);
    exclusive.handled(3).await;
    queue.handled(3).await;
    until(|| async { subscribers.dead_letters(&query).await.unwrap().is_empty() }).await;
    until(|| async { shop.info("queue").await.position >= last }).await;
    node.shutdown().await.unwrap();
    assert_eq!(subscribers.audit(&[]).await.unwrap().findings, []);

    let refused = mine.emit(Event::raw("d", Json::null())).await;
    assert!(matches!(&refused, Err(AppendError::NotGranted(_))), "{refused:?}");
    end(&shop, role, headwater).await;
}

#[tokio::test]
async fn effects_and_checkpoint_of_a_consumer_commit_together() {
    let shop = Shop::open().await;
    let (role, headwater, mine) = as_role(&shop, GrantKind::Consumer).await;
    let table = format!(
        "CREATE TABLE public.effects (event_id uuid NOT NULL); GRANT INSERT ON public.effects TO {}",
        role.name
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(table)).execute(shop.headwater.pool()).await.unwrap();
    let last = shop.emit_many(10).await;
    let node = mine
        .node("n1")
        .run(Subscription::new("effects").transactional(|event: Delivery, mut tx: Transaction| async move {
            sqlx::query("INSERT INTO public.effects VALUES ($1)").bind(event.id).execute(&mut *tx).await?;
            Ok(())
        }))
        .start()
        .await
        .unwrap();
    soon(node.wait_for("effects", last)).await.unwrap();
    node.shutdown().await.unwrap();
    let effects: i64 = sqlx::query_scalar("SELECT count(DISTINCT event_id) FROM public.effects")
        .fetch_one(shop.headwater.pool())
        .await
        .unwrap();
    assert_eq!(effects, 10);
    sqlx::raw_sql("DROP TABLE public.effects").execute(shop.headwater.pool()).await.unwrap();
    end(&shop, role, headwater).await;
}

#[tokio::test]
async fn an_admin_emits_and_consumes_and_sees_no_other_namespace() {
    let shop = Shop::open().await;
    shop.headwater.create_namespace(NamespaceConfig::new("bank")).await.unwrap();
    let bank = shop.headwater.namespace("bank").await.unwrap();
    bank.emit(Event::raw("secret", Json::null())).await.unwrap();
    let (role, headwater, mine) = as_role(&shop, GrantKind::Admin).await;
    let recorder = Recorder::new("all");
    let node = mine.node("n1").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    for _ in 0..20 {
        mine.emit(Event::raw("a", Json::null())).await.unwrap();
    }
    mine.emit_at(std::time::Duration::ZERO, Event::raw("due", Json::null())).await.unwrap();
    recorder.handled(21).await;
    node.shutdown().await.unwrap();
    assert_eq!(headwater.admin().namespaces().await.unwrap().len(), 1);
    assert!(headwater.namespace("bank").await.is_err());
    end(&shop, role, headwater).await;
}

/// A node whose grant is revoked stops, and does not take events that it cannot see for gaps. It
/// continues when it has the grant again.
#[tokio::test]
async fn a_node_whose_grant_comes_back_has_missed_nothing() {
    let shop = Shop::open().await;
    let (role, headwater, mine) = as_role(&shop, GrantKind::Consumer).await;
    let recorder = Recorder::new("all");
    let node = mine.node("n1").run(Subscription::of(recorder.clone()).config(quick())).start().await.unwrap();
    let first = shop.emit(&["a"]).await;
    // Until its checkpoint is written: what is handled and not settled comes again.
    soon(node.wait_for("all", first)).await.unwrap();
    shop.headwater.admin().revoke("shop", &role.name, None).await.unwrap();
    shop.emit(&["b", "c"]).await;
    let refused = mine.log().log_page(&LogQuery::after(0)).await;
    assert!(matches!(refused, Err(ReadError::NotGranted(_) | ReadError::NamespaceNotFound(_))), "{refused:?}");
    assert_eq!(recorder.types(), ["a"]);
    shop.headwater.admin().grant("shop", &role.name, GrantKind::Consumer).await.unwrap();
    let last = shop.emit(&["d"]).await;
    soon(node.wait_for("all", last)).await.unwrap();
    assert_eq!(recorder.types(), ["a", "b", "c", "d"]);
    node.shutdown().await.unwrap();
    assert_eq!(shop.shop.subscribers().audit(&[]).await.unwrap().findings, []);
    end(&shop, role, headwater).await;
}
