//! Runs and verdicts in the forms that other programs read: `JUnit` XML, Prometheus text, and the `benchmark.json` of
//! the Agent Skills tools. Texts only; the caller writes them.

mod junit;
mod prometheus;
mod skill_creator;

pub use junit::junit_xml;
pub use prometheus::prometheus_text;
pub use skill_creator::skill_benchmark;
