//! Connections: accepted one by one, encrypted where there is a certificate, limited in number, closed in good order.

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

/// After a failed accept (no more file handles, for instance) the system needs a moment.
const BREATH: Duration = Duration::from_millis(50);
/// Connections beyond those that are served: health checks get through on them. When another one comes, the oldest goes.
const RESERVE: usize = 64;
/// How long such a connection may take.
const RESERVE_TIME: Duration = Duration::from_secs(2);
/// Headers in one request, and bytes of them.
const HEADERS: usize = 64;
const HEADER_BYTES: usize = 64 << 10;

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address.
    #[error("cannot listen on {address}: {cause}")]
    Address {
        /// Which.
        address: SocketAddr,
        /// The system's words.
        cause: io::Error,
    },
    /// A file of the certificate.
    #[error("{}: {reason}", path.display())]
    Certificate {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads PEM files: the certificate with its chain, and its key.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, ListenError> {
        let wrong = |path: &Path, reason: String| ListenError::Certificate {
            path: path.to_owned(),
            reason,
        };
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| wrong(certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong(certificate, "there is no certificate in it".into()));
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

/// A server that has its port.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    tls: Option<Tls>,
}

/// Takes the port.
pub async fn bind(address: SocketAddr, tls: Option<Tls>) -> Result<Listening, ListenError> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|cause| ListenError::Address { address, cause })?;
    Ok(Listening { listener, tls })
}

impl Listening {
    /// Where it listens: the real port, where 0 was asked for.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `end` is ready; then takes no more connections, finishes what is under way, and stops jobs so that they
    /// can be taken up again. Says whether everything was finished in time.
    pub async fn serve(self, app: Arc<App>, router: Router, end: impl Future<Output = ()>) -> bool {
        let graceful = GracefulShutdown::new();
        let limits = &app.limits;
        let open = Connections::new(limits.connections, limits.connections_per_address);
        let mut reserve: VecDeque<AbortHandle> = VecDeque::with_capacity(RESERVE);
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
                    connection.limits.headers = RESERVE_TIME.min(limits.headers);
                    let brief = tokio::time::timeout(RESERVE_TIME, connection.run(stream, tls));
                    if reserve.len() >= RESERVE
                        && let Some(oldest) = reserve.pop_front()
                    {
                        oldest.abort();
                    }
                    reserve.push_back(tokio::spawn(brief).abort_handle());
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
        drop(self.listener);
        app.end.send_replace(true);
        app.jobs.stop_all();
        let limit = graceful_part(app.limits.shutdown);
        let finished = async {
            graceful.shutdown().await;
            while !app.jobs.are_over() || app.is_writing() {
                tokio::time::sleep(BREATH).await;
            }
        };
        tokio::time::timeout(limit, finished).await.is_ok()
    }
}

/// The part of the shutdown timeout that requests and jobs get; the rest is for closing the store.
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
            return self.speak(stream, false).await;
        };
        let handshake = TlsAcceptor::from(tls.0).accept(stream);
        match tokio::time::timeout(self.limits.headers, handshake).await {
            Ok(Ok(stream)) => {
                let second = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                self.speak(stream, second).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, peer = %self.peer.address, "no encrypted connection"),
            Err(_) => tracing::debug!(peer = %self.peer.address, "no encrypted connection in time"),
        }
    }

    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, second: bool) {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // Told apart here, because finding out would wait for the first bytes without a limit.
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
            tracing::debug!(%error, peer = %peer.address, "a connection ended badly");
        }
    }
}
