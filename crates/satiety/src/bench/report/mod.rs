//! Reports of runs and verdicts for other tools: `JUnit` XML, Prometheus text, and the `benchmark.json` of
//! the Agent Skills tools. Functions return text; the caller writes it.

mod junit;
mod prometheus;
mod skill_creator;

pub use junit::junit_xml;
pub use prometheus::prometheus_text;
pub use skill_creator::skill_benchmark;
