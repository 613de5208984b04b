//! Arguments of `satiety retrieval`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use satiety::retrieval::Measure;

use super::retrieval_golden::{AgreementArgs, AnnotateArgs, HarvestArgs, JudgeArgs, RunArgs, RunsArgs};

/// Subcommands of `retrieval`.
#[derive(Debug, Subcommand)]
pub(crate) enum Retrieval {
    /// Evaluate runs against judgments, compatible with `trec_eval`
    Eval(RetrievalEvalArgs),
    /// Compare runs with the first one: better, worse or inconclusive
    Compare(RetrievalCompareArgs),
    /// Check whether a corpus is large and balanced enough
    #[command(subcommand)]
    Corpus(Corpus),
    /// Pool the top results of several runs for annotation
    Pool(PoolArgs),
    /// Add logged queries to the evaluation corpus
    Harvest(HarvestArgs),
    /// Judge results of the corpus from agent feedback
    Judge(JudgeArgs),
    /// Judge results of the corpus interactively
    Annotate(AnnotateArgs),
    /// Report inter-annotator agreement
    Agreement(AgreementArgs),
    /// Replay the corpus against memory, an MCP server or an HTTP endpoint, and evaluate it
    Run(Box<RunArgs>),
    /// List evaluated runs, newest first
    Runs(RunsArgs),
    /// Import queries and judgments into the store
    Import(ImportCorpusArgs),
    /// Export queries and judgments to a file
    Export(ExportCorpusArgs),
}

/// Subcommands of `retrieval corpus`.
#[derive(Debug, Subcommand)]
pub(crate) enum Corpus {
    /// Check counts against targets, coverage, duplicate queries and detectable differences
    Check(CorpusCheckArgs),
}

/// Options of `retrieval eval`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval eval --qrels examples/retrieval/qrels.txt --run examples/retrieval/bm25.txt
  satiety retrieval eval --qrels qrels.txt --run run.txt.gz --metrics ndcg_linear@10,map --compat trec --per-query

  satiety retrieval eval --qrels corpus.jsonl --run trace.jsonl --by category,intent --format html > report.html

Metrics: mrr, ndcg (gain 2^grade - 1), ndcg_linear (trec_eval's ndcg), recall, p, map, success, rbp(0.8), judged, each
with @K for a cutoff; bpref. With --corpus or --queries also importance_recall, tier_p(critical), constitutional,
constitutional_share, ils and chain. Without --metrics: mrr@5,10, ndcg@5,10,20, recall@5,10 and judged@10.

Judgments are lines of `query 0 document grade`, runs of `query Q0 document rank score tag`. Files that end in .csv or
.tsv are tables with a header, in .jsonl one query per line; a directory has BEIR's qrels/test.tsv. Files that end in .gz or
.zst are decompressed.")]
pub(crate) struct RetrievalEvalArgs {
    #[command(flatten)]
    pub(crate) rankings: RankingArgs,
    /// Also print the value for every query
    #[arg(long)]
    pub(crate) per_query: bool,
    /// Results per query used for pipeline metrics
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) depth: u32,
    /// Store the metrics
    #[arg(long)]
    pub(crate) record: bool,
    /// Bootstrap resamples for the confidence intervals; 0 disables them
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) resamples: u64,
    /// Seed of the resampling
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// Options of `retrieval compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval compare --qrels examples/retrieval/qrels.txt --run examples/retrieval/bm25.txt --run examples/retrieval/fusion.txt
  satiety retrieval compare --qrels qrels.txt --run main.txt --run branch.txt --fail-if-worse 0.01

The first run is the control. The first metric decides; without --metrics: ndcg@10, mrr@10, recall@10.

With --fail-if-worse: exit 1 when a metric is worse by more than the margin, 3 when the first metric can
neither show nor rule out such a loss, 0 when it is ruled out.")]
pub(crate) struct RetrievalCompareArgs {
    #[command(flatten)]
    pub(crate) rankings: RankingArgs,
    /// Also print the change for every query
    #[arg(long)]
    pub(crate) per_query: bool,
    /// Regression gate: maximum tolerated loss
    #[arg(long, value_name = "MARGIN")]
    pub(crate) fail_if_worse: Option<f64>,
    /// Bootstrap resamples for the confidence intervals
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) resamples: u64,
    /// Seed of the resampling and the randomization test
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// Inputs and evaluation options shared by `eval` and `compare`.
#[derive(Debug, Args)]
pub(crate) struct RankingArgs {
    /// File with the judgments
    #[arg(long, value_name = "FILE")]
    pub(crate) qrels: PathBuf,
    /// File with a run; repeatable
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) run: Vec<PathBuf>,
    /// Metrics to compute, separated by commas; repeatable
    #[arg(long, visible_alias = "metric", value_name = "METRICS", value_delimiter = ',')]
    pub(crate) metrics: Vec<Measure>,
    /// Break metrics down by query fields, such as category or intent; repeatable
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) by: Vec<String>,
    /// Queries with their fields: JSON Lines or a table [default: the judgments, if they have fields]
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,
    /// Documents with tier, folder, class or parent: JSON Lines or a table
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: Option<PathBuf>,
    /// Minimum grade of a relevant document [default: 2; with --compat trec: 1]
    #[arg(long, value_name = "GRADE")]
    pub(crate) relevance_threshold: Option<i32>,
    /// Order of equal scores: by document id as in `trec_eval`, or by rank in the file
    #[arg(long, value_name = "BY", default_value = "trec")]
    pub(crate) ties: TiesBy,
    /// Keep one of several identical documents per query instead of failing
    #[arg(long, value_name = "WHICH")]
    pub(crate) dedup: Option<DedupKeep>,
    /// How to count judged queries without results [default: zero; with --compat trec: skip]
    #[arg(long, value_name = "AS")]
    pub(crate) missing: Option<ZeroOrSkip>,
    /// How to count queries without relevant documents [default: skip; with --compat trec: zero]
    #[arg(long, value_name = "AS")]
    pub(crate) no_relevant: Option<ZeroOrSkip>,
    /// How to count unjudged results: as irrelevant, or removed from the list
    #[arg(long, value_name = "AS", default_value = "irrelevant")]
    pub(crate) unjudged: UnjudgedAs,
    /// Use the conventions of another program
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) compat: Option<Compat>,
}

/// Order of equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TiesBy {
    /// By document id in descending order
    Trec,
    /// By rank in the file
    Rank,
}

/// Duplicate to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DedupKeep {
    /// The best-ranked one in a run, the first line in judgments
    First,
}

/// How to count a query without results or relevant documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ZeroOrSkip {
    /// Count it as 0
    Zero,
    /// Leave it out of the mean
    Skip,
}

/// How to count unjudged results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnjudgedAs {
    /// Count it as irrelevant
    Irrelevant,
    /// Remove it from the list before measuring
    Condensed,
}

/// Programs whose conventions can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// `trec_eval` defaults: grade 1 is relevant, missing queries are skipped, nothing to find counts 0
    Trec,
}

/// Options of `retrieval corpus check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval corpus check examples/retrieval/corpus.jsonl
  satiety retrieval corpus check beir-folder --run bm25.txt --run hybrid.txt --strict

The corpus is a file of queries with their judgments (.jsonl), a file of judgments, or a BEIR directory. The
variance of per-query differences limits what can be detected. It is estimated from two runs or set with --sigma.")]
pub(crate) struct CorpusCheckArgs {
    /// Queries with judgments, judgments, or a BEIR directory
    pub(crate) corpus: PathBuf,
    /// File with the queries, if the corpus has only judgments
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,
    /// File with the documents [default: corpus.jsonl of a BEIR directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) documents: Option<PathBuf>,
    /// Run for estimating the variance of differences; give it twice
    #[arg(long, value_name = "FILE", conflicts_with = "sigma")]
    pub(crate) run: Vec<PathBuf>,
    /// Standard deviation of differences, if no runs are given
    #[arg(long, value_name = "SD", default_value_t = 0.2)]
    pub(crate) sigma: f64,
    /// Difference that the corpus should be able to detect
    #[arg(long, value_name = "DIFFERENCE", default_value_t = 0.05)]
    pub(crate) difference: f64,
    /// Minimum grade of a relevant document
    #[arg(long, value_name = "GRADE", default_value_t = 2)]
    pub(crate) relevance_threshold: i32,
    /// Minimum share of common words at which two queries count as duplicates
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    pub(crate) near_duplicate: f64,
    /// Exit with 1 when there is any finding
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Options of `retrieval pool`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval pool --run bm25.txt --run hybrid.txt --depth 20 --output pool.csv
  satiety retrieval pool --run new.txt --qrels qrels.txt --queries queries.jsonl --corpus corpus.jsonl --output pool.jsonl

A .csv file has one row per document with an empty grade, a .jsonl file one line per query with null grades. Fill
in 0 to 3; `retrieval eval` reads either back as judgments. The order is random.")]
pub(crate) struct PoolArgs {
    /// File with a run; repeatable
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) run: Vec<PathBuf>,
    /// Results to take from each run
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) depth: u32,
    /// Existing judgments; judged documents are left out
    #[arg(long, value_name = "FILE")]
    pub(crate) qrels: Option<PathBuf>,
    /// File with query texts, for annotators
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,
    /// File with document texts, for annotators
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: Option<PathBuf>,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Output file: .csv or .jsonl [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Options of `retrieval import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval import examples/retrieval/corpus.jsonl
  satiety retrieval import qrels.txt --queries queries.tsv --source bootstrapped")]
pub(crate) struct ImportCorpusArgs {
    /// Queries with judgments, judgments, or a BEIR directory
    pub(crate) corpus: PathBuf,
    /// File with the queries, if the corpus has only judgments
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,
    /// Source of judgments that do not name one
    #[arg(long, value_name = "SOURCE", default_value = "manual")]
    pub(crate) source: Source,
}

/// Options of `retrieval export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval export corpus.jsonl
  satiety retrieval export qrels.txt --source manual,validated
  satiety retrieval export qrels.txt --min-confidence 0.8

A .jsonl file has everything; any other file has judgments in trec_eval's format, one per result, with this precedence: a
person's, an agent's explicit verdict, agent behavior, rules.")]
pub(crate) struct ExportCorpusArgs {
    /// File to write
    pub(crate) output: PathBuf,
    /// Export only judgments from these sources, separated by commas
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    pub(crate) source: Vec<Source>,
    /// Export only judgments with at least this confidence, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) min_confidence: f64,
}

/// Source of judgments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// A person judged the result
    Manual,
    /// Inferred from what an agent did with the result
    Implicit,
    /// Derived by a rule
    Bootstrapped,
    /// An agent reported that it was useful
    Validated,
}
