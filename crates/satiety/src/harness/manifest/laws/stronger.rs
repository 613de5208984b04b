//! Changes that must pass: stricter and neutral ones.

#![expect(
    clippy::semicolon_if_nothing_returned,
    reason = "the tables of edits read better so"
)]

use super::edits::*;
use super::random::{Dice, case, expectation};
use super::*;
use crate::bench::expected::Mode;

pub(super) const STRONGER: &[Edit] = &[
    ("case added", |m, d| !add(m, d, true).1.is_empty()),
    ("case enabled", |m, _| {
        let idle = m
            .suites
            .values_mut()
            .flat_map(BTreeMap::values_mut)
            .find(|case| !case.enabled);
        change(idle, |case| case.enabled = true)
    }),
    ("more repeats", |m, d| {
        change(some(m, d, every), |case| case.repeats += 1)
    }),
    ("declared deterministic", |m, d| {
        change(some(m, d, |case| !case.deterministic), |case| {
            case.deterministic = true
        })
    }),
    ("shorter limit", |m, d| {
        change(some(m, d, |case| case.timeout_ms > Some(1)), |case| {
            case.timeout_ms = case.timeout_ms.map(|limit| limit - 1);
        })
    }),
    ("one demand more", |m, d| {
        let word = format!("x{}", d.roll(100));
        change(some(m, d, every), |case| {
            expect(case, |e| {
                *e = group(
                    Mode::All,
                    vec![e.clone(), BenchmarkExpected::with_value(Mode::Contains, word)],
                );
            });
        })
    }),
    ("tolerance lowered", |m, d| {
        change(some(m, d, |case| case.expected.tolerance.is_some()), |case| {
            expect(case, |e| {
                e.tolerance = e.tolerance.map(|tolerance| tolerance * 0.5)
            });
        })
    }),
    ("score threshold raised", |m, d| {
        change(some(m, d, |case| case.expected.threshold.is_some()), |case| {
            expect(case, |e| {
                e.threshold = e.threshold.map(|threshold| threshold + 0.01)
            });
        })
    }),
    ("bound tightened", |m, d| {
        change(
            some(m, d, |case| case.expected.mode == Mode::MetricThreshold),
            |case| {
                expect(case, |e| {
                    for bound in e.metric_thresholds.iter_mut().flat_map(BTreeMap::values_mut) {
                        *bound *= 0.9;
                    }
                });
            },
        )
    }),
    ("threshold tightened", |m, d| {
        threshold(m, d)
            .map(|threshold| tighten(threshold, 0.01))
            .is_some()
    }),
    ("threshold added", |m, d| {
        let (value, direction) = (0.1, Direction::Higher);
        let name = format!("two/metric-{}", d.roll(1_000_000));
        m.thresholds
            .insert(name, Threshold { value, direction })
            .is_none()
    }),
    ("gate added", |m, d| {
        m.gates
            .insert(format!("gate-{}", d.roll(1_000_000)), GatePolicy::default())
            .is_none()
    }),
    ("gate tolerates less", |m, d| {
        let mut again = Dice::new(d.roll(1_000) as u64);
        gate(m, d).map(|gate| tolerate(gate, &mut again, 0.5)).is_some()
    }),
    ("alpha lowered", |m, _| {
        m.alpha *= 0.9;
        true
    }),
    ("agreement raised", |m, _| {
        m.judge_agreement = 1.0 - (1.0 - m.judge_agreement) * 0.9;
        true
    }),
    ("more votes", |m, d| {
        judge(m, d).map(|judge| judge.votes += 2).is_some()
    }),
];

pub(super) const NEUTRAL: &[Edit] = &[
    ("nothing", |_, _| true),
    ("disabled case added", |m, d| !add(m, d, false).1.is_empty()),
    ("disabled case changed", |m, d| {
        let other = expectation(d, true);
        let idle = m
            .suites
            .values_mut()
            .flat_map(BTreeMap::values_mut)
            .find(|case| !case.enabled);
        change(idle, |case| expect(case, |e| *e = other))
    }),
    ("disabled case dropped", |m, _| {
        let idle = m.cases().find(|(_, _, case)| !case.enabled);
        let idle = idle.map(|(suite, id, _)| (suite.to_owned(), id.to_owned()));
        idle.and_then(|place| remove(m, &place)).is_some()
    }),
    ("renamed", |m, d| {
        let Some(place) = spot(m, d, every).filter(|place| !is_named(m, &place.1)) else {
            return false;
        };
        let (renamed, id) = (remove(m, &place).unwrap(), unused(m));
        m.suites.get_mut(&place.0).unwrap().insert(id, renamed).is_none()
    }),
    ("two swap their names", |m, d| {
        let (Some(a), Some(b)) = (spot(m, d, every), spot(m, d, every)) else {
            return false;
        };
        if a.0 != b.0 || is_named(m, &a.1) || is_named(m, &b.1) {
            return false;
        }
        let cases = m.suites.get_mut(&a.0).unwrap();
        let (first, second) = (cases[&a.1].clone(), cases[&b.1].clone());
        cases.insert(a.1, second);
        cases.insert(b.1, first);
        true
    }),
    ("graduates, once a run", |m, d| {
        let Some(place) = spot(m, d, |case| case.tier == Tier::Capability) else {
            return false;
        };
        let mut graduate = remove(m, &place).unwrap();
        (graduate.tier, graduate.repeats) = (Tier::Regression, 1);
        m.suites
            .entry("guard".into())
            .or_default()
            .insert(place.1, graduate)
            .is_none()
    }),
    ("judge replaced with evidence", |m, d| {
        judge(m, d)
            .filter(|judge| judge.lineage.len() < 5)
            .map(|judge| replace_judge(judge, 0.999, 50))
            .is_some()
    }),
    ("broken case retired", |m, d| {
        let Some(place) = spot(m, d, every).filter(|(suite, _)| suite != "guard") else {
            return false;
        };
        let by = unused(m);
        let mut fresh = case(d, Tier::Capability);
        fresh.enabled = true;
        m.suites.get_mut(&place.0).unwrap().insert(by.clone(), fresh);
        if retire(m, place.clone(), by.clone(), "broken") {
            return true;
        }
        m.suites.get_mut(&place.0).unwrap().remove(&by);
        false
    }),
];
