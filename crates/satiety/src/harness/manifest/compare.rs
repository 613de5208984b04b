//! The ratchet: is a new harness at least as rigorous as the old one? Every change is classified, and only when each is
//! harder or neutral is the whole admissible. What cannot be shown to be at least as rigorous is not admissible either.
//!
//! | what | may | may not |
//! |---|---|---|
//! | cases | be added, enabled, asked more of, renamed, graduate to the regression tier | be removed, disabled, moved, asked less of, asked something else, merged; a broken one may be retired with an audited reason and a new replacement, which keeps its id |
//! | repeats, determinism, time limits | more, declared, shorter | fewer (but for a graduate), undeclared, longer |
//! | thresholds | tighten | loosen, turn round, go |
//! | gates | be added, tolerate less | go, tolerate more, find less (smaller alpha) |
//! | level of improvements | fall | rise |
//! | judges | be added, get more votes, be replaced with old answers scored again | go, get fewer votes, drift from the first one |

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare_cases::compare_cases;
use super::{JudgeEntry, Manifest, ManifestError};
use crate::bench::expected::Direction;
use crate::bench::gate::GatePolicy;

/// Fewer answers scored again say nothing about two judges.
const LEAST_RESCORED: u64 = 20;

/// What a change does to the harness's rigor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rigor {
    /// It asks less.
    Weaker,
    /// It cannot be shown to ask as much.
    Incomparable,
    /// It asks as much.
    Neutral,
    /// It asks more.
    Harder,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Where: `suites.arithmetic.c1.repeats`.
    pub place: String,
    /// What it does.
    pub rigor: Rigor,
    /// In words.
    pub reason: String,
    /// Whether it counts only with evidence or an approver's signature, although it asks as much: a retirement, a case that
    /// graduates to the regression tier, a change of the trusted keys.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_approval: bool,
}

/// What lies between two harnesses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RigorDiff {
    /// The old version.
    pub from: String,
    /// The new one.
    pub to: String,
    /// Every change, the weakening ones first.
    pub changes: Vec<Change>,
    /// Whether nothing is weaker and everything can be compared.
    pub admissible: bool,
}

impl RigorDiff {
    /// The changes that stand in the way.
    pub fn objections(&self) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(|change| matches!(change.rigor, Rigor::Weaker | Rigor::Incomparable))
    }

    /// Admissible changes that count only with evidence or a signature.
    pub fn needing_approval(&self) -> impl Iterator<Item = &Change> {
        self.changes
            .iter()
            .filter(|change| change.needs_approval && change.rigor >= Rigor::Neutral)
    }

    /// Whether the step may be taken by anyone: nothing objects and nothing needs approval.
    pub fn is_free(&self) -> bool {
        self.admissible && self.needing_approval().next().is_none()
    }

    /// How many changes do what.
    pub fn count(&self, rigor: Rigor) -> usize {
        self.changes.iter().filter(|change| change.rigor == rigor).count()
    }
}

/// Collects changes.
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

    /// A change that asks as much, and that only evidence or a signature justifies.
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

    /// The difference that these changes make, the weakening ones first.
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

    /// Whether nothing is weaker and everything can be compared.
    pub(super) fn are_admissible(&self) -> bool {
        self.0.iter().all(|change| change.rigor >= Rigor::Neutral)
    }

    /// A number of which more is harder.
    pub(in crate::harness) fn number(&mut self, place: impl Into<String>, old: f64, new: f64) {
        if old != new {
            let rigor = if new > old { Rigor::Harder } else { Rigor::Weaker };
            let verb = if new > old { "raised" } else { "lowered" };
            self.add(place, rigor, format!("{verb} from {old} to {new}"));
        }
    }

    /// A number of which less is harder.
    pub(super) fn tolerance(&mut self, place: impl Into<String>, old: f64, new: f64) {
        if old != new {
            let rigor = if new < old { Rigor::Harder } else { Rigor::Weaker };
            let verb = if new > old { "raised" } else { "lowered" };
            self.add(place, rigor, format!("{verb} from {old} to {new}"));
        }
    }
}

/// Compares two harnesses.
pub fn compare(old: &Manifest, new: &Manifest) -> Result<RigorDiff, ManifestError> {
    Ok(changes_between(old, new)?.into_diff(old.version(), new.version()))
}

/// Every change from one harness to another, not yet sorted.
pub(in crate::harness) fn changes_between(old: &Manifest, new: &Manifest) -> Result<Changes, ManifestError> {
    old.check()?;
    new.check()?;
    let mut changes = Changes::default();
    compare_cases(old, new, &mut changes);
    thresholds(old, new, &mut changes);
    gates(old, new, &mut changes);
    judges(old, new, &mut changes);
    changes.tolerance("alpha", old.alpha, new.alpha);
    changes.number("judge_agreement", old.judge_agreement, new.judge_agreement);
    Ok(changes)
}

fn thresholds(old: &Manifest, new: &Manifest, changes: &mut Changes) {
    let names: BTreeSet<&String> = old.thresholds.keys().chain(new.thresholds.keys()).collect();
    for name in names {
        let place = format!("thresholds.{name}");
        match (old.thresholds.get(name), new.thresholds.get(name)) {
            (Some(_), None) => changes.add(place, Rigor::Weaker, "the threshold is gone"),
            (None, Some(_)) => changes.add(place, Rigor::Harder, "a new threshold"),
            (Some(before), Some(now)) if before.direction != now.direction => {
                changes.add(place, Rigor::Incomparable, "its good side was turned round");
            }
            (Some(before), Some(now)) => match before.direction {
                Direction::Higher => changes.number(place, before.value, now.value),
                Direction::Lower => changes.tolerance(place, before.value, now.value),
            },
            (None, None) => {}
        }
    }
}

/// The numbers of a gate by name.
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
            changes.add(format!("gates.{name}"), Rigor::Weaker, "the gate was dropped");
            continue;
        };
        for ((field, before), (_, now)) in gate_fields(before).into_iter().zip(gate_fields(now)) {
            let place = format!("gates.{name}.{field}");
            if field != "alpha" {
                changes.tolerance(place, before, now);
            } else if now < before {
                // A gate looks for regressions: with a smaller level it finds fewer.
                changes.add(
                    place,
                    Rigor::Weaker,
                    format!("lowered from {before} to {now}: it finds fewer regressions"),
                );
            } else if now > before {
                changes.add(
                    place,
                    Rigor::Incomparable,
                    format!("raised from {before} to {now}: it finds more, and raises more false alarms"),
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
            changes.add(place, Rigor::Weaker, "the judge is gone");
            continue;
        };
        changes.number(
            format!("{place}.votes"),
            f64::from(before.votes),
            f64::from(now.votes),
        );
        if before.fingerprint == now.fingerprint && before.lineage == now.lineage {
            continue;
        }
        match follows(before, now, old.judge_agreement) {
            Ok(agreement) => changes.add(
                place,
                Rigor::Neutral,
                format!("replaced, with old answers scored again; it agrees with the first judge on at least {agreement:.3}"),
            ),
            Err(why) => changes.add(place, Rigor::Weaker, why),
        }
    }
}

/// Whether a judge follows from an older one, and the least agreement with the first of its line: each replacement
/// loses at most its disagreement, so many small steps do not add up to a large one unseen.
fn follows(old: &JudgeEntry, new: &JudgeEntry, least: f64) -> Result<f64, String> {
    if !new.lineage.starts_with(&old.lineage) {
        return Err("the record of earlier replacements was changed".to_owned());
    }
    let mut current = old.fingerprint.as_str();
    for step in new.lineage.iter().skip(old.lineage.len()) {
        if step.from != current {
            return Err(format!(
                "a replacement starts from {}, not from {current}",
                step.from
            ));
        }
        if step.rescored < LEAST_RESCORED {
            return Err(format!(
                "{} old answers were scored again, and {LEAST_RESCORED} are needed",
                step.rescored
            ));
        }
        current = &step.to;
    }
    if current != new.fingerprint {
        return Err("replaced without scoring old answers again".to_owned());
    }
    let agreement = 1.0 - new.lineage.iter().map(|step| 1.0 - step.agreement).sum::<f64>();
    // 0.95 + 0.95 − 1 is a little less than 0.9 in floats.
    if agreement + 1e-9 < least {
        return Err(format!(
            "it may agree with the first judge on no more than {agreement:.3} of the answers; {least} is needed"
        ));
    }
    Ok(agreement)
}
