#![expect(
    clippy::semicolon_if_nothing_returned,
    reason = "the tables of edits are easier to read"
)]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::bench::expected::Mode;

fn case(id: &str, needles: usize) -> BenchmarkCase {
    let words: Vec<String> = (0..needles).map(|index| format!("w{index}")).collect();
    let mut case = BenchmarkCase::new(
        id,
        format!("goal of {id}"),
        BenchmarkExpected::with_value(Mode::Contains, json!(words)),
    );
    case.repeats = Some(3);
    case.timeout_ms = Some(1_000);
    case
}

/// Returns a harness with two suites, a threshold of either direction, a gate and a judge.
pub(in crate::harness) fn manifest(cases: usize) -> Manifest {
    let mut capability = BenchmarkSuite::new("capability");
    capability.cases = (0..cases.max(2))
        .map(|index| case(&format!("c{index}"), 2))
        .collect();
    let mut regression = BenchmarkSuite::new("regression");
    regression.metadata.insert("tier".into(), json!("regression"));
    regression.cases = vec![case("r0", 1)];
    if let Some(first) = regression.cases.first_mut() {
        first.deterministic = Some(true);
    }
    let mut manifest = Manifest::from_suites(&[capability, regression], &BTreeMap::new()).unwrap();
    manifest.thresholds = BTreeMap::from([
        (
            "capability/pass".into(),
            Threshold {
                value: 0.7,
                direction: Direction::Higher,
            },
        ),
        (
            "capability/latency_ms".into(),
            Threshold {
                value: 900.0,
                direction: Direction::Lower,
            },
        ),
    ]);
    manifest.gates = BTreeMap::from([("release".into(), GatePolicy::default())]);
    manifest.judges = BTreeMap::from([(
        "main".into(),
        JudgeEntry {
            fingerprint: "j0".into(),
            votes: 3,
            lineage: vec![],
        },
    )]);
    manifest
}

fn entry<'a>(manifest: &'a mut Manifest, suite: &str, id: &str) -> &'a mut CaseEntry {
    manifest.suites.get_mut(suite).unwrap().get_mut(id).unwrap()
}

/// Replaces the expectation of a case and updates its hash.
fn expect(entry: &mut CaseEntry, expected: BenchmarkExpected) {
    entry.hash = content_hash(&(&entry.input_hash, &expected));
    entry.expected = expected;
}

fn fresh(manifest: &Manifest, id: &str) -> CaseEntry {
    let mut suite = BenchmarkSuite::new("capability");
    suite.cases = vec![case(id, 2)];
    assert!(!manifest.suites["capability"].contains_key(id));
    CaseEntry::of(&suite, &suite.cases[0], &BTreeMap::new())
}

/// Returns an id that no case has or had.
fn unused(manifest: &Manifest, prefix: &str) -> String {
    let taken = |id: &String| {
        manifest.cases().any(|(_, known, _)| known == id)
            || manifest.retired.values().any(|retired| retired.case_id == *id)
    };
    (0..1_000)
        .map(|index| format!("{prefix}{index}"))
        .find(|id| !taken(id))
        .unwrap()
}

fn retire(manifest: &mut Manifest, id: &str, by: &str) {
    let gone = manifest.suites.get_mut("capability").unwrap().remove(id).unwrap();
    manifest.retired.insert(
        gone.hash,
        Retirement {
            suite: "capability".into(),
            case_id: id.into(),
            input_hash: gone.input_hash,
            reason: "the answer key is wrong".into(),
            audited_by: "Ada".into(),
            replacement: by.into(),
        },
    );
}

fn judge(manifest: &mut Manifest, to: &str, agreement: f64, rescored: u64) {
    let judge = manifest.judges.get_mut("main").unwrap();
    judge.lineage.push(Succession {
        from: judge.fingerprint.clone(),
        to: to.into(),
        agreement,
        rescored,
        evidence: "e".into(),
    });
    judge.fingerprint = to.into();
}

/// Name and edit.
type Edit = (&'static str, fn(&mut Manifest));

const WEAKENINGS: [Edit; 25] = [
    ("input changed under the same hash", |m| {
        entry(m, "capability", "c0").input_hash = "other".into();
    }),
    ("case removed", |m| {
        m.suites.get_mut("capability").unwrap().remove("c0");
    }),
    ("suite removed", |m| {
        m.suites.remove("regression");
    }),
    ("case disabled", |m| entry(m, "capability", "c0").enabled = false),
    ("repeats reduced", |m| entry(m, "capability", "c0").repeats = 2),
    ("time limit raised", |m| {
        entry(m, "capability", "c0").timeout_ms = Some(2_000)
    }),
    ("time limit dropped", |m| {
        entry(m, "capability", "c0").timeout_ms = None
    }),
    ("determinism undeclared", |m| {
        entry(m, "regression", "r0").deterministic = false
    }),
    ("out of the regression tier", |m| {
        entry(m, "regression", "r0").tier = Tier::Capability
    }),
    ("expects less", |m| {
        expect(
            entry(m, "capability", "c0"),
            BenchmarkExpected::with_value(Mode::Contains, "w0"),
        )
    }),
    ("mode weakened", |m| {
        expect(
            entry(m, "capability", "c0"),
            BenchmarkExpected::with_value(Mode::LlmJudge, "fine?"),
        )
    }),
    ("input edited", |m| {
        let case = entry(m, "capability", "c0");
        case.input_hash = "other".into();
        case.hash = "other".into();
    }),
    ("moved to a lenient suite", |m| {
        let case = m.suites.get_mut("capability").unwrap().remove("c0").unwrap();
        m.suites
            .entry("lenient".into())
            .or_default()
            .insert("c0".into(), case);
    }),
    ("threshold lowered", |m| {
        m.thresholds.get_mut("capability/pass").unwrap().value = 0.69
    }),
    ("ceiling raised", |m| {
        m.thresholds.get_mut("capability/latency_ms").unwrap().value = 901.0
    }),
    ("threshold dropped", |m| {
        m.thresholds.remove("capability/pass");
    }),
    ("threshold reversed", |m| {
        m.thresholds.get_mut("capability/pass").unwrap().direction = Direction::Lower
    }),
    ("gate dropped", |m| m.gates.clear()),
    ("gate tolerates more", |m| {
        m.gates.get_mut("release").unwrap().margin = 0.2
    }),
    ("gate detects less", |m| {
        m.gates.get_mut("release").unwrap().alpha = 1e-9
    }),
    ("alpha raised", |m| m.alpha = 0.1),
    ("judge swapped", |m| {
        m.judges.get_mut("main").unwrap().fingerprint = "swapped".into()
    }),
    ("judge that disagrees", |m| judge(m, "j1", 0.8, 100)),
    ("fewer votes", |m| m.judges.get_mut("main").unwrap().votes = 1),
    ("retired without a replacement", |m| retire(m, "c0", "missing")),
];

const STRENGTHENINGS: [Edit; 16] = [
    ("nothing", |_| {}),
    ("case added", |m| {
        let id = unused(m, "n");
        let case = fresh(m, &id);
        m.suites.get_mut("capability").unwrap().insert(id, case);
    }),
    ("disabled case added", |m| {
        let id = unused(m, "d");
        let mut case = fresh(m, &id);
        case.enabled = false;
        m.suites.get_mut("capability").unwrap().insert(id, case);
    }),
    ("everything enabled", |m| {
        m.suites
            .values_mut()
            .flat_map(|cases| cases.values_mut())
            .for_each(|case| case.enabled = true)
    }),
    ("more repeats", |m| {
        m.suites
            .values_mut()
            .flat_map(|cases| cases.values_mut())
            .for_each(|case| case.repeats += 1)
    }),
    ("shorter limits", |m| {
        m.suites
            .values_mut()
            .flat_map(|cases| cases.values_mut())
            .for_each(|case| case.timeout_ms = case.timeout_ms.map(|limit| limit - 1))
    }),
    ("declared deterministic", |m| {
        m.suites
            .values_mut()
            .flat_map(|cases| cases.values_mut())
            .for_each(|case| case.deterministic = true)
    }),
    ("expects more", |m| {
        for case in m.suites.values_mut().flat_map(|cases| cases.values_mut()) {
            let parts = vec![
                case.expected.clone(),
                BenchmarkExpected::with_value(Mode::Contains, format!("x{}", case.repeats)),
            ];
            expect(case, BenchmarkExpected::all(parts));
        }
    }),
    ("graduates, once a run", |m| {
        if let Some((id, mut case)) = m.suites.get_mut("capability").unwrap().pop_first() {
            case.tier = Tier::Regression;
            case.repeats = 1;
            m.suites.entry("regression".into()).or_default().insert(id, case);
        }
    }),
    ("threshold raised", |m| {
        m.thresholds.get_mut("capability/pass").unwrap().value += 0.01
    }),
    ("latency ceiling lowered", |m| {
        m.thresholds.get_mut("capability/latency_ms").unwrap().value -= 1.0
    }),
    ("gate tolerates less", |m| {
        m.gates.get_mut("release").unwrap().margin *= 0.9
    }),
    ("alpha lowered", |m| m.alpha *= 0.9),
    ("judge replaced with evidence", |m| {
        let next = format!("j{}", m.judges["main"].lineage.len() + 1);
        judge(m, &next, 0.995, 50);
    }),
    ("more votes", |m| m.judges.get_mut("main").unwrap().votes += 2),
    ("broken case retired", |m| {
        let Some((id, _)) = m.suites["capability"]
            .iter()
            .find(|(_, case)| case.enabled)
            .map(|(id, case)| (id.clone(), case.clone()))
        else {
            return;
        };
        let by = unused(m, "b");
        let case = fresh(m, &by);
        m.suites.get_mut("capability").unwrap().insert(by.clone(), case);
        retire(m, &id, &by);
    }),
];

#[test]
fn each_weakening_is_found_and_each_strengthening_passes() {
    let old = manifest(3);
    for (name, edit) in WEAKENINGS {
        let mut new = old.clone();
        edit(&mut new);
        let diff = compare(&old, &new).unwrap();
        assert!(
            !diff.admissible && diff.objections().count() > 0,
            "{name}: {:?}",
            diff.changes
        );
    }
    for (name, edit) in STRENGTHENINGS {
        let mut new = old.clone();
        edit(&mut new);
        let diff = compare(&old, &new).unwrap();
        assert!(diff.admissible, "{name}: {:?}", diff.changes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// After a series of any length the last harness is at least as rigorous as the first, and one weakening
    /// anywhere in it is rejected.
    #[test]
    fn no_series_of_accepted_changes_weakens(
        size in 2_usize..5,
        edits in prop::collection::vec(0..STRENGTHENINGS.len(), 1..12),
        weakening in 0..WEAKENINGS.len(),
        place in any::<prop::sample::Index>(),
    ) {
        let first = manifest(size);
        let mut current = first.clone();
        for (index, edit) in edits.iter().enumerate() {
            if index == place.index(edits.len()) {
                let mut weak = current.clone();
                // A case of the list may have graduated or been retired.
                let there = current.suites["capability"].contains_key("c0");
                if there && current.suites["capability"]["c0"].expected == first.suites["capability"]["c0"].expected {
                    (WEAKENINGS[weakening].1)(&mut weak);
                    prop_assert!(!compare(&current, &weak).unwrap().admissible, "{}", WEAKENINGS[weakening].0);
                }
            }
            let mut next = current.clone();
            (STRENGTHENINGS[*edit].1)(&mut next);
            let step = compare(&current, &next).unwrap();
            prop_assert!(step.admissible, "{}: {:?}", STRENGTHENINGS[*edit].0, step.changes);
            current = next;
            let whole = compare(&first, &current).unwrap();
            prop_assert!(whole.admissible, "{:?}", whole.changes);
        }
    }

    /// Manifests that differ have different versions, and only one direction can be harder.
    #[test]
    fn harder_one_way_is_not_admissible_the_other(edit in 1..STRENGTHENINGS.len()) {
        let old = manifest(3);
        let mut new = old.clone();
        (STRENGTHENINGS[edit].1)(&mut new);
        prop_assume!(new != old);
        prop_assert_ne!(old.version(), new.version());
        if compare(&old, &new).unwrap().count(Rigor::Harder) > 0 {
            prop_assert!(!compare(&new, &old).unwrap().admissible);
        }
    }
}

#[test]
fn many_small_judge_replacements_cannot_hide_a_drift() {
    let mut current = manifest(2);
    let mut accepted = 0;
    for step in 1..10 {
        let mut next = current.clone();
        judge(&mut next, &format!("j{step}"), 0.95, 50);
        if !compare(&current, &next).unwrap().admissible {
            break;
        }
        accepted += 1;
        current = next;
    }
    assert_eq!(accepted, 2);
    let mut few = manifest(2);
    judge(&mut few, "j1", 1.0, 3);
    assert!(!compare(&manifest(2), &few).unwrap().admissible);
}

#[test]
fn a_replacement_must_be_new_enabled_and_unique() {
    let old = manifest(4);
    let with = |edit: fn(&mut Manifest)| {
        let mut new = old.clone();
        edit(&mut new);
        compare(&old, &new).unwrap()
    };
    assert!(!with(|m| retire(m, "c0", "c1")).admissible);
    let shared = with(|m| {
        let case = fresh(m, "n");
        m.suites.get_mut("capability").unwrap().insert("n".into(), case);
        retire(m, "c0", "n");
        retire(m, "c1", "n");
    });
    assert_eq!(shared.count(Rigor::Weaker), 1, "{:?}", shared.changes);
    let idle = with(|m| {
        let mut case = fresh(m, "n");
        case.enabled = false;
        m.suites.get_mut("capability").unwrap().insert("n".into(), case);
        retire(m, "c0", "n");
    });
    assert!(!idle.admissible);
    let rewritten = {
        let mut retired = old.clone();
        STRENGTHENINGS[15].1(&mut retired);
        let mut new = retired.clone();
        new.retired.clear();
        compare(&retired, &new).unwrap()
    };
    assert_eq!(rewritten.count(Rigor::Weaker), 1);
}

#[test]
fn a_version_is_its_content() {
    let manifest = manifest(2);
    let text = manifest.canonical();
    let back: Manifest = serde_json::from_str(&text).unwrap();
    assert_eq!((back.version(), back.canonical()), (manifest.version(), text));
    assert_eq!(
        manifest.version(),
        blake3::hash(manifest.canonical().as_bytes()).to_hex().to_string()
    );
    let mut suite = BenchmarkSuite::new("s");
    suite.cases = vec![case("a", 1), case("a", 2)];
    assert!(matches!(
        Manifest::from_suites(&[suite], &BTreeMap::new()),
        Err(ManifestError::Duplicate(_))
    ));
    let mut bad = manifest.clone();
    bad.alpha = f64::NAN;
    assert!(compare(&manifest, &bad).is_err());
    let mut bad = manifest.clone();
    bad.thresholds.get_mut("capability/pass").unwrap().value = f64::INFINITY;
    assert!(
        compare(&manifest, &bad)
            .unwrap_err()
            .to_string()
            .contains("thresholds.capability/pass")
    );
    let mut more = manifest.clone();
    STRENGTHENINGS[1].1(&mut more);
    assert_eq!(
        more.new_cases(&manifest),
        [("capability".to_owned(), "n0".to_owned())]
    );
}
