//! Tool of an MCP server as the system under test, over stdio or streamable HTTP.
//!
//! The only file that uses the SDK. One connection serves all calls; if it fails or a call times out, it is
//! dropped together with the server's processes, and the next call reconnects.

use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, CallToolResult, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RunningService, ServiceError, serve_client_with_lifecycle,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use satiety::bench::contract::spec::McpSpec;
use satiety::bench::contract::{ErrorKind, Exit, Request, Response, TargetError};
use satiety_models::http::{Client, with_causes};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::exec::too_long;
use super::http::{address, client};
use super::pipes::{Tail, keep_tail};
use super::process::Process;
use super::program::{CommandSpec, Program, sandbox_failure};
use super::template::fill_map;
use super::workdir::{Workdir, Workdirs};
use super::{Attempt, OpenError, TargetContext};

pub struct Mcp {
    transport: Transport,
    spec: McpSpec,
    connection: Mutex<Option<Arc<Connection>>>,
}

/// The HTTP configuration contains a token, so it is omitted.
impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mcp")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

enum Transport {
    Process {
        program: Program,
        workdirs: Workdirs,
    },
    Http {
        client: Client,
        config: StreamableHttpClientTransportConfig,
    },
}

struct Connection {
    service: RunningService<RoleClient, ()>,
    server: Option<Server>,
}

/// Server started by this process.
struct Server {
    process: Mutex<Process>,
    home: Workdir,
    stderr: Arc<StdMutex<Tail>>,
}

impl Mcp {
    pub(super) fn open(spec: &McpSpec, context: &TargetContext) -> Result<Self, OpenError> {
        let transport = match (&spec.command, &spec.url) {
            (Some(command), None) => {
                let described = CommandSpec {
                    command,
                    args: &spec.args,
                    env: &spec.env,
                    set_env: &spec.set_env,
                    read: &spec.read,
                    sandbox: spec.sandbox.as_ref(),
                };
                Transport::Process {
                    program: Program::new(&described, context)?,
                    workdirs: Workdirs::new(context, &[]),
                }
            }
            (None, Some(url)) => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(address(url)?.as_str());
                if let Some(name) = &spec.token_env {
                    super::http::refuse_foreign_key("token_env", name, &address(url)?)?;
                    let token = context.environment.get(name).ok_or_else(|| {
                        OpenError::description(
                            "token_env",
                            format!("the environment variable {name} is not set"),
                        )
                    })?;
                    config = config.auth_header(token.trim());
                }
                Transport::Http {
                    client: client(usize::MAX)?,
                    config,
                }
            }
            _ => {
                return Err(OpenError::description(
                    "command",
                    "specify either `command` or `url`",
                ));
            }
        };
        Ok(Self {
            transport,
            spec: spec.clone(),
            connection: Mutex::new(None),
        })
    }

    pub(super) async fn call(&self, request: &Request) -> Attempt {
        let started = Instant::now();
        let limit = Duration::from_millis(request.deadline_ms);
        let mut used = None;
        let outcome = match timeout(limit, self.exchange(request, &mut used)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(too_long(request.deadline_ms)),
        };
        let latency = started.elapsed();
        let mut attempt = Attempt::bare(outcome, latency);
        if let Some(connection) = used {
            let lost = connection.service.is_closed() || connection.service.is_transport_closed();
            let late = attempt
                .outcome
                .as_ref()
                .is_err_and(|error| error.kind == ErrorKind::Timeout);
            if lost || late {
                attempt.exit = self.give_up(&connection).await;
            }
            attempt.stderr = connection.take_stderr();
        }
        attempt
    }

    /// Closes the connection and ends the server if this process started it.
    pub(super) async fn close(&self) {
        let connection = self.connection.lock().await.take();
        if let Some(connection) = connection {
            connection.end().await;
        }
    }

    async fn exchange(
        &self,
        request: &Request,
        used: &mut Option<Arc<Connection>>,
    ) -> Result<Response, TargetError> {
        let connection = self.connection().await?;
        *used = Some(Arc::clone(&connection));
        let home = connection
            .server
            .as_ref()
            .map(|server| server.home.path().to_string_lossy());
        let arguments = fill_map(&self.spec.arguments, request, home.as_deref())?;
        let params = CallToolRequestParams::new(self.spec.tool.clone()).with_arguments(arguments);
        let result = connection
            .service
            .call_tool(params)
            .await
            .map_err(|error| failed(&error))?;
        answer(result)
    }

    async fn connection(&self) -> Result<Arc<Connection>, TargetError> {
        // Locked while connecting, so that concurrent calls do not start a server each.
        let mut slot = self.connection.lock().await;
        if let Some(connection) = &*slot
            && !connection.service.is_closed()
        {
            return Ok(Arc::clone(connection));
        }
        let connection = Arc::new(self.connect().await?);
        *slot = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Servers of the newest protocol do not support `initialize`, older ones support nothing else; almost
    /// all are older.
    async fn connect(&self) -> Result<Connection, TargetError> {
        match self.connect_as(ClientLifecycleMode::Initialize).await? {
            Ok(connection) => Ok(connection),
            Err(refused) => {
                let newest = ClientLifecycleMode::Discover {
                    preferred_versions: vec![ProtocolVersion::LATEST],
                };
                let connected = self.connect_as(newest).await?;
                connected.map_err(|_| {
                    TargetError::new(
                        ErrorKind::Infra,
                        format!("cannot connect to the MCP server: {}", with_causes(&refused)),
                    )
                })
            }
        }
    }

    async fn connect_as(
        &self,
        mode: ClientLifecycleMode,
    ) -> Result<Result<Connection, ClientInitializeError>, TargetError> {
        match &self.transport {
            Transport::Http { client, config } => {
                let transport =
                    StreamableHttpClientTransport::with_client(client.inner().clone(), config.clone());
                let service = serve_client_with_lifecycle((), transport, mode).await;
                Ok(service.map(|service| Connection {
                    service,
                    server: None,
                }))
            }
            Transport::Process { program, workdirs } => {
                let home = workdirs.shared("mcp")?;
                let ready = program.ready(home.path(), &[])?;
                let mut process = program.start(ready.command, ready.report.is_some())?;
                let pipes = (
                    process.child.stdin.take(),
                    process.child.stdout.take(),
                    process.child.stderr.take(),
                );
                let (Some(to), Some(from), Some(errors)) = pipes else {
                    return Err(TargetError::new(
                        ErrorKind::Harness,
                        "the MCP server has no pipes",
                    ));
                };
                let stderr = Arc::new(StdMutex::new(Tail::default()));
                tokio::spawn(keep_tail(errors, Arc::clone(&stderr)));
                match serve_client_with_lifecycle((), (from, to), mode).await {
                    Ok(service) => Ok(Ok(Connection {
                        service,
                        server: Some(Server {
                            process: Mutex::new(process),
                            home,
                            stderr,
                        }),
                    })),
                    Err(error) => {
                        process.end().await;
                        match sandbox_failure(ready.report.as_deref()) {
                            Some(failure) => Err(failure),
                            None => Ok(Err(error)),
                        }
                    }
                }
            }
        }
    }

    async fn give_up(&self, connection: &Arc<Connection>) -> Option<Exit> {
        {
            let mut slot = self.connection.lock().await;
            if slot
                .as_ref()
                .is_some_and(|current| Arc::ptr_eq(current, connection))
            {
                *slot = None;
            }
        }
        connection.end().await
    }
}

impl Connection {
    async fn end(&self) -> Option<Exit> {
        self.service.cancellation_token().cancel();
        match &self.server {
            Some(server) => server.process.lock().await.end().await,
            None => None,
        }
    }

    fn take_stderr(&self) -> String {
        self.server.as_ref().map_or_else(String::new, |server| {
            server
                .stderr
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
        })
    }
}

/// Returns the structured content if present, otherwise the texts, joined by newlines.
fn answer(result: CallToolResult) -> Result<Response, TargetError> {
    let texts: Vec<&str> = result
        .content
        .iter()
        .filter_map(|block| Some(block.as_text()?.text.as_str()))
        .collect();
    let text = texts.join("\n");
    if result.is_error == Some(true) {
        return Err(TargetError::new(
            ErrorKind::Target,
            format!("the tool failed: {text}"),
        ));
    }
    Ok(Response {
        output: result.structured_content.unwrap_or(Value::String(text)),
        ..Response::default()
    })
}

fn failed(error: &ServiceError) -> TargetError {
    let kind = match error {
        // Error that the server reports for this call.
        ServiceError::McpError(_) => ErrorKind::Target,
        ServiceError::UnexpectedResponse | ServiceError::InputRequiredRoundsExceeded { .. } => {
            ErrorKind::Protocol
        }
        ServiceError::Timeout { .. } => ErrorKind::Timeout,
        _ => ErrorKind::Infra,
    };
    TargetError::new(kind, with_causes(error))
}
