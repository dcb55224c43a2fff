//! TLS on a connection to the server, as libpq's `sslmode` asks for it.
//!
//! With the provider that the SQL driver has, *ring*: to compile a second one would cost more than
//! all of this crate.

use std::path::Path;
use std::sync::Arc;

use pgwire_replication::protocol::framing::write_ssl_request;
use pgwire_replication::{SslMode, TlsConfig};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as RustlsError, RootCertStore, SignatureScheme,
};

use crate::CdcError;
use crate::connection::Stream;

/// The server's answer to a client that asks for TLS: it agrees.
const AGREES: u8 = b'S';

/// Secures a connection that was just made to `host`, if the mode wants it and the server can.
pub(crate) async fn secure(mut tcp: TcpStream, tls: &TlsConfig, host: &str) -> Result<Box<dyn Stream>, CdcError> {
    if tls.mode == SslMode::Disable {
        return Ok(Box::new(tcp));
    }
    write_ssl_request(&mut tcp).await?;
    if tcp.read_u8().await? != AGREES {
        return match tls.mode {
            SslMode::Prefer => Ok(Box::new(tcp)),
            _ => Err(CdcError::Connection("the server does not support TLS".into())),
        };
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|_| invalid("host", host, "it is no name for TLS"))?;
    let connector = TlsConnector::from(Arc::new(client_config(tls)?));
    let secured = connector.connect(name, tcp).await.map_err(|error| CdcError::Connection(format!("TLS: {error}")))?;
    Ok(Box::new(secured))
}

fn client_config(tls: &TlsConfig) -> Result<ClientConfig, CdcError> {
    let provider = Arc::new(ring::default_provider());
    let check = match tls.mode {
        SslMode::Disable | SslMode::Prefer | SslMode::Require => Check::Nothing,
        SslMode::VerifyCa => Check::Chain,
        SslMode::VerifyFull => Check::ChainAndName,
    };
    let verifier = Verifier { check, inner: webpki(tls, &provider)? };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| CdcError::Connection(format!("TLS: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    match (&tls.client_cert_pem_path, &tls.client_key_pem_path) {
        (None, None) => Ok(config.with_no_client_auth()),
        (Some(certificate), Some(key)) => {
            let chain = certificates(certificate, "sslcert")?;
            let key_of = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("sslkey", key, &error))?;
            config
                .with_client_auth_cert(chain, key_of)
                .map_err(|error| invalid("sslcert", &certificate.display().to_string(), &error.to_string()))
        }
        (Some(_), None) => Err(CdcError::InvalidInput("sslcert is given without sslkey".into())),
        (None, Some(_)) => Err(CdcError::InvalidInput("sslkey is given without sslcert".into())),
    }
}

/// Checks certificates against `sslrootcert`, or against those that browsers trust.
fn webpki(tls: &TlsConfig, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, CdcError> {
    let mut roots = RootCertStore::empty();
    match &tls.ca_pem_path {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => {
            for root in certificates(path, "sslrootcert")? {
                roots
                    .add(root)
                    .map_err(|error| invalid("sslrootcert", &path.display().to_string(), &error.to_string()))?;
            }
        }
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| CdcError::InvalidInput(error.to_string()))
}

fn certificates(path: &Path, option: &str) -> Result<Vec<CertificateDer<'static>>, CdcError> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| unreadable(option, path, &error))?;
    match all.is_empty() {
        true => Err(invalid(option, &path.display().to_string(), "it holds no certificate")),
        false => Ok(all),
    }
}

fn unreadable(option: &str, path: &Path, error: &pem::Error) -> CdcError {
    invalid(option, &path.display().to_string(), &error.to_string())
}

fn invalid(option: &str, value: &str, why: &str) -> CdcError {
    CdcError::InvalidInput(format!("{option} {value:?} cannot be used: {why}"))
}

/// How much of a server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Nothing,
    Chain,
    ChainAndName,
}

/// In every mode the server proves that it has the key of its certificate.
#[derive(Debug)]
struct Verifier {
    check: Check,
    inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, RustlsError> {
        if self.check == Check::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        match self.inner.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            Err(RustlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == Check::Chain => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, RustlsError> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
