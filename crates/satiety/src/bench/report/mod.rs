//! Reports of runs and verdicts for other tools: `JUnit` XML, Prometheus text, logs of Inspect, columns of tables, and
//! the `benchmark.json` of the Agent Skills tools. Functions return text or values; the caller writes them.

mod columns;
mod inspect;
mod junit;
mod prometheus;
mod skill_creator;

pub use columns::{ColumnValues, TableColumn, result_columns};
pub use inspect::inspect_eval_log;
pub use junit::junit_xml;
pub use prometheus::prometheus_text;
pub use skill_creator::skill_benchmark;
