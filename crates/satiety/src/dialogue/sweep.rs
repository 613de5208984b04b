//! How well a profile decides, over many labelled conversations, and what other thresholds would change.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::report::Signal;
use super::vectors::RoundVectors;
use super::wire::Round;
use super::{Conversation, ConversationError, Profile, Report};

/// A conversation whose right answer is known.
#[derive(Debug, Clone)]
pub struct Labelled {
    /// What to call it.
    pub name: String,
    /// The right signal after the last round.
    pub expected: Option<Signal>,
    /// The round after which a person would have stopped.
    pub stop_round: Option<u32>,
    /// The rounds, with their vectors where there is an embedder.
    pub rounds: Vec<(Round, Option<RoundVectors>)>,
}

/// The thresholds to try; an empty list keeps the profile's own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Grid {
    /// Low rounds in a row.
    pub k: Vec<u32>,
    /// L1 thresholds.
    pub jaccard_threshold: Vec<f64>,
    /// L2 thresholds.
    pub semantic_threshold: Vec<f64>,
    /// Borders of LOW.
    pub low: Vec<f64>,
}

/// What a profile made of the conversations, and what its neighbours would have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweepReport {
    /// The profile as it is.
    pub base: Cell,
    /// Every conversation under the profile as it is.
    pub outcomes: Vec<Outcome>,
    /// Expected against given signals.
    pub confusion: Confusion,
    /// Every combination of the grid.
    pub cells: Vec<Cell>,
}

/// One setting and how it did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(
    missing_docs,
    reason = "the settings are those of the profile, the counts say what they count"
)]
pub struct Cell {
    pub k: u32,
    pub jaccard_threshold: f64,
    pub semantic_threshold: f64,
    pub low: f64,
    pub signals_right: usize,
    pub signals_labelled: usize,
    pub stop_rounds_right: usize,
    pub stop_rounds_early: usize,
    pub stop_rounds_late: usize,
    pub stop_rounds_labelled: usize,
}

/// One conversation: what was expected and what was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Outcome {
    pub name: String,
    pub expected: Option<Signal>,
    pub signal: Signal,
    pub stop_round: Option<u32>,
    pub first_stop_round: Option<u32>,
}

/// How often each expected signal was answered with each signal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Confusion {
    /// expected, then given, then how often.
    pub counts: BTreeMap<Signal, BTreeMap<Signal, usize>>,
}

/// Scores every conversation with the profile and with every setting of the grid. `prototypes` are the vectors of
/// [`prototype_texts`](super::prototype_texts), or none.
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
    for k in or_own(&grid.k, profile.decision.k) {
        for jaccard_threshold in or_own(&grid.jaccard_threshold, profile.novelty.jaccard_threshold) {
            for semantic_threshold in or_own(&grid.semantic_threshold, profile.novelty.semantic_threshold) {
                for low in or_own(&grid.low, profile.novelty.low) {
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

fn or_own<T: Copy>(list: &[T], own: T) -> Vec<T> {
    if list.is_empty() { vec![own] } else { list.to_vec() }
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
            // Never stopping is later than any round.
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
