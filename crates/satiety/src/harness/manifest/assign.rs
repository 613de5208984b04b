//! Matches old cases to new ones: every enabled old case needs its own new case that is at least as strict,
//! or the replacement named by its retirement. One new case never matches two old ones, so a harness never
//! shrinks. Matchings compose, so many small steps never add up to a weakening.
//!
//! Ids may change, except that the replacement of a retired case keeps its id, because the record refers to
//! it by id.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::compare_cases::covers;
use super::{CaseEntry, Manifest, Retirement, Tier};

/// Suite and case id.
pub(super) type Place<'a> = (&'a str, &'a str);

/// Case with its suite and id.
#[derive(Clone, Copy)]
pub(super) struct PlacedCase<'a> {
    pub(super) place: Place<'a>,
    pub(super) case: &'a CaseEntry,
}

/// Match of an old case: a new case, either directly or as the replacement of a retired one.
#[derive(Clone, Copy)]
pub(super) struct CaseMatch<'a> {
    pub(super) now: PlacedCase<'a>,
    pub(super) retired: Option<&'a Retirement>,
}

/// Both harnesses, indexed, with the matching between them.
pub(super) struct Assignment<'a> {
    old: &'a Manifest,
    new: &'a Manifest,
    by_input: BTreeMap<&'a str, Vec<PlacedCase<'a>>>,
    by_hash: BTreeMap<&'a str, Vec<PlacedCase<'a>>>,
    graduates: BTreeMap<&'a str, Vec<PlacedCase<'a>>>,
    /// New retirement records by input hash, and all of them by case id.
    records: BTreeMap<&'a str, Vec<&'a Retirement>>,
    records_of: BTreeMap<&'a str, Vec<&'a Retirement>>,
    /// Replacements named by old records, with and without their suite.
    pinned: BTreeSet<Place<'a>>,
    pinned_ids: BTreeSet<&'a str>,
    matches: BTreeMap<Place<'a>, CaseMatch<'a>>,
    owners: BTreeMap<Place<'a>, PlacedCase<'a>>,
}

impl<'a> Assignment<'a> {
    pub(super) fn new(old: &'a Manifest, new: &'a Manifest) -> Self {
        let mut assignment = Self {
            old,
            new,
            by_input: BTreeMap::new(),
            by_hash: BTreeMap::new(),
            graduates: BTreeMap::new(),
            records: BTreeMap::new(),
            records_of: BTreeMap::new(),
            pinned: BTreeSet::new(),
            pinned_ids: BTreeSet::new(),
            matches: BTreeMap::new(),
            owners: BTreeMap::new(),
        };
        for now in placed(new) {
            assignment
                .by_input
                .entry(&now.case.input_hash)
                .or_default()
                .push(now);
            assignment.by_hash.entry(&now.case.hash).or_default().push(now);
            if now.case.tier == Tier::Regression {
                assignment.graduates.entry(now.place.1).or_default().push(now);
            }
        }
        for (hash, record) in &new.retired {
            assignment
                .records_of
                .entry(&record.case_id)
                .or_default()
                .push(record);
            if !old.retired.contains_key(hash) {
                assignment
                    .records
                    .entry(&record.input_hash)
                    .or_default()
                    .push(record);
            }
        }
        for record in old.retired.values() {
            assignment.pinned.insert((&record.suite, &record.replacement));
            assignment.pinned_ids.insert(&record.replacement);
        }
        assignment.assign();
        assignment
    }

    /// Returns the match of an enabled old case.
    pub(super) fn matched(&self, place: Place<'_>) -> Option<CaseMatch<'a>> {
        self.matches.get(&place).copied()
    }

    /// Returns the old case that a new one matches.
    pub(super) fn owner(&self, place: Place<'_>) -> Option<PlacedCase<'a>> {
        self.owners.get(&place).copied()
    }

    /// Returns the new case with the same suite and id.
    pub(super) fn in_place(&self, place: Place<'a>) -> Option<PlacedCase<'a>> {
        let case = self.new.suites.get(place.0)?.get(place.1)?;
        Some(PlacedCase { place, case })
    }

    /// Returns the new case closest to an unmatched old one: the same content, then the same input.
    pub(super) fn nearest(&self, old: PlacedCase<'a>) -> Option<PlacedCase<'a>> {
        let same_input = |now: &PlacedCase<'a>| now.case.input_hash == old.case.input_hash;
        let best = |known: Option<&Vec<PlacedCase<'a>>>| {
            known?.iter().copied().min_by_key(|now| preference(old, *now))
        };
        self.in_place(old.place)
            .filter(|now| now.case.hash == old.case.hash || same_input(now))
            .or_else(|| best(self.by_hash.get(old.case.hash.as_str())))
            .or_else(|| best(self.by_input.get(old.case.input_hash.as_str())))
    }

    /// Returns the retirement records that may refer to an old case: those of its content, and new ones of
    /// its input, because it may have been renamed or become stricter before it was retired.
    pub(super) fn retirements(&self, old: PlacedCase<'a>) -> impl Iterator<Item = &'a Retirement> {
        let exact = self.new.retired.get(&old.case.hash);
        let named = self.is_pinned(old).then_some(old.place.1);
        exact
            .into_iter()
            .chain(
                self.records
                    .get(old.case.input_hash.as_str())
                    .into_iter()
                    .flatten()
                    .copied(),
            )
            .filter(move |record| named.is_none_or(|id| record.case_id == id))
    }

    fn is_pinned(&self, old: PlacedCase<'a>) -> bool {
        self.pinned.contains(&old.place)
            || (old.case.tier == Tier::Regression && self.pinned_ids.contains(old.place.1))
    }

    /// Returns all possible matches of an old case, best first.
    fn candidates(&self, old: PlacedCase<'a>) -> Vec<CaseMatch<'a>> {
        let pinned = self.is_pinned(old);
        let mut fitting: Vec<PlacedCase<'a>> = self
            .by_input
            .get(old.case.input_hash.as_str())
            .into_iter()
            .flatten()
            .copied()
            .filter(|now| (!pinned || now.place.1 == old.place.1) && covers(old, *now))
            .collect();
        fitting.sort_by_key(|now| preference(old, *now));
        let kept = fitting.into_iter().map(|now| CaseMatch { now, retired: None });
        let replaced = self
            .retirements(old)
            .filter(|record| is_audited(record))
            .flat_map(|record| {
                self.replacements(record).into_iter().map(|now| CaseMatch {
                    now,
                    retired: Some(record),
                })
            });
        kept.chain(replaced).collect()
    }

    /// Returns the enabled cases that replace a retired one: a replacement may have graduated, or been
    /// retired and replaced itself.
    pub(super) fn replacements(&self, record: &'a Retirement) -> Vec<PlacedCase<'a>> {
        let (mut found, mut seen, mut pending) = (Vec::new(), BTreeSet::new(), vec![record]);
        while let Some(record) = pending.pop() {
            let id = record.replacement.as_str();
            if !seen.insert((record.suite.as_str(), id)) {
                continue;
            }
            let here = self.in_place((&record.suite, id));
            let elsewhere = self.graduates.get(id).into_iter().flatten().copied();
            found.extend(here.into_iter().chain(elsewhere).filter(|now| now.case.enabled));
            pending.extend(self.records_of.get(id).into_iter().flatten());
        }
        found
    }

    fn assign(&mut self) {
        let enabled_cases: Vec<PlacedCase<'a>> = placed(self.old).filter(|old| old.case.enabled).collect();
        for &old in &enabled_cases {
            if let Some(now) = self.in_place(old.place).filter(|now| covers(old, *now)) {
                self.matches.insert(old.place, CaseMatch { now, retired: None });
                self.owners.insert(now.place, old);
            }
        }
        for old in enabled_cases {
            if !self.matches.contains_key(&old.place) {
                self.augment(old);
            }
        }
    }

    /// Matches one more old case, reassigning others if necessary: breadth-first search for an augmenting
    /// path.
    fn augment(&mut self, start: PlacedCase<'a>) {
        let mut queue = VecDeque::from([start]);
        let mut reached: BTreeMap<Place<'a>, (PlacedCase<'a>, CaseMatch<'a>)> = BTreeMap::new();
        while let Some(old) = queue.pop_front() {
            for matched in self.candidates(old) {
                let place = matched.now.place;
                if reached.contains_key(&place) {
                    continue;
                }
                reached.insert(place, (old, matched));
                match self.owners.get(&place) {
                    Some(owner) => queue.push_back(*owner),
                    None => return self.apply_path(place, &reached),
                }
            }
        }
    }

    fn apply_path(
        &mut self,
        free: Place<'a>,
        reached: &BTreeMap<Place<'a>, (PlacedCase<'a>, CaseMatch<'a>)>,
    ) {
        let mut place = free;
        while let Some((old, matched)) = reached.get(&place).copied() {
            self.owners.insert(place, old);
            match self.matches.insert(old.place, matched) {
                Some(before) => place = before.now.place,
                // This case was unmatched: the path starts here.
                None => return,
            }
        }
    }
}

/// Sort key of a new case: the better it agrees with the old case, the smaller.
fn preference<'a>(old: PlacedCase<'a>, now: PlacedCase<'a>) -> impl Ord + use<'a> {
    (
        now.place != old.place,
        !now.case.enabled,
        now.case.hash != old.case.hash,
        now.place.0 != old.place.0,
        now.case.tier == Tier::Capability,
        now.place,
    )
}

/// Whether a retirement has a reason and an auditor.
pub(super) fn is_audited(record: &Retirement) -> bool {
    !(record.reason.trim().is_empty() || record.audited_by.trim().is_empty())
}

/// Returns every case with its suite and id.
pub(super) fn placed(manifest: &Manifest) -> impl Iterator<Item = PlacedCase<'_>> {
    manifest.cases().map(|(suite, id, case)| PlacedCase {
        place: (suite, id),
        case,
    })
}
