//! A connection that speaks the replication protocol: it connects, authenticates, and runs
//! commands.

use std::time::Duration;

use bytes::{Buf, Bytes};
use md5::{Digest, Md5};
use pgwire_replication::auth::ScramClient;
use pgwire_replication::protocol::framing::{
    MessageReader, write_password_message, write_query, write_startup_message,
};
use pgwire_replication::protocol::messages::{auth, parse_auth_request};
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpStream, UnixStream};

use crate::endpoint::Place;
use crate::error::Doing;
use crate::{CdcError, Endpoint};

/// A connect, or a command, that takes longer has failed: its answer may be lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// The server creates a slot only after the open transactions have ended. It gives up sooner than
/// we do, so that no session waits there for a client that is gone.
const PATIENCE_FOR_SLOTS: Duration = Duration::from_secs(60);
const PROTOCOL_3_0: i32 = 196_608;
const READ_BUFFER: usize = 128 * 1024;
/// The text of values depends on the session's settings, whose defaults come from the role. These
/// settings are what [`crate::fields`] reads.
const SESSION: &str =
    "-c DateStyle=ISO,YMD -c TimeZone=UTC -c IntervalStyle=postgres -c bytea_output=hex -c lock_timeout=50s";

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Rows of values, each as text.
type Rows = Vec<Vec<Option<String>>>;

pub(crate) struct Connection {
    pub(crate) stream: BufReader<Box<dyn Stream>>,
    pub(crate) reader: MessageReader,
}

impl Connection {
    /// Connects in replication mode.
    pub(crate) async fn open(endpoint: &Endpoint) -> Result<Self, CdcError> {
        within(PATIENCE, Connection::connect(endpoint)).await
    }

    async fn connect(endpoint: &Endpoint) -> Result<Self, CdcError> {
        let stream: Box<dyn Stream> = match &endpoint.place {
            Place::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Place::Tcp { host, port, tls } => {
                let tcp = TcpStream::connect((&**host, *port)).await?;
                tcp.set_nodelay(true)?;
                crate::tls::secure(tcp, tls, host).await?
            }
        };
        let mut connection =
            Connection { stream: BufReader::with_capacity(READ_BUFFER, stream), reader: MessageReader::new() };
        let parameters = [
            ("user", &*endpoint.user),
            ("database", &*endpoint.database),
            ("replication", "database"),
            ("client_encoding", "UTF8"),
            ("application_name", &*endpoint.application_name),
            ("options", SESSION),
        ];
        write_startup_message(&mut connection.stream, PROTOCOL_3_0, &parameters).await?;
        connection.authenticate(endpoint).await?;
        Ok(connection)
    }

    async fn authenticate(&mut self, endpoint: &Endpoint) -> Result<(), CdcError> {
        const NOTHING: Doing<'static> = Doing { slot: "", plugin: "" };
        let password = || {
            let missing = || CdcError::NotAllowed("the server asks for a password, and there is none".into());
            endpoint.password.as_deref().ok_or_else(missing)
        };
        let mut scram = None;
        let mut proof = None;
        loop {
            let message = self.reader.read(&mut self.stream).await?;
            match message.tag {
                b'R' => {}
                b'E' => return Err(CdcError::from_server(&message.payload, NOTHING)),
                b'Z' => return Ok(()),
                // Notices, settings, the key to cancel with.
                _ => continue,
            }
            let (method, data) = parse_auth_request(&message.payload)?;
            match method {
                auth::OK => {}
                auth::CLEARTEXT_PASSWORD => self.say([password()?.as_bytes(), b"\0"].concat()).await?,
                auth::MD5_PASSWORD => {
                    let inner = hex(&Md5::digest(format!("{}{}", password()?, endpoint.user)));
                    let outer = hex(&Md5::digest([inner.as_bytes(), data].concat()));
                    self.say(format!("md5{outer}\0").into_bytes()).await?;
                }
                auth::SASL => {
                    // The server knows the user from the startup message.
                    let client = ScramClient::new("");
                    let first = client.client_first.as_bytes();
                    let length = (first.len() as u32).to_be_bytes();
                    self.say([b"SCRAM-SHA-256\0", &length[..], first].concat()).await?;
                    scram = Some(client);
                }
                auth::SASL_CONTINUE => {
                    let client = scram.as_ref().ok_or_else(|| out_of_turn("SASL continue"))?;
                    let (last, message, salted) = client.client_final(password()?, text(data)?)?;
                    self.say(last.into_bytes()).await?;
                    proof = Some((salted, message));
                }
                auth::SASL_FINAL => {
                    let (salted, message) = proof.as_ref().ok_or_else(|| out_of_turn("SASL final"))?;
                    ScramClient::verify_server_final(text(data)?, salted, message)?;
                }
                other => {
                    return Err(CdcError::NotAllowed(format!(
                        "the server asks for authentication method {other}, which is not known here"
                    )));
                }
            }
        }
    }

    async fn say(&mut self, answer: Vec<u8>) -> Result<(), CdcError> {
        Ok(write_password_message(&mut self.stream, &answer).await?)
    }

    /// Runs a command and returns its rows.
    pub(crate) async fn query(&mut self, command: &str, doing: Doing<'_>) -> Result<Rows, CdcError> {
        within(PATIENCE, self.ask(command, doing)).await
    }

    /// The same for a command that creates a slot.
    pub(crate) async fn make_slot(&mut self, command: &str, doing: Doing<'_>) -> Result<Rows, CdcError> {
        within(PATIENCE_FOR_SLOTS, self.ask(command, doing)).await
    }

    async fn ask(&mut self, command: &str, doing: Doing<'_>) -> Result<Rows, CdcError> {
        write_query(&mut self.stream, command).await?;
        let mut rows = Vec::new();
        let mut failed: Option<CdcError> = None;
        loop {
            let message = match self.reader.read(&mut self.stream).await {
                Ok(message) => message,
                // The server's last error says more than that it closed the connection.
                Err(closed) => return Err(failed.unwrap_or_else(|| closed.into())),
            };
            match message.tag {
                b'D' => rows.push(row(message.payload)?),
                b'E' => failed = Some(CdcError::from_server(&message.payload, doing)),
                b'Z' => return failed.map_or(Ok(rows), Err),
                _ => {}
            }
        }
    }

    /// Sends a command after which the server streams.
    pub(crate) async fn start_copy(&mut self, command: &str, doing: Doing<'_>) -> Result<(), CdcError> {
        within(PATIENCE, self.ask_to_copy(command, doing)).await
    }

    async fn ask_to_copy(&mut self, command: &str, doing: Doing<'_>) -> Result<(), CdcError> {
        write_query(&mut self.stream, command).await?;
        let mut failed: Option<CdcError> = None;
        loop {
            let message = match self.reader.read(&mut self.stream).await {
                Ok(message) => message,
                Err(closed) => return Err(failed.unwrap_or_else(|| closed.into())),
            };
            match message.tag {
                b'W' => return Ok(()),
                b'E' => failed = Some(CdcError::from_server(&message.payload, doing)),
                b'Z' => {
                    let silent = || CdcError::Protocol("the server did not start to stream".into());
                    return Err(failed.unwrap_or_else(silent));
                }
                _ => {}
            }
        }
    }
}

async fn within<T>(patience: Duration, answer: impl Future<Output = Result<T, CdcError>>) -> Result<T, CdcError> {
    let late = |_| CdcError::Connection(format!("no answer within {patience:?}"));
    tokio::time::timeout(patience, answer).await.map_err(late)?
}

fn row(mut payload: Bytes) -> Result<Vec<Option<String>>, CdcError> {
    let short = || CdcError::Protocol("a row that is too short".into());
    let columns = payload.try_get_u16().map_err(|_| short())?;
    let mut values = Vec::with_capacity(usize::from(columns).min(payload.len() / 4));
    for _ in 0..columns {
        let length = payload.try_get_i32().map_err(|_| short())?;
        values.push(match usize::try_from(length) {
            Err(_) => None,
            Ok(length) if length > payload.len() => return Err(short()),
            Ok(length) => Some(String::from_utf8_lossy(&payload.split_to(length)).into_owned()),
        });
    }
    Ok(values)
}

fn text(data: &[u8]) -> Result<&str, CdcError> {
    std::str::from_utf8(data).map_err(|error| CdcError::Protocol(error.to_string()))
}

fn out_of_turn(what: &str) -> CdcError {
    CdcError::Protocol(format!("{what} out of turn"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Quotes an identifier for a command, whatever it holds.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a text for a command, whatever it holds.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
