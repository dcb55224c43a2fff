//! Connecting, in one expression.

use std::future::IntoFuture;

use futures::future::BoxFuture;
use headwater_core::{AdminError, NamespaceConfig};

use crate::Headwater;
use crate::Namespace;
use crate::live::Live;
use crate::system::HeadwaterBuilder;

/// The environment variable that [`Headwater::from_env`] reads.
const DATABASE_URL: &str = "DATABASE_URL";

/// A connection to be made when it is awaited: see [`Headwater::connect`].
#[derive(Debug, Clone)]
#[must_use = "nothing is connected until it is awaited"]
pub struct Connect {
    builder: HeadwaterBuilder,
    /// `None`: the environment has no url.
    url: Option<String>,
    migrate: bool,
}

impl Connect {
    pub(crate) fn new(builder: HeadwaterBuilder, url: &str) -> Self {
        Connect { builder, url: Some(url.to_owned()), migrate: false }
    }

    pub(crate) fn from_env(builder: HeadwaterBuilder) -> Self {
        Connect { builder, url: std::env::var(DATABASE_URL).ok(), migrate: false }
    }

    /// How nodes hear of new events: see [`HeadwaterBuilder::live`].
    ///
    /// ```no_run
    /// use headwater::Headwater;
    /// use headwater::cdc::{CdcOptions, Live};
    ///
    /// # async fn run(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// let headwater = Headwater::connect(url).live(Live::Cdc(CdcOptions::default())).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn live(mut self, live: Live) -> Self {
        self.builder = self.builder.live(live);
        self
    }

    /// Brings the schema to this build's version first, if the database is below it: see
    /// [`Headwater::migrate`]. Nothing is migrated without this.
    pub fn migrate(mut self) -> Self {
        self.migrate = true;
        self
    }

    /// Goes on to a namespace: makes it if it is not there, and opens it. A database whose schema
    /// is below this build's is [`AdminError::NotMigrated`]; see [`migrate`](Connect::migrate).
    pub fn namespace(self, name: impl Into<String>) -> ConnectNamespace {
        ConnectNamespace { connect: self, name: name.into() }
    }

    async fn connect(self) -> Result<Headwater, AdminError> {
        let Some(url) = self.url else {
            let message =
                format!("{DATABASE_URL} is not set: set it, as to postgres://user:password@host:port/database");
            return Err(AdminError::InvalidInput(message));
        };
        let headwater = self.builder.connect(&url).await?;
        if self.migrate {
            headwater.migrate().await?;
        }
        Ok(headwater)
    }
}

impl IntoFuture for Connect {
    type Output = Result<Headwater, AdminError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.connect())
    }
}

/// A namespace to be connected to when it is awaited: see [`Connect::namespace`].
#[derive(Debug, Clone)]
#[must_use = "nothing is connected until it is awaited"]
pub struct ConnectNamespace {
    connect: Connect,
    name: String,
}

impl ConnectNamespace {
    async fn open(self) -> Result<Namespace, AdminError> {
        let headwater = self.connect.await?;
        match headwater.namespace(&self.name).await {
            Err(AdminError::NamespaceNotFound(_)) => {
                headwater.create_namespace(NamespaceConfig::new(&self.name)).await?;
                headwater.namespace(&self.name).await
            }
            opened => opened,
        }
    }
}

impl IntoFuture for ConnectNamespace {
    type Output = Result<Namespace, AdminError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}
