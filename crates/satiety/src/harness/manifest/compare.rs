//! The ratchet: checks that a new harness is at least as rigorous as the old one. Every change is classified;
//! the new harness is admissible only if each change is harder or neutral. A change that cannot be shown to
//! be at least as rigorous is not admissible.
//!
//! | what | allowed | not allowed |
//! |---|---|---|
//! | cases | add, enable, make stricter, rename, graduate to the regression tier | remove, disable, move, make weaker, change the input, merge; a broken case may be retired with an audited reason and a new replacement, which keeps its id |
//! | repeats, determinism, time limits | more repeats, declare deterministic, shorter limits | fewer repeats (except for a graduate), undeclare, longer limits |
//! | thresholds | tighten | loosen, reverse, remove |
//! | gates | add, tolerate less | remove, tolerate more, detect less (smaller alpha) |
//! | significance level of improvements | lower | raise |
//! | judges | add, more votes, replace with old answers scored again | remove, fewer votes, drift from the first judge |

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare_cases::compare_cases;
use super::{JudgeEntry, Manifest, ManifestError};
use crate::bench::expected::Direction;
use crate::bench::gate::GatePolicy;

/// Minimum number of answers scored again for comparing two judges.
const MIN_RESCORED: u64 = 20;

/// Effect of a change on the rigor of the harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rigor {
    /// The harness requires less than before.
    Weaker,
    /// The harness cannot be shown to require as much as before.
    Incomparable,
    /// The harness requires as much as before.
    Neutral,
    /// The harness requires more than before.
    Harder,
}

/// Change between two harnesses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Place of the change, such as `suites.arithmetic.c1.repeats`.
    pub place: String,
    /// Effect of the change on rigor.
    pub rigor: Rigor,
    /// Description of the change.
    pub reason: String,
    /// Whether the change requires evidence or an approver's signature although it is neutral: a retirement,
    /// a graduation to the regression tier, a change of the trusted keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_approval: bool,
}

/// Difference between two harnesses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RigorDiff {
    /// Version of the old harness.
    pub from: String,
    /// Version of the new harness.
    pub to: String,
    /// All changes, the weakening ones first.
    pub changes: Vec<Change>,
    /// Whether nothing is weaker and everything is comparable.
    pub admissible: bool,
}

impl RigorDiff {
    /// Returns the changes that make the new harness inadmissible.
    pub fn objections(&self) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(|change| matches!(change.rigor, Rigor::Weaker | Rigor::Incomparable))
    }

    /// Returns the admissible changes that require evidence or a signature.
    pub fn needing_approval(&self) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(|change| change.needs_approval && change.rigor >= Rigor::Neutral)
    }

    /// Whether the step is allowed without approval: no objections and nothing that needs approval.
    pub fn is_free(&self) -> bool {
        self.admissible && self.needing_approval().next().is_none()
    }

    /// Whether both differences have the same changes with the same effects; their wording may differ.
    pub(in crate::harness) fn has_same_effect(&self, other: &Self) -> bool {
        fn effect(change: &Change) -> (&str, Rigor, bool) {
            (&change.place, change.rigor, change.needs_approval)
        }
        (&self.from, &self.to, self.admissible) == (&other.from, &other.to, other.admissible)
            && self
                .changes
                .iter()
                .map(effect)
                .eq(other.changes.iter().map(effect))
    }

    /// Returns the number of changes with this effect.
    pub fn count(&self, rigor: Rigor) -> usize {
        self.changes.iter().filter(|change| change.rigor == rigor).count()
    }
}

/// Collector of changes.
#[derive(Default)]
pub(in crate::harness) struct Changes(Vec<Change>);

impl Changes {
    pub(in crate::harness) fn add(
        &mut self,
        place: impl Into<String>,
        rigor: Rigor,
        reason: impl Into<String>,
    ) {
        self.0.push(Change {
            place: place.into(),
            rigor,
            reason: reason.into(),
            needs_approval: false,
        });
    }

    /// Adds a neutral change that requires evidence or a signature.
    pub(in crate::harness) fn add_for_approval(
        &mut self,
        place: impl Into<String>,
        reason: impl Into<String>,
    ) {
        self.0.push(Change {
            place: place.into(),
            rigor: Rigor::Neutral,
            reason: reason.into(),
            needs_approval: true,
        });
    }

    /// Builds the difference, with the weakening changes first.
    pub(in crate::harness) fn into_diff(self, from: String, to: String) -> RigorDiff {
        let admissible = self.are_admissible();
        let mut changes = self.0;
        changes.sort_by(|a, b| (a.rigor, &a.place).cmp(&(b.rigor, &b.place)));
        RigorDiff {
            from,
            to,
            changes,
            admissible,
        }
    }

    /// Whether nothing is weaker and everything is comparable.
    pub(super) fn are_admissible(&self) -> bool {
        self.0.iter().all(|change| change.rigor >= Rigor::Neutral)
    }

    /// Adds the change of a number of which more is harder.
    pub(in crate::harness) fn higher_is_harder(&mut self, place: impl Into<String>, old: f64, new: f64) {
        if old != new {
            let rigor = if new > old { Rigor::Harder } else { Rigor::Weaker };
            let verb = if new > old { "raised" } else { "lowered" };
            self.add(place, rigor, format!("{verb} from {old} to {new}"));
        }
    }

    /// Adds the change of a number of which less is harder.
    pub(super) fn lower_is_harder(&mut self, place: impl Into<String>, old: f64, new: f64) {
        if old != new {
            let rigor = if new < old { Rigor::Harder } else { Rigor::Weaker };
            let verb = if new > old { "raised" } else { "lowered" };
            self.add(place, rigor, format!("{verb} from {old} to {new}"));
        }
    }
}

/// Compares the rigor of two harnesses.
pub fn compare(old: &Manifest, new: &Manifest) -> Result<RigorDiff, ManifestError> {
    Ok(changes_between(old, new)?.into_diff(old.version(), new.version()))
}

/// Returns every change from one harness to another, unsorted.
pub(in crate::harness) fn changes_between(old: &Manifest, new: &Manifest) -> Result<Changes, ManifestError> {
    old.check()?;
    new.check()?;
    let mut changes = Changes::default();
    compare_cases(old, new, &mut changes);
    thresholds(old, new, &mut changes);
    gates(old, new, &mut changes);
    judges(old, new, &mut changes);
    changes.lower_is_harder("alpha", old.alpha, new.alpha);
    changes.higher_is_harder("judge_agreement", old.judge_agreement, new.judge_agreement);
    Ok(changes)
}

fn thresholds(old: &Manifest, new: &Manifest, changes: &mut Changes) {
    let names: BTreeSet<&String> = old.thresholds.keys().chain(new.thresholds.keys()).collect();
    for name in names {
        let place = format!("thresholds.{name}");
        match (old.thresholds.get(name), new.thresholds.get(name)) {
            (Some(_), None) => changes.add(place, Rigor::Weaker, "threshold removed"),
            (None, Some(_)) => changes.add(place, Rigor::Harder, "a new threshold"),
            (Some(before), Some(now)) if before.direction != now.direction => {
                changes.add(place, Rigor::Incomparable, "direction reversed");
            }
            (Some(before), Some(now)) => match before.direction {
                Direction::Higher => changes.higher_is_harder(place, before.value, now.value),
                Direction::Lower => changes.lower_is_harder(place, before.value, now.value),
            },
            (None, None) => {}
        }
    }
}

/// Returns the numbers of a gate by name.
pub(super) fn gate_fields(gate: &GatePolicy) -> [(&'static str, f64); 6] {
    [
        ("alpha", gate.alpha),
        ("margin", gate.margin),
        ("score_drop", gate.score_drop),
        ("latency_increase", gate.latency_increase),
        ("latency_floor_ms", gate.latency_floor_ms),
        ("max_missing", gate.max_missing),
    ]
}

fn gates(old: &Manifest, new: &Manifest, changes: &mut Changes) {
    for name in new.gates.keys().filter(|name| !old.gates.contains_key(*name)) {
        changes.add(format!("gates.{name}"), Rigor::Harder, "a new gate");
    }
    for (name, before) in &old.gates {
        let Some(now) = new.gates.get(name) else {
            changes.add(format!("gates.{name}"), Rigor::Weaker, "gate removed");
            continue;
        };
        for ((field, before), (_, now)) in gate_fields(before).into_iter().zip(gate_fields(now)) {
            let place = format!("gates.{name}.{field}");
            if field != "alpha" {
                changes.lower_is_harder(place, before, now);
            } else if now < before {
                // A gate looks for regressions: at a lower level it detects fewer.
                changes.add(
                    place,
                    Rigor::Weaker,
                    format!("lowered from {before} to {now}: detects fewer regressions"),
                );
            } else if now > before {
                changes.add(
                    place,
                    Rigor::Incomparable,
                    format!("raised from {before} to {now}: detects more regressions, but raises more false alarms"),
                );
            }
        }
    }
}

fn judges(old: &Manifest, new: &Manifest, changes: &mut Changes) {
    for name in new.judges.keys().filter(|name| !old.judges.contains_key(*name)) {
        changes.add(format!("judges.{name}"), Rigor::Harder, "a new judge");
    }
    for (name, before) in &old.judges {
        let place = format!("judges.{name}");
        let Some(now) = new.judges.get(name) else {
            changes.add(place, Rigor::Weaker, "judge removed");
            continue;
        };
        changes.higher_is_harder(
            format!("{place}.votes"),
            f64::from(before.votes),
            f64::from(now.votes),
        );
        if before.fingerprint == now.fingerprint && before.lineage == now.lineage {
            continue;
        }
        match check_lineage(before, now, old.judge_agreement) {
            Ok(agreement) => changes.add(
                place,
                Rigor::Neutral,
                format!("replaced, with old answers scored again; it agrees with the first judge on at least {agreement:.3}"),
            ),
            Err(why) => changes.add(place, Rigor::Weaker, why),
        }
    }
}

/// Checks that a judge descends from an older one and returns the minimum agreement with the first of its
/// line. Each replacement loses at most its disagreement, so many small steps cannot hide a large one.
fn check_lineage(old: &JudgeEntry, new: &JudgeEntry, required: f64) -> Result<f64, String> {
    if !new.lineage.starts_with(&old.lineage) {
        return Err("record of earlier replacements changed".to_owned());
    }
    let mut current = old.fingerprint.as_str();
    for step in new.lineage.iter().skip(old.lineage.len()) {
        if step.from != current {
            return Err(format!(
                "a replacement starts from {} (expected {current})",
                step.from
            ));
        }
        if step.rescored < MIN_RESCORED {
            return Err(format!(
                "{} old answers were scored again (required: {MIN_RESCORED})",
                step.rescored
            ));
        }
        current = &step.to;
    }
    if current != new.fingerprint {
        return Err("replaced without scoring old answers again".to_owned());
    }
    let agreement = 1.0 - new.lineage.iter().map(|step| 1.0 - step.agreement).sum::<f64>();
    // 0.95 + 0.95 − 1 is slightly less than 0.9 in floating point.
    if agreement + 1e-9 < required {
        return Err(format!(
            "agreement with the first judge may be only {agreement:.3} (required: {required})"
        ));
    }
    Ok(agreement)
}
