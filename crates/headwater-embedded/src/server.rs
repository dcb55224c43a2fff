use std::path::Path;

use crate::instance::Instance;
use crate::pidfile::PidFile;
use crate::postmaster::Postmaster;
use crate::{EmbeddedError, HEADWATER, ServerBuilder, Shutdown, Version, password};

/// A running server. Dropping it shuts it down: a durable one fast, a disposable one at once, and
/// then the folder of a disposable one is removed.
#[derive(Debug)]
pub struct Server {
    // This field comes before the instance: the server stops first, then its folder goes.
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

    /// Returns the url of `database` for the superuser, with the password.
    pub fn url(&self, database: &str) -> String {
        url(&self.instance.password, self.port(), database)
    }

    /// Returns the url of `database` on the durable server that runs in `folder`, whichever process
    /// started it. `None`: no server runs there.
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

    /// Returns the port. It stays the same across [`Server::restart`].
    pub fn port(&self) -> u16 {
        self.instance.port
    }

    /// Returns the folder of the unix socket, for clients that prefer a socket.
    pub fn socket_dir(&self) -> &Path {
        self.instance.socket_dir()
    }

    /// Returns the data folder (for `pg_ctl -D`): `pgdata` in the folder that was given to the
    /// builder.
    pub fn data_dir(&self) -> &Path {
        &self.instance.folder.data_dir
    }

    /// Returns the folder of its binaries.
    pub fn bin_dir(&self) -> &Path {
        &self.instance.binaries.dir
    }

    /// Returns the pid of the postmaster.
    pub fn pid(&self) -> u32 {
        self.postmaster.pid()
    }

    /// Returns the version of the server.
    pub fn version(&self) -> Version {
        self.instance.binaries.version
    }

    /// Returns whether the postmaster lives: somebody else may have killed it.
    pub fn is_running(&mut self) -> bool {
        self.postmaster.ended().is_none()
    }

    /// Returns the last lines of the server's log.
    pub fn log_tail(&self, lines: usize) -> String {
        self.instance.log().tail(lines)
    }

    /// Stops the server, if it runs, and starts it on the same port. It also starts a server that
    /// was killed.
    ///
    /// # Errors
    ///
    /// [`EmbeddedError::StopTimeout`] leaves the server running. After any other error it is
    /// stopped, and `restart` may be tried again.
    pub fn restart(&mut self, mode: Shutdown) -> Result<(), EmbeddedError> {
        self.postmaster.stop(mode, self.instance.stop_timeout)?;
        self.postmaster = self.instance.launch()?;
        Ok(())
    }

    /// Kills the postmaster as `kill -9` does, and waits until its backends have noticed and ended.
    /// Backends that stay are killed too. [`Server::restart`] starts the server again.
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
    /// [`EmbeddedError::Program`] if it is not a standby, or takes longer than a start may.
    pub fn promote(&mut self) -> Result<(), EmbeddedError> {
        self.instance.promote()
    }

    /// Stops the server and keeps its folder and its port for [`StoppedServer::start`].
    ///
    /// # Errors
    ///
    /// [`EmbeddedError::StopTimeout`]. The server is then dropped, which shuts it down fast.
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

    /// Returns the data folder.
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
