//! Machine-readable results: a measuring program records what it prints, and `all` collects it.
//!
//! Rows are appended as JSON lines to the file that [`FILE`] names; without it nothing is recorded, so that a
//! program needs no option for it.

use std::io::Write as _;

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// Environment variable with the path of the file for the rows.
pub const FILE: &str = "SATIETY_PERF_ROWS";

/// One result, next to that of a peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    pub what: String,
    pub unit: String,
    pub ours: f64,
    /// What it is compared with: another program, or a smaller size of ours.
    pub peer: String,
    /// Result of the peer in the same unit; absent if it was not measured.
    pub theirs: Option<f64>,
    /// Whether a larger number is better.
    pub more_is_better: bool,
}

impl Row {
    /// A cost: less is better.
    pub fn cost(what: impl Into<String>, unit: &str, ours: f64) -> Self {
        Self {
            what: what.into(),
            unit: unit.into(),
            ours,
            peer: String::new(),
            theirs: None,
            more_is_better: false,
        }
    }

    /// A rate: more is better.
    pub fn rate(what: impl Into<String>, unit: &str, ours: f64) -> Self {
        Self {
            more_is_better: true,
            ..Self::cost(what, unit, ours)
        }
    }

    #[must_use]
    pub fn against(self, peer: &str, theirs: f64) -> Self {
        Self {
            peer: peer.into(),
            theirs: Some(theirs),
            ..self
        }
    }

    /// How many times better ours is; below 1 if it is worse.
    pub fn ratio(&self) -> Option<f64> {
        let theirs = self.theirs?;
        Some(if self.more_is_better {
            self.ours / theirs
        } else {
            theirs / self.ours
        })
    }

    /// Appends the row to the file of [`FILE`], if it is set.
    pub fn record(&self) -> Result<()> {
        let Some(path) = std::env::var_os(FILE) else {
            return Ok(());
        };
        let mut file = fs_err::OpenOptions::new().create(true).append(true).open(path)?;
        writeln!(file, "{}", serde_json::to_string(self)?)?;
        Ok(())
    }
}
