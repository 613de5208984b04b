//! Attribution: which query of a session a read, a quotation or a validation belongs to.
//!
//! An agent that works on several things asks for one, then for another, and then reads a result that both
//! lists contain. The use is credited to the query that the memory fits, with a probability, or to none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FeedbackKind, LoggedEvent, query_terms, scroll_past};
use crate::text::guard::agree;
use crate::text::stem::stem;
use crate::text::words::WordRule;
use crate::text::{StopWords, jaccard};

const MICROS_PER_MINUTE: f64 = 60e6;

/// Rule by which a use is credited to a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttributionRule {
    /// The query that the memory fits by meaning, words, rank and time; none if the fit is poor.
    #[default]
    Fit,
    /// The latest query whose results include the memory, as in the specification.
    Latest,
}

impl AttributionRule {
    /// Returns the rule with the given name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "fit" => Some(Self::Fit),
            "latest" => Some(Self::Latest),
            _ => None,
        }
    }
}

/// Weights and thresholds of the attribution.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttributionSettings {
    meaning_share: f64,
    meaning_low: f64,
    meaning_high: f64,
    words_high: f64,
    scale: f64,
    unlisted: f64,
    rank: f64,
    age: f64,
    age_minutes: f64,
    floor: f64,
    learn: f64,
    repeat_words: f64,
    repeat_meaning: f64,
    related_meaning: f64,
}

#[expect(
    clippy::expect_used,
    reason = "the file is compiled in, and the tests below read it"
)]
static SETTINGS: LazyLock<AttributionSettings> = LazyLock::new(|| {
    toml::from_str(include_str!("data/attribution.toml")).expect("attribution.toml can be read")
});

/// Returns the built-in weights.
pub fn attribution_settings() -> &'static AttributionSettings {
    &SETTINGS
}

/// A query of a session with what it returned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PastQuery {
    /// Id of the query in the log.
    pub id: String,
    /// Query text as logged.
    pub text: String,
    /// Ids of the results, best first.
    pub results: Vec<String>,
    /// Time in microseconds since 1970.
    pub at: i64,
    /// Embedding model and vector of the query, if it was embedded.
    pub vector: Option<(String, Vec<f32>)>,
}

/// A memory that was used.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsedMemory {
    /// Id of the memory.
    pub id: String,
    /// Stems of the words of its title and content.
    stems: BTreeSet<String>,
    /// Embedding model and vector of each chunk.
    vectors: Vec<(String, Vec<f32>)>,
}

impl UsedMemory {
    /// Describes a memory by its text and the vectors of its chunks, each with its embedding model. Learnt
    /// phrases are left out: they would confirm earlier attributions.
    pub fn new(id: &str, title: &str, content: &str, vectors: Vec<(String, Vec<f32>)>) -> Self {
        let mut stems = BTreeSet::new();
        for text in [title, content] {
            WordRule::Search.for_each(text, |word| {
                if !StopWords::Notes.contains(word) {
                    stems.insert(stem(word).into_owned());
                }
            });
        }
        Self {
            id: id.to_owned(),
            stems,
            vectors,
        }
    }

    /// Share of the query's words that the memory contains; `None` without words.
    fn common_words(&self, query: &str) -> Option<f64> {
        let terms = query_terms(query, false).terms;
        let found = terms.iter().filter(|term| self.stems.contains(&*stem(term)));
        (!terms.is_empty()).then(|| found.count() as f64 / terms.len() as f64)
    }

    /// Cosine of the query and the nearest chunk; `None` without vectors of the same model.
    fn cosine(&self, query: &PastQuery) -> Option<f64> {
        let (model, vector) = query.vector.as_ref()?;
        let same = self.vectors.iter().filter(|(own, _)| own == model);
        same.map(|(_, own)| dot(own, vector)).max_by(f64::total_cmp)
    }
}

fn dot(one: &[f32], other: &[f32]) -> f64 {
    let products = one.iter().zip(other).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.sum()
}

/// Credit of a use to one query, with the evidence for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Credit {
    /// Id of the query.
    pub query_id: String,
    /// Probability that the use belongs to the query; for the credited one, to it or to a query about the same.
    pub probability: f64,
    /// Rank of the memory in the results of the query, from 1.
    pub rank: i64,
    /// Share of the query's words that the memory contains.
    pub words: Option<f64>,
    /// Cosine of query and memory.
    pub meaning: Option<f64>,
    /// Minutes between the query and the use.
    pub minutes: f64,
}

/// Attribution of a use to the queries of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Attribution {
    /// The query that gets the credit; `None` below the floor.
    pub credited: Option<Credit>,
    /// All queries whose results include the memory, newest first.
    pub candidates: Vec<Credit>,
    /// Whether the probability suffices to learn the words of the query.
    pub may_learn: bool,
}

/// Credits a use at a time (microseconds since 1970) to one of the session's queries, which are given newest
/// first. Only queries before the use whose results include the memory can get the credit.
///
/// ```
/// use satiety::memory::{AttributionRule, PastQuery, UsedMemory, attribute, attribution_settings};
/// let query = |id: &str, text: &str| PastQuery {
///     id: id.into(), text: text.into(), results: vec!["m".into()], ..PastQuery::default()
/// };
/// let asked = [query("q2", "color of the login page"), query("q1", "sqlite database locked")];
/// let memory = UsedMemory::new("m", "SQLite is locked", "Set busy_timeout on the database.", Vec::new());
/// let by_fit = attribute(&memory, &asked, 0, AttributionRule::Fit, attribution_settings());
/// assert_eq!(by_fit.credited.unwrap().query_id, "q1");
/// let latest = attribute(&memory, &asked, 0, AttributionRule::Latest, attribution_settings());
/// assert_eq!(latest.credited.unwrap().query_id, "q2");
/// ```
pub fn attribute(
    memory: &UsedMemory,
    queries: &[PastQuery],
    now: i64,
    rule: AttributionRule,
    settings: &AttributionSettings,
) -> Attribution {
    let mut candidates = Vec::new();
    let mut asked: Vec<&PastQuery> = Vec::new();
    let mut log_odds = Vec::new();
    for query in queries.iter().filter(|query| query.at <= now) {
        let Some(at) = query.results.iter().position(|result| *result == memory.id) else {
            continue;
        };
        let minutes = (now - query.at) as f64 / MICROS_PER_MINUTE;
        let (words, meaning) = (memory.common_words(&query.text), memory.cosine(query));
        let rank = at as f64 + 1.0;
        let age = (minutes / settings.age_minutes).max(1.0);
        log_odds.push(
            settings.scale * fit(words, meaning, settings)
                - settings.rank * rank.log2()
                - settings.age * age.log2(),
        );
        candidates.push(Credit {
            query_id: query.id.clone(),
            probability: 0.0,
            rank: i64::try_from(at + 1).unwrap_or(i64::MAX),
            words,
            meaning,
            minutes,
        });
        asked.push(query);
    }
    match rule {
        AttributionRule::Latest => {
            let mut rest = candidates.iter_mut();
            if let Some(latest) = rest.next() {
                latest.probability = 1.0;
            }
            Attribution {
                credited: candidates.first().cloned(),
                may_learn: !candidates.is_empty(),
                candidates,
            }
        }
        AttributionRule::Fit => {
            share_probability(&mut candidates, &log_odds, settings.scale * settings.unlisted);
            let best = most_probable(&candidates);
            let shared = |is_same: &dyn Fn(&PastQuery, &PastQuery) -> bool| -> f64 {
                let Some(query) = best.and_then(|best| asked.get(best).copied()) else {
                    return 0.0;
                };
                let same = candidates.iter().zip(asked.iter().copied()).enumerate();
                let same = same.filter(|(at, (_, other))| Some(*at) == best || is_same(query, other));
                let sum: f64 = same.map(|(_, (candidate, _))| candidate.probability).sum();
                sum.min(1.0)
            };
            let certain = shared(&|one, other| repeats(one, other, settings));
            let probability = shared(&|one, other| {
                repeats(one, other, settings) || query_cosine(one, other) >= Some(settings.related_meaning)
            });
            let credited = best.and_then(|best| candidates.get(best)).map(|best| Credit {
                probability,
                ..best.clone()
            });
            Attribution {
                credited: credited.filter(|_| probability >= settings.floor),
                may_learn: certain >= settings.learn,
                candidates,
            }
        }
    }
}

/// Fit of a query and a memory from 0 to 1. Common words add to the meaning; their absence does not count
/// against it, because a question is often asked in other words than it is answered.
fn fit(words: Option<f64>, meaning: Option<f64>, settings: &AttributionSettings) -> f64 {
    let words = (words.unwrap_or(0.0) / settings.words_high.max(f64::MIN_POSITIVE)).min(1.0);
    let Some(cosine) = meaning else { return words };
    let range = (settings.meaning_high - settings.meaning_low).max(f64::MIN_POSITIVE);
    let meaning = ((cosine - settings.meaning_low) / range).clamp(0.0, 1.0);
    let both = settings.meaning_share * meaning + (1.0 - settings.meaning_share) * words;
    both.max(meaning)
}

/// Turns log odds into probabilities that add up to 1 with that of no query.
fn share_probability(candidates: &mut [Credit], log_odds: &[f64], none: f64) {
    let largest = log_odds.iter().copied().fold(none, f64::max);
    let total: f64 = log_odds.iter().map(|odds| (odds - largest).exp()).sum();
    let total = total + (none - largest).exp();
    for (candidate, odds) in candidates.iter_mut().zip(log_odds) {
        candidate.probability = (odds - largest).exp() / total;
    }
}

/// Position of the most probable query, the newest of equal ones.
fn most_probable(candidates: &[Credit]) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (at, candidate) in candidates.iter().enumerate() {
        if best.is_none_or(|(_, most)| candidate.probability > most) {
            best = Some((at, candidate.probability));
        }
    }
    best.map(|(at, _)| at)
}

/// Cosine of two queries; `None` without vectors of the same model.
fn query_cosine(one: &PastQuery, other: &PastQuery) -> Option<f64> {
    match (&one.vector, &other.vector) {
        (Some((model, vector)), Some((same, earlier))) if model == same => Some(dot(vector, earlier)),
        _ => None,
    }
}

/// Whether two queries ask the same, by words or by meaning, and nothing in them differs.
fn repeats(one: &PastQuery, other: &PastQuery, settings: &AttributionSettings) -> bool {
    let words = |text: &str| -> BTreeSet<String> {
        let terms = query_terms(text, false).terms;
        terms.iter().map(|term| stem(term).into_owned()).collect()
    };
    let (own, others) = (words(&one.text), words(&other.text));
    let by_words = !own.is_empty() && jaccard(&own, &others) >= settings.repeat_words;
    let by_meaning = query_cosine(one, other) >= Some(settings.repeat_meaning);
    (by_words || by_meaning) && agree(&one.text, &other.text)
}

/// The earlier query of a session that a query repeats, by words or by meaning; the latest if there are
/// several. `queries` are newest first.
pub fn repeated_query<'a>(query: &PastQuery, queries: &'a [PastQuery]) -> Option<&'a PastQuery> {
    queries
        .iter()
        .find(|earlier| repeats(query, earlier, attribution_settings()))
}

/// Attributes all logged uses of a session again. Returns the events with the query that each belongs to and
/// its probability: uses below the floor are omitted, and results that were passed over are derived again from
/// the uses, because they depend on them. `queries` are newest first.
pub fn reattribute(
    queries: &[PastQuery],
    events: &[LoggedEvent],
    memories: &BTreeMap<String, UsedMemory>,
    rule: AttributionRule,
    settings: &AttributionSettings,
) -> Vec<(LoggedEvent, f64)> {
    let mut again = Vec::new();
    // Used memories of each query with the time and probability of the use.
    let mut used: BTreeMap<String, BTreeMap<String, (i64, f64)>> = BTreeMap::new();
    for event in events {
        let memory = match (event.kind, &event.memory_id) {
            (FeedbackKind::ScrollPast, _) | (_, None) => None,
            (_, Some(id)) => memories.get(id),
        };
        let Some(memory) = memory else {
            if event.kind == FeedbackKind::ReSearch {
                again.push((event.clone(), 1.0));
            }
            continue;
        };
        let found = attribute(memory, queries, event.at, rule, settings);
        let Some(credit) = found.credited else { continue };
        if event.kind.is_use() {
            let uses = used.entry(credit.query_id.clone()).or_default();
            uses.insert(memory.id.clone(), (event.at, credit.probability));
        }
        let event = LoggedEvent {
            query_id: Some(credit.query_id),
            ..event.clone()
        };
        again.push((event, credit.probability));
    }
    for query in queries {
        let Some(uses) = used.get(&query.id) else { continue };
        let ids: BTreeSet<String> = uses.keys().cloned().collect();
        let passed = scroll_past(&query.results, &ids);
        let first = query.results.get(passed.len()).and_then(|id| uses.get(id));
        let Some((at, probability)) = first else { continue };
        again.extend(passed.iter().map(|id| {
            let event = LoggedEvent {
                kind: FeedbackKind::ScrollPast,
                query_id: Some(query.id.clone()),
                memory_id: Some(id.clone()),
                asked_again_as: None,
                at: *at,
            };
            (event, *probability)
        }));
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: i64 = 60_000_000;

    fn query(id: &str, text: &str, at: i64, results: &[&str]) -> PastQuery {
        PastQuery {
            id: id.into(),
            text: text.into(),
            results: results.iter().map(ToString::to_string).collect(),
            at,
            vector: None,
        }
    }

    fn lock() -> UsedMemory {
        let content = "The database is locked while the import runs. Set busy_timeout.";
        UsedMemory::new("m", "SQLite locked", content, Vec::new())
    }

    fn by_fit(memory: &UsedMemory, queries: &[PastQuery], now: i64) -> Attribution {
        attribute(memory, queries, now, AttributionRule::Fit, attribution_settings())
    }

    #[test]
    fn the_query_that_fits_gets_the_credit_although_another_came_later() {
        let queries = [
            query("q3", "deploy schedule of the web team", 3, &["x", "y", "m"]),
            query("q2", "color of the login page", 2, &["m", "x"]),
            query("q1", "why is sqlite locked during import", 1, &["x", "m"]),
        ];
        let found = by_fit(&lock(), &queries, 4);
        let credit = found.credited.unwrap();
        assert_eq!((credit.query_id.as_str(), credit.rank), ("q1", 2));
        assert!(credit.probability > 0.9 && found.may_learn);
        assert_eq!(found.candidates.len(), 3);
        let latest = attribute(
            &lock(),
            &queries,
            4,
            AttributionRule::Latest,
            attribution_settings(),
        );
        assert_eq!(latest.credited.unwrap().query_id, "q3");
    }

    #[test]
    fn a_use_that_fits_no_query_is_credited_to_none() {
        let queries = [query("q1", "color of the login page", 1, &["m"])];
        let found = by_fit(&lock(), &queries, 2);
        assert_eq!((found.credited, found.may_learn), (None, false));
        assert!(found.candidates[0].probability < 0.2);
        assert_eq!(by_fit(&lock(), &[], 2), Attribution::default());
        // Neither a query that did not list it, nor one after the use.
        let others = [
            query("q2", "sqlite locked", 9, &["m"]),
            query("q1", "sqlite locked", 1, &["x"]),
        ];
        assert_eq!(by_fit(&lock(), &others, 2).candidates, []);
    }

    #[test]
    fn repetitions_share_their_probability_and_the_newest_gets_the_credit() {
        let queries = [
            query("q2", "sqlite locked import", 2 * MINUTE, &["m"]),
            query("q1", "why is sqlite locked in the import", MINUTE, &["m"]),
        ];
        let found = by_fit(&lock(), &queries, 3 * MINUTE);
        let credit = found.credited.unwrap();
        assert_eq!(credit.query_id, "q2");
        assert!(credit.probability > 0.95, "{credit:?}");
        assert!(found.candidates[0].probability < 0.7);
    }

    #[test]
    fn rank_and_age_decide_between_equal_fits() {
        let far = ["a", "b", "c", "d", "e", "f", "g", "m"];
        let queries = [
            query("low", "database locked alpha", 2, &far),
            query("high", "database locked omega", 1, &["m"]),
        ];
        assert_eq!(by_fit(&lock(), &queries, 3).candidates[0].rank, 8);
        let probability = |queries: &[PastQuery], at: usize| {
            by_fit(&lock(), queries, 400 * MINUTE).candidates[at].probability
        };
        assert!(probability(&queries, 1) > probability(&queries, 0));
        let queries = [
            query("recent", "database locked alpha", 399 * MINUTE, &["m"]),
            query("early", "database locked omega", 0, &["m"]),
        ];
        assert!(probability(&queries, 0) > 2.0 * probability(&queries, 1));
    }

    #[test]
    fn meaning_counts_where_words_differ() {
        let vector = |values: [f32; 2]| Some(("model".to_owned(), values.to_vec()));
        let memory = UsedMemory::new("m", "Zzz", "Qqq.", vec![("model".into(), vec![1.0, 0.0])]);
        let near = PastQuery {
            vector: vector([0.8, 0.6]),
            ..query("near", "alpha beta", 1, &["m"])
        };
        let far = PastQuery {
            vector: vector([0.0, 1.0]),
            ..query("far", "gamma delta", 2, &["m"])
        };
        let found = by_fit(&memory, &[far.clone(), near.clone()], 3);
        assert_eq!(found.credited.unwrap().query_id, "near");
        // Vectors of another model are not comparable.
        let other = PastQuery {
            vector: Some(("other".into(), vec![1.0, 0.0])),
            ..near.clone()
        };
        assert_eq!(by_fit(&memory, &[other], 3).candidates[0].meaning, None);
        let again = PastQuery {
            vector: vector([0.78, 0.626]),
            ..query("again", "epsilon zeta", 4, &[])
        };
        let earlier = [far, near];
        assert_eq!(repeated_query(&again, &earlier).unwrap().id, "near");
    }

    #[test]
    fn queries_with_other_names_or_numbers_are_not_repetitions() {
        for (one, other, expected) in [
            ("sqlite locked error", "why is sqlite locked", true),
            ("retry limit of release 3", "retry limit of release 4", false),
            ("postgres pool size", "sqlite locked", false),
            ("", "", false),
        ] {
            let earlier = [query("q", other, 0, &[])];
            assert_eq!(
                repeated_query(&query("p", one, 1, &[]), &earlier).is_some(),
                expected,
                "{one}"
            );
        }
    }

    #[test]
    fn logged_events_are_attributed_again_with_what_was_passed_over() {
        let queries = [
            query("q2", "color of the login page", 2, &["x", "m"]),
            query("q1", "why is sqlite locked", 1, &["x", "m"]),
        ];
        let event = |kind, query: &str, memory: Option<&str>| LoggedEvent {
            kind,
            query_id: Some(query.into()),
            memory_id: memory.map(Into::into),
            asked_again_as: None,
            at: 3,
        };
        // As the latest query would have it: a wrong credit, and a wrong result passed over.
        let logged = [
            event(FeedbackKind::ValidateUseful, "q2", Some("m")),
            event(FeedbackKind::ScrollPast, "q2", Some("x")),
            event(FeedbackKind::ReadAfterSearch, "q2", Some("gone")),
            event(FeedbackKind::ReSearch, "q1", None),
        ];
        let memories = BTreeMap::from([("m".to_owned(), lock())]);
        let rule = AttributionRule::Fit;
        let again = reattribute(&queries, &logged, &memories, rule, attribution_settings());
        let found: Vec<(FeedbackKind, &str, Option<&str>)> = again
            .iter()
            .map(|(event, _)| {
                (
                    event.kind,
                    event.query_id.as_deref().unwrap(),
                    event.memory_id.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                (FeedbackKind::ValidateUseful, "q1", Some("m")),
                (FeedbackKind::ReSearch, "q1", None),
                (FeedbackKind::ScrollPast, "q1", Some("x")),
            ]
        );
    }

    proptest! {
        /// Probabilities are a distribution with a share for no query, and a better fit never lowers the credit.
        #[test]
        fn probabilities_add_up_to_at_most_one(cosines in proptest::collection::vec(-1.0..1.0_f32, 1..12), raise in 0.0..0.5_f32) {
            let memory = UsedMemory::new("m", "T", "C.", vec![("model".into(), vec![1.0])]);
            let queries = |cosines: &[f32]| -> Vec<PastQuery> {
                let all = cosines.iter().enumerate().rev();
                all.map(|(at, cosine)| PastQuery {
                    vector: Some(("model".into(), vec![*cosine])),
                    ..query(&at.to_string(), "unrelated", i64::try_from(at).unwrap(), &["m"])
                }).collect()
            };
            let found = by_fit(&memory, &queries(&cosines), 100);
            let sum: f64 = found.candidates.iter().map(|candidate| candidate.probability).sum();
            prop_assert!(sum < 1.0 + 1e-9 && found.candidates.iter().all(|candidate| candidate.probability >= 0.0));
            let mut better = cosines.clone();
            better[0] = (better[0] + raise).min(1.0);
            let raised = by_fit(&memory, &queries(&better), 100);
            let of = |found: &Attribution| found.candidates.last().unwrap().probability;
            prop_assert!(of(&raised) >= of(&found) - 1e-12);
        }
    }
}
