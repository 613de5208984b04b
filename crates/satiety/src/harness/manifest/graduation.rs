//! Cases that leave the measure for the regression tier, and the runs that show that they may.

use std::collections::BTreeMap;

use super::{CaseEntry, Manifest, Tier};
use crate::harness::measurement::MeasureSettings;

/// A case that tells versions apart in one harness and only has to pass in the next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Graduation {
    /// Its suite before.
    pub suite: String,
    /// Its id before.
    pub case_id: String,
    /// The suite it is in now.
    pub new_suite: String,
    /// Its id now.
    pub new_case_id: String,
    /// The content hash of the case as it is now: runs of anything else are no evidence.
    pub hash: String,
}

/// What complete runs in a store say about one case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaseRecord {
    /// Runs in which every result of the case passed.
    pub passed: usize,
    /// Runs in which the case was decided.
    pub decided: usize,
}

/// Runs that a graduation needs: as many versions as it takes to call a case dead.
pub(crate) fn graduation_runs() -> usize {
    MeasureSettings::default().minimum_versions
}

/// Every case of `old` that told versions apart and of which `new` only has a regression test: by what it asks, wherever it
/// went and whatever it is called.
pub fn graduations(old: &Manifest, new: &Manifest) -> Vec<Graduation> {
    type Found<'a> = BTreeMap<&'a str, Vec<(&'a str, &'a str, &'a CaseEntry)>>;
    fn enabled(manifest: &Manifest, tier: Tier) -> Found<'_> {
        let mut found = Found::new();
        for (suite, id, case) in manifest.cases() {
            if case.enabled && case.tier == tier {
                found.entry(&case.input_hash).or_default().push((suite, id, case));
            }
        }
        found
    }
    let none = Vec::new();
    let (was_measured, was_tested) = (enabled(old, Tier::Capability), enabled(old, Tier::Regression));
    let (is_measured, is_tested) = (enabled(new, Tier::Capability), enabled(new, Tier::Regression));
    let mut found = Vec::new();
    for (input, before) in &was_measured {
        let still = is_measured.get(input).unwrap_or(&none);
        let tested_before = was_tested.get(input).unwrap_or(&none);
        let same_place = |cases: &[(&str, &str, &CaseEntry)], suite: &str, id: &str| {
            cases
                .iter()
                .any(|(other, name, _)| (*other, *name) == (suite, id))
        };
        let gone = before
            .iter()
            .filter(|(suite, id, _)| !same_place(still, suite, id))
            .take(before.len().saturating_sub(still.len()));
        let arrived = is_tested
            .get(input)
            .unwrap_or(&none)
            .iter()
            .filter(|(suite, id, _)| !same_place(tested_before, suite, id));
        for ((suite, case_id, _), (new_suite, new_case_id, case)) in gone.zip(arrived) {
            found.push(Graduation {
                suite: (*suite).to_owned(),
                case_id: (*case_id).to_owned(),
                new_suite: (*new_suite).to_owned(),
                new_case_id: (*new_case_id).to_owned(),
                hash: case.hash.clone(),
            });
        }
    }
    found.sort();
    found
}

impl Graduation {
    /// Why runs do not show that every version passes the case; `None` where they do.
    pub fn objection(&self, record: CaseRecord) -> Option<String> {
        let place = format!("suites.{}.{}", self.suite, self.case_id);
        let needed = graduation_runs();
        if record.passed < record.decided {
            return Some(format!(
                "{place}: moved to the regression tier, and {} of {} runs failed it",
                record.decided - record.passed,
                record.decided
            ));
        }
        (record.decided < needed).then(|| {
            format!(
                "{place}: moved to the regression tier after {} of at least {needed} complete runs that passed it",
                record.decided
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::manifest::tests::manifest;

    #[test]
    fn a_graduate_is_found_wherever_it_goes() {
        let before = manifest(3);
        assert_eq!(graduations(&before, &before), []);
        for (suite, id) in [
            ("capability", "c1"),
            ("capability", "renamed"),
            ("regression", "c1"),
        ] {
            let mut after = before.clone();
            let mut entry = after.suites.get_mut("capability").unwrap().remove("c1").unwrap();
            entry.tier = Tier::Regression;
            after
                .suites
                .get_mut(suite)
                .unwrap()
                .insert(id.into(), entry.clone());
            let [found] = &graduations(&before, &after)[..] else {
                panic!("one graduate in {suite}/{id}")
            };
            assert_eq!(
                (
                    found.case_id.as_str(),
                    found.new_suite.as_str(),
                    found.new_case_id.as_str()
                ),
                ("c1", suite, id)
            );
            // A regression test beside the case takes nothing away.
            let mut beside = before.clone();
            beside
                .suites
                .get_mut("regression")
                .unwrap()
                .insert("copy".into(), entry);
            assert_eq!(graduations(&before, &beside), []);
        }
    }

    #[test]
    fn every_version_seen_and_enough_of_them() {
        let graduation = Graduation {
            suite: "s".into(),
            case_id: "a".into(),
            new_suite: "s".into(),
            new_case_id: "a".into(),
            hash: "h".into(),
        };
        let objects = |passed, decided| graduation.objection(CaseRecord { passed, decided });
        assert_eq!(objects(3, 3), None);
        assert!(objects(2, 2).unwrap().contains("2 of at least 3"));
        assert!(objects(7, 8).unwrap().contains("1 of 8 runs failed it"));
        assert!(objects(0, 0).unwrap().contains("0 of at least 3"));
    }
}
