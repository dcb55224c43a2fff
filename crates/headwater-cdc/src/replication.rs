//! A stream of changes from a slot.
//!
//! Who has authority: the server decides what was acknowledged, and so what it may forget. We
//! acknowledge the end of a commit only after its events are safe. While nothing is at hand, we
//! acknowledge what the server says it has passed, so that a quiet log retains no WAL. The server
//! gives up a client that is silent. So we speak every second, even while the sink needs time for
//! the changes, and ask for an answer when the server is silent itself. A connection on which
//! nothing was heard for [`SILENCE`] is dead.

use std::time::Duration;

use bytes::Bytes;
use chrono::Utc;
use pgwire_replication::Lsn;
use pgwire_replication::protocol::framing::write_copy_data;
use pgwire_replication::protocol::{
    ReplicationCopyData, encode_standby_status_update, parse_copy_data, unix_to_pg_timestamp,
};
use tokio::time::{Instant, sleep_until};

use crate::connection::{Connection, identifier, literal};
use crate::error::Doing;
use crate::{CdcError, Endpoint, Plugin};

/// How often we speak.
const SPEAK_EVERY: Duration = Duration::from_secs(1);
/// A server that is silent for longer, although it was asked, is gone.
const SILENCE: Duration = Duration::from_secs(20);

/// How long a slot lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKind {
    /// Created for this connection, and dropped with it.
    Temporary,
    /// Created unless it exists, and kept.
    Durable,
}

/// How the server identifies itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct System {
    pub(crate) identifier: String,
    pub(crate) timeline: u32,
}

/// Changes as they arrive.
pub struct Replication {
    connection: Connection,
    slot: String,
    plugin: Plugin,
    system: System,
    /// Everything up to here is safe.
    acknowledged: u64,
    /// The server has sent everything up to here.
    sent: u64,
    spoken_at: Instant,
    heard_at: Instant,
}

/// A connection on which nothing streams yet.
pub(crate) struct Opened {
    connection: Connection,
    slot: String,
    plugin: Plugin,
    system: System,
}

/// One message of the plugin.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) data: Bytes,
}

impl Opened {
    /// Connects to a server that can replicate.
    pub(crate) async fn open(endpoint: &Endpoint, slot: &str, plugin: Plugin) -> Result<Self, CdcError> {
        let doing = Doing { slot, plugin: plugin.name() };
        let mut connection = Connection::open(endpoint).await?;
        let level = connection.query("SHOW wal_level", doing).await?;
        match level.first().and_then(|row| row.first()).and_then(Option::as_deref) {
            Some("logical") => {}
            level => return Err(CdcError::WalLevel(level.unwrap_or("unknown").to_owned())),
        }
        let system = identify(&mut connection, doing).await?;
        Ok(Opened { connection, slot: slot.to_owned(), plugin, system })
    }

    /// Drops the slot, if it exists. What was not read from it is in the log.
    pub(crate) async fn drop_slot(&mut self) -> Result<(), CdcError> {
        let doing = Doing { slot: &self.slot, plugin: self.plugin.name() };
        let drop = format!("DROP_REPLICATION_SLOT {}", identifier(&self.slot));
        match self.connection.query(&drop, doing).await {
            Ok(_) | Err(CdcError::SlotLost { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Creates the slot if needed, and starts. If the server refuses, the connection can be used
    /// again.
    pub(crate) async fn start(
        mut self,
        kind: SlotKind,
        options: &[(&str, String)],
    ) -> Result<Replication, (CdcError, Self)> {
        match self.ask_to_start(kind, options).await {
            Ok(()) => {
                let Opened { connection, slot, plugin, system } = self;
                let now = Instant::now();
                let (acknowledged, sent, spoken_at, heard_at) = (0, 0, now, now);
                Ok(Replication { connection, slot, plugin, system, acknowledged, sent, spoken_at, heard_at })
            }
            Err(error) => Err((error, self)),
        }
    }

    async fn ask_to_start(&mut self, kind: SlotKind, options: &[(&str, String)]) -> Result<(), CdcError> {
        let doing = Doing { slot: &self.slot, plugin: self.plugin.name() };
        let name = identifier(&self.slot);
        let plugin = self.plugin.name();
        let create =
            |temporary: &str| format!("CREATE_REPLICATION_SLOT {name}{temporary} LOGICAL {plugin} NOEXPORT_SNAPSHOT");
        match kind {
            SlotKind::Temporary => _ = self.connection.make_slot(&create(" TEMPORARY"), doing).await?,
            SlotKind::Durable => match self.connection.make_slot(&create(""), doing).await {
                // 42710: the slot exists already.
                Ok(_) => {}
                Err(CdcError::Server { code, .. }) if code == "42710" => {}
                Err(error) => return Err(error),
            },
        }
        let options: Vec<_> =
            options.iter().map(|(name, value)| format!("{} {}", identifier(name), literal(value))).collect();
        let start = format!("START_REPLICATION SLOT {name} LOGICAL 0/0 ({})", options.join(", "));
        self.connection.start_copy(&start, doing).await
    }
}

impl Replication {
    /// Starts to stream what commits from now on (or, from an existing durable slot, what was not
    /// acknowledged). If the plugin needs a publication, it must exist already: changes are decoded
    /// with the catalog of the time when they were made.
    pub async fn start(
        endpoint: &Endpoint,
        slot: &str,
        kind: SlotKind,
        plugin: Plugin,
        options: &[(&str, String)],
    ) -> Result<Self, CdcError> {
        Opened::open(endpoint, slot, plugin).await?.start(kind, options).await.map_err(|(error, _)| error)
    }

    /// The server's identifier and timeline. A server with other values has another history.
    pub fn system(&self) -> (&str, u32) {
        (&self.system.identifier, self.system.timeline)
    }

    /// Records that everything up to here is safe, and need not come again.
    pub fn acknowledge(&mut self, lsn: u64) {
        self.acknowledged = self.acknowledged.max(lsn);
    }

    /// Returns up to where everything is safe.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Returns how many bytes of WAL were sent and are not safe yet. Before the first
    /// acknowledgement there is no measure, and it returns 0.
    pub(crate) fn lag(&self) -> u64 {
        match self.acknowledged {
            0 => 0,
            acknowledged => self.sent.saturating_sub(acknowledged),
        }
    }

    /// Asks the server how far it has come. The server answers with a keepalive.
    pub(crate) async fn ask(&mut self) -> Result<(), CdcError> {
        self.speak(true).await
    }

    /// Returns whether a message seems to be available without waiting.
    pub(crate) fn has_more(&self) -> bool {
        // A tag and a length.
        self.connection.stream.buffer().len() >= 5
    }

    /// Returns the next message; `None`: the server sent nothing that has to be taken. `idle`:
    /// nothing at hand is unsafe, so what the server has passed without sending it to us is
    /// acknowledged. The future may be dropped, and the function called again.
    pub(crate) async fn next(&mut self, idle: bool) -> Result<Option<Message>, CdcError> {
        let speak_at = self.spoken_at + SPEAK_EVERY;
        let read = self.connection.reader.read(&mut self.connection.stream);
        let message = tokio::select! {
            biased;
            message = read => message?,
            () = sleep_until(speak_at) => {
                if self.heard_at.elapsed() >= SILENCE {
                    return Err(CdcError::Connection(format!("the server was silent for {SILENCE:?}")));
                }
                self.speak(true).await?;
                return Ok(None);
            }
        };
        self.heard_at = Instant::now();
        let doing = Doing { slot: &self.slot, plugin: self.plugin.name() };
        match message.tag {
            b'd' => {}
            b'E' => return Err(CdcError::from_server(&message.payload, doing)),
            // The copy has ended, for example because the server stops.
            b'c' => return Err(CdcError::Connection("the server ended the stream".into())),
            _ => return Ok(None),
        }
        match parse_copy_data(message.payload)? {
            ReplicationCopyData::XLogData { data, wal_end, .. } => {
                self.sent = self.sent.max(wal_end.as_u64());
                return Ok(Some(Message { data }));
            }
            ReplicationCopyData::KeepAlive { wal_end, reply_requested, .. } => {
                self.sent = self.sent.max(wal_end.as_u64());
                if idle {
                    self.acknowledge(wal_end.as_u64());
                }
                if reply_requested {
                    self.speak(false).await?;
                }
            }
        }
        Ok(None)
    }

    /// Waits for the sink, and keeps speaking in the meantime.
    pub(crate) async fn while_waiting<T>(
        &mut self,
        work: impl Future<Output = Result<T, CdcError>>,
    ) -> Result<T, CdcError> {
        tokio::pin!(work);
        loop {
            let speak_at = self.spoken_at + SPEAK_EVERY;
            tokio::select! {
                biased;
                done = &mut work => {
                    // We did not read in the meantime, so the server was not silent.
                    self.heard_at = Instant::now();
                    return done;
                }
                () = sleep_until(speak_at) => self.speak(false).await?,
            }
        }
    }

    /// Tells the server what it may forget, if it is time to speak.
    pub(crate) async fn speak_if_due(&mut self) -> Result<(), CdcError> {
        if self.spoken_at.elapsed() < SPEAK_EVERY {
            return Ok(());
        }
        self.speak(false).await
    }

    async fn speak(&mut self, answer: bool) -> Result<(), CdcError> {
        let now = unix_to_pg_timestamp(Utc::now().timestamp_micros());
        let status = encode_standby_status_update(Lsn::from_u64(self.acknowledged), now, answer);
        self.spoken_at = Instant::now();
        match tokio::time::timeout(SILENCE, write_copy_data(&mut self.connection.stream, &status)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(CdcError::Connection(format!("nothing could be written for {SILENCE:?}"))),
        }
    }
}

async fn identify(connection: &mut Connection, doing: Doing<'_>) -> Result<System, CdcError> {
    let rows = connection.query("IDENTIFY_SYSTEM", doing).await?;
    let mut row = rows.into_iter().next().unwrap_or_default().into_iter();
    match (row.next().flatten(), row.next().flatten().and_then(|timeline| timeline.parse().ok())) {
        (Some(identifier), Some(timeline)) => Ok(System { identifier, timeline }),
        _ => Err(CdcError::Protocol("the server does not identify itself".into())),
    }
}
