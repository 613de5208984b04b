//! Is the agent or skill still as good as it was? Suites of cases, what a run of them found, and verdicts about runs:
//! a regression gate that knows noise, stopping rules, ablations, judges and reports.
//!
//! Everything takes texts and values that somebody else read. Nothing here runs a target, opens a file or reads a clock.
//!
//! | question | module |
//! |---|---|
//! | what is asked, what is right? | [`suite`], [`expected`], [`reader`], [`check`], [`schema`] |
//! | ... from real sessions and failures | [`scrub`], [`from_failure`] |
//! | is it still the same case? | [`hash`] |
//! | what does the system under test see? | [`contract`] |
//! | ... and what is it allowed? | [`sandbox`] |
//! | ... where other tools keep it | [`skill`], [`promptfoo`] |
//! | is an answer right? | [`matching`], [`judge`] |
//! | what did a run find? | [`run`], [`summary`], [`inspect_log`] |
//! | is it worse than before? | [`gate`] |
//! | could the design show it, may I stop now? | [`power`], [`sequential`] |
//! | does a change ship? | [`mod@ablation`] |
//! | how do others read it? | [`report`] |

#![expect(
    clippy::float_cmp,
    reason = "weights and scores of exactly 0 or 1 mean something of their own"
)]

pub mod ablation;
#[cfg(test)]
mod ablation_tests;
pub mod check;
mod compare_values;
pub mod contract;
pub mod expected;
pub mod from_failure;
pub mod gate;
pub mod hash;
pub mod inspect_log;
mod json_path;
mod json_schema;
pub mod judge;
pub mod matching;
#[cfg(test)]
mod matching_tests;
pub mod power;
pub mod promptfoo;
pub mod reader;
pub mod report;
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

pub use ablation::{
    AblationReport, AblationSettings, AblationVerdict, Margin, MetricReport, MetricSummary, VariantReport,
    ablation,
};
pub use check::{Problem, check_case, check_suite};
pub use expected::{BenchmarkExpected, Direction, Mode};
pub use from_failure::{FailureError, case_from_failure};
pub use gate::{CaseChange, ChangeKind, GatePolicy, GateReport, GateVerdict, PassComparison, compare};
pub use hash::{canonical_json, case_hash, content_hash, suite_hash, suite_hash_of};
pub use inspect_log::{InspectOptions, read_inspect_log, read_inspect_members};
pub use matching::{Answers, Assessment, Observed, Pending, assess};
pub use power::{Design, PowerStatement, noise_of, statement};
pub use promptfoo::{ImportReport, PromptfooImport, import_promptfoo};
pub use reader::{Named, SuiteError, TextFormat, read_cases, read_suite};
pub use rubric::{Rubric, rubric_of};
pub use run::{Attempt, BenchmarkResult, BenchmarkRun, ErrorOwner, JudgeOpinion, Status};
pub use sandbox::{SandboxIsolation, SandboxPolicy, SandboxRequirement, sandbox_note};
pub use schema::suite_schema;
pub use scrub::{ScrubReport, Scrubber};
pub use sequential::{Progress, Sequential, SequentialError, SequentialSettings, Side};
pub use skill::{SkillEvals, WITH_SKILL, WITHOUT_SKILL, read_skill_evals};
pub use suite::{BenchmarkCase, BenchmarkInput, BenchmarkSuite, Difficulty, Source};
pub use summary::{BenchmarkSummary, CaseSummary, Reliability, StatusCounts, by_case, leading, summarize};
