//! Building blocks of single harness changes: each edits one field or one case at a random place and returns
//! whether it found one.

use super::random::{Dice, case};
use super::*;
use crate::bench::expected::Mode;

pub(in crate::harness) type Edit = (&'static str, fn(&mut Manifest, &mut Dice) -> bool);

/// Picks a random enabled case that fits.
pub(super) fn some<'a>(
    m: &'a mut Manifest,
    d: &mut Dice,
    fits: fn(&CaseEntry) -> bool,
) -> Option<&'a mut CaseEntry> {
    let place = spot(m, d, fits)?;
    m.suites.get_mut(&place.0)?.get_mut(&place.1)
}

pub(super) fn spot(m: &Manifest, d: &mut Dice, fits: fn(&CaseEntry) -> bool) -> Option<(String, String)> {
    let places: Vec<(String, String)> = m
        .cases()
        .filter(|(_, _, case)| case.enabled && fits(case))
        .map(|(suite, id, _)| (suite.to_owned(), id.to_owned()))
        .collect();
    d.pick(&places)
}

pub(super) fn every(_: &CaseEntry) -> bool {
    true
}

pub(super) fn change(case: Option<&mut CaseEntry>, edit: impl FnOnce(&mut CaseEntry)) -> bool {
    case.map(edit).is_some()
}

pub(super) fn remove(m: &mut Manifest, (suite, id): &(String, String)) -> Option<CaseEntry> {
    m.suites.get_mut(suite)?.remove(id)
}

/// Replaces the expectation of a case and updates its hash.
pub(super) fn expect(case: &mut CaseEntry, edit: impl FnOnce(&mut BenchmarkExpected)) {
    edit(&mut case.expected);
    case.hash = content_hash(&(&case.input_hash, &case.expected));
}

pub(super) fn group(mode: Mode, parts: Vec<BenchmarkExpected>) -> BenchmarkExpected {
    BenchmarkExpected {
        parts,
        ..BenchmarkExpected::of(mode)
    }
}

pub(super) fn threshold<'a>(m: &'a mut Manifest, d: &mut Dice) -> Option<&'a mut Threshold> {
    let name = d.pick(&m.thresholds.keys().cloned().collect::<Vec<_>>())?;
    m.thresholds.get_mut(&name)
}

pub(super) fn tighten(threshold: &mut Threshold, by: f64) {
    threshold.value += match threshold.direction {
        Direction::Higher => by,
        Direction::Lower => -by,
    };
}

pub(super) fn gate<'a>(m: &'a mut Manifest, d: &mut Dice) -> Option<&'a mut GatePolicy> {
    let name = d.pick(&m.gates.keys().cloned().collect::<Vec<_>>())?;
    m.gates.get_mut(&name)
}

/// Multiplies one of the tolerances of a gate.
pub(super) fn tolerate(gate: &mut GatePolicy, d: &mut Dice, factor: f64) {
    let fields = [
        &mut gate.margin,
        &mut gate.score_drop,
        &mut gate.latency_increase,
        &mut gate.latency_floor_ms,
        &mut gate.max_missing,
    ];
    let chosen = d.roll(fields.len());
    if let Some(field) = fields.into_iter().nth(chosen) {
        *field *= factor;
    }
}

pub(super) fn judge<'a>(m: &'a mut Manifest, d: &mut Dice) -> Option<&'a mut JudgeEntry> {
    let name = d.pick(&m.judges.keys().cloned().collect::<Vec<_>>())?;
    m.judges.get_mut(&name)
}

pub(super) fn replace_judge(judge: &mut JudgeEntry, agreement: f64, rescored: u64) {
    let to = format!("{}+", judge.fingerprint);
    judge.lineage.push(Succession {
        from: judge.fingerprint.clone(),
        to: to.clone(),
        agreement,
        rescored,
        evidence: "e".into(),
    });
    judge.fingerprint = to;
}

/// Returns an id that no case has or had.
pub(super) fn unused(m: &Manifest) -> String {
    let taken = |id: &str| {
        m.cases().any(|(_, known, _)| known == id)
            || m.retired
                .values()
                .any(|record| record.case_id == id || record.replacement == id)
    };
    (0..10_000)
        .map(|index| format!("n{index}"))
        .find(|id| !taken(id))
        .unwrap()
}

pub(super) fn add(m: &mut Manifest, d: &mut Dice, enabled: bool) -> (String, String) {
    let place = (d.pick(&["one".to_owned(), "two".to_owned()]).unwrap(), unused(m));
    let mut fresh = case(d, Tier::Capability);
    fresh.enabled = enabled;
    m.suites
        .entry(place.0.clone())
        .or_default()
        .insert(place.1.clone(), fresh);
    place
}

pub(super) fn retire(
    m: &mut Manifest,
    (suite, id): (String, String),
    replacement: String,
    reason: &str,
) -> bool {
    let gone = remove(m, &(suite.clone(), id.clone())).unwrap();
    if m.retired.contains_key(&gone.hash) {
        m.suites.get_mut(&suite).unwrap().insert(id, gone);
        return false;
    }
    let record = Retirement {
        suite,
        case_id: id,
        input_hash: gone.input_hash,
        reason: reason.into(),
        audited_by: "Ada".into(),
        replacement,
    };
    m.retired.insert(gone.hash, record).is_none()
}

pub(super) fn is_named(m: &Manifest, id: &str) -> bool {
    m.retired.values().any(|record| record.replacement == id)
}
