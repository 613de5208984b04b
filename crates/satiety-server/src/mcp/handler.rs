//! MCP protocol handler: finds the tool, passes it the session, cancellation and progress, and converts its
//! result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, Tool as Offered,
    ToolAnnotations,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use satiety::memory::Author;
use satiety_engine::bench::Stop;
use serde_json::Value;
use tokio::sync::watch;

use super::call::{Call, Context, Problem, Progress, Work};
use super::registry::{Effect, Registry, Tool};
use super::{prompts, resources};
use crate::auth::{Caller, Scope, audit};

/// How long a cancelled call may take to finish its work in progress.
const CANCELLATION_TIMEOUT: Duration = Duration::from_secs(20);
/// HTTP header with the session id.
const SESSION_HEADER: &str = "mcp-session-id";

/// Serves a tool registry over one connection.
#[derive(Debug, Clone)]
pub struct Handler {
    context: Arc<Context>,
    registry: Arc<Registry>,
    session: Option<String>,
}

impl Handler {
    /// Creates a handler with a fixed session, or over HTTP with the session of each request.
    pub fn new(context: Arc<Context>, registry: Arc<Registry>, session: Option<String>) -> Self {
        Self {
            context,
            registry,
            session,
        }
    }

    fn call(&self, context: &RequestContext<RoleServer>) -> Call {
        let request = context.extensions.get::<axum::http::request::Parts>();
        let over_http = request
            .and_then(|parts| parts.headers.get(SESSION_HEADER))
            .and_then(|value| value.to_str().ok())
            .map(|id| format!("mcp-{id}"));
        Call {
            context: Arc::clone(&self.context),
            session: over_http.or_else(|| self.session.clone()),
            caller: context
                .client_info()
                .map_or_else(|| "mcp client".into(), |client| client.name),
            // A local client may do what this process may; for a request the guard knows the scope.
            scope: match request {
                None => Scope::Admin,
                Some(parts) => parts
                    .extensions
                    .get::<Caller>()
                    .map_or(Scope::Read, |caller| caller.scope),
            },
            // A client on stdio is an agent, whatever its scope.
            author: request
                .and_then(|parts| parts.extensions.get::<Caller>())
                .map_or(Author::Agent, Caller::author),
            stop: Stop::default(),
            progress: None,
        }
    }

    async fn answer(
        &self,
        tool: &Tool,
        arguments: Value,
        context: RequestContext<RoleServer>,
    ) -> CallToolResult {
        let mut call = self.call(&context);
        let reporter = context
            .meta
            .get_progress_token()
            .map(|token| Reporter::start(context.peer.clone(), token));
        call.progress = reporter.as_ref().map(|reporter| Arc::clone(&reporter.tell));
        let stop = call.stop.clone();
        let entry = context
            .extensions
            .get::<axum::http::request::Parts>()
            .filter(|_| tool.spec.effect != Effect::Reads)
            .map(|parts| audit::entry("POST", &format!("/mcp/{}", tool.name()), &parts.extensions));
        let stored = match tool.spec.effect {
            Effect::Adds | Effect::Changes | Effect::Runs => self.context.engine.admit_storage(),
            Effect::Reads | Effect::Deletes => Ok(()),
        };
        let mut work: Work = match stored {
            Ok(()) => (tool.run)(call, arguments),
            Err(error) => Box::pin(std::future::ready(Err(Problem::from(error)))),
        };
        if let Some(limits) = &self.context.limits {
            let caller = context
                .extensions
                .get::<axum::http::request::Parts>()
                .and_then(|parts| parts.extensions.get::<Caller>())
                .map(Caller::key)
                .unwrap_or_default();
            // Tools that run programs have separate limits.
            let deadline = (tool.spec.effect != Effect::Runs).then(|| Instant::now() + limits.timeout);
            work = Box::pin(limits.admissions.request(caller, deadline).scope(work));
        }
        let outcome = tokio::select! {
            outcome = &mut work => outcome,
            () = context.ct.cancelled() => {
                // Tools that run programs stop them and keep finished results; everything else is a
                // transaction that ends here.
                stop.stop();
                if tool.spec.effect == Effect::Runs {
                    let _ = tokio::time::timeout(CANCELLATION_TIMEOUT, work).await;
                }
                Err(Problem::new("the call was cancelled", "call it again to continue"))
            }
        };
        let outcome = outcome.map_err(|problem| self.context.redact(problem));
        if let Some(reporter) = reporter {
            reporter.finish().await;
        }
        if let Some(entry) = entry {
            let ended = match outcome {
                Ok(_) => StatusCode::OK,
                Err(_) => StatusCode::UNPROCESSABLE_ENTITY,
            };
            audit::note(&self.context.engine, entry, ended).await;
        }
        result(outcome)
    }
}

/// Converts an answer to a structured result, and to text for clients that only read text.
fn result(outcome: Result<Value, Problem>) -> CallToolResult {
    match outcome {
        Ok(answer) => CallToolResult::structured(answer),
        Err(problem) => CallToolResult::error(vec![ContentBlock::text(problem.to_string())]),
    }
}

/// Sends the latest progress of a call to the client, at the client's pace.
struct Reporter {
    tell: Progress,
    sending: tokio::task::JoinHandle<()>,
}

impl Reporter {
    fn start(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        let (sender, mut newest) = watch::channel((0.0, 0.0, String::new()));
        let tell: Progress = Arc::new(move |done, planned, words| {
            sender.send_replace((done, planned, words));
        });
        let sending = tokio::spawn(async move {
            let mut last = f64::NEG_INFINITY;
            // Ends when the call is over and all senders are dropped.
            while newest.changed().await.is_ok() {
                let (done, planned, words) = newest.borrow_and_update().clone();
                // Progress must increase, so repeated values are skipped.
                if done > last {
                    last = done;
                    let state = ProgressNotificationParam::new(token.clone(), done)
                        .with_total(planned)
                        .with_message(words);
                    if peer.notify_progress(state).await.is_err() {
                        break;
                    }
                }
            }
        });
        Self { tell, sending }
    }

    /// Waits until progress is sent, so that none follows the result.
    async fn finish(self) {
        drop(self.tell);
        let _ = tokio::time::timeout(Duration::from_secs(1), self.sending).await;
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("satiety", env!("CARGO_PKG_VERSION")).with_title("Satiety"))
            .with_instructions(self.registry.instructions())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            self.registry.tools().iter().map(offered).collect(),
        ))
    }

    fn get_tool(&self, name: &str) -> Option<Offered> {
        self.registry.get(name).map(offered)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.registry.get(&request.name) else {
            let known: Vec<&str> = self.registry.tools().iter().map(Tool::name).collect();
            return Err(ErrorData::invalid_params(
                format!(
                    "unknown tool `{}` (expected one of: {})",
                    request.name,
                    known.join(", ")
                ),
                None,
            ));
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        Ok(self.answer(tool, arguments, context).await.into())
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = page.and_then(|page| page.cursor);
        resources::list(&self.call(&context), cursor.as_deref()).await
    }

    async fn list_resource_templates(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let call = self.call(&context);
        Ok(resources::read(&call, &request.uri).await?.into())
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list(&self.registry)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let call = self.call(&context);
        Ok(prompts::get(&call, &self.registry, &request).await?.into())
    }
}

/// Tool as listed by the protocol.
fn offered(tool: &Tool) -> Offered {
    let spec = &tool.spec;
    let (reads, destroys, repeats) = match spec.effect {
        Effect::Reads => (true, false, true),
        Effect::Adds | Effect::Runs => (false, false, false),
        Effect::Changes => (false, false, true),
        Effect::Deletes => (false, true, true),
    };
    let annotations = ToolAnnotations::with_title(spec.title)
        .read_only(reads)
        .destructive(destroys)
        .idempotent(repeats)
        .open_world(spec.effect == Effect::Runs);
    Offered::new(spec.name, spec.about, Arc::clone(&tool.input))
        .with_title(spec.title)
        .with_raw_output_schema(Arc::clone(&tool.output))
        .with_annotations(annotations)
}
