//! The ratchet for cases: each old case needs its own new case that is at least as strict.

use std::collections::BTreeSet;

use super::assign::{Assignment, Place, PlacedCase, is_audited, placed};
use super::compare::{Changes, Rigor};
use super::strictness::{Order, order};
use super::{CaseEntry, Manifest, Tier};

pub(super) fn compare_cases(old: &Manifest, new: &Manifest, changes: &mut Changes) {
    let assignment = Assignment::new(old, new);
    // New cases that are already reported together with an old one.
    let mut reported: BTreeSet<Place<'_>> = BTreeSet::new();
    for before in placed(old) {
        let place = format!("suites.{}.{}", before.place.0, before.place.1);
        if !before.case.enabled {
            // A disabled case required nothing, and another case may use its id now.
            match assignment
                .in_place(before.place)
                .filter(|now| assignment.owner(now.place).is_none())
            {
                Some(now) => {
                    reported.insert(now.place);
                    compare_case(&place, before.case, now.case, changes);
                }
                None => changes.add(&place, Rigor::Neutral, "a case that was not run is gone"),
            }
            continue;
        }
        match assignment.matched(before.place) {
            Some(matched) => match matched.retired {
                None => {
                    reported.insert(matched.now.place);
                    compare_placed(&place, before, matched.now, changes);
                }
                Some(record) => changes.add_for_approval(
                    &place,
                    format!(
                        "retired as broken ({}) by {}, replaced by {}",
                        record.reason, record.audited_by, record.replacement
                    ),
                ),
            },
            None => reported.extend(report_unmatched(&place, before, &assignment, changes)),
        }
    }
    for now in placed(new).filter(|now| !reported.contains(&now.place)) {
        let (rigor, reason) = if now.case.enabled {
            (Rigor::Harder, "a new case")
        } else {
            (Rigor::Neutral, "a new case that is not run yet")
        };
        changes.add(format!("suites.{}.{}", now.place.0, now.place.1), rigor, reason);
    }
    for (hash, retirement) in &old.retired {
        if new.retired.get(hash) != Some(retirement) {
            changes.add(
                format!("retired.{hash}"),
                Rigor::Weaker,
                "record of a retired case changed",
            );
        }
    }
}

/// Reports why an old case is unmatched; returns the new case that was reported with it.
fn report_unmatched<'a>(
    place: &str,
    old: PlacedCase<'a>,
    assignment: &Assignment<'a>,
    changes: &mut Changes,
) -> Option<Place<'a>> {
    if let Some(now) = assignment.nearest(old) {
        if covers(old, now) {
            let reason = match assignment.owner(now.place) {
                Some(other) if other.place != old.place => format!(
                    "case removed: {}/{} already matches {}/{}",
                    now.place.0, now.place.1, other.place.0, other.place.1
                ),
                _ => "the replacement of a retired case must keep its id".to_owned(),
            };
            changes.add(place, Rigor::Weaker, reason);
            return None;
        }
        compare_placed(place, old, now, changes);
        return Some(now.place);
    }
    if let Some(record) = assignment.retirements(old).next() {
        let by = &record.replacement;
        let reason = if !is_audited(record) {
            "retired without a reason or without an auditor".to_owned()
        } else if assignment.replacements(record).is_empty() {
            format!("its replacement {by} is missing or disabled")
        } else {
            format!("its replacement {by} is not new or already replaces another case")
        };
        changes.add(place, Rigor::Weaker, reason);
        return None;
    }
    if let Some(now) = assignment.in_place(old.place) {
        changes.add(
            place,
            Rigor::Incomparable,
            "input changed; add a new case instead",
        );
        return Some(now.place);
    }
    changes.add(place, Rigor::Weaker, "case removed");
    None
}

/// Whether a new case is at least as strict as an enabled old one, considering its suite.
pub(super) fn covers(old: PlacedCase<'_>, new: PlacedCase<'_>) -> bool {
    if old.place == new.place && old.case == new.case {
        return true;
    }
    let mut changes = Changes::default();
    compare_placed("", old, new, &mut changes);
    changes.are_admissible()
}

/// Compares the place and content of two cases.
fn compare_placed(place: &str, old: PlacedCase<'_>, new: PlacedCase<'_>, changes: &mut Changes) {
    let to = new.place.0;
    if old.place.0 == to {
        if old.place.1 != new.place.1 {
            changes.add(place, Rigor::Neutral, format!("renamed to {}", new.place.1));
        }
    } else if new.case.tier == Tier::Capability {
        changes.add(
            place,
            Rigor::Incomparable,
            format!(
                "moved to {to}, which has other thresholds; only graduates to the regression tier may move"
            ),
        );
    } else if old.case.tier == Tier::Regression {
        changes.add(place, Rigor::Neutral, format!("moved to {to}"));
    }
    compare_case(place, old.case, new.case, changes);
}

/// Compares the content of two cases.
fn compare_case(place: &str, old: &CaseEntry, new: &CaseEntry, changes: &mut Changes) {
    if !old.enabled {
        // A disabled case required nothing.
        if new.enabled {
            changes.add(place, Rigor::Harder, "is run now");
        } else if old != new {
            changes.add(place, Rigor::Neutral, "a case that is not run was changed");
        }
        return;
    }
    if !new.enabled {
        changes.add(place, Rigor::Weaker, "disabled");
    }
    if old.input_hash != new.input_hash {
        // Only a handwritten manifest has the same content hash for a different input.
        changes.add(place, Rigor::Incomparable, "input changed under the same hash");
    }
    if old.expected != new.expected {
        let (was, is) = (old.expected.mode, new.expected.mode);
        let (rigor, reason) = match order(&old.expected, &new.expected) {
            Order::Same => (Rigor::Neutral, "expects the same in other words".to_owned()),
            Order::Stricter => (Rigor::Harder, "expects more".to_owned()),
            Order::Weaker => (
                Rigor::Weaker,
                format!("expects less ({was:?} before, {is:?} now)"),
            ),
            Order::Incomparable => (
                Rigor::Incomparable,
                format!("expectation is not comparable ({was:?} before, {is:?} now)"),
            ),
        };
        changes.add(format!("{place}.expected"), rigor, reason);
    }
    let graduated = old.tier == Tier::Capability && new.tier == Tier::Regression;
    match (old.tier, new.tier) {
        _ if graduated => {
            changes.add_for_approval(format!("{place}.tier"), "graduated to the regression tier");
        }
        (Tier::Regression, Tier::Capability) => {
            changes.add(
                format!("{place}.tier"),
                Rigor::Weaker,
                "removed from the regression tier",
            );
        }
        _ => {}
    }
    if !(graduated && new.repeats < old.repeats) {
        changes.higher_is_harder(
            format!("{place}.repeats"),
            f64::from(old.repeats),
            f64::from(new.repeats),
        );
    }
    if old.deterministic != new.deterministic {
        let (rigor, reason) = if new.deterministic {
            (Rigor::Harder, "one worse result is a regression now")
        } else {
            (Rigor::Weaker, "a single worse result is no longer a regression")
        };
        changes.add(format!("{place}.deterministic"), rigor, reason);
    }
    let place = format!("{place}.timeout_ms");
    match (old.timeout_ms, new.timeout_ms) {
        (Some(before), Some(now)) => changes.lower_is_harder(place, before as f64, now as f64),
        (Some(_), None) => changes.add(place, Rigor::Weaker, "time limit removed"),
        (None, Some(_)) => changes.add(
            place,
            Rigor::Incomparable,
            "time limit replaces the default of the runner, which may be shorter",
        ),
        (None, None) => {}
    }
}
