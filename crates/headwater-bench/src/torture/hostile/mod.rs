//! Enemies: logins without a grant, tenants of other namespaces, the clock, the network, and bad
//! timing. Each enemy has a file. All act at the same time.

mod answers;
mod clock;
mod prepared;
mod resize;
mod strangers;
mod tenants;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use headwater::Headwater;
use headwater::admin::{GrantKind, NamespaceConfig};
use headwater_embedded::ServerBuilder;
use rand::SeedableRng;
use rand::rngs::StdRng;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnection;
use tokio::time::{Instant, timeout};

use self::clock::Clock;
use super::NAMESPACE;
use super::arena::{Arena, SharedServer};
use super::check::Violations;
use super::proxy::Proxy;

/// A login without any grant.
const STRANGER: &str = "torture_stranger";
/// A login with grants in another namespace.
const TENANT: &str = "torture_tenant";
/// The namespace of the tenant.
const ELSEWHERE: &str = "elsewhere";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Enemy {
    /// Strangers take advisory locks of every kind
    Strangers,
    /// Tenants lock tables, and leave transactions open in another namespace
    Tenants,
    /// The clock steps forwards and back, and months end
    Clock,
    /// Prepared transactions stay open over restarts
    Prepared,
    /// Groups are resized behind a held gap, while a member is stopped
    Resizes,
    /// The network loses answers
    Answers,
}

/// Time limit for what an enemy does in one session. The limit is kept here, because clock steps
/// stop the server's own timeouts.
const ONE_ACT: Duration = Duration::from_secs(4);

/// Lets an enemy act, then ends its sessions, including sessions that wait for a lock. Returns
/// whether the act completed.
async fn act(arena: &Arena, name: &str, act: impl Future<Output = sqlx::Result<()>>) -> bool {
    let done = timeout(ONE_ACT, act).await.is_ok_and(|done| done.is_ok());
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
    let end = async {
        let mut conn = arena.control.connect().await?;
        sqlx::query(end).bind(name).execute(&mut conn).await
    };
    // A server that is down has no sessions.
    _ = timeout(ONE_ACT, end).await;
    done
}

/// The enemies and the server that they attack.
pub(crate) struct Enemies {
    /// The selected enemies; if empty, all.
    only: Vec<Enemy>,
    server: SharedServer,
    /// The proxy between clients and the server.
    proxy: Proxy,
    clock: Clock,
}

impl Enemies {
    pub(crate) async fn start(builder: ServerBuilder, only: &[Enemy]) -> anyhow::Result<Self> {
        let clock = Clock::new()?;
        // A server that stops waits for each follower of the WAL. This limits the wait when the
        // answers on such a connection are lost.
        let builder = clock.install(builder).setting("wal_sender_timeout", "5s");
        let server = tokio::task::spawn_blocking(|| builder.start()).await?.context("failed to start a server")?;
        let proxy = Proxy::start(server.port()).await?;
        Ok(Enemies { only: only.to_vec(), server: Arc::new(Mutex::new(server)), proxy, clock })
    }

    /// The address for clients.
    pub(crate) fn url(&self) -> String {
        let (url, port) = self.address();
        url.replace(&format!("127.0.0.1:{port}/"), &format!("127.0.0.1:{}/", self.proxy.port()))
    }

    /// The address of the server itself, without the proxy.
    pub(crate) fn control_url(&self) -> String {
        self.address().0
    }

    fn address(&self) -> (String, u16) {
        let server = self.server.lock().expect("no holder of this lock panics");
        (server.url("headwater"), server.port())
    }

    /// Creates the enemies' roles and namespace. Moves the log to just before the low 32 bits of
    /// its sequences wrap.
    pub(crate) async fn invade(&self, headwater: &Headwater, conn: &mut PgConnection) -> anyhow::Result<()> {
        sqlx::raw_sql(include_str!("../../../sql/torture_roles.sql")).execute(&mut *conn).await?;
        headwater.create_namespace(NamespaceConfig::new(ELSEWHERE)).await?;
        for kind in [GrantKind::Producer, GrantKind::Consumer] {
            headwater.admin().grant(ELSEWHERE, TENANT, kind).await?;
        }
        sqlx::query(include_str!("../../../sql/torture_near_wrap.sql")).bind(NAMESPACE).execute(conn).await?;
        Ok(())
    }

    /// Runs all selected enemies until `end`, then repairs everything. Returns the number of rounds
    /// of all enemies, and the number of resizes.
    pub(crate) async fn run(
        &mut self,
        arena: &Arena,
        end: Instant,
        violations: &mut Violations,
    ) -> anyhow::Result<(u64, u64)> {
        let dice = |number: u64| StdRng::seed_from_u64(arena.seed.wrapping_mul(100).wrapping_add(number));
        let Enemies { only, server, proxy, clock } = self;
        // An enemy that is not selected ends at once.
        let until = |enemy| if only.is_empty() || only.contains(&enemy) { end } else { Instant::now() };
        let (strangers, tenants, clock, prepared, resizes, answers) = tokio::join!(
            strangers::run(arena, dice(0), until(Enemy::Strangers)),
            tenants::run(arena, dice(1), until(Enemy::Tenants), violations),
            clock.run(arena, dice(2), until(Enemy::Clock)),
            prepared::run(arena, server, dice(3), until(Enemy::Prepared)),
            resize::run(arena, dice(4), until(Enemy::Resizes)),
            answers::run(arena, proxy, dice(5), until(Enemy::Answers)),
        );
        let resizes = resizes?;
        Ok((strangers? + tenants? + clock? + prepared? + resizes + answers?, resizes))
    }
}
