//! Compares the ledger with the definition: every claim with every earlier one, nearest first, until the guard
//! finds no difference.

use proptest::prelude::*;

use super::super::lexicon::RoundTexts;
use super::super::vectors::cosine;
use super::super::wire::Outputs;
use super::*;
use crate::dialogue::Profile;
use crate::text::stem::Vocabulary;
use crate::text::{StopWords, Threshold, Tokenization, jaccard};

/// The findings of a claim that the ledger must give: matches and differences with similarity and level.
#[derive(Debug, PartialEq)]
struct Expected {
    new_at: (bool, bool, Option<bool>),
    restates: Option<(usize, f64, MatchLevel)>,
    possibly_restates: Option<(usize, f64, MatchLevel)>,
    differs: Option<(usize, MatchLevel, bool)>,
    nearest: Option<(usize, f64, MatchLevel)>,
}

impl Expected {
    fn of(finding: &ClaimFinding) -> Self {
        let pick = |near: NearestClaim| (near.index, near.similarity, near.level);
        Self {
            new_at: finding.new_at,
            restates: finding.restates.map(pick),
            possibly_restates: finding.possibly_restates.map(pick),
            differs: finding
                .differs
                .as_ref()
                .map(|other| (other.near.index, other.near.level, other.contradicts)),
            nearest: finding.nearest.map(pick),
        }
    }
}

type Candidate = (usize, f64, MatchLevel);

/// Findings by definition, for claims of which `round_of` gives the round.
fn naive(
    texts: &[String],
    round_of: &[usize],
    vectors: Option<&[Vec<f32>]>,
    rules: &NoveltyRules,
) -> Vec<Expected> {
    let threshold = Threshold::new(rules.jaccard_threshold).unwrap();
    let words: Vec<_> = texts.iter().map(|text| rules.tokenization.set(text)).collect();
    let mut found = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let before = round_of.partition_point(|round| *round < round_of[at]);
        let horizon = if rules.compare_within_round { at } else { before };
        let exact = (0..at)
            .find(|earlier| normalize(&texts[*earlier]) == normalize(text))
            .map(|earlier| (earlier, 1.0, MatchLevel::L0));
        let sorted = |mut list: Vec<Candidate>| {
            list.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            list
        };
        let by_words = sorted(
            (0..horizon)
                .filter(|earlier| {
                    let overlap = words[at].intersection(&words[*earlier]).count();
                    let union = words[at].len() + words[*earlier].len() - overlap;
                    threshold.is_reached_by(u32::try_from(overlap).unwrap(), u32::try_from(union).unwrap())
                })
                .map(|earlier| (earlier, jaccard(&words[at], &words[earlier]), MatchLevel::L1))
                .collect(),
        );
        let by_meaning = vectors.map(|vectors| {
            sorted(
                (0..horizon)
                    .map(|earlier| (earlier, cosine(&vectors[at], &vectors[earlier]), MatchLevel::L2))
                    .collect(),
            )
        });
        let mut differs = None;
        let mut first_accepted = |list: &[Candidate]| {
            list.iter().copied().find(|(earlier, _, level)| {
                let found =
                    differences_between(&ParsedStatement::of(&texts[*earlier]), &ParsedStatement::of(text));
                let contradicts = found
                    .iter()
                    .any(|found| matches!(found, Difference::Negation { .. } | Difference::Antonym { .. }));
                if !found.is_empty() && rules.guard {
                    differs.get_or_insert((*earlier, *level, contradicts));
                }
                found.is_empty() || !rules.guard
            })
        };
        let l1 = exact.or_else(|| first_accepted(&by_words));
        let l2 = by_meaning.as_ref().map(|list| {
            let similar = list.partition_point(|near| near.1 >= rules.semantic_threshold);
            exact.or_else(|| first_accepted(&list[..similar]))
        });
        let restates = exact.or(l1).or(l2.flatten());
        let nearest = match &by_meaning {
            Some(list) => list.iter().find(|near| near.0 < before).copied(),
            None => l1.filter(|near| near.0 < before),
        };
        let possibly_restates = by_meaning
            .as_ref()
            .and_then(|list| list.first().copied())
            .filter(|near| restates.is_none() && near.1 >= rules.possible_restatement)
            .filter(|near| differs.is_none_or(|other| other.0 != near.0));
        found.push(Expected {
            new_at: (exact.is_none(), l1.is_none(), l2.map(|found| found.is_none())),
            restates,
            possibly_restates,
            differs: differs.filter(|_| restates.is_none()),
            nearest,
        });
    }
    found
}

/// A vector that is similar for texts with similar words, as those of a sentence model are.
fn vector(text: &str) -> Vec<f32> {
    let mut sum = vec![0.05_f32; 24];
    for word in Tokenization::Words.set(text) {
        let mut state = word
            .bytes()
            .fold(7_u64, |state, byte| state.wrapping_mul(31) + u64::from(byte));
        for value in &mut sum {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *value += f32::from(u16::try_from(state >> 48).unwrap()) / 32_768.0 - 1.0;
        }
    }
    let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    sum.iter().map(|x| x / norm).collect()
}

/// Scores rounds of claims; `is_eager` indexes every claim by numbers and names from the beginning.
fn check(rounds: &[Vec<String>], rules: &NoveltyRules, with_vectors: bool, is_eager: bool) {
    let mut ledger = ClaimLedger::new(rules).unwrap();
    if is_eager {
        ledger.refused = usize::MAX / 2;
    }
    let mut vocabulary = Vocabulary::new(StopWords::Conversation);
    let (mut texts, mut round_of, mut got) = (Vec::new(), Vec::new(), Vec::new());
    for (at, claims) in rounds.iter().enumerate() {
        let outputs = Outputs {
            claims: claims.iter().map(|claim| claim.as_str().into()).collect(),
            ..Outputs::default()
        };
        let round = Round::new(1, outputs);
        let vectors =
            RoundVectors::new("m", &round, claims.iter().map(|claim| vector(claim)).collect()).unwrap();
        let folded = RoundTexts::of(&round);
        let found = ledger
            .observe(
                &round,
                &folded.words(&mut vocabulary),
                with_vectors.then_some(&vectors),
                rules,
                &Cancellation::default(),
            )
            .unwrap();
        for finding in &found.findings {
            texts.push(ledger.recorded[finding.index].text.clone());
            round_of.push(at);
            got.push(Expected::of(finding));
        }
    }
    // Normalized as the ledger does it, so that similarities are equal to the last bit.
    let mut vectors: Vec<Vec<f32>> = texts.iter().map(|text| vector(text)).collect();
    for vector in &mut vectors {
        let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        for x in vector.iter_mut() {
            *x /= norm;
        }
    }
    let expected = naive(&texts, &round_of, with_vectors.then_some(&vectors), rules);
    for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
        assert_eq!(got, expected, "claim {at}: {:?} of {texts:#?}", texts[at]);
    }
}

/// Statements that differ in what the guard compares: numbers, identifiers, dates, versions, names, negation.
const TEMPLATES: [&str; 12] = [
    "Claim number # about subject # is new",
    "Claim number # about subject # is not new",
    "The request req-# waits for host # in zone a",
    "Release v1.# was deployed on 2026-11-#",
    "The node host# failed # times after the deploy",
    "The node host# never failed after the deploy",
    "@ owns the cache of service # and its alerts",
    "@ does not own the cache of service # and its alerts",
    "All # workers must use the new queue",
    "Some of the # workers may use the new queue",
    "Latency rose by #% at the gateway after the change",
    "Latency fell by 0.# at the gateway after the change",
];

fn claim() -> impl Strategy<Value = String> {
    let names = [
        "Alice",
        "Bob",
        "the API team",
        "PostgreSQL",
        "postgres",
        "us-east-1",
        "Envoy",
    ];
    (
        0..TEMPLATES.len(),
        proptest::collection::vec(0..7_u32, 2),
        0..names.len(),
        0..8_u32,
    )
        .prop_map(move |(template, numbers, name, other)| {
            let mut numbers = numbers.into_iter();
            let mut text = String::new();
            for part in TEMPLATES[template].split_inclusive('#') {
                match part.strip_suffix('#') {
                    Some(part) => {
                        text.push_str(part);
                        text.push_str(&numbers.next().unwrap_or_default().to_string());
                    }
                    None => text.push_str(part),
                }
            }
            let text = text.replace('@', names[name]);
            match other {
                0 => text.replace("the", "a"),
                1 => text.to_uppercase(),
                2 => format!("{text} again"),
                _ => text,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn matches_comparison_with_every_earlier_claim(
        rounds in proptest::collection::vec(proptest::collection::vec(claim(), 1..4), 1..24),
        with_vectors in any::<bool>(),
        is_eager in any::<bool>(),
        is_spec in any::<bool>(),
        guard in 0..5_u8,
    ) {
        let profile = Profile::built_in(if is_spec { "spec" } else { "default" }).unwrap();
        let rules = NoveltyRules {
            guard: guard > 0,
            // A low threshold, so that the vectors of these statements reach it.
            semantic_threshold: 0.8,
            possible_restatement: 0.7,
            ..profile.novelty
        };
        check(&rounds, &rules, with_vectors, is_eager);
    }
}

#[test]
fn long_streams_switch_to_the_index_and_match_every_comparison() {
    let rules = NoveltyRules {
        semantic_threshold: 0.8,
        ..Profile::default().novelty
    };
    for kind in 0..4 {
        let rounds: Vec<Vec<String>> = (0..140_u32)
            .map(|at| {
                vec![match kind {
                    0 => format!("Claim number {at} about subject {} is new", at % 40),
                    1 => format!("The request req-{at:x}-q waits for host {}", at % 7),
                    2 => format!("Release 1.{at}.0 was deployed on 2026-11-{}", 10 + at % 3),
                    _ => format!(
                        "The node is {}safe under load in case {}",
                        if at % 3 == 0 { "not " } else { "" },
                        ["one", "alpha", "beta", "gamma", "delta"][at as usize % 5]
                    ),
                }]
            })
            .collect();
        for with_vectors in [false, true] {
            check(&rounds, &rules, with_vectors, false);
        }
    }
}

#[test]
fn claims_that_differ_in_a_number_are_not_compared_one_by_one() {
    let rules = Profile::default().novelty;
    let mut ledger = ClaimLedger::new(&rules).unwrap();
    let mut vocabulary = Vocabulary::new(StopWords::Conversation);
    for at in 0..2_000 {
        let outputs = Outputs {
            claims: vec![
                format!("Claim number {at} about subject {} is new", at % 40)
                    .as_str()
                    .into(),
            ],
            ..Outputs::default()
        };
        let round = Round::new(1, outputs);
        let folded = RoundTexts::of(&round);
        let words = folded.words(&mut vocabulary);
        ledger
            .observe(&round, &words, None, &rules, &Cancellation::default())
            .unwrap();
    }
    assert!(
        ledger.refused < 200 * 2_000,
        "{} comparisons, of 2,000,000 without the index",
        ledger.refused
    );
}
