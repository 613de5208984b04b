//! Evaluation of a profile on labelled conversations, and a grid search over its thresholds.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::report::Signal;
use super::vectors::RoundVectors;
use super::wire::Round;
use super::{Conversation, ConversationError, Profile, Report};

/// A conversation with a known correct answer.
#[derive(Debug, Clone)]
pub struct Labelled {
    /// Name of the conversation in the report.
    pub name: String,
    /// The correct signal after the last round, if labelled.
    pub expected: Option<Signal>,
    /// The round after which a person would have stopped, if labelled.
    pub stop_round: Option<u32>,
    /// The rounds, with their vectors if an embedder is configured.
    pub rounds: Vec<(Round, Option<RoundVectors>)>,
}

/// Thresholds to try; an empty list keeps the value of the profile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Grid {
    /// Values of `decision.k`: consecutive rounds of low novelty.
    pub k: Vec<u32>,
    /// Values of `novelty.jaccard_threshold` (L1), above 0 and at most 1.
    pub jaccard_threshold: Vec<f64>,
    /// Values of `novelty.semantic_threshold` (L2), above 0 and at most 1.
    pub semantic_threshold: Vec<f64>,
    /// Values of `novelty.low`: rates below it count as LOW.
    pub low: Vec<f64>,
}

/// Results of a sweep: the profile itself and every combination of the grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepReport {
    /// Results of the profile without changes.
    pub base: Cell,
    /// Result of each conversation with the unchanged profile.
    pub outcomes: Vec<Outcome>,
    /// Confusion matrix of expected and returned signals.
    pub confusion: Confusion,
    /// Results of each combination of the grid.
    pub cells: Vec<Cell>,
}

/// One combination of thresholds and its results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Value of `decision.k` used.
    pub k: u32,
    /// Value of `novelty.jaccard_threshold` used.
    pub jaccard_threshold: f64,
    /// Value of `novelty.semantic_threshold` used.
    pub semantic_threshold: f64,
    /// Value of `novelty.low` used.
    pub low: f64,
    /// Conversations whose last signal matches the label.
    pub signals_right: usize,
    /// Conversations with a labelled signal.
    pub signals_labelled: usize,
    /// Conversations that stop in the labelled round.
    pub stop_rounds_right: usize,
    /// Conversations that stop before the labelled round.
    pub stop_rounds_early: usize,
    /// Conversations that stop after the labelled round or not at all.
    pub stop_rounds_late: usize,
    /// Conversations with a labelled stop round.
    pub stop_rounds_labelled: usize,
}

/// Expected and actual result of one conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SweepOutcome")]
pub struct Outcome {
    /// Name of the labelled conversation.
    pub name: String,
    /// Labelled signal after the last round.
    pub expected: Option<Signal>,
    /// Actual signal after the last round.
    pub signal: Signal,
    /// Labelled round after which to stop.
    pub stop_round: Option<u32>,
    /// First round with a signal other than CONTINUE.
    pub first_stop_round: Option<u32>,
}

/// Confusion matrix: how often each expected signal received each actual signal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confusion {
    /// Counts by expected signal, then by actual signal.
    pub counts: BTreeMap<Signal, BTreeMap<Signal, usize>>,
}

/// Scores every conversation with the profile and with every combination of the grid. `prototypes` are the
/// vectors of [`prototype_texts`](super::prototype_texts), if an embedder is configured.
pub fn sweep(
    labelled: &[Labelled],
    profile: &Profile,
    prototypes: Option<&[Vec<f32>]>,
    grid: &Grid,
) -> Result<SweepReport, ConversationError> {
    let (base, outcomes) = cell(labelled, profile, prototypes)?;
    let mut confusion = Confusion::default();
    for outcome in &outcomes {
        if let Some(expected) = outcome.expected {
            *confusion
                .counts
                .entry(expected)
                .or_default()
                .entry(outcome.signal)
                .or_default() += 1;
        }
    }
    let mut cells = Vec::new();
    for k in or_default(&grid.k, profile.decision.k) {
        for jaccard_threshold in or_default(&grid.jaccard_threshold, profile.novelty.jaccard_threshold) {
            for semantic_threshold in or_default(&grid.semantic_threshold, profile.novelty.semantic_threshold)
            {
                for low in or_default(&grid.low, profile.novelty.low) {
                    let mut varied = profile.clone();
                    varied.decision.k = k;
                    varied.novelty.jaccard_threshold = jaccard_threshold;
                    varied.novelty.semantic_threshold = semantic_threshold;
                    varied.novelty.low = low;
                    cells.push(cell(labelled, &varied, prototypes)?.0);
                }
            }
        }
    }
    Ok(SweepReport {
        base,
        outcomes,
        confusion,
        cells,
    })
}

fn or_default<T: Copy>(list: &[T], default: T) -> Vec<T> {
    if list.is_empty() {
        vec![default]
    } else {
        list.to_vec()
    }
}

fn cell(
    labelled: &[Labelled],
    profile: &Profile,
    prototypes: Option<&[Vec<f32>]>,
) -> Result<(Cell, Vec<Outcome>), ConversationError> {
    let mut cell = Cell {
        k: profile.decision.k,
        jaccard_threshold: profile.novelty.jaccard_threshold,
        semantic_threshold: profile.novelty.semantic_threshold,
        low: profile.novelty.low,
        signals_right: 0,
        signals_labelled: 0,
        stop_rounds_right: 0,
        stop_rounds_early: 0,
        stop_rounds_late: 0,
        stop_rounds_labelled: 0,
    };
    let mut outcomes = Vec::new();
    for conversation in labelled {
        let report = score(conversation, profile, prototypes)?;
        let signal = report.stop_recommendation.signal;
        if let Some(expected) = conversation.expected {
            cell.signals_labelled += 1;
            cell.signals_right += usize::from(signal == expected);
        }
        if let Some(right) = conversation.stop_round {
            cell.stop_rounds_labelled += 1;
            // A conversation that never stops counts as late.
            let given = report.first_stop_round.unwrap_or(u32::MAX);
            match given.cmp(&right) {
                std::cmp::Ordering::Equal => cell.stop_rounds_right += 1,
                std::cmp::Ordering::Less => cell.stop_rounds_early += 1,
                std::cmp::Ordering::Greater => cell.stop_rounds_late += 1,
            }
        }
        outcomes.push(Outcome {
            name: conversation.name.clone(),
            expected: conversation.expected,
            signal,
            stop_round: conversation.stop_round,
            first_stop_round: report.first_stop_round,
        });
    }
    Ok((cell, outcomes))
}

fn score(
    labelled: &Labelled,
    profile: &Profile,
    prototypes: Option<&[Vec<f32>]>,
) -> Result<Report, ConversationError> {
    let mut conversation = Conversation::new(profile.clone())?;
    if let Some(prototypes) = prototypes {
        conversation = conversation.with_blocker_prototypes(prototypes.to_vec())?;
    }
    for (round, vectors) in &labelled.rounds {
        conversation.follow(round, vectors.as_ref())?;
    }
    conversation.report()
}
