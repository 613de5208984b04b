//! Connection handling: accept, optional TLS, connection limits, graceful shutdown.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tower::ServiceExt as _;

use super::app::{App, Limits};
use super::capacity::Connections;
use super::guard::Peer;
use super::stall::StallGuard;

/// Pause after a failed accept, for example when file descriptors are exhausted.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// Extra connections beyond the limit, for health checks. A new one replaces the oldest.
const EXTRA_CONNECTIONS: usize = 64;
/// Maximum lifetime of an extra connection.
const EXTRA_CONNECTION_LIFETIME: Duration = Duration::from_secs(2);
/// Maximum number of headers per request, and their size in bytes.
const HEADERS: usize = 64;
const HEADER_BYTES: usize = 64 << 10;

/// Reasons why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is unavailable.
    #[error("cannot listen on {address}: {cause}")]
    Address {
        /// Address to listen on.
        address: SocketAddr,
        /// Error of the system.
        cause: io::Error,
    },
    /// A certificate or key file is unusable.
    #[error("{}: {reason}", path.display())]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// Reason why it is unusable.
        reason: String,
    },
}

/// TLS configuration: a certificate and its key.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads PEM files: the certificate chain and the key.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, ListenError> {
        let wrong = |path: &Path, reason: String| ListenError::Certificate {
            path: path.to_owned(),
            reason,
        };
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| wrong(certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong(certificate, "it contains no certificate".into()));
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
        satiety_engine::http::install_tls_provider();
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|error| wrong(key, error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

/// Server with a bound port.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    tls: Option<Tls>,
}

/// Binds the address.
pub async fn bind(address: SocketAddr, tls: Option<Tls>) -> Result<Listening, ListenError> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|cause| ListenError::Address { address, cause })?;
    Ok(Listening { listener, tls })
}

impl Listening {
    /// Local address, with the actual port if 0 was requested.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `end` resolves; then accepts no more connections, finishes requests in progress, and
    /// stops jobs so that they can be resumed. Returns whether everything finished within the timeout.
    pub async fn serve(self, app: Arc<App>, router: Router, end: impl Future<Output = ()>) -> bool {
        let graceful = GracefulShutdown::new();
        let limits = &app.limits;
        let open = Connections::new(limits.connections, limits.connections_per_address);
        let mut reserve: VecDeque<AbortHandle> = VecDeque::with_capacity(EXTRA_CONNECTIONS);
        tokio::pin!(end);
        loop {
            let accepted = tokio::select! {
                () = &mut end => break,
                accepted = accept(&self.listener) => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let permit = open.open(&peer.ip());
                    let mut connection = Connection {
                        limits: limits.clone(),
                        router: router.clone(),
                        peer: Peer {
                            address: peer,
                            is_reserve: permit.is_none(),
                        },
                        watcher: graceful.watcher(),
                    };
                    let tls = self.tls.clone();
                    if permit.is_some() {
                        tokio::spawn(async move {
                            connection.run(stream, tls).await;
                            drop(permit);
                        });
                        continue;
                    }
                    connection.limits.headers = EXTRA_CONNECTION_LIFETIME.min(limits.headers);
                    let brief = tokio::time::timeout(EXTRA_CONNECTION_LIFETIME, connection.run(stream, tls));
                    if reserve.len() >= EXTRA_CONNECTIONS
                        && let Some(oldest) = reserve.pop_front()
                    {
                        oldest.abort();
                    }
                    reserve.push_back(tokio::spawn(brief).abort_handle());
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
        drop(self.listener);
        app.end.send_replace(true);
        app.jobs.stop_all();
        app.tenants.stop_all();
        let limit = graceful_part(app.limits.shutdown);
        let finished = async {
            graceful.shutdown().await;
            while !app.jobs.all_finished() || app.is_writing() || !app.tenants.all_finished() {
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        };
        let finished = tokio::time::timeout(limit, finished).await.is_ok();
        app.tenants.close_all().await;
        finished
    }
}

/// Part of the shutdown timeout for requests and jobs; the rest is for closing the store.
fn graceful_part(timeout: Duration) -> Duration {
    timeout.saturating_sub((timeout / 3).min(Duration::from_secs(2)))
}

async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer))
}

struct Connection {
    limits: Limits,
    router: Router,
    peer: Peer,
    watcher: hyper_util::server::graceful::Watcher,
}

impl Connection {
    async fn run(self, stream: TcpStream, tls: Option<Tls>) {
        let Some(tls) = tls else {
            return self.serve_http(stream, false).await;
        };
        let handshake = TlsAcceptor::from(tls.0).accept(stream);
        match tokio::time::timeout(self.limits.headers, handshake).await {
            Ok(Ok(stream)) => {
                let second = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                self.serve_http(stream, second).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, peer = %self.peer.address, "TLS handshake failed"),
            Err(_) => tracing::debug!(peer = %self.peer.address, "TLS handshake timed out"),
        }
    }

    async fn serve_http(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, second: bool) {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // Decided here, because detection would wait for the first bytes without a timeout.
        builder = if second {
            builder.http2_only()
        } else {
            builder.http1_only()
        };
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.headers)
            .keep_alive(!self.peer.is_reserve)
            .max_headers(HEADERS)
            .max_buf_size(HEADER_BYTES);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_header_list_size(u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX))
            .max_concurrent_streams(128)
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(self.limits.headers);
        let (router, peer) = (self.router, self.peer);
        let service = tower::service_fn(move |request: Request<hyper::body::Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            router.clone().oneshot(request)
        });
        let stream = StallGuard::new(stream, self.limits.request);
        let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        if let Err(error) = self.watcher.watch(connection.into_owned()).await {
            tracing::debug!(%error, peer = %peer.address, "connection error");
        }
    }
}
