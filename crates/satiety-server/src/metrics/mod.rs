//! Prometheus metrics in a registry that is a value, so that two servers in one process do not share it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use satiety_engine::memory::MemorySearch;
use std::sync::atomic::AtomicU64;

mod collectors;

pub(crate) use collectors::refresh;

/// Content type of the metrics, as scrapers expect it.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Minimum interval between two refreshes of the store metrics.
const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

/// Histogram buckets in seconds, from half a millisecond to half a minute.
const BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0,
];

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

type FloatGauge = Gauge<f64, AtomicU64>;
type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<ByRequest, Counter>,
    durations: Histograms<ByRoute>,
    in_flight: Gauge,
    stages: Histograms<ByStage>,
    searches: Counter,
    verdicts: Family<BySignal, Counter>,
    store: Histograms<ByOperation>,
    store_up: Gauge,
    pass_rate: Family<BySuite, FloatGauge>,
    saturation: FloatGauge,
    exclusion: FloatGauge,
    queues: Family<ByQueue, Gauge>,
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
        let seconds: fn() -> Histogram = || Histogram::new(BUCKETS);
        let mut metrics = Self {
            registry: Registry::with_prefix("satiety"),
            requests: Family::default(),
            durations: Family::new_with_constructor(seconds),
            in_flight: Gauge::default(),
            stages: Family::new_with_constructor(seconds),
            searches: Counter::default(),
            verdicts: Family::default(),
            store: Family::new_with_constructor(seconds),
            store_up: Gauge::default(),
            pass_rate: Family::default(),
            saturation: FloatGauge::default(),
            exclusion: FloatGauge::default(),
            queues: Family::default(),
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
            "Duration of store operations: reads, write transactions, probes",
            self.store.clone(),
        );
        registry.register(
            "store_up",
            "Whether the last probe of the store succeeded",
            self.store_up.clone(),
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
            "Share of proposed items that agents exclude from eviction",
            self.exclusion.clone(),
        );
        registry.register("queue_depth", "Queue depth by queue", self.queues.clone());
    }

    pub(crate) fn begin(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub(crate) fn request(&self, method: &str, route: &str, status: u16, took: Duration) {
        // An arbitrary method or path must not become a label: the cardinality would be unbounded.
        let method = if method.len() <= 7 && route != "none" {
            method
        } else {
            "other"
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
        self.durations.get_or_create(&route).observe(took.as_secs_f64());
    }

    /// Records a memory search and its stages.
    pub fn search(&self, search: &MemorySearch) {
        self.searches.inc();
        for stage in &search.telemetry.stages {
            let name = serde_json::to_value(stage.stage).ok();
            let labels = ByStage {
                stage: name
                    .as_ref()
                    .and_then(|name| name.as_str())
                    .unwrap_or("other")
                    .to_owned(),
            };
            self.stages
                .get_or_create(&labels)
                .observe(stage.duration_ms / 1e3);
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
            store
                .get_or_create(&ByOperation { operation })
                .observe(took.as_secs_f64());
        }
    }

    /// Records the duration of a store operation.
    pub(crate) fn store(&self, operation: &'static str, took: Duration) {
        self.store
            .get_or_create(&ByOperation { operation })
            .observe(took.as_secs_f64());
    }

    /// All metrics in the `OpenMetrics` text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}

/// Names and help texts of all metrics, for the documentation and its test.
pub fn names() -> Vec<(String, String)> {
    let metrics = Metrics::new();
    metrics.touch_all();
    let text = metrics.text();
    let lines = text.lines().filter_map(|line| line.strip_prefix("# HELP "));
    lines
        .filter_map(|line| line.split_once(' '))
        .map(|(name, about)| (name.to_owned(), about.trim_end_matches('.').to_owned()))
        .collect()
}

impl Metrics {
    /// Families without members are not written, so each gets one for the list of names.
    fn touch_all(&self) {
        self.request("GET", "/", 200, Duration::ZERO);
        drop(self.stages.get_or_create(&ByStage { stage: String::new() }));
        self.verdict(satiety::dialogue::Signal::Continue);
        self.store("probe", Duration::ZERO);
        drop(self.pass_rate.get_or_create(&BySuite { suite: String::new() }));
        drop(self.queues.get_or_create(&ByQueue { queue: "jobs" }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_metrics_are_rendered() {
        let metrics = Metrics::new();
        let in_flight = metrics.begin();
        metrics.request("GET", "/v1/health", 200, Duration::from_millis(3));
        metrics.request("BREW-COFFEE", "none", 405, Duration::from_millis(3));
        let text = metrics.text();
        for line in [
            "satiety_http_requests_total{method=\"GET\",route=\"/v1/health\",status=\"200\"} 1",
            "satiety_http_requests_total{method=\"other\",route=\"none\",status=\"405\"} 1",
            "satiety_http_request_duration_seconds_bucket{le=\"0.005\",route=\"/v1/health\"} 1",
            "satiety_http_requests_in_flight 1",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        drop(in_flight);
        assert!(metrics.text().contains("satiety_http_requests_in_flight 0"));
    }
}
