//! Who stands for whom: every old case that is run needs a new one of its own that asks at least as much, or the
//! replacement that its retirement names. One new case never stands for two old ones, so a harness never shrinks, and
//! since such assignments can be put one after the other, many small steps never add up to a weakening.
//!
//! Names may change; a case that replaced a retired one keeps its id, for the record knows it by that alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::compare_cases::covers;
use super::{CaseEntry, Manifest, Retirement, Tier};

/// Suite and case.
pub(super) type Place<'a> = (&'a str, &'a str);

/// A case where it stands.
#[derive(Clone, Copy)]
pub(super) struct PlacedCase<'a> {
    pub(super) place: Place<'a>,
    pub(super) case: &'a CaseEntry,
}

/// What stands for an old case: a new one, by itself or as the replacement of a retired one.
#[derive(Clone, Copy)]
pub(super) struct MatchState<'a> {
    pub(super) now: PlacedCase<'a>,
    pub(super) retired: Option<&'a Retirement>,
}

/// Both harnesses, indexed, and who stands for whom.
pub(super) struct Assignment<'a> {
    old: &'a Manifest,
    new: &'a Manifest,
    by_input: BTreeMap<&'a str, Vec<PlacedCase<'a>>>,
    by_hash: BTreeMap<&'a str, Vec<PlacedCase<'a>>>,
    graduates: BTreeMap<&'a str, Vec<PlacedCase<'a>>>,
    /// Records of retirement that are new, by what the case asked, and all of them by the id of the case.
    records: BTreeMap<&'a str, Vec<&'a Retirement>>,
    records_of: BTreeMap<&'a str, Vec<&'a Retirement>>,
    /// Ids that old records name as replacements, with and without their suite.
    pinned: BTreeSet<Place<'a>>,
    pinned_ids: BTreeSet<&'a str>,
    stands: BTreeMap<Place<'a>, MatchState<'a>>,
    owners: BTreeMap<Place<'a>, PlacedCase<'a>>,
}

impl<'a> Assignment<'a> {
    pub(super) fn of(old: &'a Manifest, new: &'a Manifest) -> Self {
        let mut whole = Self {
            old,
            new,
            by_input: BTreeMap::new(),
            by_hash: BTreeMap::new(),
            graduates: BTreeMap::new(),
            records: BTreeMap::new(),
            records_of: BTreeMap::new(),
            pinned: BTreeSet::new(),
            pinned_ids: BTreeSet::new(),
            stands: BTreeMap::new(),
            owners: BTreeMap::new(),
        };
        for now in placed(new) {
            whole.by_input.entry(&now.case.input_hash).or_default().push(now);
            whole.by_hash.entry(&now.case.hash).or_default().push(now);
            if now.case.tier == Tier::Regression {
                whole.graduates.entry(now.place.1).or_default().push(now);
            }
        }
        for (hash, record) in &new.retired {
            whole.records_of.entry(&record.case_id).or_default().push(record);
            if !old.retired.contains_key(hash) {
                whole.records.entry(&record.input_hash).or_default().push(record);
            }
        }
        for record in old.retired.values() {
            whole.pinned.insert((&record.suite, &record.replacement));
            whole.pinned_ids.insert(&record.replacement);
        }
        whole.assign();
        whole
    }

    /// What stands for an old case that is run.
    pub(super) fn stand(&self, place: Place<'_>) -> Option<MatchState<'a>> {
        self.stands.get(&place).copied()
    }

    /// The old case that a new one stands for.
    pub(super) fn owner(&self, place: Place<'_>) -> Option<PlacedCase<'a>> {
        self.owners.get(&place).copied()
    }

    /// The new case in the same place.
    pub(super) fn in_place(&self, place: Place<'a>) -> Option<PlacedCase<'a>> {
        let case = self.new.suites.get(place.0)?.get(place.1)?;
        Some(PlacedCase { place, case })
    }

    /// The new case that is nearest to an old one for which nothing stands: the same content, then the same input.
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

    /// The records of retirement that may be about an old case: of its content, or new ones of what it asked, since it
    /// may have been renamed or become stricter before it was retired.
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

    /// Everything that could stand for an old case, best first.
    fn candidates(&self, old: PlacedCase<'a>) -> Vec<MatchState<'a>> {
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
        let kept = fitting.into_iter().map(|now| MatchState { now, retired: None });
        let replaced = self
            .retirements(old)
            .filter(|record| is_audited(record))
            .flat_map(|record| {
                self.replacements(record).into_iter().map(|now| MatchState {
                    now,
                    retired: Some(record),
                })
            });
        kept.chain(replaced).collect()
    }

    /// The cases that are run in a retired one's place: a replacement may have graduated, or been retired and replaced in
    /// its turn.
    pub(super) fn replacements(&self, record: &'a Retirement) -> Vec<PlacedCase<'a>> {
        let (mut found, mut seen, mut todo) = (Vec::new(), BTreeSet::new(), vec![record]);
        while let Some(record) = todo.pop() {
            let id = record.replacement.as_str();
            if !seen.insert((record.suite.as_str(), id)) {
                continue;
            }
            let here = self.in_place((&record.suite, id));
            let elsewhere = self.graduates.get(id).into_iter().flatten().copied();
            found.extend(here.into_iter().chain(elsewhere).filter(|now| now.case.enabled));
            todo.extend(self.records_of.get(id).into_iter().flatten());
        }
        found
    }

    fn assign(&mut self) {
        let asked: Vec<PlacedCase<'a>> = placed(self.old).filter(|old| old.case.enabled).collect();
        for &old in &asked {
            if let Some(now) = self.in_place(old.place).filter(|now| covers(old, *now)) {
                self.stands.insert(old.place, MatchState { now, retired: None });
                self.owners.insert(now.place, old);
            }
        }
        for old in asked {
            if !self.stands.contains_key(&old.place) {
                self.augment(old);
            }
        }
    }

    /// Finds somebody for one more old case, if need be by giving others somebody else: breadth-first search for an
    /// augmenting path.
    fn augment(&mut self, start: PlacedCase<'a>) {
        let mut queue = VecDeque::from([start]);
        let mut reached: BTreeMap<Place<'a>, (PlacedCase<'a>, MatchState<'a>)> = BTreeMap::new();
        while let Some(old) = queue.pop_front() {
            for stand in self.candidates(old) {
                let place = stand.now.place;
                if reached.contains_key(&place) {
                    continue;
                }
                reached.insert(place, (old, stand));
                match self.owners.get(&place) {
                    Some(owner) => queue.push_back(*owner),
                    None => return self.hand_over(place, &reached),
                }
            }
        }
    }

    fn hand_over(
        &mut self,
        free: Place<'a>,
        reached: &BTreeMap<Place<'a>, (PlacedCase<'a>, MatchState<'a>)>,
    ) {
        let mut place = free;
        while let Some((old, stand)) = reached.get(&place).copied() {
            self.owners.insert(place, old);
            match self.stands.insert(old.place, stand) {
                Some(before) => place = before.now.place,
                // The one that had nobody: here the path began.
                None => return,
            }
        }
    }
}

/// The fuller the agreement with an old case, the smaller.
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

/// Whether a retirement has a reason and somebody who looked at the case.
pub(super) fn is_audited(record: &Retirement) -> bool {
    !(record.reason.trim().is_empty() || record.audited_by.trim().is_empty())
}

/// Every case with its place.
pub(super) fn placed(manifest: &Manifest) -> impl Iterator<Item = PlacedCase<'_>> {
    manifest.cases().map(|(suite, id, case)| PlacedCase {
        place: (suite, id),
        case,
    })
}
