//! A way to the server on which answers get lost.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on to the server. Once it is frozen, answers are lost and connections stay
/// open.
pub(crate) struct Proxy {
    pub(crate) url: String,
    frozen: watch::Sender<bool>,
}

impl Proxy {
    pub(crate) async fn start(url: &str) -> Self {
        let server = PgConnectOptions::from_str(url).unwrap();
        let address = format!("{}:{}", server.get_host(), server.get_port());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap().to_string();
        let (frozen, told) = watch::channel(false);
        let url = url.replace(&address, &here);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, TcpStream::connect(address.clone()).await.unwrap(), told.clone()));
            }
        });
        Proxy { url, frozen }
    }

    pub(crate) fn freeze(&self) {
        self.frozen.send_replace(true);
    }
}

async fn pass_on(client: TcpStream, server: TcpStream, mut frozen: watch::Receiver<bool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = async {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let read = tokio::select! {
                biased;
                () = until(&mut frozen) => None,
                read = from_server.read(&mut bytes) => read.ok(),
            };
            let Some(read) = read else { std::future::pending().await };
            if read == 0 || to_client.write_all(&bytes[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(answers, async { _ = tokio::io::copy(&mut from_client, &mut to_server).await });
}

async fn until(frozen: &mut watch::Receiver<bool>) {
    _ = frozen.wait_for(|frozen| *frozen).await;
}
