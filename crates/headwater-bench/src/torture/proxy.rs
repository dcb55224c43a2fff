//! A proxy on the loopback interface between clients and a server. It keeps one address while
//! servers change. It can cut connections, stall them, or lose answers on connections that stay
//! open.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The maximum number of connections whose answers are lost at the same time. Each one takes a
/// session of the server.
const MUTED_AT_MOST: u64 = 60;

/// Where connections go now, and how they behave.
#[derive(Debug, Clone, Copy)]
struct Route {
    port: u16,
    /// Connections of an earlier generation are closed.
    generation: u64,
    /// Whether nothing passes, in either direction.
    stalled: bool,
}

/// A proxy. Dropping it closes all its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    route: watch::Sender<Route>,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    links: Mutex<Vec<Weak<Link>>>,
    /// Number of further COMMITs whose answers are lost.
    commits: AtomicU64,
    muted: AtomicU64,
}

/// One connection.
#[derive(Debug, Default)]
struct Link {
    /// Whether the server's answers are dropped. The client then does not learn when the server
    /// closes the connection.
    muted: AtomicBool,
}

impl Proxy {
    pub(crate) async fn start(target: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (route, routes) = watch::channel(Route { port: target, generation: 0, stalled: false });
        let shared = Arc::<Shared>::default();
        let accepting = tokio::spawn(accept(listener, routes, shared.clone()));
        Ok(Proxy { port, route, shared, accepting })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections. New ones go to this port.
    pub(crate) fn switch(&self, port: u16) {
        self.route.send_modify(|route| *route = Route { port, generation: route.generation + 1, stalled: false });
    }

    /// Lets nothing pass until the next switch.
    pub(crate) fn stall(&self) {
        self.route.send_modify(|route| route.stalled = true);
    }

    /// Loses all further answers on a random part of the connections. Returns the number of these
    /// connections.
    pub(crate) fn mute_some(&self, dice: &mut StdRng, probability: f64) -> u64 {
        let links: Vec<_> = {
            let mut links = self.shared.links.lock().expect("no holder of this lock panics");
            links.retain(|link| link.strong_count() > 0);
            links.iter().filter_map(Weak::upgrade).collect()
        };
        links.iter().filter(|_| dice.random_bool(probability)).filter(|link| link.mute(&self.shared)).count() as u64
    }

    /// Loses the answers to the next `count` COMMITs, and all later answers on these connections.
    pub(crate) fn mute_commits(&self, count: u64) {
        self.shared.commits.fetch_add(count, Relaxed);
    }

    /// Stops losing answers, except on connections that have already lost some.
    pub(crate) fn spare_commits(&self) {
        self.shared.commits.store(0, Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.switch(0);
    }
}

impl Link {
    /// Mutes the link, unless it is muted already or too many are. Returns whether it did.
    fn mute(&self, shared: &Shared) -> bool {
        let may = || shared.muted.fetch_update(Relaxed, Relaxed, |n| (n < MUTED_AT_MOST).then_some(n + 1)).is_ok();
        if self.muted.load(Relaxed) || !may() {
            return false;
        }
        let muted = !self.muted.swap(true, Relaxed);
        if !muted {
            shared.muted.fetch_sub(1, Relaxed);
        }
        muted
    }
}

async fn accept(listener: TcpListener, routes: watch::Receiver<Route>, shared: Arc<Shared>) {
    loop {
        // The process has no free file descriptors: the next try may find some.
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        tokio::spawn(serve(client, routes.clone(), shared.clone()));
    }
}

async fn serve(client: TcpStream, mut routes: watch::Receiver<Route>, shared: Arc<Shared>) {
    let route = *routes.borrow_and_update();
    let link = Arc::<Link>::default();
    let cut = {
        let mut routes = routes.clone();
        async move { _ = routes.wait_for(|now| now.generation != route.generation).await }
    };
    let pass = async {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, route.port)).await?;
        _ = (client.set_nodelay(true), server.set_nodelay(true));
        shared.links.lock().expect("no holder of this lock panics").push(Arc::downgrade(&link));
        let ((client_in, client_out), (server_in, server_out)) = (client.into_split(), server.into_split());
        let requests = requests(client_in, server_out, (routes.clone(), route.generation), &link, &shared);
        let answers = answers(server_in, client_out, (routes.clone(), route.generation), &link);
        tokio::select! {
            done = requests => done,
            done = answers => done,
        }
    };
    // Whatever fails, both sides see the end of the connection.
    tokio::select! {
        _ = pass => {}
        () = cut => {}
    }
    if link.muted.load(Relaxed) {
        shared.muted.fetch_sub(1, Relaxed);
    }
}

/// Waits until data that was read may pass. After a switch it never may.
async fn unstalled(routes: &mut watch::Receiver<Route>, generation: u64) -> std::io::Result<()> {
    match routes.wait_for(|route| !route.stalled).await {
        Ok(route) if route.generation == generation => Ok(()),
        _ => Err(std::io::ErrorKind::ConnectionReset.into()),
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    (mut routes, generation): (watch::Receiver<Route>, u64),
    link: &Link,
    shared: &Shared,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        unstalled(&mut routes, generation).await?;
        if buffer[..read].windows(6).any(|word| word == b"COMMIT")
            && shared.commits.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
        {
            link.mute(shared);
        }
        match to.write_all(&buffer[..read]).await {
            // The server may be gone; the client must not notice.
            Err(_) if link.muted.load(Relaxed) => {}
            written => written?,
        }
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    (mut routes, generation): (watch::Receiver<Route>, u64),
    link: &Link,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await;
        unstalled(&mut routes, generation).await?;
        if link.muted.load(Relaxed) {
            match read {
                Ok(1..) => continue,
                // Wait until the client goes.
                _ => std::future::pending::<()>().await,
            }
        }
        match read? {
            0 => return Ok(()),
            read => to.write_all(&buffer[..read]).await?,
        }
    }
}
