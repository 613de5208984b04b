//! `satiety serve`: validates the listen address, serves, and shuts down gracefully.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use satiety_engine::admission::AdmissionSettings;
use satiety_engine::instances::InstanceKind;
use satiety_engine::research::sources::AllowedSources;
use satiety_engine::{Engine, ModelPool};
use satiety_server::auth::{Access, Auth, Names, RateSettings};
use satiety_server::http::{
    AllowedRoots, App, Limits, ListenError, Mounts, ResearchAccess, TenantSettings, Tls, bind, router,
};
#[cfg(feature = "mcp")]
use satiety_server::mcp::Context;
use satiety_server::metrics::{ExportSettings, MetricsExport};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::args::ServeArgs;
use crate::exit::Exit;
use crate::failure::{Failure, warn};
use crate::printer::{Printer, Render};
use crate::settings::Settings;

/// Default rate limit per token, in requests per second.
const DEFAULT_RATE: u32 = 100;

/// Margin before the shutdown timeout, since exiting takes a moment, too.
const EXIT_MARGIN: Duration = Duration::from_secs(1);

/// File descriptors reserved for the store, suites and pipes of targets.
const OTHER_FILES: usize = 256;

/// Raises the limit of open files as far as the system permits and returns it.
#[cfg(unix)]
fn open_files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limits = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: limits.maximum,
        maximum: limits.maximum,
    };
    // If it cannot be raised, fewer connections are accepted.
    let current = match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => limits.maximum,
        Err(_) => limits.current,
    };
    current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

#[cfg(not(unix))]
fn open_files() -> usize {
    usize::MAX
}

/// A listening server.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ServerStarted {
    /// Address of the server.
    url: String,
    /// Whether a token is required.
    tokens: bool,
}

impl Render for ServerStarted {
    fn human(&self) -> String {
        let who = if self.tokens {
            "tokens required"
        } else {
            "no tokens required"
        };
        format!(
            "Satiety is listening on {0} ({who})\n  dashboard {0}/\n  API       {0}/docs{1}\n  metrics   {0}/metrics",
            self.url,
            if cfg!(feature = "mcp") {
                format!("\n  MCP       {}/mcp", self.url)
            } else {
                String::new()
            },
        )
    }
}

pub(super) fn run(arguments: ServeArgs, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    if let Some(tenant) = &settings.tenant {
        return Err(Failure::bad_input(
            format!("cannot serve tenant `{tenant}` alone: a server serves the main store and all tenants"),
            "leave out --tenant and SATIETY_TENANT; the token of a request decides the tenant",
        ));
    }
    let shutdown = Duration::from_secs(arguments.shutdown_timeout);
    let asked = ShutdownSignal::listen(shutdown)?;
    let runtime = super::runtime()?;
    let outcome = runtime.block_on(async {
        let pool = ModelPool {
            running: settings.server.model_calls,
            waiting: settings.server.model_queue,
        };
        let engine = settings
            .engine(arguments.project.as_deref())?
            .with_model_pool(pool);
        let engine = Arc::new(engine);
        let (shadows, embedding) = (super::spawn_shadow_runs(&engine), super::spawn_embedding(&engine));
        let outcome = serve(arguments, engine.clone(), settings, printer, asked.ready).await;
        shadows.abort();
        embedding.abort();
        engine.close().await;
        outcome
    });
    // Remaining computations are dropped: no client waits for them, and every result that matters is stored.
    runtime.shutdown_background();
    outcome
}

/// Shutdown signal, received on a separate thread so that it does not depend on the server's runtime.
struct ShutdownSignal {
    ready: oneshot::Receiver<()>,
}

impl ShutdownSignal {
    /// Listens for Ctrl-C and SIGTERM. After a signal the process exits within `shutdown` in any case:
    /// acknowledged writes are durable, so that an early exit loses only responses.
    fn listen(shutdown: Duration) -> Result<Self, Failure> {
        let (tell, ready) = oneshot::channel();
        let signals = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| {
                Failure::environment(format!("cannot start the signal handler: {error}"), None)
            })?;
        let listening = move || {
            signals.block_on(shutdown_signal());
            let _ = tell.send(());
            std::thread::sleep(shutdown.saturating_sub(EXIT_MARGIN.min(shutdown / 4)));
            warn("graceful shutdown timed out; interrupted runs can be resumed");
            std::process::exit(Exit::Environment.code().into());
        };
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(listening)
            .map_err(|error| {
                Failure::environment(format!("cannot start the signal handler: {error}"), None)
            })?;
        Ok(Self { ready })
    }
}

async fn serve(
    arguments: ServeArgs,
    engine: Arc<Engine>,
    settings: &Settings,
    printer: &Printer,
    end: oneshot::Receiver<()>,
) -> Result<Exit, Failure> {
    let address = settings.server.listen;
    let tls = certificate(settings)?;
    let access = access(&arguments, address, tls.is_some(), &engine).await?;
    let rate = arguments
        .rate
        .unwrap_or(if access == Access::Tokens { DEFAULT_RATE } else { 0 });
    let rates = RateSettings {
        per_second: NonZeroU32::new(rate),
        burst: arguments.burst,
    };
    let auth = Auth::new(access, Names::new(arguments.host_name.clone()), rates);
    let folders = AllowedRoots {
        root: root(settings)?,
        harness: settings.harness.folder.clone(),
        driver: settings.harness.driver,
        research: ResearchAccess {
            sources: research_sources(settings)?,
            reach: super::research::reach(settings),
        },
    };
    let app = Arc::new(App::new(
        engine,
        auth,
        limits(&arguments, settings),
        folders,
        tls.is_some(),
    ));
    app.open().await?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listening = bind(address, tls).await.map_err(|error| {
        Failure::environment(
            error.to_string(),
            Some("choose another address with --listen; port 0 picks a free port".into()),
        )
    })?;
    let real = listening.address().unwrap_or(address);
    let retention = super::spawn_retention(&app.engine, settings.server.retain_every);
    let partitions = super::spawn_partitions(&app.engine);
    let url = format!("{scheme}://{real}");
    let kind = InstanceKind::Server { url: url.clone() };
    let announcement = app.engine.database().announce(kind, "server").await?;
    printer.answer(&ServerStarted {
        url,
        tokens: access == Access::Tokens,
    })?;
    let mounts = mounts(settings, &arguments);
    let service = router(app.clone(), mounts(&app));
    let tenants = TenantSettings {
        max_open: settings.server.open_tenants.max(1),
        retain_every: settings.server.retain_every,
        ..TenantSettings::default()
    };
    let export = metrics_export(&app, settings)?;
    app.serve_tenants(tenants, mounts);
    let end = async {
        let _ = end.await;
    };
    let finished = listening.serve(app, service, end).await;
    if let Some(export) = export {
        export.finish().await;
    }
    announcement.withdraw().await;
    partitions.abort();
    if let Some(retention) = retention {
        retention.abort();
    }
    if finished {
        Ok(Exit::Done)
    } else {
        warn(
            "graceful shutdown timed out; some requests or jobs were aborted (interrupted runs can be resumed)",
        );
        Ok(Exit::Environment)
    }
}

/// Starts pushing metrics if a collector is configured.
fn metrics_export(app: &Arc<App>, settings: &Settings) -> Result<Option<MetricsExport>, Failure> {
    let Some(endpoint) = &settings.metrics else {
        return Ok(None);
    };
    let export = ExportSettings::read(endpoint, |name| std::env::var(name).ok()).and_then(|export| {
        export
            .map(|export| MetricsExport::start(app.clone(), export))
            .transpose()
    });
    export.map_err(|error| {
        Failure::bad_input(
            error.to_string(),
            "set `server.metrics` to an OTLP/HTTP collector, such as http://127.0.0.1:4318, or `none`",
        )
    })
}

/// Pages and MCP of the main store, and of each tenant.
fn mounts(settings: &Settings, arguments: &ServeArgs) -> impl Fn(&App) -> Mounts + Send + Sync + use<> {
    #[cfg(feature = "mcp")]
    let (profile, driver, names) = (
        settings.profile.clone(),
        settings.harness.driver,
        arguments.host_name.clone(),
    );
    #[cfg(not(feature = "mcp"))]
    let _ = (settings, arguments);
    move |app| Mounts {
        pages: Some(satiety_server::dashboard::pages()),
        #[cfg(not(feature = "mcp"))]
        mcp: None,
        // The tools get no environment variables, since the caller is remote.
        #[cfg(feature = "mcp")]
        mcp: Some(satiety_server::http::mcp(
            app,
            Context {
                dialogue_profile: profile.clone(),
                harness_folder: app.harness_folder().to_owned(),
                harness_driver: driver,
                ..Context::new(app.engine.clone())
            },
            &names,
        )),
    }
}

/// Access rules of the server; refuses to expose it without authentication or encryption.
async fn access(
    arguments: &ServeArgs,
    address: SocketAddr,
    encrypted: bool,
    engine: &Engine,
) -> Result<Access, Failure> {
    let loopback = address.ip().is_loopback();
    if loopback && !arguments.require_token {
        return Ok(Access::Open);
    }
    if !loopback && !encrypted && !arguments.without_tls {
        return Err(Failure::bad_input(
            format!("cannot listen on {address} without TLS: the address is not loopback"),
            "set --tls-cert and --tls-key, or pass --without-tls if a proxy terminates TLS",
        ));
    }
    if !engine
        .tokens()
        .list()
        .await?
        .tokens
        .iter()
        .any(|token| token.valid)
    {
        return Err(Failure::bad_input(
            "tokens are required, but there is no valid token",
            "create one with `satiety token create NAME --scope write`",
        ));
    }
    Ok(Access::Tokens)
}

fn certificate(settings: &Settings) -> Result<Option<Tls>, Failure> {
    match (&settings.server.tls_cert, &settings.server.tls_key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => match Tls::read(certificate, key) {
            Ok(tls) => Ok(Some(tls)),
            Err(error @ ListenError::Certificate { .. }) => Err(Failure::bad_input(
                error.to_string(),
                "both files must be PEM: the certificate chain and the unencrypted key",
            )),
            Err(error) => Err(Failure::environment(error.to_string(), None)),
        },
        _ => Err(Failure::bad_input(
            "--tls-cert and --tls-key must be set together",
            "set both",
        )),
    }
}

fn root(settings: &Settings) -> Result<Option<PathBuf>, Failure> {
    let Some(root) = &settings.server.root else {
        return Ok(None);
    };
    if !root.is_dir() {
        return Err(Failure::bad_input(
            format!("{} is not a directory", root.display()),
            "set --root to the directory that paths in requests are confined to",
        ));
    }
    Ok(Some(root.clone()))
}

fn research_sources(settings: &Settings) -> Result<AllowedSources, Failure> {
    let list = settings.server.research_sources.as_deref().unwrap_or_default();
    AllowedSources::read(list).map_err(|error| Failure::BadInput {
        message: format!("--research-sources: {error}"),
        hint: error.hint().map(|hint| hint.to_string()),
    })
}

fn limits(arguments: &ServeArgs, settings: &Settings) -> Limits {
    let server = &settings.server;
    Limits {
        body: arguments.max_body,
        request: Duration::from_secs(arguments.timeout),
        headers: Duration::from_secs(arguments.header_timeout),
        concurrent: arguments.concurrency.max(1),
        jobs: arguments.jobs.max(1),
        shutdown: Duration::from_secs(arguments.shutdown_timeout),
        connections: server
            .connections
            .min(open_files().saturating_sub(OTHER_FILES))
            .max(1),
        connections_per_address: server.connections_per_address,
        streams_per_caller: server.streams_per_caller,
        mcp_sessions_per_caller: server.mcp_sessions_per_caller,
        cost: AdmissionSettings {
            request_units: server.request_cost,
            caller_units_per_minute: server.caller_cost,
        },
        ..Limits::default()
    }
}

/// Resolves on Ctrl-C or SIGTERM.
pub(super) async fn shutdown_signal() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    // If signals cannot be received, the server runs until it is killed.
    if interrupt.await.is_err() {
        std::future::pending::<()>().await;
    }
}
