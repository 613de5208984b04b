//! What can be typed after `satiety retrieval`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use satiety::retrieval::Measure;

use super::retrieval_golden::{AgreementArgs, AnnotateArgs, HarvestArgs, JudgeArgs, RunArgs, RunsArgs};

/// Commands about search results.
#[derive(Debug, Subcommand)]
pub(crate) enum Retrieval {
    /// Measure runs against judgments, as `trec_eval` does
    Eval(RetrievalEvalArgs),
    /// Compare runs with the first of them: better, worse, or no evidence either way
    Compare(RetrievalCompareArgs),
    /// Check whether queries and judgments are fit for what they should show
    #[command(subcommand)]
    Corpus(Corpus),
    /// Gather what several runs put first, for annotation
    Pool(PoolArgs),
    /// Take queries of the log into the evaluation corpus
    Harvest(HarvestArgs),
    /// Judge results of the corpus by what agents did with them
    Judge(JudgeArgs),
    /// Judge results of the corpus yourself, one by one
    Annotate(AnnotateArgs),
    /// How far annotators agree
    Agreement(AgreementArgs),
    /// Replay the corpus against a memory, any MCP server or any address, and measure the answers
    Run(Box<RunArgs>),
    /// List measured runs, newest first
    Runs(RunsArgs),
    /// Put queries and judgments into the store
    Import(ImportCorpusArgs),
    /// Write queries and judgments from the store to a file
    Export(ExportCorpusArgs),
}

/// Commands about an evaluation corpus.
#[derive(Debug, Subcommand)]
pub(crate) enum Corpus {
    /// Counts against targets, coverage, queries that ask the same, and the differences that can be shown
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
.tsv are tables with a header, in .jsonl a query a line; a folder has BEIR's qrels/test.tsv. With .gz or .zst at the
end, they are decompressed.")]
pub(crate) struct RetrievalEvalArgs {
    #[command(flatten)]
    pub(crate) rankings: RankingArgs,
    /// Give the value of every query too
    #[arg(long)]
    pub(crate) per_query: bool,
    /// How many results of each query the figures of the pipeline look at
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) depth: u32,
    /// Keep the figures in the store
    #[arg(long)]
    pub(crate) record: bool,
    /// Resamples for the intervals; 0 leaves them out
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) resamples: u64,
    /// Seed of the resamples
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// Options of `retrieval compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval compare --qrels examples/retrieval/qrels.txt --run examples/retrieval/bm25.txt --run examples/retrieval/fusion.txt
  satiety retrieval compare --qrels qrels.txt --run main.txt --run branch.txt --fail-if-worse 0.01

The first run is the control. The first metric decides; without --metrics: ndcg@10, mrr@10, recall@10.

With --fail-if-worse: exit 1 when a metric is worse beyond the margin, 3 when by the first metric such a loss can be
neither shown nor excluded, 0 when it can be excluded.")]
pub(crate) struct RetrievalCompareArgs {
    #[command(flatten)]
    pub(crate) rankings: RankingArgs,
    /// Give the change of every query too
    #[arg(long)]
    pub(crate) per_query: bool,
    /// A gate: how much worse the others may be
    #[arg(long, value_name = "MARGIN")]
    pub(crate) fail_if_worse: Option<f64>,
    /// Resamples for the intervals
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) resamples: u64,
    /// Seed of resamples and sign patterns
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// Judgments, runs, and what counts how much.
#[derive(Debug, Args)]
pub(crate) struct RankingArgs {
    /// The judgments
    #[arg(long, value_name = "FILE")]
    pub(crate) qrels: PathBuf,
    /// A run; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) run: Vec<PathBuf>,
    /// What to compute, separated by commas; may be repeated
    #[arg(long, visible_alias = "metric", value_name = "METRICS", value_delimiter = ',')]
    pub(crate) metrics: Vec<Measure>,
    /// Break figures down by fields of the queries, such as category or intent; may be repeated
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    pub(crate) by: Vec<String>,
    /// Queries with their fields: JSON Lines or a table [default: the judgments, where they have fields]
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,
    /// Documents with tier, folder, class or parent: JSON Lines or a table
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: Option<PathBuf>,
    /// The grade from which on a document is relevant [default: 2; with --compat trec: 1]
    #[arg(long, value_name = "GRADE")]
    pub(crate) relevance_threshold: Option<i32>,
    /// What orders equal scores: document ids from the end, as `trec_eval` does, or the rank in the file
    #[arg(long, value_name = "BY", default_value = "trec")]
    pub(crate) ties: TiesBy,
    /// Keep one of documents that come twice for a query, instead of refusing them
    #[arg(long, value_name = "WHICH")]
    pub(crate) dedup: Option<DedupKeep>,
    /// A judged query that the run does not answer: 0, or left out [default: zero; with --compat trec: skip]
    #[arg(long, value_name = "AS")]
    pub(crate) missing: Option<ZeroOrSkip>,
    /// A query with nothing relevant to find: 0, or left out [default: skip; with --compat trec: zero]
    #[arg(long, value_name = "AS")]
    pub(crate) no_relevant: Option<ZeroOrSkip>,
    /// A result that nobody judged: irrelevant, or taken out of the list
    #[arg(long, value_name = "AS", default_value = "irrelevant")]
    pub(crate) unjudged: UnjudgedAs,
    /// Count as another program does
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) compat: Option<Compat>,
}

/// What orders equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TiesBy {
    /// By document id, from the end of the alphabet
    Trec,
    /// By the rank in the file
    Rank,
}

/// Which one is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DedupKeep {
    /// The best-ranked of a run, the first line of judgments
    First,
}

/// What a query counts about which little can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ZeroOrSkip {
    /// 0
    Zero,
    /// Left out of the mean
    Skip,
}

/// What an unjudged result counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnjudgedAs {
    /// As an irrelevant one
    Irrelevant,
    /// Taken out of the list before anything is measured
    Condensed,
}

/// Another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// `trec_eval` without options: grade 1 is relevant, missing queries are left out, nothing to find is 0
    Trec,
}

/// Options of `retrieval corpus check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval corpus check examples/retrieval/corpus.jsonl
  satiety retrieval corpus check beir-folder --run bm25.txt --run hybrid.txt --strict

The corpus is a file of queries with their judgments (.jsonl), a file of judgments, or a BEIR folder. Differences vary
from query to query; how much decides what can be shown. Two runs tell it, or --sigma does.")]
pub(crate) struct CorpusCheckArgs {
    /// Queries with judgments, judgments, or a BEIR folder
    pub(crate) corpus: PathBuf,
    /// The queries, where the judgments are only judgments
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,
    /// The documents [default: corpus.jsonl of a BEIR folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) documents: Option<PathBuf>,
    /// Two runs that tell how much differences vary; give it twice
    #[arg(long, value_name = "FILE", conflicts_with = "sigma")]
    pub(crate) run: Vec<PathBuf>,
    /// The standard deviation of differences, when no runs tell it
    #[arg(long, value_name = "SD", default_value_t = 0.2)]
    pub(crate) sigma: f64,
    /// The difference that the corpus should be able to show
    #[arg(long, value_name = "DIFFERENCE", default_value_t = 0.05)]
    pub(crate) difference: f64,
    /// The grade from which on a document is relevant
    #[arg(long, value_name = "GRADE", default_value_t = 2)]
    pub(crate) relevance_threshold: i32,
    /// Share of common words from which on two queries ask the same
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    pub(crate) near_duplicate: f64,
    /// Exit with 1 when anything should be done
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Options of `retrieval pool`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval pool --run bm25.txt --run hybrid.txt --depth 20 --output pool.csv
  satiety retrieval pool --run new.txt --qrels qrels.txt --queries queries.jsonl --corpus corpus.jsonl --output pool.jsonl

A .csv file has a row for each document with an empty grade, a .jsonl file a line for each query with null grades. Fill
in 0 to 3; `retrieval eval` reads either back as judgments. The order tells nothing about ranks.")]
pub(crate) struct PoolArgs {
    /// A run; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) run: Vec<PathBuf>,
    /// How many results of each run are taken
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) depth: u32,
    /// Judgments that exist already; what they know is left out
    #[arg(long, value_name = "FILE")]
    pub(crate) qrels: Option<PathBuf>,
    /// What the queries ask, for annotators
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,
    /// What the documents say, for annotators
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: Option<PathBuf>,
    /// Seed of the order
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Where to write the pool: .csv or .jsonl
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Options of `retrieval import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval import examples/retrieval/corpus.jsonl
  satiety retrieval import qrels.txt --queries queries.tsv --source bootstrapped")]
pub(crate) struct ImportCorpusArgs {
    /// Queries with judgments, judgments, or a BEIR folder
    pub(crate) corpus: PathBuf,
    /// The queries, where the judgments are only judgments
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,
    /// Where judgments come from that do not say so
    #[arg(long, value_name = "SOURCE", default_value = "manual")]
    pub(crate) source: Source,
}

/// Options of `retrieval export`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  satiety retrieval export corpus.jsonl
  satiety retrieval export qrels.txt --source manual,validated
  satiety retrieval export qrels.txt --min-confidence 0.8

A .jsonl file has everything; any other is judgments as trec_eval reads them, one a result: a person's before an
agent's word, that before what agents did, and that before what rules made of it.")]
pub(crate) struct ExportCorpusArgs {
    /// The file to write
    pub(crate) output: PathBuf,
    /// Only judgments from there; separated by commas
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    pub(crate) source: Vec<Source>,
    /// Only judgments that are at least so sure
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) min_confidence: f64,
}

/// Where judgments come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Source {
    /// A person looked
    Manual,
    /// What an agent did with results
    Implicit,
    /// A rule made them
    Bootstrapped,
    /// An agent said what was useful
    Validated,
}
