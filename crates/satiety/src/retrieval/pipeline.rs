//! What happened inside a search: which channel brought which result, what fusion, expansion and the session changed,
//! how long each stage took, and what repeating nothing saved. Read from the traces that a run as JSON Lines may carry.
//!
//! Nothing here knows where traces come from or how a search is made.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{self, BootstrapSettings, StatsError};

use super::reader::Lines;
use super::tables::{self, Id};
use super::{Aggregate, FileFormat, Qrels, RetrievalResult};

/// How a search came to its results, for one query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// The query.
    pub query: String,
    /// Its results, best first.
    pub results: Vec<TracedResult>,
    /// What would have been returned without the query's expansion.
    pub without_expansion: Option<Vec<String>>,
    /// What would have been returned without the session's boost.
    pub without_session: Option<Vec<String>>,
    /// The tokens of each result that was held back because the session had it already.
    pub duplicate_tokens: Vec<u64>,
    /// Whether anything was said about results held back.
    pub deduplicated: bool,
    /// Milliseconds by stage.
    pub latency_ms: BTreeMap<String, f64>,
}

/// A result and where it comes from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TracedResult {
    /// The document.
    pub document: String,
    /// The channels that found it, with its rank in each, from 1, where that was told.
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
    Told {
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
    /// Reads a line of a run as JSON Lines; nothing when it says no more than the results.
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
        let says_more = found.without_expansion.is_some()
            || found.without_session.is_some()
            || found.deduplicated
            || !found.latency_ms.is_empty()
            || found.results.iter().any(|result| !result.channels.is_empty());
        Ok(says_more.then_some(found))
    }
}

/// Reads the traces of a run as JSON Lines, beside the reader of the run itself.
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
    /// Takes the next piece of the file, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) -> RetrievalResult<()> {
        self.take(Some(bytes))
    }

    /// The traces, once the file has ended; none when it tells no more than results.
    pub fn finish(mut self) -> RetrievalResult<Vec<Trace>> {
        self.take(None)?;
        Ok(self.traces)
    }

    fn take(&mut self, bytes: Option<&[u8]>) -> RetrievalResult<()> {
        let traces = &mut self.traces;
        self.lines.push(bytes, |lines, block| {
            lines.each(block, |number, line| keep(traces, number, line))
        })
    }
}

fn keep(traces: &mut Vec<Trace>, number: u64, line: &[u8]) -> RetrievalResult<()> {
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
            Self::Told { document, channels } => TracedResult {
                document: document.text(),
                channels: match channels {
                    Channels::Ranked(ranks) => ranks,
                    Channels::Listed(names) => names.into_iter().map(|name| (name, None)).collect(),
                },
            },
        }
    }
}

/// What traces tell about a pipeline. Everything is a mean over the queries that tell it, with its interval.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Pipeline {
    /// Queries with a trace.
    pub queries: usize,
    /// How many results of each query were looked at.
    pub depth: usize,
    /// By channel: how much it contributes.
    pub channels: BTreeMap<String, Channel>,
    /// Share of the results whose rank is not the one that their best channel gave them.
    pub fusion_reorder_rate: Aggregate,
    /// Share of the results that only the expanded query found.
    pub expansion_impact: Aggregate,
    /// By stage: how long it takes.
    pub latency_ms: BTreeMap<String, Latency>,
    /// Tokens that were not sent again; absent when no query tells.
    pub dedup_tokens: Option<TokenSavings>,
}

/// What a channel contributes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Channel {
    /// Share of the results that it found.
    pub contribution: Aggregate,
    /// Share of the results that no other channel found.
    pub unique: Aggregate,
}

/// How long a stage takes, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    /// Queries that tell.
    pub queries: usize,
    /// The mean.
    pub mean: f64,
    /// Half of the queries are faster.
    pub p50: f64,
    /// 19 of 20 are.
    pub p95: f64,
    /// 99 of 100 are.
    pub p99: f64,
}

/// Tokens that were not sent again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TokenSavings {
    /// In all.
    pub total: u64,
    /// Results that were held back.
    pub results: usize,
    /// For each query.
    pub per_query: Aggregate,
}

/// Looks at the first `depth` results of every trace.
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
    let told: Vec<&Trace> = traces.iter().filter(|trace| trace.deduplicated).collect();
    let dedup_tokens = if told.is_empty() {
        None
    } else {
        let saved = |trace: &Trace| trace.duplicate_tokens.iter().sum::<u64>();
        Some(TokenSavings {
            total: told.iter().map(|trace| saved(trace)).sum(),
            results: told.iter().map(|trace| trace.duplicate_tokens.len()).sum(),
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

/// The first results of a trace that tells channels; one that tells none says nothing about them.
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

/// How first queries of a session fare beside later ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ColdStart {
    /// The mean of first queries.
    pub cold: Aggregate,
    /// The mean of all others.
    pub warm: Aggregate,
    /// The first over the second; absent when either says nothing or the second is 0.
    pub ratio: Option<f64>,
    /// Its interval, by resampling both; absent below two queries of either kind.
    pub ratio_ci: Option<stats::Interval>,
}

/// Compares values of cold queries with values of warm ones; the specification asks for a ratio of at least 0.7.
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
        // Other draws for the other sample: the two are independent.
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

/// What the session's boost does to the reciprocal rank of the first relevant result among `k`: with it − without it,
/// over the queries whose trace tells both and for which something relevant was judged.
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

    /// By hand: q1 has three results, q2 two of which one tells its channel.
    #[test]
    fn a_pipeline_by_hand() {
        let found = pipeline(&traces(), 10, &BootstrapSettings::default()).unwrap();
        let mean = |aggregate: Aggregate| aggregate.mean.unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(mean(found.channels["vector"].contribution), (2.0 / 3.0) / 2.0);
        close(mean(found.channels["lexical"].unique), (1.0 / 3.0) / 2.0);
        close(mean(found.channels["graph"].unique), 0.5 / 2.0);
        // Of q1's ranks 1, 2, 3 the best channels said 1, 1, 3: one moved. q2 tells no ranks.
        close(mean(found.fusion_reorder_rate), 1.0 / 3.0);
        assert_eq!(found.fusion_reorder_rate.queries, 1);
        // b came only with the expansion; in q2 nothing did.
        close(mean(found.expansion_impact), (1.0 / 3.0) / 2.0);
        close(found.latency_ms["candidate"].mean, 20.0);
        // numpy.quantile([10, 30], .95): 29.0
        close(found.latency_ms["candidate"].p95, 29.0);
        let saved = found.dedup_tokens.unwrap();
        assert_eq!((saved.total, saved.results, saved.per_query.queries), (150, 2, 1));
    }

    #[test]
    fn a_run_without_traces_says_nothing() {
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
    fn what_the_session_does() {
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
    fn first_queries_beside_later_ones() {
        let settings = BootstrapSettings::default();
        let found = cold_start(&[0.5, 1.0, 0.0], &[1.0, 0.5], &settings).unwrap();
        assert_eq!(found.ratio, Some(0.5 / 0.75));
        assert!(found.ratio_ci.unwrap().contains(0.5 / 0.75));
        assert_eq!(cold_start(&[0.5], &[], &settings).unwrap().ratio, None);
        assert_eq!(cold_start(&[0.5], &[0.0, 0.0], &settings).unwrap().ratio, None);
    }
}
