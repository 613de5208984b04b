//! Tenants of a server. Each has an [`App`] and a router of its own over the engine of its store, so that no handler,
//! job, event stream, MCP session or cache of one tenant can reach another. The token of a request decides which router
//! answers it.
//!
//! Stores are opened by the first request and closed when they were idle for a while; their number is bounded.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use satiety_engine::maintenance::PARTITIONS_EVERY;
use satiety_engine::tenants::TenantMeter;
use satiety_engine::{EngineError, ErrorCategory};
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::AbortHandle;
use tower::ServiceExt as _;

use super::app::App;
use super::guard::{Peer, RequestId};
use super::problem::Problem;
use super::{Mounts, tenant_router};
use crate::auth::Caller;
use crate::traces;

/// How often usage is sent to the registry, and quotas are read from it. A server exceeds a quota at most by what the
/// other servers admit in this time.
const SYNCHRONIZE_EVERY: Duration = Duration::from_secs(2);
/// How often the sizes of open stores are measured.
const MEASURE_EVERY: Duration = Duration::from_secs(15);
/// Time to measure and to close stores: one that does not answer must not hold up the usage of the others.
const UPKEEP_TIMEOUT: Duration = Duration::from_secs(2);
/// A tenant holds at most this part of the permits for requests, so that one whose store does not answer leaves the
/// others theirs.
const PERMITS_PART: usize = 4;
/// Tenants with permits before those without a request are forgotten.
const MAX_PERMITS: usize = 1024;

/// Limits of the tenants of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantSettings {
    /// Maximum number of stores that are open at the same time.
    pub max_open: usize,
    /// Time without a request after which a store is closed; longer than an MCP session may be idle.
    pub idle: Duration,
    /// Interval of retention; `None` disables it.
    pub retain_every: Option<Duration>,
}

impl Default for TenantSettings {
    fn default() -> Self {
        Self {
            max_open: 20,
            idle: Duration::from_mins(10),
            retain_every: None,
        }
    }
}

type MountsOf = Box<dyn Fn(&App) -> Mounts + Send + Sync>;

/// The open tenants.
#[derive(Default)]
pub(crate) struct Tenants {
    served: OnceLock<(TenantSettings, MountsOf)>,
    open: Mutex<HashMap<String, Entry>>,
    permits: Mutex<HashMap<String, Arc<Semaphore>>>,
}

struct Entry {
    cell: Arc<OnceCell<Arc<OpenTenant>>>,
    used: Instant,
    leases: Arc<AtomicUsize>,
}

impl Entry {
    /// Whether nothing would be interrupted by closing it.
    fn is_idle(&self) -> bool {
        let tenant = self.cell.get();
        self.leases.load(Ordering::SeqCst) == 0
            && tenant.is_none_or(|tenant| tenant.app.jobs.all_finished() && !tenant.app.is_writing())
    }
}

/// A tenant with an open store.
pub(crate) struct OpenTenant {
    app: Arc<App>,
    router: Router,
    meter: Arc<TenantMeter>,
    tasks: Vec<AbortHandle>,
}

impl OpenTenant {
    /// Ends event streams, MCP sessions and jobs.
    fn stop(&self) {
        self.app.end.send_replace(true);
        self.app.jobs.stop_all();
    }

    async fn close(&self) {
        self.stop();
        for task in &self.tasks {
            task.abort();
        }
        self.app.engine.close().await;
        tracing::debug!(tenant = self.meter.name(), "closed the store of a tenant");
    }
}

/// Keeps a tenant open until it is dropped.
struct Lease {
    tenant: Arc<OpenTenant>,
    _count: LeaseCount,
}

struct LeaseCount(Arc<AtomicUsize>);

impl LeaseCount {
    fn new(leases: &Arc<AtomicUsize>) -> Self {
        leases.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(leases))
    }
}

impl Drop for LeaseCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Tenants {
    fn open(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Permits for concurrent requests of a tenant, of those for all requests.
    pub(crate) fn permits(&self, name: &str, all: usize) -> Arc<Semaphore> {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        if permits.len() >= MAX_PERMITS {
            permits.retain(|_, permits| Arc::strong_count(permits) > 1);
        }
        let own = permits.entry(name.to_owned());
        let own = own.or_insert_with(|| Arc::new(Semaphore::new((all / PERMITS_PART).max(1))));
        Arc::clone(own)
    }

    fn all(&self) -> Vec<Arc<OpenTenant>> {
        let open = self.open();
        open.values()
            .filter_map(|entry| entry.cell.get().cloned())
            .collect()
    }

    /// Opens the tenant unless it is open, and keeps it open while the lease lives.
    async fn lease(&self, main: &App, name: &str) -> Result<Lease, Problem> {
        let Some((settings, mounts)) = self.served.get() else {
            return Err(Problem::forbidden("this server does not serve tenants"));
        };
        let (cell, count, evicted) = {
            let mut open = self.open();
            let mut evicted = None;
            if !open.contains_key(name) && open.len() >= settings.max_open {
                let idle = open.iter().filter(|(_, entry)| entry.is_idle());
                let oldest = idle.min_by_key(|(_, entry)| entry.used);
                let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
                    return Err(Problem::new(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "too many tenants are active on this server",
                    )
                    .retry_after(5));
                };
                evicted = open.remove(&oldest);
            }
            let entry = open.entry(name.to_owned()).or_insert_with(|| Entry {
                cell: Arc::default(),
                used: Instant::now(),
                leases: Arc::default(),
            });
            entry.used = Instant::now();
            (Arc::clone(&entry.cell), LeaseCount::new(&entry.leases), evicted)
        };
        if let Some(tenant) = evicted.and_then(|entry| entry.cell.get().cloned()) {
            tokio::spawn(async move { tenant.close().await });
        }
        let tenant = cell
            .get_or_try_init(|| open_tenant(main, name, mounts))
            .await
            .map_err(cannot_open)?;
        Ok(Lease {
            tenant: Arc::clone(tenant),
            _count: count,
        })
    }

    /// Answers a request of a tenant.
    pub(crate) async fn answer(&self, main: &App, name: &str, request: Request) -> Response {
        let lease = match self.lease(main, name).await {
            Ok(lease) => lease,
            Err(problem) => return problem.into_response(),
        };
        if let Err(error) = lease.tenant.meter.admit_request() {
            return Problem::from(error).into_response();
        }
        let method = request.method().clone();
        let route = request.extensions().get::<MatchedPath>();
        let route = route.map_or("none", MatchedPath::as_str).to_owned();
        let started = Instant::now();
        let router = lease.tenant.router.clone();
        let Ok(response) = router.oneshot(without_route(request)).await;
        let metrics = &lease.tenant.app.metrics;
        let status = response.status().as_u16();
        let trace = traces::sampled_trace(&tracing::Span::current());
        metrics.request(method.as_str(), &route, status, started.elapsed(), trace);
        hold(response, lease)
    }

    /// Ends event streams and jobs of all tenants.
    pub(crate) fn stop_all(&self) {
        for tenant in self.all() {
            tenant.stop();
        }
    }

    /// Whether no job and no write of a tenant is in progress.
    pub(crate) fn all_finished(&self) -> bool {
        self.all()
            .iter()
            .all(|tenant| tenant.app.jobs.all_finished() && !tenant.app.is_writing())
    }

    /// Closes all stores.
    pub(crate) async fn close_all(&self) {
        let open: Vec<Entry> = self.open().drain().map(|(_, entry)| entry).collect();
        close_entries(&open).await;
    }

    /// Sends usage, closes what is idle or no longer allowed.
    async fn upkeep(&self, main: &App, settings: &TenantSettings, measures: bool) {
        let all = self.all();
        let meters: Vec<Arc<TenantMeter>> = all.iter().map(|tenant| Arc::clone(&tenant.meter)).collect();
        let mut closing = Vec::new();
        if !meters.is_empty() {
            match main.engine.tenants().synchronize(&meters).await {
                Ok(gone) => {
                    let mut open = self.open();
                    closing.extend(gone.iter().filter_map(|name| open.remove(name)));
                }
                Err(error) => tracing::warn!("cannot record the usage of tenants: {error}"),
            }
        }
        {
            let mut open = self.open();
            let idle: Vec<String> = open
                .iter()
                .filter(|(_, entry)| entry.used.elapsed() > settings.idle && entry.is_idle())
                .map(|(name, _)| name.clone())
                .collect();
            closing.extend(idle.iter().filter_map(|name| open.remove(name)));
        }
        close_entries(&closing).await;
        if measures {
            let measuring = self.all().into_iter().map(|tenant| async move {
                let name = tenant.meter.name();
                match tokio::time::timeout(UPKEEP_TIMEOUT, tenant.app.engine.measure_storage()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!(tenant = name, "cannot measure the store: {error}"),
                    Err(_) => tracing::warn!(tenant = name, "cannot measure the store: timeout"),
                }
            });
            join_all(measuring).await;
        }
    }

    /// Applies the retention rules of every tenant that is due, also of those without requests.
    async fn retain(&self, main: &App, every: Duration) {
        let names = match main.engine.tenants().list().await {
            Ok(list) => list.tenants,
            Err(error) => return tracing::warn!("cannot list the tenants: {error}"),
        };
        for tenant in names.into_iter().filter(|tenant| tenant.enabled) {
            let name = tenant.name.as_str();
            let open = self.open().get(name).and_then(|entry| entry.cell.get().cloned());
            let outcome = match open {
                Some(open) => open.app.engine.database().apply_retention_if_due(every).await,
                None => match main.engine.tenant(name).await {
                    Ok(engine) => {
                        let outcome = engine.database().apply_retention_if_due(every).await;
                        engine.close().await;
                        outcome
                    }
                    Err(error) => Err(error),
                },
            };
            if let Err(error) = outcome {
                tracing::warn!(tenant = name, "cannot apply retention: {error}");
            }
        }
    }
}

/// The problem of a tenant that cannot be opened. The error may have the location of its store and the name of another
/// tenant, so that it is only logged.
fn cannot_open(error: EngineError) -> Problem {
    if error.category() == ErrorCategory::NotFound {
        return Problem::from(error);
    }
    let mut problem = Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "the store of the tenant is unavailable; the request was not acknowledged",
    )
    .retry_after(1);
    problem.internal = Some(Box::new(error.to_string()));
    problem
}

/// Closes stores. What takes longer than the timeout continues in the background.
async fn close_entries(entries: &[Entry]) {
    let open = entries.iter().filter_map(|entry| entry.cell.get().cloned());
    let closing = open.map(|tenant| tokio::spawn(async move { tenant.close().await }));
    let _ = tokio::time::timeout(UPKEEP_TIMEOUT, join_all(closing)).await;
}

async fn open_tenant(main: &App, name: &str, mounts: &MountsOf) -> Result<Arc<OpenTenant>, EngineError> {
    let engine = Arc::new(main.engine.tenant(name).await?);
    let Some(meter) = engine.meter().cloned() else {
        return Err(EngineError::OnlyMain {
            what: "serve the main store as a tenant",
        });
    };
    let app = Arc::new(main.for_tenant(Arc::clone(&engine)));
    if let Err(error) = app.open().await {
        engine.close().await;
        return Err(error);
    }
    let shadows = {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move { engine.experiments().run_shadows().await })
    };
    let partitions = {
        let engine = Arc::clone(&engine);
        tokio::spawn(async move { engine.database().keep_partitions_ahead(PARTITIONS_EVERY).await })
    };
    let embedding = tokio::spawn(async move { engine.memory().run_embedding().await });
    tracing::debug!(tenant = name, "opened the store of a tenant");
    Ok(Arc::new(OpenTenant {
        router: tenant_router(Arc::clone(&app), mounts(&app)),
        app,
        meter,
        tasks: [shadows, partitions, embedding]
            .map(|task| task.abort_handle())
            .into(),
    }))
}

/// The request with what the guard knows about its sender, and without the path parameters of the main router.
fn without_route(request: Request) -> Request {
    let (parts, body) = request.into_parts();
    let mut fresh = Request::new(body);
    *fresh.method_mut() = parts.method;
    *fresh.uri_mut() = parts.uri;
    *fresh.version_mut() = parts.version;
    *fresh.headers_mut() = parts.headers;
    let extensions = fresh.extensions_mut();
    if let Some(caller) = parts.extensions.get::<Caller>() {
        extensions.insert(caller.clone());
    }
    if let Some(id) = parts.extensions.get::<RequestId>() {
        extensions.insert(id.clone());
    }
    if let Some(peer) = parts.extensions.get::<Peer>() {
        extensions.insert(*peer);
    }
    fresh
}

/// Keeps the tenant open until an event stream has ended.
fn hold(response: Response, lease: Lease) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    if !is_stream {
        return response;
    }
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |part| {
            let _held = &lease;
            part
        }))
    })
}

impl App {
    /// Serves tenants: a request with a token of a tenant is answered by the tenant's own router, with these mounts.
    /// Must be called within the runtime; the upkeep ends with the server.
    pub fn serve_tenants(
        self: &Arc<Self>,
        settings: TenantSettings,
        mounts: impl Fn(&Self) -> Mounts + Send + Sync + 'static,
    ) {
        if self.tenants.served.set((settings, Box::new(mounts))).is_err() {
            return;
        }
        let app = Arc::downgrade(self);
        tokio::spawn(maintain(app.clone(), settings));
        if let Some(every) = settings.retain_every {
            tokio::spawn(retain(app, every));
        }
    }

    /// Sends the usage of the tenants to the registry now, instead of within two seconds.
    pub async fn synchronize_tenants(&self) {
        if let Some((settings, _)) = self.tenants.served.get() {
            self.tenants.upkeep(self, settings, true).await;
        }
    }
}

/// Runs the upkeep until the server ends.
async fn maintain(app: Weak<App>, settings: TenantSettings) {
    let mut measured = Instant::now();
    loop {
        tokio::time::sleep(SYNCHRONIZE_EVERY).await;
        let Some(app) = app.upgrade().filter(|app| !app.is_shutting_down()) else {
            return;
        };
        let measures = measured.elapsed() >= MEASURE_EVERY;
        if measures {
            measured = Instant::now();
        }
        app.tenants.upkeep(&app, &settings, measures).await;
    }
}

/// Applies retention until the server ends.
async fn retain(app: Weak<App>, every: Duration) {
    loop {
        let Some(app) = app.upgrade().filter(|app| !app.is_shutting_down()) else {
            return;
        };
        app.tenants.retain(&app, every).await;
        drop(app);
        tokio::time::sleep(every.max(Duration::from_millis(200))).await;
    }
}
