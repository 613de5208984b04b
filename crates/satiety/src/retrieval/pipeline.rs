//! Analysis of a search pipeline from traces: contribution of each channel, effects of fusion, query
//! expansion and session boost, latency by stage, and tokens saved by deduplication. Traces are optional
//! fields of a JSON Lines run.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{self, BootstrapSettings, StatsError};

use super::reader::Lines;
use super::tables::{self, Id};
use super::{Aggregate, FileFormat, Qrels, RetrievalResult};

/// Trace of the search for one query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// Id of the query.
    pub query: String,
    /// Results, best first.
    pub results: Vec<TracedResult>,
    /// Results without query expansion, if traced.
    pub without_expansion: Option<Vec<String>>,
    /// Results without the session boost, if traced.
    pub without_session: Option<Vec<String>>,
    /// Token count of each result omitted because the session already has it.
    pub duplicate_tokens: Vec<u64>,
    /// Whether the trace reports omitted results.
    pub deduplicated: bool,
    /// Latency by stage in milliseconds.
    pub latency_ms: BTreeMap<String, f64>,
}

/// A result with the channels that returned it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TracedResult {
    /// Id of the document.
    pub document: String,
    /// Channels that returned it, with its rank in each from 1, if traced.
    pub channels: BTreeMap<String, Option<u32>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TraceLine {
    #[serde(alias = "query_id", alias = "_id")]
    query_id: Id,
    #[serde(default)]
    results: Vec<ResultLine>,
    #[serde(default, alias = "without_expansion")]
    without_expansion: Option<Vec<Id>>,
    #[serde(default, alias = "without_session")]
    without_session: Option<Vec<Id>>,
    #[serde(default, alias = "removed_duplicates")]
    removed_duplicates: Option<Vec<Removed>>,
    #[serde(default, alias = "latency_ms")]
    latency_ms: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ResultLine {
    Detailed {
        #[serde(rename = "memoryId", alias = "memory_id", alias = "doc_id")]
        document: Id,
        #[serde(default, alias = "sourceChannels", alias = "source_channels")]
        channels: Channels,
    },
    Listed(Id),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Channels {
    Ranked(BTreeMap<String, Option<u32>>),
    Listed(Vec<String>),
}

impl Default for Channels {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

#[derive(Deserialize)]
struct Removed {
    #[serde(default, alias = "tokenCount", alias = "token_count")]
    tokens: u64,
}

impl Trace {
    /// Parses a line of a JSON Lines run; `None` if it contains only results.
    pub fn parse(number: u64, line: &[u8]) -> RetrievalResult<Option<Self>> {
        let line: TraceLine = tables::json(number, line)?;
        let texts = |ids: Vec<Id>| ids.into_iter().map(Id::text).collect::<Vec<_>>();
        let found = Self {
            query: line.query_id.text(),
            results: line.results.into_iter().map(ResultLine::traced).collect(),
            without_expansion: line.without_expansion.map(texts),
            without_session: line.without_session.map(texts),
            deduplicated: line.removed_duplicates.is_some(),
            duplicate_tokens: line
                .removed_duplicates
                .unwrap_or_default()
                .iter()
                .map(|removed| removed.tokens)
                .collect(),
            latency_ms: line.latency_ms,
        };
        let has_trace = found.without_expansion.is_some()
            || found.without_session.is_some()
            || found.deduplicated
            || !found.latency_ms.is_empty()
            || found.results.iter().any(|result| !result.channels.is_empty());
        Ok(has_trace.then_some(found))
    }
}

/// Streaming reader of the traces in a JSON Lines run.
#[derive(Debug)]
pub struct TraceReader {
    lines: Lines,
    traces: Vec<Trace>,
}

impl Default for TraceReader {
    fn default() -> Self {
        Self {
            lines: Lines::new(FileFormat::JsonLines.longest_line(), true),
            traces: Vec::new(),
        }
    }
}

impl TraceReader {
    /// Reads the next chunk of the file, which may end anywhere.
    pub fn push(&mut self, bytes: &[u8]) -> RetrievalResult<()> {
        self.take(Some(bytes))
    }

    /// Ends the file and returns the traces; empty if the run contains only results.
    pub fn finish(mut self) -> RetrievalResult<Vec<Trace>> {
        self.take(None)?;
        Ok(self.traces)
    }

    fn take(&mut self, bytes: Option<&[u8]>) -> RetrievalResult<()> {
        let traces = &mut self.traces;
        self.lines.push(bytes, |lines, block| {
            lines.each(block, |number, line| parse_line(traces, number, line))
        })
    }
}

fn parse_line(traces: &mut Vec<Trace>, number: u64, line: &[u8]) -> RetrievalResult<()> {
    if !line.trim_ascii().is_empty() {
        traces.extend(Trace::parse(number, line)?);
    }
    Ok(())
}

impl ResultLine {
    fn traced(self) -> TracedResult {
        match self {
            Self::Listed(document) => TracedResult {
                document: document.text(),
                ..TracedResult::default()
            },
            Self::Detailed { document, channels } => TracedResult {
                document: document.text(),
                channels: match channels {
                    Channels::Ranked(ranks) => ranks,
                    Channels::Listed(names) => names.into_iter().map(|name| (name, None)).collect(),
                },
            },
        }
    }
}

/// Metrics of a search pipeline. Each is a mean over the queries that report it, with a confidence interval.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PipelineMetrics")]
pub struct Pipeline {
    /// Number of queries with a trace.
    pub queries: usize,
    /// Number of results analyzed per query.
    pub depth: usize,
    /// Contribution of each channel.
    pub channels: BTreeMap<String, Channel>,
    /// Share of the results whose final rank differs from their best rank in any channel.
    pub fusion_reorder_rate: Aggregate,
    /// Share of the results returned only because of query expansion.
    pub expansion_impact: Aggregate,
    /// Latency of each stage in milliseconds.
    pub latency_ms: BTreeMap<String, Latency>,
    /// Tokens saved by deduplication; absent if no query reports it.
    pub dedup_tokens: Option<TokenSavings>,
}

/// Contribution of a channel.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Channel {
    /// Share of the results that the channel returned.
    pub contribution: Aggregate,
    /// Share of the results that only this channel returned.
    pub unique: Aggregate,
}

/// Latency of a stage in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    /// Number of queries with this stage.
    pub queries: usize,
    /// Mean latency in milliseconds.
    pub mean: f64,
    /// Median latency in milliseconds.
    pub p50: f64,
    /// 95th percentile in milliseconds.
    pub p95: f64,
    /// 99th percentile in milliseconds.
    pub p99: f64,
}

/// Tokens saved by deduplication.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TokenSavings {
    /// Total number of saved tokens.
    pub total: u64,
    /// Number of omitted results.
    pub results: usize,
    /// Saved tokens per query.
    pub per_query: Aggregate,
}

/// Computes pipeline metrics from the first `depth` results of every trace.
pub fn pipeline(
    traces: &[Trace],
    depth: usize,
    bootstrap: &BootstrapSettings,
) -> Result<Pipeline, StatsError> {
    let names: BTreeSet<&String> = traces
        .iter()
        .flat_map(|trace| top(trace, depth))
        .flat_map(|result| result.channels.keys())
        .collect();
    let mut channels = BTreeMap::new();
    for name in names {
        let share = |counts: &dyn Fn(&TracedResult) -> bool| {
            mean_over(traces, bootstrap, |trace| {
                traced(trace, depth).map(|results| share_of(results, counts))
            })
        };
        let channel = Channel {
            contribution: share(&|result| result.channels.contains_key(name))?,
            unique: share(&|result| result.channels.len() == 1 && result.channels.contains_key(name))?,
        };
        channels.insert(name.clone(), channel);
    }
    let fusion_reorder_rate = mean_over(traces, bootstrap, |trace| {
        let moved: Vec<bool> = (1..)
            .zip(top(trace, depth))
            .filter_map(|(rank, result)| Some(result.channels.values().flatten().min()? != &rank))
            .collect();
        share_of_true(&moved)
    })?;
    let expansion_impact = mean_over(traces, bootstrap, |trace| {
        let before = trace.without_expansion.as_ref()?;
        let before: BTreeSet<&str> = before.iter().take(depth).map(String::as_str).collect();
        let added: Vec<bool> = top(trace, depth)
            .map(|result| !before.contains(result.document.as_str()))
            .collect();
        share_of_true(&added)
    })?;
    let mut stages: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (stage, value) in traces.iter().flat_map(|trace| &trace.latency_ms) {
        stages.entry(stage.clone()).or_default().push(*value);
    }
    let mut latency_ms = BTreeMap::new();
    for (stage, values) in stages {
        latency_ms.insert(stage, latency(&values)?);
    }
    let reporting: Vec<&Trace> = traces.iter().filter(|trace| trace.deduplicated).collect();
    let dedup_tokens = if reporting.is_empty() {
        None
    } else {
        let saved = |trace: &Trace| trace.duplicate_tokens.iter().sum::<u64>();
        Some(TokenSavings {
            total: reporting.iter().map(|trace| saved(trace)).sum(),
            results: reporting.iter().map(|trace| trace.duplicate_tokens.len()).sum(),
            per_query: mean_over(traces, bootstrap, |trace| {
                trace.deduplicated.then(|| saved(trace) as f64)
            })?,
        })
    };
    Ok(Pipeline {
        queries: traces.len(),
        depth,
        channels,
        fusion_reorder_rate,
        expansion_impact,
        latency_ms,
        dedup_tokens,
    })
}

fn top(trace: &Trace, depth: usize) -> impl Iterator<Item = &TracedResult> {
    trace.results.iter().take(depth)
}

/// The first results of a trace, if any of them names its channels.
fn traced(trace: &Trace, depth: usize) -> Option<&[TracedResult]> {
    let results = &trace.results[..trace.results.len().min(depth)];
    results
        .iter()
        .any(|result| !result.channels.is_empty())
        .then_some(results)
}

fn share_of(results: &[TracedResult], counts: &dyn Fn(&TracedResult) -> bool) -> f64 {
    results.iter().filter(|result| counts(result)).count() as f64 / results.len() as f64
}

fn share_of_true(values: &[bool]) -> Option<f64> {
    let count = values.iter().filter(|value| **value).count();
    (!values.is_empty()).then(|| count as f64 / values.len() as f64)
}

fn mean_over(
    traces: &[Trace],
    bootstrap: &BootstrapSettings,
    value: impl Fn(&Trace) -> Option<f64>,
) -> Result<Aggregate, StatsError> {
    Aggregate::of(&traces.iter().filter_map(value).collect::<Vec<_>>(), bootstrap)
}

fn latency(values: &[f64]) -> Result<Latency, StatsError> {
    let found = stats::quantiles(values, &[0.5, 0.95, 0.99])?;
    Ok(Latency {
        queries: values.len(),
        mean: stats::mean(values)?,
        p50: found[0],
        p95: found[1],
        p99: found[2],
    })
}

/// Comparison of the first queries of sessions with later ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ColdStart {
    /// Mean over the first queries of sessions.
    pub cold: Aggregate,
    /// Mean over all other queries.
    pub warm: Aggregate,
    /// Cold mean divided by warm mean; absent if either is undefined or the warm mean is 0.
    pub ratio: Option<f64>,
    /// Bootstrap interval of the ratio; absent with fewer than two queries of either kind.
    pub ratio_ci: Option<stats::Interval>,
}

/// Compares cold with warm queries; the specification requires a ratio of at least 0.7.
pub fn cold_start(
    cold: &[f64],
    warm: &[f64],
    bootstrap: &BootstrapSettings,
) -> Result<ColdStart, StatsError> {
    let means = (Aggregate::of(cold, bootstrap)?, Aggregate::of(warm, bootstrap)?);
    let ratio = match (means.0.mean, means.1.mean) {
        (Some(cold), Some(warm)) if warm > 0.0 => Some(cold / warm),
        _ => None,
    };
    let mut ratio_ci = None;
    if ratio.is_some() && cold.len() > 1 && warm.len() > 1 && bootstrap.resamples > 0 {
        let resamples = 0..bootstrap.resamples;
        let replicates =
            |values: &[f64], seed| stats::bootstrap::mean_replicates(values, seed, resamples.clone());
        // The samples are independent, so use different seeds.
        let (cold, warm) = (
            replicates(cold, bootstrap.seed)?,
            replicates(warm, bootstrap.seed ^ u64::MAX)?,
        );
        let ratios: Vec<f64> = cold
            .iter()
            .zip(&warm)
            .filter(|(_, warm)| **warm > 0.0)
            .map(|(cold, warm)| cold / warm)
            .collect();
        if ratios.len() == cold.len() {
            ratio_ci = Some(stats::bootstrap::percentile_interval(
                &ratios,
                bootstrap.confidence,
            )?);
        }
    }
    Ok(ColdStart {
        cold: means.0,
        warm: means.1,
        ratio,
        ratio_ci,
    })
}

/// Effect of the session boost on the reciprocal rank at `k`: with − without boost, over the queries that
/// trace both and have a relevant judgment.
pub fn personalization_lift(
    traces: &[Trace],
    qrels: &Qrels,
    relevance_threshold: i32,
    k: usize,
    bootstrap: &BootstrapSettings,
) -> Result<Aggregate, StatsError> {
    let judged: BTreeMap<&str, usize> = (0..qrels.queries())
        .map(|position| (qrels.query(position), position))
        .collect();
    mean_over(traces, bootstrap, |trace| {
        let without = trace.without_session.as_ref()?;
        let relevant: BTreeSet<&str> = qrels
            .judgments(*judged.get(trace.query.as_str())?)
            .filter(|(_, grade)| *grade >= relevance_threshold)
            .map(|(document, _)| document)
            .collect();
        let value = |documents: &mut dyn Iterator<Item = &str>| {
            let rank = documents.take(k).position(|document| relevant.contains(document));
            rank.map_or(0.0, |rank| 1.0 / (rank + 1) as f64)
        };
        let with = value(&mut trace.results.iter().map(|result| result.document.as_str()));
        let without = value(&mut without.iter().map(String::as_str));
        (!relevant.is_empty()).then_some(with - without)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traces() -> Vec<Trace> {
        [
            r#"{"queryId":"q1","results":[{"memoryId":"a","channels":{"vector":1,"lexical":4}},
                {"memoryId":"b","channels":{"lexical":1}},{"memoryId":"c","channels":{"vector":3}}],
                "withoutExpansion":["a","c"],"removedDuplicates":[{"memoryId":"x","tokens":120},{"tokens":30}],
                "latencyMs":{"candidate":10,"fusion":1}}"#,
            r#"{"query_id":2,"results":[{"doc_id":7,"source_channels":["graph"]},9],"without_expansion":[7,9],
                "latency_ms":{"candidate":30}}"#,
        ]
        .iter()
        .map(|line| Trace::parse(1, line.replace('\n', " ").as_bytes()).unwrap().unwrap())
        .collect()
    }

    /// Computed by hand: q1 has three results; q2 has two, of which one names its channel.
    #[test]
    fn a_pipeline_by_hand() {
        let found = pipeline(&traces(), 10, &BootstrapSettings::default()).unwrap();
        let mean = |aggregate: Aggregate| aggregate.mean.unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(mean(found.channels["vector"].contribution), (2.0 / 3.0) / 2.0);
        close(mean(found.channels["lexical"].unique), (1.0 / 3.0) / 2.0);
        close(mean(found.channels["graph"].unique), 0.5 / 2.0);
        // In q1 the best channel ranks of results 1, 2, 3 are 1, 1, 3: one moved. q2 has no ranks.
        close(mean(found.fusion_reorder_rate), 1.0 / 3.0);
        assert_eq!(found.fusion_reorder_rate.queries, 1);
        // b was returned only because of expansion; in q2 nothing was.
        close(mean(found.expansion_impact), (1.0 / 3.0) / 2.0);
        close(found.latency_ms["candidate"].mean, 20.0);
        // numpy.quantile([10, 30], .95): 29.0
        close(found.latency_ms["candidate"].p95, 29.0);
        let saved = found.dedup_tokens.unwrap();
        assert_eq!((saved.total, saved.results, saved.per_query.queries), (150, 2, 1));
    }

    #[test]
    fn a_run_without_traces_has_no_metrics() {
        assert_eq!(
            Trace::parse(1, br#"{"queryId":"q","results":["a"]}"#).unwrap(),
            None
        );
        let found = pipeline(&[], 10, &BootstrapSettings::default()).unwrap();
        assert_eq!((found.queries, found.dedup_tokens), (0, None));
        assert_eq!(found.expansion_impact.mean, None);
    }

    /// q1 moves its relevant document from 3 to 1, q2 loses it from 1 to 2; q3 has nothing relevant.
    #[test]
    fn personalization_lift_by_hand() {
        let mut reader = TraceReader::default();
        let text = "{\"queryId\":\"q1\",\"results\":[\"a\"],\"withoutSession\":[\"x\",\"y\",\"a\"]}\n\n\
                    {\"queryId\":\"q2\",\"results\":[\"x\",\"b\"],\"withoutSession\":[\"b\"]}\n\
                    {\"queryId\":\"q3\",\"results\":[\"x\"],\"withoutSession\":[]}";
        reader.push(text.as_bytes()).unwrap();
        let traces = reader.finish().unwrap();
        let mut judged = super::super::QrelsReader::trec();
        judged.push(b"q1 0 a 2\nq2 0 b 3\nq3 0 x 1\n").unwrap();
        let judged = judged.finish(super::super::OrderOptions::default()).unwrap();
        let lift = personalization_lift(&traces, &judged, 2, 10, &BootstrapSettings::default()).unwrap();
        assert_eq!(lift.queries, 2);
        assert!((lift.mean.unwrap() - (2.0 / 3.0 - 0.5) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn cold_start_by_hand() {
        let settings = BootstrapSettings::default();
        let found = cold_start(&[0.5, 1.0, 0.0], &[1.0, 0.5], &settings).unwrap();
        assert_eq!(found.ratio, Some(0.5 / 0.75));
        assert!(found.ratio_ci.unwrap().contains(0.5 / 0.75));
        assert_eq!(cold_start(&[0.5], &[], &settings).unwrap().ratio, None);
        assert_eq!(cold_start(&[0.5], &[0.0, 0.0], &settings).unwrap().ratio, None);
    }
}
