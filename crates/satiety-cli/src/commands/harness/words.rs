//! Words for people, with their colours.

use owo_colors::OwoColorize;
use satiety::harness::cycles::Trend;
use satiety::harness::{Action, Consistency, Level, Phase, Verdict};

/// Letters of a hash that people are shown.
const SHORT: usize = 12;

pub(super) fn action(consistency: &Consistency) -> String {
    let word = match consistency.action {
        Action::Continue => "CONTINUE".green().to_string(),
        Action::FlagForReview => "FLAG_FOR_REVIEW".yellow().bold().to_string(),
        Action::TriggerExpansionResearch => "TRIGGER_EXPANSION_RESEARCH".red().bold().to_string(),
    };
    match &consistency.reason {
        Some(reason) => format!("{word}: {reason}"),
        None => word,
    }
}

pub(super) fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Discriminates => verdict.green().to_string(),
        Verdict::Underpowered => verdict.yellow().to_string(),
        Verdict::Saturated => verdict.red().bold().to_string(),
    }
}

/// An e-value; large ones by their magnitude.
pub(super) fn e_value(ln: f64) -> String {
    if ln < 7.0 {
        format!("{:.1}", ln.exp())
    } else {
        format!("10^{:.0}", ln / std::f64::consts::LN_10)
    }
}

pub(super) fn coloured(level: Level) -> String {
    match level {
        Level::Normal => level.green().to_string(),
        Level::Elevated => level.yellow().to_string(),
        Level::High => level.red().to_string(),
        Level::Critical => level.red().bold().to_string(),
    }
}

pub(super) fn trend(trend: Trend) -> &'static str {
    match trend {
        Trend::Increasing => "increasing",
        Trend::Stable => "stable",
        Trend::Decreasing => "decreasing",
    }
}

pub(super) fn phase(phase: Phase) -> String {
    // Its serde form is the one in records and JSON.
    serde_json::to_value(phase)
        .ok()
        .and_then(|value| value.as_str().map(|word| word.replace('_', " ")))
        .unwrap_or_default()
}

pub(super) fn short(hash: &str) -> &str {
    hash.get(..SHORT).unwrap_or(hash)
}
