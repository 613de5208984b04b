//! Selection of logged queries for an evaluation corpus: removes duplicates and samples each category up to
//! its target. Queries that are already in the corpus stay and count, so that harvesting is idempotent.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::categories::{LoggedQuery, categories_of};
use crate::retrieval::fast_parse::hash;
use crate::retrieval::{CATEGORY_TARGETS, INTENTS};
use crate::text::{JaccardIndex, ThresholdError, Tokenization, normalize};

/// The category with a target for each intent.
const BY_INTENT: &str = "intent-specific";

/// Settings of a harvest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HarvestSettings {
    /// Share of the specification's targets to fill; 1 means 280 queries.
    pub share: f64,
    /// Minimum Jaccard similarity of near-duplicate queries, above 0 and at most 1.
    pub near_duplicate: f64,
    /// Seed of the random selection.
    pub seed: u64,
}

impl Default for HarvestSettings {
    fn default() -> Self {
        Self {
            share: 1.0,
            near_duplicate: 0.8,
            seed: 0,
        }
    }
}

/// Result of a harvest.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Harvest {
    /// Selected queries in log order.
    pub taken: Vec<HarvestedQuery>,
    /// Skipped queries in log order, with reasons.
    pub left_out: Vec<SkippedQuery>,
    /// Counts by category, and by intent within `intent-specific`.
    pub strata: Vec<Stratum>,
    /// Settings used for the harvest.
    pub settings: HarvestSettings,
}

/// A query selected for the corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HarvestedQuery {
    /// Id of the query.
    pub query_id: String,
    /// Text of the query.
    pub query: String,
    /// Intent of the query, if known.
    pub intent: Option<String>,
    /// Category for which it was selected.
    pub category: String,
    /// Reason why it fits the category.
    pub because: String,
    /// Ids of queries with the same words; their feedback counts for this query.
    pub stands_for: Vec<String>,
}

/// A query that was not selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SkippedQuery {
    /// Id of the query.
    pub query_id: String,
    /// Reason for skipping the query.
    #[serde(flatten)]
    pub because: SkipReason,
}

/// Reason for skipping a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum SkipReason {
    /// The query is already in the corpus.
    InCorpus,
    /// The query has no text.
    Empty,
    /// Another query has the same words.
    SameWords {
        /// Id of the other query.
        of: String,
    },
    /// Another query is similar.
    NearDuplicate {
        /// Id of the other query.
        of: String,
        /// Jaccard similarity of the words in percent.
        percent: u8,
    },
    /// Every category that it fits has reached its target.
    Enough {
        /// Names of the categories that it fits.
        categories: Vec<String>,
    },
}

/// Counts of a category, or of an intent within `intent-specific`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stratum {
    /// Name of the category.
    pub category: String,
    /// Name of the intent, if targets are per intent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// Target number of queries.
    pub target: usize,
    /// Number of queries already in the corpus.
    pub had: usize,
    /// Number of other queries that fit.
    pub fitting: usize,
    /// Number of queries selected.
    pub taken: usize,
}

/// A query after deduplication.
struct Distinct<'a> {
    query: &'a LoggedQuery,
    stands_for: Vec<String>,
    fits: Vec<(&'static str, String)>,
    /// Pseudo-random sort key. It depends only on the seed and the words, so that a longer log changes
    /// little.
    sort_key: u64,
}

/// Selects queries for the corpus. The categories with the fewest candidates per open slot choose first;
/// within a category the selection is random.
pub fn harvest(log: &[LoggedQuery], settings: &HarvestSettings) -> Result<Harvest, ThresholdError> {
    let (distinct, mut left_out) = distinct(log, settings)?;
    let mut strata = strata(log, settings.share);
    for candidate in &distinct {
        for stratum in strata.iter_mut().filter(|stratum| stratum.fits(candidate)) {
            stratum.fitting += 1;
        }
    }
    let mut order: Vec<usize> = (0..strata.len()).collect();
    // Full categories come last.
    let supply = |stratum: &Stratum| match stratum.remaining() {
        0 => f64::INFINITY,
        remaining => stratum.fitting as f64 / remaining as f64,
    };
    order.sort_by(|&a, &b| {
        let (a, b) = (&strata[a], &strata[b]);
        let names = |stratum: &Stratum| (stratum.category.clone(), stratum.intent.clone());
        supply(a)
            .total_cmp(&supply(b))
            .then_with(|| names(a).cmp(&names(b)))
    });
    let mut chosen: BTreeMap<usize, (String, String)> = BTreeMap::new();
    for at in order {
        let Some(stratum) = strata.get_mut(at) else {
            continue;
        };
        let mut fitting: Vec<usize> = (0..distinct.len())
            .filter(|index| !chosen.contains_key(index) && stratum.fits(&distinct[*index]))
            .collect();
        fitting.sort_by_key(|&index| (distinct[index].sort_key, &distinct[index].query.query_id));
        fitting.truncate(stratum.remaining());
        stratum.taken = fitting.len();
        for index in fitting {
            let fits = &distinct[index].fits;
            let because = fits.iter().find(|(name, _)| *name == stratum.category);
            let because = because.map(|(_, reason)| reason.clone()).unwrap_or_default();
            chosen.insert(index, (stratum.category.clone(), because));
        }
    }
    let mut taken = Vec::new();
    for (index, candidate) in distinct.into_iter().enumerate() {
        let query_id = candidate.query.query_id.clone();
        match chosen.remove(&index) {
            Some((category, because)) => taken.push(HarvestedQuery {
                query_id,
                query: candidate.query.query.clone(),
                intent: candidate.query.intent.clone(),
                category,
                because,
                stands_for: candidate.stands_for,
            }),
            None => left_out.push(SkippedQuery {
                query_id,
                because: SkipReason::Enough {
                    categories: candidate
                        .fits
                        .into_iter()
                        .map(|(name, _)| name.to_owned())
                        .collect(),
                },
            }),
        }
    }
    let positions: BTreeMap<&str, usize> = log
        .iter()
        .enumerate()
        .map(|(at, query)| (query.query_id.as_str(), at))
        .collect();
    left_out.sort_by_key(|skipped| positions.get(skipped.query_id.as_str()).copied());
    Ok(Harvest {
        taken,
        left_out,
        strata,
        settings: *settings,
    })
}

impl Stratum {
    fn remaining(&self) -> usize {
        self.target.saturating_sub(self.had)
    }

    fn fits(&self, candidate: &Distinct<'_>) -> bool {
        candidate.fits.iter().any(|(name, _)| *name == self.category)
            && (self.intent.is_none() || self.intent == candidate.query.intent)
    }
}

/// Categories with their targets and current counts.
fn strata(log: &[LoggedQuery], share: f64) -> Vec<Stratum> {
    let had = |category: &str, intent: Option<&str>| {
        let inside = log.iter().filter(|query| query.in_corpus);
        inside
            .filter(|query| query.corpus_category.as_deref() == Some(category))
            .filter(|query| intent.is_none() || query.intent.as_deref() == intent)
            .count()
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small count; NaN becomes 0"
    )]
    let scaled = |target: usize| (target as f64 * share).ceil().max(0.0) as usize;
    let mut strata = Vec::new();
    for target in CATEGORY_TARGETS {
        let stratum = |intent: Option<&str>, target_of: usize| Stratum {
            category: target.category.into(),
            intent: intent.map(Into::into),
            target: scaled(target_of),
            had: had(target.category, intent),
            fitting: 0,
            taken: 0,
        };
        if target.category == BY_INTENT {
            strata.extend(INTENTS.map(|intent| stratum(Some(intent), target.queries / INTENTS.len())));
        } else {
            strata.push(stratum(None, target.queries));
        }
    }
    strata
}

/// Deduplicates queries. Of several with the same words, prefers one in the corpus, then the one with the
/// most feedback, then the earliest.
fn distinct<'a>(
    log: &'a [LoggedQuery],
    settings: &HarvestSettings,
) -> Result<(Vec<Distinct<'a>>, Vec<SkippedQuery>), ThresholdError> {
    let mut left_out = Vec::new();
    let leave = |query: &LoggedQuery, because| SkippedQuery {
        query_id: query.query_id.clone(),
        because,
    };
    let mut groups: BTreeMap<String, Vec<&LoggedQuery>> = BTreeMap::new();
    for query in log {
        let normal = normalize(&query.query);
        if query.in_corpus {
            left_out.push(leave(query, SkipReason::InCorpus));
        } else if normal.is_empty() {
            left_out.push(leave(query, SkipReason::Empty));
            continue;
        }
        groups.entry(normal).or_default().push(query);
    }
    // Of near duplicates the first is kept: corpus first, then most feedback, then random order.
    let mut heads: Vec<(&LoggedQuery, Vec<&LoggedQuery>, u64)> = Vec::new();
    for (normal, mut group) in groups {
        group.sort_by_key(|query| (!query.in_corpus, std::cmp::Reverse(query.events)));
        let sort_key = random_key(settings.seed, &normal);
        if let Some((head, rest)) = group.split_first() {
            heads.push((head, rest.to_vec(), sort_key));
        }
    }
    heads.sort_by_key(|(head, _, sort_key)| (!head.in_corpus, std::cmp::Reverse(head.events), *sort_key));
    let mut index = JaccardIndex::new(settings.near_duplicate, Tokenization::Words)?;
    let mut known: Vec<&str> = Vec::new();
    let mut kept = Vec::new();
    for (head, rest, sort_key) in heads {
        let same = SkipReason::SameWords {
            of: head.query_id.clone(),
        };
        let others = rest.iter().filter(|query| !query.in_corpus);
        left_out.extend(others.clone().map(|query| leave(query, same.clone())));
        let like = index.best_match(&head.query);
        if head.in_corpus {
            index.insert(&head.query);
            known.push(&head.query_id);
            continue;
        }
        if let Some((like, of)) = like.and_then(|like| Some((like, known.get(like.id as usize)?))) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share between 0 and 1"
            )]
            let percent = (100.0 * like.similarity()).round() as u8;
            let of = (*of).to_owned();
            left_out.push(leave(head, SkipReason::NearDuplicate { of, percent }));
            continue;
        }
        index.insert(&head.query);
        known.push(&head.query_id);
        kept.push(Distinct {
            stands_for: others.map(|query| query.query_id.clone()).collect(),
            fits: categories_of(head),
            query: head,
            sort_key,
        });
    }
    let order: BTreeSet<&str> = kept
        .iter()
        .map(|candidate| candidate.query.query_id.as_str())
        .collect();
    let mut by_id: BTreeMap<String, Distinct<'a>> = kept
        .into_iter()
        .map(|candidate| (candidate.query.query_id.clone(), candidate))
        .collect();
    let in_order = log.iter().filter(|query| order.contains(query.query_id.as_str()));
    let distinct = in_order
        .filter_map(|query| by_id.remove(&query.query_id))
        .collect();
    Ok((distinct, left_out))
}

/// A pseudo-random number that depends only on the seed and the text.
fn random_key(seed: u64, text: &str) -> u64 {
    let with = |salt: &str| u64::from(hash(format!("{seed}{salt}{text}").as_bytes()));
    with("a") << 32 | with("b")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query(id: &str, text: &str) -> LoggedQuery {
        LoggedQuery {
            query_id: id.into(),
            query: text.into(),
            results: 3,
            ..LoggedQuery::default()
        }
    }

    fn taken(found: &Harvest) -> Vec<&str> {
        found.taken.iter().map(|query| query.query_id.as_str()).collect()
    }

    fn why<'a>(found: &'a Harvest, id: &str) -> Option<&'a SkipReason> {
        found
            .left_out
            .iter()
            .find(|one| one.query_id == id)
            .map(|one| &one.because)
    }

    #[test]
    fn of_duplicates_the_one_with_the_most_feedback_is_selected() {
        let log = [
            query("a", "Why is SQLite locked?"),
            LoggedQuery {
                events: 2,
                ..query("b", "why is  sqlite locked?")
            },
            query(
                "c",
                "how do I rotate the signing keys of the gateway safely at night",
            ),
            query("d", "how do I rotate the signing keys of the gateway safely"),
            query("e", "  "),
            query("f", "export format of invoices"),
        ];
        let found = harvest(
            &log,
            &HarvestSettings {
                near_duplicate: 0.75,
                ..HarvestSettings::default()
            },
        )
        .unwrap();
        assert!(taken(&found).contains(&"b") && taken(&found).contains(&"f"));
        assert_eq!(why(&found, "a"), Some(&SkipReason::SameWords { of: "b".into() }));
        assert_eq!(found.taken[0].stands_for, ["a"]);
        assert_eq!(why(&found, "e"), Some(&SkipReason::Empty));
        // The seed decides which of the two is kept; the other names it.
        let left: Vec<&SkipReason> = ["c", "d"].iter().filter_map(|id| why(&found, id)).collect();
        assert!(
            matches!(left[..], [SkipReason::NearDuplicate { percent: 77..=85, .. }]),
            "{left:?}"
        );
        assert_eq!(found.taken.len() + found.left_out.len(), log.len());
    }

    #[test]
    fn queries_in_the_corpus_count_and_exclude_duplicates() {
        let inside = LoggedQuery {
            in_corpus: true,
            corpus_category: Some("semantic-search".into()),
            ..query("old", "retry budget of the payment client")
        };
        let log = [
            inside,
            query("new", "Retry budget of the payment client"),
            query("x", "wal mode of the store"),
        ];
        // 2 % of the targets is one query of each category, and the corpus already has this one.
        let settings = HarvestSettings {
            share: 0.02,
            ..HarvestSettings::default()
        };
        let found = harvest(&log, &settings).unwrap();
        assert_eq!(taken(&found), [] as [&str; 0]);
        assert_eq!(why(&found, "old"), Some(&SkipReason::InCorpus));
        assert_eq!(
            why(&found, "new"),
            Some(&SkipReason::SameWords { of: "old".into() })
        );
        assert!(matches!(why(&found, "x"), Some(SkipReason::Enough { .. })));
    }

    #[test]
    fn scarce_categories_choose_first() {
        // Fifteen queries fit cold-start and semantic-search; only three of them also fit multi-concept.
        let mut log: Vec<LoggedQuery> = (0..12)
            .map(|number| LoggedQuery {
                first_of_session: true,
                ..query(
                    &format!("s{number}"),
                    &format!("topic{number} alpha{number} beta{number} gamma{number}"),
                )
            })
            .collect();
        log.extend((0..3).map(|number| LoggedQuery {
            first_of_session: true,
            ..query(
                &format!("m{number}"),
                &format!("cache{number} and pool{number} limits{number}"),
            )
        }));
        let settings = HarvestSettings {
            share: 0.2,
            ..HarvestSettings::default()
        };
        let found = harvest(&log, &settings).unwrap();
        let of = |category: &str| {
            let stratum = found
                .strata
                .iter()
                .find(|stratum| stratum.category == category)
                .unwrap();
            (stratum.target, stratum.taken)
        };
        assert_eq!(of("multi-concept"), (4, 3));
        assert_eq!(of("semantic-search"), (10, 10));
        assert_eq!(of("cold-start"), (3, 2));
        assert_eq!(found.taken.len(), 15);
    }

    /// The corpus after a harvest, as the log then has it.
    fn after(log: &[LoggedQuery], found: &Harvest) -> Vec<LoggedQuery> {
        let mut log = log.to_vec();
        for query in &mut log {
            if let Some(one) = found.taken.iter().find(|one| one.query_id == query.query_id) {
                query.in_corpus = true;
                query.corpus_category = Some(one.category.clone());
            }
        }
        log
    }

    proptest! {
        #[test]
        fn harvesting_is_idempotent_and_keeps_targets(
            texts in proptest::collection::vec("[a-f]{1,3}( (and|why|[a-f]{1,3})){0,5}", 0..60),
            seed in 0_u64..5, share in 0.01_f64..0.2,
        ) {
            let log: Vec<LoggedQuery> = texts.iter().enumerate().map(|(number, text)| LoggedQuery {
                first_of_session: number % 3 == 0,
                intent: (number % 2 == 0).then(|| INTENTS[number % 7].to_owned()),
                results: number % 5,
                ..query(&format!("q{number:03}"), text)
            }).collect();
            let settings = HarvestSettings { share, seed, ..HarvestSettings::default() };
            let found = harvest(&log, &settings).unwrap();
            prop_assert_eq!(found.taken.len() + found.left_out.len(), log.len());
            for stratum in &found.strata {
                prop_assert!(stratum.taken <= stratum.target && stratum.taken <= stratum.fitting);
            }
            prop_assert_eq!(&harvest(&log, &settings).unwrap(), &found);
            let again = harvest(&after(&log, &found), &settings).unwrap();
            prop_assert!(again.taken.is_empty(), "{:?}", again.taken);
        }
    }
}
