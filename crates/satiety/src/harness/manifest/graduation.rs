//! Graduation of cases to the regression tier, and the runs required for it.

use std::collections::BTreeMap;

use super::{CaseEntry, Manifest, Tier};
use crate::harness::measurement::MeasureSettings;

/// Capability case of one harness that is a regression test in the next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Graduation {
    /// Suite in the old harness.
    pub suite: String,
    /// Case id in the old harness.
    pub case_id: String,
    /// Suite in the new harness.
    pub new_suite: String,
    /// Case id in the new harness.
    pub new_case_id: String,
    /// Current content hash of the case; runs of other content are not evidence.
    pub hash: String,
}

/// Results of one case in the complete runs of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaseRecord {
    /// Number of runs in which every result of the case passed.
    pub passed: usize,
    /// Number of runs in which the case was decided.
    pub decided: usize,
}

/// Minimum number of runs for a graduation: as many versions as are needed to call a case dead.
pub(crate) fn graduation_runs() -> usize {
    MeasureSettings::default().minimum_versions
}

/// Returns every capability case of `old` of which `new` has only a regression test. Cases are matched by
/// input, regardless of suite and id.
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
    /// Returns why the runs do not show that every version passes the case; `None` if they do.
    pub fn objection(&self, record: CaseRecord) -> Option<String> {
        let place = format!("suites.{}.{}", self.suite, self.case_id);
        let needed = graduation_runs();
        if record.passed < record.decided {
            return Some(format!(
                "{place}: moved to the regression tier, but {} of {} runs failed it",
                record.decided - record.passed,
                record.decided
            ));
        }
        (record.decided < needed).then(|| {
            format!(
                "{place}: moved to the regression tier after {} of at least {needed} passing complete runs",
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
            // An additional regression test removes nothing.
            let mut with_copy = before.clone();
            with_copy
                .suites
                .get_mut("regression")
                .unwrap()
                .insert("copy".into(), entry);
            assert_eq!(graduations(&before, &with_copy), []);
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
