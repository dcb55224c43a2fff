//! Enemies: whoever can connect, whoever was granted something elsewhere, the clock, the network, and bad timing. Each has a
//! file; all do their worst at the same time.

mod answers;
mod clock;
mod prepared;
mod resize;
mod strangers;
mod tenants;

use std::sync::{Arc, Mutex};

use anyhow::Context;
use headwater::{GrantKind, Headwater, NamespaceConfig};
use headwater_embedded::ServerBuilder;
use rand::SeedableRng;
use rand::rngs::StdRng;
use sqlx::postgres::PgConnection;
use tokio::time::Instant;

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

/// The server among them.
pub(crate) struct Enemies {
    server: SharedServer,
    /// Between clients and the server.
    proxy: Proxy,
    clock: Clock,
}

impl Enemies {
    pub(crate) async fn start(builder: ServerBuilder) -> anyhow::Result<Self> {
        let clock = Clock::new()?;
        // A server that is to stop waits that long for one who follows the WAL and whose answers are lost.
        let builder = clock.install(builder).setting("wal_sender_timeout", "5s");
        let server = tokio::task::spawn_blocking(|| builder.start()).await?.context("failed to start a server")?;
        let proxy = Proxy::start(server.port()).await?;
        Ok(Enemies { server: Arc::new(Mutex::new(server)), proxy, clock })
    }

    /// Where clients connect.
    pub(crate) fn url(&self) -> String {
        let (url, port) = self.address();
        url.replace(&format!("127.0.0.1:{port}/"), &format!("127.0.0.1:{}/", self.proxy.port()))
    }

    /// The server itself.
    pub(crate) fn control_url(&self) -> String {
        self.address().0
    }

    fn address(&self) -> (String, u16) {
        let server = self.server.lock().expect("no holder of this lock panics");
        (server.url("headwater"), server.port())
    }

    /// Lets the others in, and lets the log come to where the low half of a sequence begins anew.
    pub(crate) async fn invade(&self, headwater: &Headwater, conn: &mut PgConnection) -> anyhow::Result<()> {
        sqlx::raw_sql(include_str!("../../../sql/torture_roles.sql")).execute(&mut *conn).await?;
        headwater.create_namespace(NamespaceConfig::new(ELSEWHERE)).await?;
        for kind in [GrantKind::Producer, GrantKind::Consumer] {
            headwater.grant(ELSEWHERE, TENANT, kind).await?;
        }
        sqlx::query(include_str!("../../../sql/torture_near_wrap.sql")).bind(NAMESPACE).execute(conn).await?;
        Ok(())
    }

    /// Does its worst until `end`, then mends everything. Returns how many rounds all of them made, and how many resizes.
    pub(crate) async fn run(
        &mut self,
        arena: &Arena,
        end: Instant,
        violations: &mut Violations,
    ) -> anyhow::Result<(u64, u64)> {
        let dice = |number: u64| StdRng::seed_from_u64(arena.seed.wrapping_mul(100).wrapping_add(number));
        let (strangers, tenants, clock, prepared, resizes, answers) = tokio::join!(
            strangers::run(arena, dice(0), end),
            tenants::run(arena, dice(1), end, violations),
            self.clock.run(arena, dice(2), end),
            prepared::run(arena, &self.server, dice(3), end),
            resize::run(arena, dice(4), end),
            answers::run(arena, &self.proxy, dice(5), end),
        );
        let resizes = resizes?;
        Ok((strangers? + tenants? + clock? + prepared? + resizes + answers?, resizes))
    }
}
