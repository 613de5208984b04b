//! What an agent did: steps with their calls, results and edits, and readers for the logs of agents.
//!
//! A [`Step`] is one turn of an agent: its text, the tools it called, and the results and replies that
//! followed. [`read`](read::read) parses the formats of common agents and frameworks, each a [`LogFormat`],
//! leniently: a record that cannot be understood is skipped and counted, never the whole file.
//! [`Feed`] does the same for messages that arrive one at a time. [`crate::progress`] judges the steps.

mod builder;
mod classify;
pub mod read;
mod shell;
mod step;
#[cfg(test)]
mod tests;

pub use builder::{Builder, TurnStart};
pub use classify::{CallClass, CallKind, classify};
pub use read::{Feed, Log, LogFormat, ReadError, ReadOptions, Skipped, SkippedRecord};
pub use step::{Call, CallResult, Edit, PlanItem, Reply, RunOutcome, Step, Trajectory, Usage};
