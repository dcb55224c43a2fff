//! Connecting, in one expression.

use std::future::IntoFuture;

use futures::future::BoxFuture;
use headwater_core::{AdminError, NamespaceConfig};

use crate::{Headwater, HeadwaterBuilder, Live, Namespace};

/// A connection to be made, when it is awaited: see [`Headwater::connect`].
#[derive(Debug, Clone)]
#[must_use = "nothing is connected until it is awaited"]
pub struct Connect {
    builder: HeadwaterBuilder,
    url: String,
}

impl Connect {
    pub(crate) fn new(builder: HeadwaterBuilder, url: &str) -> Self {
        Connect { builder, url: url.to_owned() }
    }

    /// How nodes hear of new events: see [`HeadwaterBuilder::live`].
    ///
    /// ```no_run
    /// # use headwater::{CdcOptions, Headwater, Live};
    /// # async fn run(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    /// let headwater = Headwater::connect(url).live(Live::Cdc(CdcOptions::default())).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn live(mut self, live: Live) -> Self {
        self.builder = self.builder.live(live);
        self
    }

    /// Goes on to a namespace: brings the schema to this build's version if it is below and the role may do so, makes the namespace if it is not
    /// there, and opens it.
    pub fn namespace(self, name: impl Into<String>) -> ConnectNamespace {
        ConnectNamespace { connect: self, name: name.into() }
    }
}

impl IntoFuture for Connect {
    type Output = Result<Headwater, AdminError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.builder.connect(&self.url).await })
    }
}

/// A namespace to be connected to, when it is awaited: see [`Connect::namespace`].
#[derive(Debug, Clone)]
#[must_use = "nothing is connected until it is awaited"]
pub struct ConnectNamespace {
    connect: Connect,
    name: String,
}

impl ConnectNamespace {
    async fn open(self) -> Result<Namespace, AdminError> {
        let headwater = self.connect.await?;
        let opened = match headwater.namespace(&self.name).await {
            Err(error @ AdminError::NotMigrated { .. }) => match headwater.migrate().await {
                Ok(_) => headwater.namespace(&self.name).await,
                // A role that may not: what is to be done says the first error.
                Err(reason) => {
                    tracing::warn!(%reason, "failed to migrate");
                    Err(error)
                }
            },
            opened => opened,
        };
        match opened {
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
