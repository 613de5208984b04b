//! The ratchet for cases: each old one must still be asked, at least as strictly.

use std::collections::BTreeSet;

use super::compare::{Changes, Rigor};
use super::strictness::{Order, order};
use super::{CaseEntry, Manifest, Retirement, Tier};

/// Where the content of an old case is found now.
enum Found<'a> {
    /// In its place, or under another name in the same suite.
    Here(&'a CaseEntry),
    /// In another suite.
    Moved(&'a str, &'a CaseEntry),
}

pub(super) fn compare_cases(old: &Manifest, new: &Manifest, changes: &mut Changes) {
    let mut covering: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut replacements: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut edited: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (suite, id, case) in old.cases() {
        let place = format!("suites.{suite}.{id}");
        match find(new, suite, id, case) {
            Some((key, Found::Here(now))) => {
                covering.insert(key);
                if key.1 != id {
                    changes.add(&place, Rigor::Neutral, format!("renamed to {}", key.1));
                }
                compare_case(&place, case, now, changes);
            }
            Some((key, Found::Moved(to, now))) => {
                covering.insert(key);
                if now.tier == Tier::Regression {
                    if case.tier == Tier::Regression {
                        changes.add(&place, Rigor::Neutral, format!("moved to {to}"));
                    }
                    compare_case(&place, case, now, changes);
                } else {
                    changes.add(
                        &place,
                        Rigor::Incomparable,
                        format!("moved to {to}, where other thresholds hold; only graduates to the regression tier may move"),
                    );
                }
            }
            None if !case.enabled => {
                changes.add(&place, Rigor::Neutral, "a case that was not run is gone");
            }
            None => match retirement_of(old, new, suite, id, case) {
                None if new.suites.get(suite).is_some_and(|cases| cases.contains_key(id)) => {
                    edited.insert((suite, id));
                    changes.add(
                        &place,
                        Rigor::Incomparable,
                        "asks something else; add that as a new case beside it",
                    );
                }
                None => changes.add(&place, Rigor::Weaker, "the case is gone"),
                Some(retirement) => match replaced(old, new, suite, id, retirement, &mut replacements) {
                    Ok(by) => changes.add(
                        &place,
                        Rigor::Neutral,
                        format!(
                            "retired as broken ({}) by {}, replaced by {by}",
                            retirement.reason, retirement.audited_by
                        ),
                    ),
                    Err(why) => changes.add(&place, Rigor::Weaker, why),
                },
            },
        }
    }
    for (suite, id, case) in new.cases() {
        if !covering.contains(&(suite, id)) && !edited.contains(&(suite, id)) {
            let (rigor, reason) = if case.enabled {
                (Rigor::Harder, "a new case")
            } else {
                (Rigor::Neutral, "a new case that is not run yet")
            };
            changes.add(format!("suites.{suite}.{id}"), rigor, reason);
        }
    }
    for (hash, retirement) in &old.retired {
        if new.retired.get(hash) != Some(retirement) {
            changes.add(
                format!("retired.{hash}"),
                Rigor::Weaker,
                "the record of a retired case was changed",
            );
        }
    }
}

/// The new case that asks what an old one asked: the same content, best in its place; else its place, when the input is
/// the same or the case was not run; else the same input with an expectation at least as strict.
fn find<'a>(
    new: &'a Manifest,
    suite: &str,
    id: &str,
    case: &CaseEntry,
) -> Option<((&'a str, &'a str), Found<'a>)> {
    let place = |(in_suite, in_id, found): (&'a str, &'a str, &'a CaseEntry)| {
        let found = if in_suite == suite {
            Found::Here(found)
        } else {
            Found::Moved(in_suite, found)
        };
        ((in_suite, in_id), found)
    };
    let in_place = new
        .cases()
        .find(|(in_suite, in_id, _)| *in_suite == suite && *in_id == id);
    if let Some(same) = in_place.filter(|(_, _, now)| now.hash == case.hash) {
        return Some(place(same));
    }
    // What is run in its own suite comes before what is not, or lies elsewhere.
    let best = |fits: &dyn Fn(&CaseEntry) -> bool| {
        new.cases()
            .filter(|(_, _, now)| fits(now))
            .min_by_key(|(in_suite, _, now)| (!now.enabled, *in_suite != suite, now.tier == Tier::Capability))
    };
    best(&|now| now.hash == case.hash)
        .or(in_place.filter(|(_, _, now)| now.input_hash == case.input_hash || !case.enabled))
        .or_else(|| {
            best(&|now| {
                now.input_hash == case.input_hash
                    && matches!(
                        order(&case.expected, &now.expected),
                        Order::Same | Order::Stricter
                    )
            })
        })
        .map(place)
}

/// Compares a case with the one that was found for it, see [`find`].
fn compare_case(place: &str, old: &CaseEntry, new: &CaseEntry, changes: &mut Changes) {
    if !old.enabled {
        // What was not run asked nothing.
        if new.enabled {
            changes.add(place, Rigor::Harder, "is run now");
        } else if old != new {
            changes.add(place, Rigor::Neutral, "a case that is not run was changed");
        }
        return;
    }
    if !new.enabled {
        changes.add(place, Rigor::Weaker, "was disabled");
    }
    if old.input_hash != new.input_hash {
        // Only a manifest that was written by hand has the same content hash over another input.
        changes.add(
            place,
            Rigor::Incomparable,
            "asks something else under the same hash",
        );
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
                format!("expects something that cannot be shown to be as much ({was:?} before, {is:?} now)"),
            ),
        };
        changes.add(format!("{place}.expected"), rigor, reason);
    }
    let graduated = old.tier == Tier::Capability && new.tier == Tier::Regression;
    match (old.tier, new.tier) {
        _ if graduated => changes.add(
            format!("{place}.tier"),
            Rigor::Neutral,
            "graduated to the regression tier",
        ),
        (Tier::Regression, Tier::Capability) => {
            changes.add(
                format!("{place}.tier"),
                Rigor::Weaker,
                "need not always pass any more",
            );
        }
        _ => {}
    }
    if !(graduated && new.repeats < old.repeats) {
        changes.number(
            format!("{place}.repeats"),
            f64::from(old.repeats),
            f64::from(new.repeats),
        );
    }
    if old.deterministic != new.deterministic {
        let (rigor, reason) = if new.deterministic {
            (Rigor::Harder, "one worse result is a regression now")
        } else {
            (Rigor::Weaker, "one worse result is no regression any more")
        };
        changes.add(format!("{place}.deterministic"), rigor, reason);
    }
    let place = format!("{place}.timeout_ms");
    match (old.timeout_ms, new.timeout_ms) {
        (Some(before), Some(now)) => changes.tolerance(place, before as f64, now as f64),
        (Some(_), None) => changes.add(place, Rigor::Weaker, "the time limit is gone"),
        (None, Some(_)) => changes.add(
            place,
            Rigor::Incomparable,
            "a time limit in place of the runner's default, which may be shorter",
        ),
        (None, None) => {}
    }
}

/// The record of a case's retirement. One that is new may also be about a stricter form that the case had taken.
fn retirement_of<'a>(
    old: &Manifest,
    new: &'a Manifest,
    suite: &str,
    id: &str,
    case: &CaseEntry,
) -> Option<&'a Retirement> {
    new.retired.get(&case.hash).or_else(|| {
        new.retired
            .iter()
            .find(|(hash, retired)| {
                !old.retired.contains_key(*hash)
                    && (retired.suite.as_str(), retired.case_id.as_str()) == (suite, id)
                    && retired.input_hash == case.input_hash
            })
            .map(|(_, retired)| retired)
    })
}

/// The replacement of a retired case: there, run, not there before and nobody else's.
fn replaced<'a>(
    old: &Manifest,
    new: &'a Manifest,
    suite: &str,
    id: &str,
    retirement: &'a Retirement,
    taken: &mut BTreeSet<(&'a str, &'a str)>,
) -> Result<&'a str, String> {
    if retirement.suite != suite || retirement.case_id != id {
        return Err("the retirement names another case".to_owned());
    }
    if retirement.reason.trim().is_empty() || retirement.audited_by.trim().is_empty() {
        return Err("retired without a reason or without somebody who looked at it".to_owned());
    }
    let by = retirement.replacement.as_str();
    if !taken.insert((&retirement.suite, by)) {
        return Err(format!("{by} replaces another case already"));
    }
    if old
        .suites
        .get(suite)
        .and_then(|cases| cases.get(by))
        .is_some_and(|case| case.enabled)
    {
        return Err(format!("{by} was there before, so it replaces nothing"));
    }
    // A replacement may have been retired and replaced in its turn.
    let (mut current, mut seen) = (by, BTreeSet::new());
    while seen.insert(current) {
        let here = new.suites.get(suite).and_then(|cases| cases.get(current));
        let graduated = || {
            new.cases()
                .find(|(_, in_id, case)| *in_id == current && case.tier == Tier::Regression)
                .map(|(_, _, case)| case)
        };
        if here.or_else(graduated).is_some_and(|case| case.enabled) {
            return Ok(by);
        }
        match new
            .retired
            .values()
            .find(|next| next.suite == suite && next.case_id == current)
        {
            Some(next) => current = &next.replacement,
            None => break,
        }
    }
    Err(format!("its replacement {by} is missing or not run"))
}
