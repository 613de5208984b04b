//! MCP transports: stdio and streamable HTTP.

use std::sync::Arc;

use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpService, stdio};

use tokio::sync::watch;

use super::{Context, Handler, Registry};

/// Tower service to mount at `/mcp`.
pub type HttpService = StreamableHttpService<Handler, LocalSessionManager>;

/// Reasons why serving failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client did not initialize the connection.
    #[error("MCP initialization failed: {0}")]
    Connect(Box<rmcp::service::ServerInitializeError>),
    /// The serving task failed.
    #[error("the connection failed: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

/// Serves one client over stdio until it disconnects. Nothing else may write to standard output.
pub async fn serve_stdio(context: Context, registry: Registry, session: String) -> Result<(), ServeError> {
    let handler = Handler::new(Arc::new(context), Arc::new(registry), Some(session));
    let serving = match Box::pin(rmcp::serve_server(handler, stdio())).await {
        Ok(serving) => serving,
        // A client that disconnects before initializing is not an error: it only checked that we start.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Connect(Box::new(error))),
    };
    serving.waiting().await?;
    Ok(())
}

/// Tools over streamable HTTP, for requests whose `Host` is one of `hosts` and whose `Origin`, if any, is a
/// page of such a host: a foreign page must not reach a server on this machine. Without hosts, the loopback
/// names are allowed. Sessions and their streams end when `ending` signals shutdown.
pub fn http_service(
    context: Context,
    registry: impl Into<Arc<Registry>>,
    hosts: &[String],
    mut ending: watch::Receiver<bool>,
) -> HttpService {
    const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
    let config = StreamableHttpServerConfig::default();
    let token = config.cancellation_token.clone();
    tokio::spawn(async move {
        // An error means that the sender is gone, which is also a shutdown.
        let _ = ending.wait_for(|ending| *ending).await;
        token.cancel();
    });
    let hosts: Vec<String> = if hosts.is_empty() {
        LOOPBACK.map(str::to_owned).to_vec()
    } else {
        hosts.to_vec()
    };
    let origins: Vec<String> = hosts
        .iter()
        .flat_map(|host| ["http", "https"].map(|scheme| origin(scheme, host)))
        .collect();
    let config = config
        .with_allowed_origins(origins)
        .with_allowed_hosts(hosts)
        .enforce_origin_validation();
    let (context, registry) = (Arc::new(context), registry.into());
    let handler = move || Ok(Handler::new(Arc::clone(&context), Arc::clone(&registry), None));
    StreamableHttpService::new(handler, Arc::new(LocalSessionManager::default()), config)
}

/// Origin of a host, on any port if the host names none.
fn origin(scheme: &str, host: &str) -> String {
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    if has_port {
        format!("{scheme}://{host}")
    } else {
        format!("{scheme}://{host}:*")
    }
}

#[cfg(test)]
mod tests {
    use super::origin;

    #[test]
    fn a_host_without_a_port_matches_all_ports() {
        assert_eq!(origin("http", "[::1]"), "http://[::1]:*");
        assert_eq!(
            origin("https", "memory.example:8443"),
            "https://memory.example:8443"
        );
    }
}
