//! Where to connect for replication, from the options of an ordinary connection.

use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use pgwire_replication::{SslMode, TlsConfig};
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::CdcError;

/// The server to connect to, and the user.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) place: Place,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    pub(crate) application_name: String,
}

#[derive(Debug, Clone)]
pub(crate) enum Place {
    Tcp { host: String, port: u16, tls: TlsConfig },
    Unix(PathBuf),
}

impl Endpoint {
    /// Parses the server of a url.
    pub fn parse(url: &str) -> Result<Self, CdcError> {
        let options = PgConnectOptions::from_str(url).map_err(|error| CdcError::InvalidInput(error.to_string()))?;
        Endpoint::of(&options)
    }

    /// Returns the server of a pool.
    pub fn of(options: &PgConnectOptions) -> Result<Self, CdcError> {
        // Only the url reveals the password and the certificates, and not every name makes a valid
        // url.
        let url = options.clone().username("u").host("h").to_url_lossy();
        let password = url.password().map(|encoded| percent_decode_str(encoded).decode_utf8_lossy().into_owned());
        let user = options.get_username().to_owned();
        let place = match options.get_socket() {
            Some(folder) => Place::Unix(folder.join(format!(".s.PGSQL.{}", options.get_port()))),
            // libpq's way to name a folder of sockets.
            None if options.get_host().starts_with('/') => {
                Place::Unix(PathBuf::from(options.get_host()).join(format!(".s.PGSQL.{}", options.get_port())))
            }
            None => {
                // The driver prints a path behind this word, or the certificate itself.
                let certificate = |name: &str| {
                    let pair = url.query_pairs().find(|(key, _)| key == name);
                    pair.map(|(_, value)| match value.strip_prefix("file: ") {
                        Some(path) => Ok(PathBuf::from(path)),
                        None => Err(CdcError::InvalidInput(format!(
                            "{name} is given as text: replication needs it as a file"
                        ))),
                    })
                };
                let ca_pem_path = certificate("sslrootcert").transpose()?;
                let mode = match options.get_ssl_mode() {
                    PgSslMode::Disable => SslMode::Disable,
                    PgSslMode::Allow | PgSslMode::Prefer => SslMode::Prefer,
                    // Like libpq and the driver: if there is a root certificate, check against it.
                    PgSslMode::Require if ca_pem_path.is_some() => SslMode::VerifyCa,
                    PgSslMode::Require => SslMode::Require,
                    PgSslMode::VerifyCa => SslMode::VerifyCa,
                    PgSslMode::VerifyFull => SslMode::VerifyFull,
                };
                let tls = TlsConfig {
                    mode,
                    ca_pem_path,
                    sni_hostname: None,
                    client_cert_pem_path: certificate("sslcert").transpose()?,
                    client_key_pem_path: certificate("sslkey").transpose()?,
                };
                Place::Tcp { host: options.get_host().to_owned(), port: options.get_port(), tls }
            }
        };
        Ok(Endpoint {
            place,
            database: options.get_database().unwrap_or(&user).to_owned(),
            user,
            password,
            application_name: options.get_application_name().unwrap_or("headwater").to_owned(),
        })
    }

    /// Sets the application_name of the session.
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.application_name = name.into();
        self
    }
}

/// Prints no password.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("place", &self.place)
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_survives_and_is_not_shown() {
        let endpoint = Endpoint::parse("postgres://ada:p%40ss%2Fw%C3%B6rd@db.internal:6000/app").unwrap();
        assert_eq!(endpoint.password.as_deref(), Some("p@ss/wörd"));
        assert_eq!((&*endpoint.user, &*endpoint.database), ("ada", "app"));
        assert!(!format!("{endpoint:?}").contains("p@ss"));
        let Place::Tcp { host, port, .. } = endpoint.place else { panic!("not TCP") };
        assert_eq!((&*host, port), ("db.internal", 6000));
    }

    #[test]
    fn sockets_are_found() {
        let endpoint = Endpoint::parse("postgres:///app?host=/run/postgresql&user=ada&port=5433").unwrap();
        let Place::Unix(path) = endpoint.place else { panic!("not a socket") };
        assert_eq!(path, PathBuf::from("/run/postgresql/.s.PGSQL.5433"));
    }

    #[test]
    fn a_root_certificate_is_checked_against() {
        let endpoint = Endpoint::parse("postgres://db/app?sslmode=require&sslrootcert=/etc/ca.pem").unwrap();
        let Place::Tcp { tls, .. } = endpoint.place else { panic!("not TCP") };
        assert_eq!((tls.mode, tls.ca_pem_path), (SslMode::VerifyCa, Some("/etc/ca.pem".into())));
    }

    #[test]
    fn names_that_make_no_url_are_fine() {
        let options = PgConnectOptions::new_without_pgpass().host("::1").username("a/b@c").password("x:y");
        let endpoint = Endpoint::of(&options).unwrap();
        assert_eq!((&*endpoint.user, endpoint.password.as_deref()), ("a/b@c", Some("x:y")));
    }
}
