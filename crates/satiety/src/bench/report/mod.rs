//! Runs and verdicts in the forms that other programs and people read: Markdown for a pull request, `JUnit` XML,
//! Prometheus text, and the `benchmark.json` of the Agent Skills tools. Texts only; somebody else writes them.

mod junit;
mod prometheus;
mod pull_request;
mod skill_creator;

pub use junit::junit_xml;
pub use prometheus::prometheus_text;
pub use pull_request::{gate_markdown, run_markdown};
pub use skill_creator::skill_benchmark;
