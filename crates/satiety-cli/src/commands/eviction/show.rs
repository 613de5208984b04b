//! Rendering of eviction results.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::eviction::gate::Scorer;
use satiety::eviction::{EvictionFeedback, Shortfall, Timeline};
use satiety_engine::eviction::{
    ActivateResponse, Calibrated, Feedback, ProposeResponse, RefreshResponse, ScopeListing, ScopeUpdated,
    Scorers, SimulateResponse, Variants,
};
use satiety_report::Document;
use satiety_report::documents::eviction;
use schemars::JsonSchema;
use serde::Serialize;

use crate::printer::Render;
use crate::table::table;

/// A timeout in the largest unit that gives a whole number.
fn readable_timeout(milliseconds: u64) -> String {
    let units = [(3_600_000, "h"), (60_000, "min"), (1000, "s")];
    let found = units
        .iter()
        .find(|(size, _)| milliseconds >= *size && milliseconds.is_multiple_of(*size));
    match found {
        Some((size, unit)) => format!("{} {unit}", milliseconds / size),
        None => format!("{milliseconds} ms"),
    }
}

impl Render for ScopeUpdated {
    fn human(&self) -> String {
        let mut text = format!(
            "{}: {} items, {} tokens, turn {}",
            self.scope_id.bold(),
            self.items,
            self.tokens,
            self.turn
        );
        text.push_str(&timed_out(&self.timed_out));
        text
    }
}

fn timed_out(proposals: &[String]) -> String {
    if proposals.is_empty() {
        return String::new();
    }
    format!(
        "\n{} without an answer in time, the candidates of {} were evicted",
        "note:".yellow(),
        proposals.join(", ")
    )
}

#[derive(Serialize)]
pub(super) struct Listed {
    #[serde(flatten)]
    pub(super) listing: ScopeListing,
    #[serde(skip)]
    pub(super) explain: bool,
}

impl Render for Listed {
    fn human(&self) -> String {
        if self.listing.scopes.is_empty() {
            return "No contexts yet. Create one with `satiety evict add NAME items.json`.".into();
        }
        if self.listing.items.is_empty() {
            let rows = self.listing.scopes.iter().map(|scope| {
                vec![
                    scope.scope_id.clone(),
                    scope.turn.to_string(),
                    scope.items.to_string(),
                    scope.open_proposals.to_string(),
                ]
            });
            return table(&["context", "turn", "items", "open proposals"], &[1, 2, 3], rows);
        }
        let rows = self.listing.items.iter().map(|item| {
            let mut row = vec![
                item.rank.map_or_else(
                    || if item.pinned { "pinned" } else { "kept" }.into(),
                    |rank| rank.to_string(),
                ),
                item.ctx_id.clone(),
                item.zone.clone(),
                item.kind.clone(),
                item.token_count.to_string(),
                item.age_turns.to_string(),
                item.reference_count.to_string(),
                format!("{:.3}", item.score.relevance_score),
                item.snippet.clone(),
            ];
            if self.explain {
                let terms = item
                    .score
                    .terms
                    .iter()
                    .map(|term| format!("{} {:+.2}", term.name, term.contribution));
                row.push(terms.collect::<Vec<_>>().join(", "));
            }
            row
        });
        let mut header = vec![
            "order", "item", "zone", "kind", "tokens", "age", "uses", "score", "content",
        ];
        if self.explain {
            header.push("log-odds");
        }
        table(&header, &[4, 5, 6, 7], rows)
    }
}

impl Render for ProposeResponse {
    fn human(&self) -> String {
        let proposal = &self.proposal;
        if proposal.candidates.is_empty() && proposal.shortfall.is_none() {
            let why = match &proposal.cost {
                Some(cost) => eviction::cost(cost),
                None => "Nothing needs to be evicted.".to_owned(),
            };
            return why + &timed_out(&self.timed_out);
        }
        let rows = proposal.candidates.iter().map(|candidate| {
            vec![
                candidate.ctx_id.clone(),
                format!("{:.3}", candidate.relevance_score),
                candidate.token_count.to_string(),
                candidate.age_turns.to_string(),
                if candidate.propensity < 1.0 {
                    "exploration".into()
                } else {
                    String::new()
                },
                candidate.snippet.clone(),
            ]
        });
        let mut parts = vec![
            format!(
                "{}: frees {} tokens, {} required; answer within {}",
                proposal.proposal_id.bold(),
                proposal.candidate_tokens,
                proposal.need_tokens,
                readable_timeout(proposal.timeout_ms)
            ),
            table(
                &["item", "score", "tokens", "age", "", "content"],
                &[1, 2, 3],
                rows,
            ),
        ];
        parts.extend(proposal.cost.as_ref().map(eviction::cost));
        parts.extend(proposal.shortfall.as_ref().map(shortfall));
        parts.push(format!(
            "exclude items: satiety evict resolve {} --exclude ID",
            proposal.proposal_id
        ));
        parts.join("\n\n") + &timed_out(&self.timed_out)
    }
}

fn shortfall(shortfall: &Shortfall) -> String {
    const MAX_SHOWN: usize = 8;
    let mut text = format!(
        "{} {} tokens short.",
        "Budget not met:".red(),
        shortfall.missing_tokens
    );
    if shortfall.held_tokens > 0 {
        let _ = write!(
            text,
            " Other open proposals reserve {} tokens.",
            shortfall.held_tokens
        );
    }
    for pin in shortfall.pins.iter().take(MAX_SHOWN) {
        let why = pin.needed_by.as_ref().map_or_else(
            || "is pinned".into(),
            |by| format!("is referenced by pinned {by}"),
        );
        let _ = write!(text, "\n  {} ({} tokens) {why}", pin.ctx_id, pin.token_count);
    }
    if shortfall.pins.len() > MAX_SHOWN {
        let _ = write!(text, "\n  and {} more", shortfall.pins.len() - MAX_SHOWN);
    }
    text
}

#[derive(Serialize)]
#[serde(transparent)]
pub(in crate::commands) struct Resolved(pub(in crate::commands) EvictionFeedback);

impl Render for Resolved {
    fn human(&self) -> String {
        let feedback = &self.0;
        let list = |ids: Vec<&str>| {
            if ids.is_empty() {
                "nothing".to_owned()
            } else {
                ids.join(", ")
            }
        };
        let mut lines = vec![
            format!(
                "{}: freed {} tokens, {} required (answered by {})",
                feedback.proposal_id.bold(),
                feedback.freed_tokens,
                feedback.need_tokens,
                feedback.resolved_by.name()
            ),
            format!(
                "evicted: {}",
                list(feedback.evicted.iter().map(String::as_str).collect())
            ),
            format!(
                "excluded: {}",
                list(
                    feedback
                        .excluded
                        .iter()
                        .map(|kept| kept.ctx_id.as_str())
                        .collect()
                )
            ),
        ];
        if !feedback.overruled.is_empty() {
            let ids = feedback
                .overruled
                .iter()
                .map(|wanted| wanted.ctx_id.as_str())
                .collect();
            lines.push(format!(
                "exclusion denied (quota of {} tokens reached, or no other item left): {}",
                feedback.quota_tokens,
                list(ids)
            ));
        }
        if !feedback.second_pass.is_empty() {
            let ids = feedback
                .second_pass
                .iter()
                .map(|item| item.ctx_id.as_str())
                .collect();
            lines.push(format!("evicted in the second pass: {}", list(ids)));
        }
        if !feedback.pinned_since.is_empty() {
            lines.push(format!(
                "pinned since the proposal, kept: {}",
                feedback.pinned_since.join(", ")
            ));
        }
        lines.extend(feedback.shortfall.as_ref().map(shortfall));
        lines.join("\n")
    }
}

impl Render for RefreshResponse {
    fn human(&self) -> String {
        let mut text = format!(
            "{}: {} items compared with the goal",
            self.scope_id.bold(),
            self.embedded
        );
        match &self.model {
            None => text.push_str("; no scorer model configured (models.chat)"),
            Some(model) => {
                let _ = write!(
                    text,
                    "; {model} scored {}, {} cached, {} failed",
                    self.asked, self.cached, self.failed
                );
            }
        }
        if self.breaker_open {
            let _ = write!(
                text,
                "\n{} too many failures; scorer model paused for five minutes",
                "note:".yellow()
            );
        }
        text
    }
}

/// Timeline of a context.
#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct ScopeReport {
    /// Id of the context.
    pub(super) scope_id: String,
    #[serde(flatten)]
    pub(super) timeline: Timeline,
}

impl Render for ScopeReport {
    fn document(&self) -> Document {
        eviction::timeline(&self.scope_id, &self.timeline)
    }
}

impl Render for Feedback {
    fn document(&self) -> Document {
        eviction::feedback(self.answered, self.timed_out, self.open, self.report.as_ref())
    }
}

impl Render for Calibrated {
    fn document(&self) -> Document {
        let head = format!(
            "{} ({}), based on {}, from {} labels",
            self.version,
            self.variant.name(),
            self.based_on,
            self.labels
        );
        let mut after = Vec::new();
        if let Some(alarms) = self.drift_alarms {
            after.push(format!("{alarms} drift alarms"));
        }
        after.push(format!(
            "Not active yet. Next: satiety evict variants {} --out ablation",
            self.version
        ));
        eviction::calibration(&head, self.fitted.as_ref(), &after)
    }
}

impl Render for Scorers {
    fn human(&self) -> String {
        let rows = self.versions.iter().map(|listed| {
            vec![
                if listed.version == self.in_force {
                    "active".into()
                } else {
                    String::new()
                },
                listed.version.clone(),
                listed.variant.clone(),
                listed.auc.map_or_else(|| "-".into(), |auc| format!("{auc:.3}")),
                listed
                    .gain_shown
                    .map_or("-", |shown| if shown { "shown" } else { "not shown" })
                    .to_owned(),
            ]
        });
        let mut parts = vec![table(&["", "version", "variant", "AUC", "gain"], &[3], rows)];
        if !self.log.is_empty() {
            let rows = self.log.iter().map(|row| {
                vec![
                    row.action.clone(),
                    row.version.clone(),
                    row.ablation_id.clone().unwrap_or_else(|| "-".into()),
                    row.activated_by.clone(),
                    row.reason.clone(),
                ]
            });
            parts.push(table(
                &["action", "version", "ablation", "by", "reason"],
                &[],
                rows,
            ));
        }
        parts.join("\n\n")
    }
}

#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Version(pub(super) Scorer);

impl Render for Version {
    fn human(&self) -> String {
        self.0.weights.to_toml()
    }
}

/// Targets that were written for an ablation.
#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct WrittenVariants {
    /// Directory with the files.
    pub(super) folder: String,
    #[serde(flatten)]
    pub(super) variants: Variants,
}

impl Render for WrittenVariants {
    fn human(&self) -> String {
        let Self { folder, variants } = self;
        let names: Vec<&str> = variants.files.iter().map(|file| file.name.as_str()).collect();
        format!(
            "wrote {} to {folder}\nrun it: satiety bench ablation {folder}/{}.toml {folder}/{}.toml --suite {folder} --tag \
             eviction --runs 1 --metric retained_relevance=0.01 --metric tokens_per_use=2% --metric task_results=0.02\nthen: satiety \
             evict activate {} --ablation ID --reason \"…\"",
            names.join(", "),
            variants.control,
            variants.version,
            variants.version
        )
    }
}

impl Render for ActivateResponse {
    fn human(&self) -> String {
        let row = &self.activation;
        format!(
            "{} is active, replacing {} ({}, by {}: {})",
            row.version.bold(),
            row.previous,
            row.action,
            row.activated_by,
            row.reason
        )
    }
}

impl Render for SimulateResponse {
    fn document(&self) -> Document {
        eviction::simulation(
            &self.trace,
            self.budget,
            &self.provider,
            &self.simulation,
            self.broad.as_ref(),
        )
    }
}
