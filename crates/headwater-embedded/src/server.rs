use std::path::Path;

use crate::instance::Instance;
use crate::pidfile::PidFile;
use crate::postmaster::Postmaster;
use crate::{EmbeddedError, HEADWATER, ServerBuilder, Shutdown, Version, password};

/// A running server. Dropping it shuts it down fast; if it is disposable, at once, and its folder is removed.
#[derive(Debug)]
pub struct Server {
    // Before the instance: the server stops first, then its folder goes.
    postmaster: Postmaster,
    instance: Instance,
}

impl Server {
    /// A disposable server: short for [`ServerBuilder::disposable`].
    pub fn builder() -> ServerBuilder {
        ServerBuilder::disposable()
    }

    pub(crate) fn new(postmaster: Postmaster, instance: Instance) -> Self {
        Self { postmaster, instance }
    }

    /// Where to connect to `database`, as the superuser, with the password.
    pub fn url(&self, database: &str) -> String {
        url(&self.instance.password, self.port(), database)
    }

    /// Where to connect to `database` on the server that runs in `folder`, a durable one that any process may have started. `None`:
    /// none runs there.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError::Io`] if the folder, or its password, is closed to this user.
    pub fn url_in(folder: impl AsRef<Path>, database: &str) -> Result<Option<String>, EmbeddedError> {
        let data_dir = folder.as_ref().join("pgdata");
        let running = PidFile::read(&data_dir).filter(PidFile::takes_connections);
        let password = password::read(&data_dir)?;
        Ok(running.zip(password).map(|(file, password)| url(&password, file.port, database)))
    }

    /// The port; it stays the same across [`Server::restart`].
    pub fn port(&self) -> u16 {
        self.instance.port
    }

    /// The folder of the unix socket, for clients that prefer one.
    pub fn socket_dir(&self) -> &Path {
        self.instance.socket_dir()
    }

    /// The data folder (what `pg_ctl -D` wants): `pgdata` in the folder that was given to the builder.
    pub fn data_dir(&self) -> &Path {
        &self.instance.folder.data_dir
    }

    /// The folder of the binaries it runs from.
    pub fn bin_dir(&self) -> &Path {
        &self.instance.binaries.dir
    }

    /// The process of the postmaster.
    pub fn pid(&self) -> u32 {
        self.postmaster.pid()
    }

    /// The version of the server.
    pub fn version(&self) -> Version {
        self.instance.binaries.version
    }

    /// Whether the postmaster lives; it may have been killed by somebody else.
    pub fn is_running(&mut self) -> bool {
        self.postmaster.ended().is_none()
    }

    /// The last lines of the server's log.
    pub fn log_tail(&self, lines: usize) -> String {
        self.instance.log().tail(lines)
    }

    /// Stops the server, if it runs, and starts it on the same port. Also what brings back one that was killed.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError::StopTimeout`] leaves the server running; after any other error it is stopped, and
    /// `restart` may be tried again.
    pub fn restart(&mut self, mode: Shutdown) -> Result<(), EmbeddedError> {
        self.postmaster.stop(mode, self.instance.stop_timeout)?;
        self.postmaster = self.instance.launch()?;
        Ok(())
    }

    /// Kills the postmaster as `kill -9` does, and waits until its backends have noticed and left; those that stay are killed too.
    /// [`Server::restart`] brings it back.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError::StopTimeout`] if backends stay.
    pub fn kill(&mut self) -> Result<(), EmbeddedError> {
        self.postmaster.kill();
        self.instance.end_backends()
    }

    /// Turns a standby into a primary, and returns when it takes writes.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError::Program`] if it is no standby, or takes longer than a start may.
    pub fn promote(&mut self) -> Result<(), EmbeddedError> {
        self.instance.promote()
    }

    /// Stops the server and keeps its folder and its port for [`StoppedServer::start`].
    ///
    /// # Errors
    ///
    /// [`EmbeddedError::StopTimeout`], after which the server, being dropped, is shut down fast.
    pub fn stop(mut self, mode: Shutdown) -> Result<StoppedServer, EmbeddedError> {
        self.postmaster.stop(mode, self.instance.stop_timeout)?;
        Ok(StoppedServer { instance: self.instance })
    }
}

/// A server that was stopped. Dropping it removes its folder if it is disposable.
#[derive(Debug)]
pub struct StoppedServer {
    instance: Instance,
}

impl StoppedServer {
    /// Starts it again, on the same port.
    pub fn start(self) -> Result<Server, EmbeddedError> {
        Ok(Server::new(self.instance.launch()?, self.instance))
    }

    /// The data folder.
    pub fn data_dir(&self) -> &Path {
        &self.instance.folder.data_dir
    }
}

fn url(password: &str, port: u16, database: &str) -> String {
    format!("postgres://{HEADWATER}:{password}@127.0.0.1:{port}/{}", percent_encoded(database))
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_database_name_can_not_break_the_url() {
        assert_eq!(super::percent_encoded("head_water-1"), "head_water-1");
        assert_eq!(super::percent_encoded("a/b?c d"), "a%2Fb%3Fc%20d");
    }
}
