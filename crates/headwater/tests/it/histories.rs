//! Servers that lose the end of their log and hand out its sequences again: a promoted standby, a
//! crash before the data was on disk, a restored backup. The events that the server then has are
//! delivered, and nothing that it lost is written over them.

use std::path::PathBuf;
use std::process::Command;

use crate::common::{quick, soon, until};
use futures::StreamExt;
use headwater::admin::NamespaceConfig;
use headwater::delivery::{CheckpointMode, InstanceMode, OperatorStore, ReliableDeliveryConfig};
use headwater::log::{Followed, Follower};
use headwater::{Delivery, Event, EventObserver, HandlerError, Headwater, Json, Namespace, Node, Subscription};
use headwater_embedded::{Server, Shutdown};
use sqlx::{Connection, PgConnection};
use tokio::sync::watch;
use uuid::Uuid;

/// How a server loses what was appended last.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Loss {
    /// It is replaced by a standby that did not have it yet.
    Promotion,
    /// A process of the server is killed, and the server recovers in place.
    CrashInPlace,
    /// Its files are replaced by a copy that was made while it was stopped.
    Restore,
}

/// A server that has ten events for ever, and loses those after them.
struct Forgetful {
    server: Server,
    copy: PathBuf,
    loss: Loss,
}

impl Forgetful {
    async fn start(loss: Loss) -> Self {
        let settings = [
            ("synchronous_commit", "off"),
            ("wal_writer_delay", "10s"),
            ("bgwriter_lru_maxpages", "0"),
            ("autovacuum", "off"),
            ("checkpoint_timeout", "1d"),
        ];
        let builder = settings.iter().fold(Server::builder(), |builder, (name, value)| builder.setting(*name, *value));
        let server = tokio::task::spawn_blocking(|| builder.start().expect("failed to start a server")).await.unwrap();
        let (headwater, shop) = open(&server).await;
        headwater.migrate().await.unwrap();
        headwater.create_namespace(NamespaceConfig::new("shop")).await.unwrap();
        drop(shop);
        let shop = headwater.namespace("shop").await.unwrap();
        emit(&shop, "kept", 10).await;
        headwater.shutdown().await;
        let copy = server.data_dir().with_extension("copy");
        Forgetful { server, copy, loss }
    }

    /// What it has now, it keeps.
    async fn keep(self) -> Self {
        let Forgetful { server, copy, loss } = self;
        if loss == Loss::CrashInPlace {
            let mut session = PgConnection::connect(&server.url("headwater")).await.unwrap();
            sqlx::query("CHECKPOINT").execute(&mut session).await.unwrap();
            // Nothing is to reach the disk any more.
            let pid = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'";
            let pid: i32 = sqlx::query_scalar(pid).fetch_one(&mut session).await.unwrap();
            run(Command::new("kill").arg("-STOP").arg(pid.to_string()));
            return Forgetful { server, copy, loss };
        }
        tokio::task::spawn_blocking(move || {
            let stopped = server.stop(Shutdown::Fast).unwrap();
            run(Command::new("cp").arg("-a").arg(stopped.data_dir()).arg(&copy));
            Forgetful { server: stopped.start().unwrap(), copy, loss }
        })
        .await
        .unwrap()
    }

    /// Loses the rest. Its address stays.
    async fn lose(self) -> Self {
        let Forgetful { mut server, copy, loss } = self;
        if loss == Loss::CrashInPlace {
            let mut session = PgConnection::connect(&server.url("headwater")).await.unwrap();
            let pid = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'";
            let pid: i32 = sqlx::query_scalar(pid).fetch_one(&mut session).await.unwrap();
            run(Command::new("kill").arg("-KILL").arg(pid.to_string()));
            assert!(server.is_running());
            while sqlx::query("SELECT pg_sleep(0.01)").execute(&mut session).await.is_ok() {}
            until(|| async { PgConnection::connect(&server.url("headwater")).await.is_ok() }).await;
            return Forgetful { server, copy, loss };
        }
        let forgetful = tokio::task::spawn_blocking(move || {
            let stopped = server.stop(Shutdown::Immediate).unwrap();
            let data = stopped.data_dir().to_owned();
            std::fs::remove_dir_all(&data).unwrap();
            run(Command::new("cp").arg("-a").arg(&copy).arg(&data));
            if loss == Loss::Promotion {
                run(Command::new("cp").arg("-a").arg(data.join("PG_VERSION")).arg(data.join("standby.signal")));
            }
            Forgetful { server: stopped.start().unwrap(), copy, loss }
        });
        let forgetful = forgetful.await.unwrap();
        if loss == Loss::Promotion {
            let mut session = PgConnection::connect(&forgetful.server.url("headwater")).await.unwrap();
            assert!(sqlx::query_scalar::<_, bool>("SELECT pg_promote()").fetch_one(&mut session).await.unwrap());
        }
        forgetful
    }
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

async fn open(server: &Server) -> (Headwater, Option<Namespace>) {
    let headwater = Headwater::connect(&server.url("headwater")).await.unwrap();
    let shop = headwater.namespace("shop").await.ok();
    (headwater, shop)
}

async fn emit(shop: &Namespace, event_type: &str, events: usize) -> Vec<(u64, Uuid)> {
    let event = |n| Event { key: Some(format!("k{n}")), ..Event::raw(event_type, Json::null()) };
    let events = (0..events).map(event);
    let append = events.fold(headwater::log::Append::new(), |append, event| append.event(event));
    let appended = shop.append_all(append).await.unwrap();
    appended.events.iter().map(|event| (event.global_sequence, event.id)).collect()
}

/// Remembers what it was told. At events of the type `lost` it waits until it may go on.
#[derive(Clone)]
struct Held {
    seen: watch::Sender<Vec<(String, Uuid)>>,
    free: watch::Sender<bool>,
}

impl Held {
    fn new() -> Self {
        Held { seen: watch::Sender::new(Vec::new()), free: watch::Sender::new(false) }
    }

    async fn until_seen(&self, what: impl Fn(&[(String, Uuid)]) -> bool) {
        soon(self.seen.subscribe().wait_for(|seen| what(seen))).await.expect("it lives");
    }
}

impl EventObserver for Held {
    fn subscriber_id(&self) -> &str {
        "totals"
    }

    async fn on_event(&self, event: Delivery) -> Result<(), HandlerError> {
        self.seen.send_modify(|seen| seen.push((event.event_type.clone(), event.id)));
        if event.event_type == "lost" {
            self.free.subscribe().wait_for(|free| *free).await.expect("it lives");
        }
        Ok(())
    }
}

/// How the subscriber is handled.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Exclusive,
    Batched,
    Alone,
    Partitioned,
}

async fn start(shop: &Namespace, kind: Kind, held: &Held) -> Node {
    let batched = CheckpointMode::Batched { batch_size: 5, max_delay_ms: 60_000 };
    let config = match kind {
        Kind::Exclusive | Kind::Partitioned => quick(),
        Kind::Batched => ReliableDeliveryConfig { checkpoint_mode: batched, ..quick() },
        Kind::Alone => ReliableDeliveryConfig { instance_mode: InstanceMode::SingleInstance, ..quick() },
    };
    let subscription = Subscription::of(held.clone()).config(config);
    let subscription = if kind == Kind::Partitioned { subscription.partitions(3) } else { subscription };
    shop.node("n1").run(subscription).start().await.unwrap()
}

/// The node has read what is lost, and is in the middle of it.
async fn what_is_handed_out_again_is_delivered(loss: Loss, kind: Kind) {
    let forgetful = Forgetful::start(loss).await;
    let (headwater, shop) = open(&forgetful.server).await;
    let held = Held::new();
    let node = start(shop.as_ref().unwrap(), kind, &held).await;
    soon(node.wait_for("totals", 10)).await.unwrap();
    node.shutdown().await.unwrap();
    headwater.shutdown().await;
    let forgetful = forgetful.keep().await;

    let (headwater, shop) = open(&forgetful.server).await;
    let shop = shop.unwrap();
    let node = start(&shop, kind, &held).await;
    let lost = emit(&shop, "lost", 20).await;
    held.until_seen(|seen| seen.iter().any(|(event_type, _)| event_type == "lost")).await;
    let forgetful = forgetful.lose().await;

    let (other, after) = open(&forgetful.server).await;
    let after = after.unwrap();
    let new = emit(&after, "new", 20).await;
    assert_eq!(new[0].0, lost[0].0, "the server hands out the same sequences again");
    held.free.send_replace(true);
    let all = |seen: &[(String, Uuid)]| new.iter().all(|(_, id)| seen.iter().any(|(_, seen)| seen == id));
    held.until_seen(all).await;
    soon(node.wait_for("totals", new[19].0)).await.unwrap();
    node.shutdown().await.unwrap();
    let audit = after.subscribers().audit(&[]).await.unwrap();
    assert!(audit.events >= 30 && audit.findings.is_empty(), "{audit:?}");
    other.shutdown().await;
    headwater.shutdown().await;
}

#[tokio::test]
async fn a_promoted_standby_delivers_what_it_has_own_server() {
    what_is_handed_out_again_is_delivered(Loss::Promotion, Kind::Exclusive).await;
}

#[tokio::test]
async fn a_promoted_standby_delivers_what_it_has_to_a_single_instance_own_server() {
    what_is_handed_out_again_is_delivered(Loss::Promotion, Kind::Alone).await;
}

#[tokio::test]
async fn a_server_that_recovers_in_place_delivers_what_it_has_own_server() {
    what_is_handed_out_again_is_delivered(Loss::CrashInPlace, Kind::Exclusive).await;
}

#[tokio::test]
async fn a_server_that_recovers_in_place_delivers_what_it_has_to_batches_own_server() {
    what_is_handed_out_again_is_delivered(Loss::CrashInPlace, Kind::Batched).await;
}

#[tokio::test]
async fn a_server_that_recovers_in_place_delivers_what_it_has_to_a_group_own_server() {
    what_is_handed_out_again_is_delivered(Loss::CrashInPlace, Kind::Partitioned).await;
}

#[tokio::test]
async fn a_backup_that_is_restored_delivers_what_it_has_own_server() {
    what_is_handed_out_again_is_delivered(Loss::Restore, Kind::Exclusive).await;
}

/// A follower that has given what the server lost says so. One that has given nothing of it goes
/// on, and is given what has come instead.
async fn a_follower_misses_nothing_of_another_history(loss: Loss) {
    let forgetful = Forgetful::start(loss).await.keep().await;
    let (headwater, shop) = open(&forgetful.server).await;
    let shop = shop.unwrap();
    let (mut ahead, mut behind) = (shop.follow(0), shop.follow(0));
    followed_up_to(&mut behind, 10).await;
    let lost = emit(&shop, "lost", 5).await;
    followed_up_to(&mut ahead, lost[4].0).await;
    let forgetful = forgetful.lose().await;
    let (other, after) = open(&forgetful.server).await;
    let new = emit(&after.unwrap(), "new", 5).await;
    assert_eq!(new[0].0, lost[0].0, "the server hands out the same sequences again");
    let ends = async {
        loop {
            match ahead.next().await.expect("it says why it ends") {
                Err(error) => break error,
                Ok(item) => assert!(!matches!(item, Followed::Event(_)), "{item:?}"),
            }
        }
    };
    let error = soon(ends).await;
    assert_eq!(error.code(), Some("WH050"), "{error}");
    let ids: Vec<_> = followed_up_to(&mut behind, new[4].0).await;
    assert_eq!(ids, new.iter().map(|(_, id)| *id).collect::<Vec<_>>());
    other.shutdown().await;
    headwater.shutdown().await;
}

/// The ids of the next events, up to a sequence.
async fn followed_up_to(follower: &mut Follower, last: u64) -> Vec<Uuid> {
    let mut ids = Vec::new();
    soon(async {
        while u64::from(follower.position()) < last {
            if let Followed::Event(event) = follower.next().await.expect("it goes on").unwrap() {
                ids.push(event.id);
            }
        }
    })
    .await;
    ids
}

#[tokio::test]
async fn a_follower_misses_nothing_of_a_promoted_standby_own_server() {
    a_follower_misses_nothing_of_another_history(Loss::Promotion).await;
}

#[tokio::test]
async fn a_follower_misses_nothing_of_a_server_that_recovers_in_place_own_server() {
    a_follower_misses_nothing_of_another_history(Loss::CrashInPlace).await;
}
