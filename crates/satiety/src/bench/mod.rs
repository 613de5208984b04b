//! Benchmarks for agents and skills: suites of cases, run results, and statistical verdicts about runs. This
//! includes a regression gate that accounts for noise, stopping rules, ablations, judges and reports.
//!
//! All functions take texts and values that the caller has read. This module never runs a target, opens a
//! file or reads the clock.
//!
//! | topic | module |
//! |---|---|
//! | suites, cases and expectations | [`suite`], [`expected`], [`reader`], [`check`], [`schema`] |
//! | cases from real sessions and failures | [`scrub`], [`from_failure`] |
//! | content hashes of cases and suites | [`hash`] |
//! | the protocol between harness and target | [`contract`] |
//! | sandbox policy of a target | [`sandbox`] |
//! | suites in the formats of other tools | [`skill`], [`promptfoo`], [`loss`] |
//! | assessing an answer | [`matching`], [`judge`], [`code_check`] |
//! | results and summaries of a run | [`run`], [`summary`], [`derived`] |
//! | results of other tools as runs | [`result_file`], [`imported_run`], [`inspect_log`], [`promptfoo`], [`lm_eval`], [`helm`], [`deepeval`], `junit`, [`pytest`], [`table`] |
//! | regression gate | [`gate`] |
//! | distributed runs: shares of the workers, shared rate limits | [`queue`], [`rate`] |
//! | statistical power and early stopping | [`power`], [`sequential`] |
//! | comparing variants before shipping a change | [`mod@ablation`] |
//! | reports for other tools | [`report`] |

#![expect(
    clippy::float_cmp,
    reason = "weights and scores of exactly 0 or 1 have a special meaning"
)]

pub mod ablation;
#[cfg(test)]
mod ablation_tests;
pub mod check;
pub mod code_check;
mod compare_values;
pub mod contract;
pub mod deepeval;
pub mod derived;
pub mod expected;
pub mod from_failure;
pub mod gate;
pub mod hash;
pub mod helm;
pub mod imported_run;
pub mod inspect_log;
mod json_path;
mod json_schema;
pub mod judge;
#[cfg(feature = "imports")]
pub mod junit;
pub mod lm_eval;
pub mod loss;
pub mod marking;
pub mod matching;
#[cfg(test)]
mod matching_tests;
pub mod power;
pub mod promptfoo;
pub mod pytest;
pub mod queue;
pub mod rate;
pub mod reader;
pub mod report;
pub mod result_file;
pub mod rubric;
pub mod run;
pub mod sandbox;
pub mod schema;
pub mod scrub;
pub mod sequential;
pub mod skill;
pub mod suite;
#[cfg(test)]
mod suite_tests;
pub mod summary;
pub mod table;

pub use ablation::{
    AblationReport, AblationSettings, AblationVerdict, Margin, MetricReport, MetricSummary, VariantReport,
    ablation,
};
pub use check::{Problem, check_case, check_suite};
pub use code_check::{CheckOutcome, CodeCheck, Language, Transform};
pub use deepeval::read_deepeval;
pub use derived::{DERIVED_METRICS, DerivedMetric, DerivedMetrics};
pub use expected::{BenchmarkExpected, Direction, Mode};
pub use from_failure::{FailureError, case_from_failure};
pub use gate::{
    CaseChange, ChangeKind, GateLook, GatePolicy, GateReport, GateVerdict, PassComparison, ScoreComparison,
    SequentialDesign, SequentialGate, SequentialVerdict, VariantGate, baseline_of_target, compare,
};
pub use hash::{canonical_json, case_hash, content_hash, suite_hash, suite_hash_from_cases};
pub use helm::{HelmFiles, read_helm};
pub use imported_run::{ImportedScore, ResultOrigin, RunImport, ScoreChoice};
pub use inspect_log::{read_inspect_log, read_inspect_members};
#[cfg(feature = "imports")]
pub use junit::read_junit;
pub use lm_eval::{is_lm_eval_samples, read_lm_eval_samples};
pub use loss::Loss;
pub use marking::{MarkKind, MarkedAnswer, MarkedSpan, mark_answer, mark_difference};
pub use matching::{Answers, Assessment, Observed, Pending, assess, part_scores};
pub use power::{Design, PowerStatement, estimate_noise, statement};
pub use promptfoo::{ConfigFiles, ImportReport, PromptfooImport, import_promptfoo, read_promptfoo_results};
pub use pytest::{is_pytest_log, read_pytest_log, read_pytest_report};
pub use queue::Priority;
pub use reader::{Named, SuiteError, TextFormat, read_cases, read_suite};
pub use result_file::{ResultFile, ResultOptions};
pub use rubric::{Rubric, parse_rubric};
pub use run::{Attempt, BenchmarkResult, BenchmarkRun, ErrorOwner, JudgeOpinion, NamedScore, Status};
pub use sandbox::{SandboxIsolation, SandboxPolicy, SandboxRequirement, sandbox_note};
pub use schema::suite_schema;
pub use scrub::{ScrubReport, Scrubber};
pub use sequential::{Progress, Sequential, SequentialError, SequentialSettings, Side};
pub use skill::{SkillEvals, WITH_SKILL, WITHOUT_SKILL, read_skill_evals};
pub use suite::{BenchmarkCase, BenchmarkInput, BenchmarkSuite, Difficulty, Source};
pub use summary::{
    BenchmarkSummary, CaseSummary, Reliability, ScoreSummary, StatusCounts, by_case, leading, summarize,
    summarize_run, summarize_system, systems,
};
pub use table::{ColumnChoice, ColumnRole, ColumnUse, ResultTable, TableImport, read_result_table};
