//! Changes that must be rejected.

#![expect(
    clippy::semicolon_if_nothing_returned,
    reason = "the tables of edits are easier to read"
)]

use super::edits::*;
use super::random::Dice;
use super::*;
use crate::bench::expected::Mode;

pub(in crate::harness) const WEAKER: &[Edit] = &[
    ("case removed", |m, d| {
        spot(m, d, every).and_then(|place| remove(m, &place)).is_some()
    }),
    ("suite emptied", |m, d| {
        spot(m, d, every)
            .and_then(|(suite, _)| m.suites.remove(&suite))
            .is_some()
    }),
    ("case disabled", |m, d| {
        change(some(m, d, every), |case| case.enabled = false)
    }),
    ("repeats reduced", |m, d| {
        change(some(m, d, |case| case.repeats > 1), |case| case.repeats -= 1)
    }),
    ("determinism undeclared", |m, d| {
        change(some(m, d, |case| case.deterministic), |case| {
            case.deterministic = false
        })
    }),
    ("time limit raised", |m, d| {
        change(some(m, d, |case| case.timeout_ms.is_some()), |case| {
            case.timeout_ms = case.timeout_ms.map(|limit| limit + 1);
        })
    }),
    ("time limit dropped", |m, d| {
        change(some(m, d, |case| case.timeout_ms.is_some()), |case| {
            case.timeout_ms = None
        })
    }),
    ("a limit instead of the runner's default", |m, d| {
        change(some(m, d, |case| case.timeout_ms.is_none()), |case| {
            case.timeout_ms = Some(1_000_000);
        })
    }),
    ("out of the regression tier", |m, d| {
        change(some(m, d, |case| case.tier == Tier::Regression), |case| {
            case.tier = Tier::Capability;
        })
    }),
    ("alternative added", |m, d| {
        change(some(m, d, every), |case| {
            expect(case, |e| {
                *e = group(
                    Mode::Any,
                    vec![e.clone(), BenchmarkExpected::with_value(Mode::Regex, "")],
                )
            });
        })
    }),
    ("negated", |m, d| {
        change(some(m, d, every), |case| expect(case, |e| e.negate = true))
    }),
    ("another mode", |m, d| {
        change(some(m, d, |case| case.expected.mode != Mode::LlmJudge), |case| {
            expect(case, |e| {
                *e = BenchmarkExpected::with_value(Mode::LlmJudge, "fine?")
            });
        })
    }),
    ("letters of any case", |m, d| {
        change(some(m, d, |case| case.expected.mode == Mode::Exact), |case| {
            expect(case, |e| e.ignore_case = true);
        })
    }),
    ("part of the answer", |m, d| {
        change(some(m, d, |case| case.expected.mode == Mode::Exact), |case| {
            expect(case, |e| e.mode = Mode::Contains);
        })
    }),
    ("tolerance raised", |m, d| {
        change(some(m, d, |case| case.expected.tolerance.is_some()), |case| {
            expect(case, |e| {
                e.tolerance = e.tolerance.map(|tolerance| tolerance * 2.0)
            });
        })
    }),
    ("score threshold lowered", |m, d| {
        change(some(m, d, |case| case.expected.threshold.is_some()), |case| {
            expect(case, |e| {
                e.threshold = e.threshold.map(|threshold| threshold - 0.1)
            });
        })
    }),
    ("bound loosened", |m, d| {
        change(
            some(m, d, |case| case.expected.mode == Mode::MetricThreshold),
            |case| {
                expect(case, |e| {
                    e.metric_thresholds = Some([("latency_ms".to_owned(), 110.0)].into())
                });
            },
        )
    }),
    ("bound reversed", |m, d| {
        change(
            some(m, d, |case| case.expected.mode == Mode::MetricThreshold),
            |case| {
                expect(case, |e| {
                    e.directions.insert("latency_ms".into(), Direction::Higher);
                });
            },
        )
    }),
    ("a metric that is never measured", |m, d| {
        change(some(m, d, every), |case| {
            let unmeasured = BenchmarkExpected {
                metric_thresholds: Some([("never_measured".to_owned(), 1.0)].into()),
                ..BenchmarkExpected::of(Mode::MetricThreshold)
            };
            expect(case, |e| *e = group(Mode::All, vec![e.clone(), unmeasured]));
        })
    }),
    ("a check that cannot be made", |m, d| {
        change(some(m, d, every), |case| {
            expect(case, |e| {
                *e = group(Mode::All, vec![e.clone(), BenchmarkExpected::unsupported("?")])
            });
        })
    }),
    ("weight taken from a part", |m, d| {
        change(some(m, d, |case| case.expected.mode == Mode::All), |case| {
            expect(case, |e| e.parts[0].weight = 0.0);
        })
    }),
    ("another input", |m, d| {
        change(some(m, d, every), |case| {
            case.input_hash = format!("{}+", case.input_hash);
            expect(case, |_| {});
        })
    }),
    ("another input under the same hash", |m, d| {
        change(some(m, d, every), |case| {
            case.input_hash = format!("{}+", case.input_hash)
        })
    }),
    ("moved to a lenient suite", |m, d| {
        let Some(place) = spot(m, d, |case| case.tier == Tier::Capability) else {
            return false;
        };
        let moved = remove(m, &place).unwrap();
        m.suites
            .entry("lenient".into())
            .or_default()
            .insert(place.1, moved)
            .is_none()
    }),
    ("retired without a replacement", |m, d| {
        let by = unused(m);
        spot(m, d, every).is_some_and(|place| retire(m, place, by, "broken"))
    }),
    ("retired without a reason", |m, d| {
        let (suite, by) = add(m, d, true);
        // Its input is unique, so that it cannot match the other case by itself.
        change(
            m.suites.get_mut(&suite).and_then(|cases| cases.get_mut(&by)),
            |case| {
                case.input_hash = "input-fresh".into();
                expect(case, |_| {});
            },
        );
        let place = m.suites[&suite]
            .iter()
            .find(|(id, case)| **id != by && case.enabled)
            .map(|(id, _)| (suite.clone(), id.clone()));
        place.is_some_and(|place| retire(m, place, by, " "))
    }),
    ("retired in favour of a neighbour", |m, d| {
        let Some(place) = spot(m, d, every) else {
            return false;
        };
        let by = m.suites[&place.0]
            .iter()
            .find(|(id, case)| **id != place.1 && case.enabled);
        let Some(by) = by.map(|(id, _)| id.clone()) else {
            return false;
        };
        retire(m, place, by, "broken")
    }),
    ("the record of a retirement dropped", |m, _| {
        m.retired.pop_first().is_some()
    }),
    ("the record of a retirement rewritten", |m, _| {
        m.retired
            .values_mut()
            .next()
            .map(|record| record.reason.push('!'))
            .is_some()
    }),
    ("threshold loosened", |m, d| {
        threshold(m, d)
            .map(|threshold| tighten(threshold, -0.01))
            .is_some()
    }),
    ("threshold dropped", |m, _| m.thresholds.pop_first().is_some()),
    ("threshold reversed", |m, d| {
        threshold(m, d)
            .map(|threshold| {
                threshold.direction = match threshold.direction {
                    Direction::Higher => Direction::Lower,
                    Direction::Lower => Direction::Higher,
                };
            })
            .is_some()
    }),
    ("gate dropped", |m, _| m.gates.pop_first().is_some()),
    ("gate tolerates more", |m, d| {
        let mut again = Dice::new(d.roll(1_000) as u64);
        gate(m, d).map(|gate| tolerate(gate, &mut again, 1.5)).is_some()
    }),
    ("gate detects less", |m, d| {
        gate(m, d).map(|gate| gate.alpha *= 0.5).is_some()
    }),
    ("gate alarms more", |m, d| {
        gate(m, d).map(|gate| gate.alpha *= 2.0).is_some()
    }),
    ("alpha raised", |m, _| {
        m.alpha *= 1.1;
        true
    }),
    ("agreement lowered", |m, _| {
        m.judge_agreement -= 0.01;
        true
    }),
    ("judge dropped", |m, _| m.judges.pop_first().is_some()),
    ("fewer votes", |m, d| {
        judge(m, d)
            .filter(|judge| judge.votes > 1)
            .map(|judge| judge.votes -= 1)
            .is_some()
    }),
    ("judge swapped", |m, d| {
        judge(m, d).map(|judge| judge.fingerprint.push('!')).is_some()
    }),
    ("judge replaced, too few answers", |m, d| {
        judge(m, d).map(|judge| replace_judge(judge, 1.0, 19)).is_some()
    }),
    ("judge replaced, disagrees", |m, d| {
        judge(m, d).map(|judge| replace_judge(judge, 0.8, 50)).is_some()
    }),
    ("a judge's past rewritten", |m, d| {
        judge(m, d)
            .and_then(|judge| judge.lineage.first_mut())
            .map(|step| step.agreement = 1.0)
            .is_some()
    }),
    ("two cases merged", |m, d| {
        let Some(place) = spot(m, d, every) else {
            return false;
        };
        let kept = m.suites[&place.0][&place.1].clone();
        let other = m
            .cases()
            .find(|(suite, id, case)| {
                case.enabled && case.input_hash == kept.input_hash && (*suite, *id) != (&place.0, &place.1)
            })
            .map(|(suite, id, case)| ((suite.to_owned(), id.to_owned()), case.expected.clone()));
        let Some((gone, also)) = other else { return false };
        remove(m, &gone);
        let case = m.suites.get_mut(&place.0).unwrap().get_mut(&place.1).unwrap();
        expect(case, |e| *e = group(Mode::All, vec![e.clone(), also]));
        true
    }),
];
