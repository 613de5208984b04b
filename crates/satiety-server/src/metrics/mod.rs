//! Metrics in a registry that is a value, so that two servers in one process do not share it. They are scraped by
//! Prometheus ([`Metrics::text`]) and pushed to OpenTelemetry collectors ([`MetricsExport`]).

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use satiety_engine::maintenance::StoreTelemetry;
use satiety_engine::memory::MemorySearch;
use std::sync::atomic::{AtomicU64, Ordering};

mod collectors;
#[cfg_attr(not(feature = "otel"), path = "export_stub.rs")]
mod export;
mod exposition;
mod format;
mod tenants;

pub(crate) use collectors::refresh;
pub use export::{ExportSettings, MetricsExport};
pub(crate) use format::TextFormat;
pub(crate) use tenants::tenants_text;

/// Minimum interval between two refreshes of the store metrics.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// Histogram buckets in seconds, from half a millisecond to half a minute.
const BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0,
];

/// Histogram buckets in rows of a transaction.
const ROW_BUCKETS: [f64; 10] = [1.0, 2.0, 5.0, 10.0, 25.0, 100.0, 500.0, 1000.0, 5000.0, 20000.0];

/// Trace that an observation belongs to: the labels of an exemplar.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TraceReference {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRequest {
    method: String,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRoute {
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStage {
    stage: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BySuite {
    suite: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByQueue {
    queue: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BySignal {
    signal: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOperation {
    operation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByWriter {
    writer: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPool {
    pool: &'static str,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReplica {
    replica: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByState {
    state: &'static str,
}

type FloatGauge = Gauge<f64, AtomicU64>;
/// Durations in seconds; each bucket remembers the latest observation in a sampled trace.
type Durations<L> =
    Family<L, HistogramWithExemplars<TraceReference>, fn() -> HistogramWithExemplars<TraceReference>>;
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Time from which counters count.
    started: SystemTime,
    requests: Family<ByRequest, Counter>,
    durations: Durations<ByRoute>,
    in_flight: Gauge,
    stages: Durations<ByStage>,
    searches: Counter,
    verdicts: Family<BySignal, Counter>,
    store: Durations<ByOperation>,
    store_up: Gauge,
    connections: Family<ByPool, Gauge>,
    batches: Histograms<ByWriter>,
    log_waiting: Gauge,
    log_written: Counter,
    log_lost: Counter,
    replication_lag: Family<ByReplica, FloatGauge>,
    leases: Family<ByState, Gauge>,
    pass_rate: Family<BySuite, FloatGauge>,
    saturation: FloatGauge,
    exclusion: FloatGauge,
    queues: Family<ByQueue, Gauge>,
    queue_in_progress: Gauge,
    queue_oldest: FloatGauge,
    gathered: Mutex<Option<Instant>>,
}

/// Guard that counts a request as in flight.
#[derive(Debug)]
pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates metrics that start at zero.
    pub fn new() -> Self {
        let seconds: fn() -> HistogramWithExemplars<TraceReference> =
            || HistogramWithExemplars::new(BUCKETS.into_iter());
        let rows: fn() -> Histogram = || Histogram::new(ROW_BUCKETS);
        let mut metrics = Self {
            registry: Registry::with_prefix("satiety"),
            started: SystemTime::now(),
            requests: Family::default(),
            durations: Family::new_with_constructor(seconds),
            in_flight: Gauge::default(),
            stages: Family::new_with_constructor(seconds),
            searches: Counter::default(),
            verdicts: Family::default(),
            store: Family::new_with_constructor(seconds),
            store_up: Gauge::default(),
            connections: Family::default(),
            batches: Family::new_with_constructor(rows),
            log_waiting: Gauge::default(),
            log_written: Counter::default(),
            log_lost: Counter::default(),
            replication_lag: Family::default(),
            leases: Family::default(),
            pass_rate: Family::default(),
            saturation: FloatGauge::default(),
            exclusion: FloatGauge::default(),
            queues: Family::default(),
            queue_in_progress: Gauge::default(),
            queue_oldest: FloatGauge::default(),
            gathered: Mutex::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "http_requests",
            "HTTP requests by method, route and status",
            self.requests.clone(),
        );
        registry.register(
            "http_request_duration_seconds",
            "Time from request headers to response headers",
            self.durations.clone(),
        );
        registry.register(
            "http_requests_in_flight",
            "HTTP requests in flight",
            self.in_flight.clone(),
        );
        registry.register(
            "memory_stage_duration_seconds",
            "Duration of each stage of a memory search",
            self.stages.clone(),
        );
        registry.register("memory_searches", "Memory searches", self.searches.clone());
        registry.register(
            "dialogue_verdicts",
            "Conversation verdicts by signal",
            self.verdicts.clone(),
        );
        registry.register(
            "store_duration_seconds",
            "Duration of store operations: reads, write transactions, probes; slow statements count once more (slow_statement)",
            self.store.clone(),
        );
        registry.register(
            "store_up",
            "Whether the last probe of the store succeeded",
            self.store_up.clone(),
        );
        registry.register(
            "store_connections",
            "Connections to the database of each pool that are in use or idle, and the maximum (max)",
            self.connections.clone(),
        );
        registry.register(
            "store_batch_rows",
            "Rows of each transaction that a group commit (journal) or the query log (query_log) writes",
            self.batches.clone(),
        );
        registry.register(
            "query_log_waiting",
            "Searches in the queue of the query log; at 4096, searches wait",
            self.log_waiting.clone(),
        );
        registry.register(
            "query_log_written",
            "Searches written to the query log",
            self.log_written.clone(),
        );
        registry.register(
            "query_log_lost",
            "Searches that could not be written to the query log",
            self.log_lost.clone(),
        );
        registry.register(
            "store_replication_lag_seconds",
            "Time by which each replica of the database is behind",
            self.replication_lag.clone(),
        );
        registry.register(
            "work_leases",
            "Cases for workers with a valid lease (held), with an expired one (expired), and taken more than once (retaken)",
            self.leases.clone(),
        );
        registry.register(
            "bench_pass_rate",
            "Pass rate of the newest complete run of a suite, from 0 to 1",
            self.pass_rate.clone(),
        );
        registry.register(
            "harness_saturation_score",
            "Saturation score of the newest cycle, from 0 to 1 (saturated)",
            self.saturation.clone(),
        );
        registry.register(
            "eviction_exclusion_rate",
            "Share of proposed items that agents exclude from eviction, over the latest 200 proposals",
            self.exclusion.clone(),
        );
        registry.register(
            "queue_depth",
            "Jobs of this server (jobs_waiting, jobs_running), cases for workers in the database (work_waiting, work_taken), free request permits (room_for_requests)",
            self.queues.clone(),
        );
        registry.register(
            "queue_in_progress",
            "Cases of distributed runs that workers run",
            self.queue_in_progress.clone(),
        );
        registry.register(
            "queue_oldest_seconds",
            "Seconds since the oldest distributed run with a case that waits for a worker was queued; 0 if none waits",
            self.queue_oldest.clone(),
        );
    }

    pub(crate) fn begin(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub(crate) fn request(
        &self,
        method: &str,
        route: &str,
        status: u16,
        took: Duration,
        trace: Option<TraceReference>,
    ) {
        // An arbitrary method or path must not become a label: the cardinality would be unbounded.
        let method = match method {
            "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" if route != "none" => method,
            _ => "other",
        };
        let labels = ByRequest {
            method: method.to_owned(),
            route: route.to_owned(),
            status,
        };
        self.requests.get_or_create(&labels).inc();
        let route = ByRoute {
            route: route.to_owned(),
        };
        observe(&self.durations, &route, took.as_secs_f64(), trace);
    }

    /// Records a memory search and its stages.
    pub fn search(&self, search: &MemorySearch) {
        self.searches.inc();
        let trace = current_trace();
        for stage in &search.telemetry.stages {
            let name = serde_json::to_value(stage.stage).ok();
            let labels = ByStage {
                stage: name
                    .as_ref()
                    .and_then(|name| name.as_str())
                    .unwrap_or("other")
                    .to_owned(),
            };
            observe(&self.stages, &labels, stage.duration_ms / 1e3, trace.clone());
        }
    }

    /// Records a verdict by its signal.
    pub fn verdict(&self, signal: satiety::dialogue::Signal) {
        let labels = BySignal {
            signal: signal.to_string(),
        };
        self.verdicts.get_or_create(&labels).inc();
    }

    /// Observer for the durations of store operations.
    pub(crate) fn store_observer(&self) -> impl Fn(&'static str, Duration) + Send + Sync + 'static {
        let store = self.store.clone();
        move |operation, took| {
            observe(
                &store,
                &ByOperation { operation },
                took.as_secs_f64(),
                current_trace(),
            );
        }
    }

    /// Observer for the numbers of rows that writers commit at once.
    pub(crate) fn batch_observer(&self) -> impl Fn(&'static str, usize) + Send + Sync + 'static {
        let batches = self.batches.clone();
        move |writer, rows| {
            batches.get_or_create(&ByWriter { writer }).observe(rows as f64);
        }
    }

    /// Records the duration of a store operation.
    pub(crate) fn store(&self, operation: &'static str, took: Duration) {
        observe(
            &self.store,
            &ByOperation { operation },
            took.as_secs_f64(),
            current_trace(),
        );
    }

    /// Sets the state of the store.
    fn telemetry(&self, telemetry: &StoreTelemetry) {
        for usage in &telemetry.pools {
            for (state, count) in [
                ("in_use", usage.in_use),
                ("idle", usage.idle),
                ("max", usage.most),
            ] {
                let pool = usage.pool;
                self.connections
                    .get_or_create(&ByPool { pool, state })
                    .set(count.into());
            }
        }
        let log = &telemetry.query_log;
        self.log_waiting
            .set(i64::try_from(log.waiting).unwrap_or(i64::MAX));
        self.log_written.inner().store(log.written, Ordering::Relaxed);
        self.log_lost.inner().store(log.lost, Ordering::Relaxed);
        self.replication_lag.clear();
        for (replica, seconds) in &telemetry.replication_lag {
            let replica = replica.clone();
            self.replication_lag
                .get_or_create(&ByReplica { replica })
                .set(*seconds);
        }
        if let Some(queue) = &telemetry.queue {
            for (state, count) in [
                ("held", queue.held),
                ("expired", queue.expired),
                ("retaken", queue.retaken),
            ] {
                self.leases.get_or_create(&ByState { state }).set(count);
            }
        }
    }

    /// All metrics in the `OpenMetrics` text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}

/// A metric as `/metrics` exposes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricInfo {
    /// Name without the suffixes of its series, such as `_total` and `_bucket`.
    pub name: String,
    pub help: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// Names of its labels, without a histogram's `le`.
    pub labels: Vec<String>,
}

/// Records a duration, with its trace as an exemplar.
fn observe<L>(durations: &Durations<L>, labels: &L, seconds: f64, trace: Option<TraceReference>)
where
    L: Clone + std::hash::Hash + Eq,
{
    let at = trace.is_some().then(SystemTime::now);
    durations.get_or_create(labels).observe(seconds, trace, at);
}

fn current_trace() -> Option<TraceReference> {
    crate::traces::sampled_trace(&tracing::Span::current())
}

/// All metrics in the order of their registration, read from the exposed text.
pub fn catalogue() -> Vec<MetricInfo> {
    let metrics = Metrics::new();
    metrics.touch_all();
    exposition::parse(&metrics.text())
        .into_iter()
        .map(|family| MetricInfo {
            labels: family.points.first().map_or_else(Vec::new, |point| {
                point.labels.iter().map(|(name, _)| name.clone()).collect()
            }),
            name: family.name,
            help: family.help,
            kind: family.kind,
        })
        .collect()
}

impl Metrics {
    /// Families without members are not written, so each gets one for the catalogue.
    fn touch_all(&self) {
        self.request("GET", "/", 200, Duration::ZERO, None);
        drop(self.stages.get_or_create(&ByStage { stage: String::new() }));
        self.verdict(satiety::dialogue::Signal::Continue);
        self.store("probe", Duration::ZERO);
        drop(self.pass_rate.get_or_create(&BySuite { suite: String::new() }));
        drop(self.queues.get_or_create(&ByQueue { queue: "jobs" }));
        self.batch_observer()("journal", 1);
        let pool = ByPool {
            pool: "read",
            state: "idle",
        };
        drop(self.connections.get_or_create(&pool));
        let replica = String::new();
        drop(self.replication_lag.get_or_create(&ByReplica { replica }));
        drop(self.leases.get_or_create(&ByState { state: "held" }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_metrics_are_rendered() {
        let metrics = Metrics::new();
        let in_flight = metrics.begin();
        metrics.request("GET", "/v1/health", 200, Duration::from_millis(3), None);
        metrics.request("BREW-COFFEE", "none", 405, Duration::from_millis(3), None);
        metrics.request("BREW", "/v1/health", 405, Duration::from_millis(3), None);
        let text = metrics.text();
        for line in [
            "satiety_http_requests_total{method=\"GET\",route=\"/v1/health\",status=\"200\"} 1",
            "satiety_http_requests_total{method=\"other\",route=\"none\",status=\"405\"} 1",
            "satiety_http_requests_total{method=\"other\",route=\"/v1/health\",status=\"405\"} 1",
            "satiety_http_request_duration_seconds_bucket{le=\"0.005\",route=\"/v1/health\"} 2",
            "satiety_http_requests_in_flight 1",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        drop(in_flight);
        assert!(metrics.text().contains("satiety_http_requests_in_flight 0"));
    }

    #[test]
    fn catalogue_has_every_registered_metric_with_kind_and_labels() {
        let metrics = catalogue();
        let find = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
        let requests = find("satiety_http_requests");
        assert_eq!(requests.kind, "counter");
        assert_eq!(requests.labels, ["method", "route", "status"]);
        let durations = find("satiety_http_request_duration_seconds");
        assert_eq!(
            (durations.kind.as_str(), &*durations.labels),
            ("histogram", &["route".to_owned()][..])
        );
        assert_eq!(find("satiety_store_up").labels, Vec::<String>::new());
        assert!(
            metrics
                .iter()
                .all(|metric| !metric.help.is_empty() && !metric.kind.is_empty())
        );
        assert_eq!(metrics.len(), 21);
    }
}
