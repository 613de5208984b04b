//! Which logged queries make an evaluation corpus: one of those that ask the same, so many of each category, drawn by a
//! seed. What the corpus has already counts and stays, so that doing it again changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::categories::{LoggedQuery, categories_of};
use crate::retrieval::fast_parse::hash;
use crate::retrieval::{CATEGORY_TARGETS, INTENTS};
use crate::text::{JaccardIndex, ThresholdError, Tokenization, normalize};

/// Within this category there is a target for each intent.
const BY_INTENT: &str = "intent-specific";

/// How to harvest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HarvestSettings {
    /// The share of the specification's targets to fill: 1 for 280 queries.
    pub share: f64,
    /// Share of common words from which on two queries ask the same.
    pub near_duplicate: f64,
    /// What decides between queries that are as good as each other.
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

/// What was taken, and why nothing else was.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Harvest {
    /// Queries for the corpus, in the order of the log.
    pub taken: Vec<HarvestedQuery>,
    /// The others, in the order of the log.
    pub left_out: Vec<SkippedQuery>,
    /// By category, and by intent within `intent-specific`.
    pub strata: Vec<Stratum>,
    /// How it was done.
    pub settings: HarvestSettings,
}

/// A query that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HarvestedQuery {
    /// Its id.
    pub query_id: String,
    /// What was asked.
    pub query: String,
    /// What the asker was after.
    pub intent: Option<String>,
    /// The category it stands for.
    pub category: String,
    /// Why it can.
    pub because: String,
    /// Other queries that asked the same in the same words: what was done with their results counts for this one.
    pub stands_for: Vec<String>,
}

/// A query that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SkippedQuery {
    /// Its id.
    pub query_id: String,
    /// Why.
    #[serde(flatten)]
    pub because: SkipReason,
}

/// Why a query was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum SkipReason {
    /// It belongs to the corpus already.
    InCorpus,
    /// There is nothing in it.
    Empty,
    /// Another query asks the same in the same words.
    SameWords {
        /// Which one.
        of: String,
    },
    /// Another query asks nearly the same.
    NearDuplicate {
        /// Which one.
        of: String,
        /// Share of common words, in hundredths.
        percent: u8,
    },
    /// Every category that it fits has enough.
    Enough {
        /// Those categories.
        categories: Vec<String>,
    },
}

/// A category, or an intent within `intent-specific`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stratum {
    /// The category.
    pub category: String,
    /// The intent, where there is a target for each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// How many queries it should have.
    pub target: usize,
    /// How many it had.
    pub had: usize,
    /// How many others fit it.
    pub fitting: usize,
    /// How many were taken.
    pub taken: usize,
}

/// One of the queries that ask the same.
struct Distinct<'a> {
    query: &'a LoggedQuery,
    stands_for: Vec<String>,
    fits: Vec<(&'static str, String)>,
    /// Small is drawn first; depends on the seed and the words alone, so that a longer log changes little.
    lot: u64,
}

/// Chooses queries for the corpus. Categories that can be filled least choose first; within one, chance decides.
pub fn harvest(log: &[LoggedQuery], settings: &HarvestSettings) -> Result<Harvest, ThresholdError> {
    let (distinct, mut left_out) = distinct(log, settings)?;
    let mut strata = strata(log, settings.share);
    for one in &distinct {
        for stratum in strata.iter_mut().filter(|stratum| stratum.fits(one)) {
            stratum.fitting += 1;
        }
    }
    let mut order: Vec<usize> = (0..strata.len()).collect();
    // A full one has nothing to choose.
    let plenty = |stratum: &Stratum| match stratum.room() {
        0 => f64::INFINITY,
        room => stratum.fitting as f64 / room as f64,
    };
    order.sort_by(|&a, &b| {
        let (a, b) = (&strata[a], &strata[b]);
        let names = |stratum: &Stratum| (stratum.category.clone(), stratum.intent.clone());
        plenty(a)
            .total_cmp(&plenty(b))
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
        fitting.sort_by_key(|&index| (distinct[index].lot, &distinct[index].query.query_id));
        fitting.truncate(stratum.room());
        stratum.taken = fitting.len();
        for index in fitting {
            let fits = &distinct[index].fits;
            let because = fits.iter().find(|(name, _)| *name == stratum.category);
            let because = because.map(|(_, reason)| reason.clone()).unwrap_or_default();
            chosen.insert(index, (stratum.category.clone(), because));
        }
    }
    let mut taken = Vec::new();
    for (index, one) in distinct.into_iter().enumerate() {
        let query_id = one.query.query_id.clone();
        match chosen.remove(&index) {
            Some((category, because)) => taken.push(HarvestedQuery {
                query_id,
                query: one.query.query.clone(),
                intent: one.query.intent.clone(),
                category,
                because,
                stands_for: one.stands_for,
            }),
            None => left_out.push(SkippedQuery {
                query_id,
                because: SkipReason::Enough {
                    categories: one.fits.into_iter().map(|(name, _)| name.to_owned()).collect(),
                },
            }),
        }
    }
    let positions: BTreeMap<&str, usize> = log
        .iter()
        .enumerate()
        .map(|(at, query)| (query.query_id.as_str(), at))
        .collect();
    left_out.sort_by_key(|one| positions.get(one.query_id.as_str()).copied());
    Ok(Harvest {
        taken,
        left_out,
        strata,
        settings: *settings,
    })
}

impl Stratum {
    fn room(&self) -> usize {
        self.target.saturating_sub(self.had)
    }

    fn fits(&self, one: &Distinct<'_>) -> bool {
        one.fits.iter().any(|(name, _)| *name == self.category)
            && (self.intent.is_none() || self.intent == one.query.intent)
    }
}

/// The categories with their targets, and what the corpus has of each.
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
        reason = "a small count; what is no number becomes 0"
    )]
    let scaled = |target: usize| (target as f64 * share).ceil().max(0.0) as usize;
    let mut strata = Vec::new();
    for target in CATEGORY_TARGETS {
        let one = |intent: Option<&str>, target_of: usize| Stratum {
            category: target.category.into(),
            intent: intent.map(Into::into),
            target: scaled(target_of),
            had: had(target.category, intent),
            fitting: 0,
            taken: 0,
        };
        if target.category == BY_INTENT {
            strata.extend(INTENTS.map(|intent| one(Some(intent), target.queries / INTENTS.len())));
        } else {
            strata.push(one(None, target.queries));
        }
    }
    strata
}

/// One of the queries that ask the same: what is in the corpus before others, then the one about which most is known,
/// then the earlier one.
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
    // Corpus first, then those about which most is known, then by chance: the first of near duplicates stays.
    let mut heads: Vec<(&LoggedQuery, Vec<&LoggedQuery>, u64)> = Vec::new();
    for (normal, mut group) in groups {
        group.sort_by_key(|query| (!query.in_corpus, std::cmp::Reverse(query.events)));
        let lot = lot(settings.seed, &normal);
        if let Some((head, rest)) = group.split_first() {
            heads.push((head, rest.to_vec(), lot));
        }
    }
    heads.sort_by_key(|(head, _, lot)| (!head.in_corpus, std::cmp::Reverse(head.events), *lot));
    let mut index = JaccardIndex::new(settings.near_duplicate, Tokenization::Words)?;
    let mut known: Vec<&str> = Vec::new();
    let mut kept = Vec::new();
    for (head, rest, lot) in heads {
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
            lot,
        });
    }
    let order: BTreeSet<&str> = kept.iter().map(|one| one.query.query_id.as_str()).collect();
    let mut by_id: BTreeMap<String, Distinct<'a>> = kept
        .into_iter()
        .map(|one| (one.query.query_id.clone(), one))
        .collect();
    let in_order = log.iter().filter(|query| order.contains(query.query_id.as_str()));
    let distinct = in_order
        .filter_map(|query| by_id.remove(&query.query_id))
        .collect();
    Ok((distinct, left_out))
}

/// A number for a text that looks drawn by chance and is the same for the same seed.
fn lot(seed: u64, text: &str) -> u64 {
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
    fn one_of_those_that_ask_the_same_and_the_one_about_which_most_is_known() {
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
        // One of the two stays, whichever the seed says, and the other tells which.
        let left: Vec<&SkipReason> = ["c", "d"].iter().filter_map(|id| why(&found, id)).collect();
        assert!(
            matches!(left[..], [SkipReason::NearDuplicate { percent: 77..=85, .. }]),
            "{left:?}"
        );
        assert_eq!(found.taken.len() + found.left_out.len(), log.len());
    }

    #[test]
    fn what_the_corpus_has_counts_and_keeps_its_likes_out() {
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
        // A fiftieth of the targets: one of each, and the one of this category is there.
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
        fn doing_it_again_changes_nothing_and_targets_are_kept(
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
