//! Fuses the ranked lists of the channels to one list: by standard score, which is the default because it is nowhere
//! worse than the better channel in measurements (docs/measurements.md), by score, or by rank (reciprocal rank fusion,
//! Cormack et al. 2009, as in the specification). All record the contributing channels of every result.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Retrieval channel that finds memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Lexical search by words (BM25).
    Lexical,
    /// Vector search by embedding similarity.
    Vector,
    /// Trigger phrases that occur in the query.
    Trigger,
    /// Causal links from results of the other channels.
    Graph,
}

impl Channel {
    /// Name as used in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Vector => "vector",
            Self::Trigger => "trigger",
            Self::Graph => "graph",
        }
    }
}

/// Weight of each channel in the fusion.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Weight of the lexical channel.
    pub lexical: f64,
    /// Weight of the vector channel.
    pub vector: f64,
    /// Weight of the trigger channel.
    pub trigger: f64,
    /// Weight of the graph channel.
    pub graph: f64,
}

impl Weights {
    /// Weight of a channel.
    pub fn of(self, channel: Channel) -> f64 {
        match channel {
            Channel::Lexical => self.lexical,
            Channel::Vector => self.vector,
            Channel::Trigger => self.trigger,
            Channel::Graph => self.graph,
        }
    }
}

/// How the lists of the channels are fused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fusion {
    /// Weighted mean of standard scores: how many standard deviations a candidate is above the mean of all candidates of
    /// the query, in words and in meaning. A channel that does not separate its best from the rest has little effect.
    ZScore,
    /// Weighted mean of scores: lexical scores relative to the best, all others unchanged, from 0 to 1.
    Score,
    /// Weighted sum of 1 / (k + rank); the specification uses k = 60.
    ReciprocalRank {
        /// Smoothing constant: larger values reduce the advantage of the first ranks.
        k: u32,
    },
}

/// A result of one channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Id of the memory.
    pub id: String,
    /// Relevance on the scale of the channel; higher is better.
    pub score: f64,
}

impl Hit {
    /// Creates a hit of one channel.
    pub fn new(id: impl Into<String>, score: f64) -> Self {
        Self { id: id.into(), score }
    }
}

/// Rank and score of a result in one channel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Found")]
pub struct ChannelRank {
    /// Rank in the channel, from 1.
    pub rank: u32,
    /// Score on the scale of the channel.
    pub score: f64,
}

/// A fused result of all channels.
#[derive(Debug, Clone, PartialEq)]
pub struct FusedHit {
    /// Id of the memory.
    pub id: String,
    /// Fused score: from 0 to 1 with scores; with ranks, at most the sum of the weights / (k + 1).
    pub score: f64,
    /// Rank and score in each channel that found it.
    pub channels: BTreeMap<Channel, ChannelRank>,
}

/// Scores of a candidate by which it is compared with the other candidates. They are complete: a candidate that one
/// channel found has the score of the other, too.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PoolScore {
    pub(super) id: String,
    /// BM25 score; absent if the lexical channel is not searched.
    pub(super) lexical: Option<f64>,
    /// Similarity; absent without a vector of the query or of the memory.
    pub(super) vector: Option<f64>,
}

/// Number of standard deviations that a trigger phrase or causal link of score 1 is worth, before its weight.
const FULL_MATCH: f64 = 5.0;

/// Fuses by standard scores. `level` is the score of the best result; a result that is `d` standard deviations above the
/// worst candidate has a share of `(d + 1) / (best + 1)` of it. Lists of trigger and
/// graph channel add to the score, lists of the other channels only tell which channel found a candidate.
pub(super) fn fuse_standard_scores(
    lists: &[(Channel, &[Hit])],
    pool: &[PoolScore],
    weights: Weights,
    level: f64,
) -> Vec<FusedHit> {
    let mut found = channel_ranks(lists);
    let lexical = Spread::new(pool.iter().filter_map(|one| one.lexical));
    let vector = Spread::new(pool.iter().filter_map(|one| one.vector));
    let fused = pool.iter().map(|one| {
        let channels = found.remove(one.id.as_str()).unwrap_or_default();
        let parts = [
            (
                weights.lexical,
                one.lexical.map(|score| lexical.standardize(score)),
            ),
            (weights.vector, one.vector.map(|score| vector.standardize(score))),
        ];
        let parts = parts
            .iter()
            .filter_map(|(weight, score)| Some((*weight, (*score)?)));
        let (sum, all) = parts.fold((0.0, 0.0), |(sum, all), (weight, score)| {
            (sum + weight * score, all + weight)
        });
        let matched: f64 = [Channel::Trigger, Channel::Graph]
            .iter()
            .filter_map(|channel| Some(weights.of(*channel) * channels.get(channel)?.score))
            .sum();
        FusedHit {
            id: one.id.clone(),
            score: sum / f64::max(all, f64::MIN_POSITIVE) + FULL_MATCH * matched,
            channels,
        }
    });
    let mut fused: Vec<FusedHit> = fused.collect();
    let least = fused.iter().map(|hit| hit.score).fold(f64::INFINITY, f64::min);
    let most = fused
        .iter()
        .map(|hit| hit.score)
        .fold(f64::NEG_INFINITY, f64::max);
    for hit in &mut fused {
        let share = (hit.score - least + 1.0) / (most - least + 1.0);
        hit.score = level * share;
    }
    fused.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
    fused
}

/// Mean and standard deviation of the scores of a channel.
#[derive(Debug, Clone, Copy)]
struct Spread {
    mean: f64,
    deviation: f64,
}

impl Spread {
    fn new(scores: impl Iterator<Item = f64> + Clone) -> Self {
        let count = scores.clone().count().max(1) as f64;
        let mean = scores.clone().sum::<f64>() / count;
        let variance = scores.map(|score| (score - mean).powi(2)).sum::<f64>() / count;
        Self {
            mean,
            deviation: variance.sqrt(),
        }
    }

    /// 0 if all scores are equal.
    fn standardize(self, score: f64) -> f64 {
        if self.deviation > 1e-12 {
            (score - self.mean) / self.deviation
        } else {
            0.0
        }
    }
}

/// Rank and score of every candidate in each list that contains it. A memory that occurs more than once in a list counts
/// at its first position.
fn channel_ranks<'a>(lists: &[(Channel, &'a [Hit])]) -> BTreeMap<&'a str, BTreeMap<Channel, ChannelRank>> {
    let mut found: BTreeMap<&str, BTreeMap<Channel, ChannelRank>> = BTreeMap::new();
    for (channel, hits) in lists {
        let mut rank = 0;
        for hit in *hits {
            let channels = found.entry(&hit.id).or_default();
            channels.entry(*channel).or_insert_with(|| {
                rank += 1;
                ChannelRank {
                    rank,
                    score: hit.score,
                }
            });
        }
    }
    found
}

/// Fuses the lists of the channels, each best first. The result is sorted best first, ties by id. A memory
/// that occurs more than once in a list counts at its first position. Channels with an empty list still count
/// in the mean, because they found nothing.
pub fn fuse(lists: &[(Channel, &[Hit])], weights: Weights, fusion: Fusion) -> Vec<FusedHit> {
    if fusion == Fusion::ZScore {
        // Without the index, a candidate that a channel did not find counts as its worst.
        let of = |channel: Channel| {
            lists
                .iter()
                .find(|(one, _)| *one == channel)
                .map(|(_, hits)| *hits)
        };
        let score = |channel: Channel, id: &str| {
            let hits = of(channel)?;
            let worst = if channel == Channel::Lexical {
                0.0
            } else {
                hits.last().map_or(0.0, |hit| hit.score)
            };
            Some(
                hits.iter()
                    .find(|hit| hit.id == id)
                    .map_or(worst, |hit| hit.score),
            )
        };
        let ids: std::collections::BTreeSet<&str> = lists
            .iter()
            .flat_map(|(_, hits)| hits.iter().map(|hit| hit.id.as_str()))
            .collect();
        let pool: Vec<PoolScore> = ids
            .into_iter()
            .map(|id| PoolScore {
                id: id.to_owned(),
                lexical: score(Channel::Lexical, id),
                vector: score(Channel::Vector, id),
            })
            .collect();
        return fuse_standard_scores(lists, &pool, weights, 1.0);
    }
    let found = channel_ranks(lists);
    let all: f64 = lists.iter().map(|(channel, _)| weights.of(*channel)).sum();
    let best: BTreeMap<Channel, f64> = lists
        .iter()
        .map(|(channel, hits)| {
            let best = hits.iter().map(|hit| hit.score).fold(0.0, f64::max);
            (*channel, best)
        })
        .collect();
    let part = |channel: Channel, found: ChannelRank| match fusion {
        Fusion::ZScore => 0.0,
        Fusion::ReciprocalRank { k } => weights.of(channel) / (f64::from(k) + f64::from(found.rank)),
        Fusion::Score => {
            let scale = match channel {
                // Lexical scores have no upper bound.
                Channel::Lexical => best.get(&channel).copied().unwrap_or(1.0),
                Channel::Vector | Channel::Trigger | Channel::Graph => 1.0,
            };
            let share = if scale > 0.0 { found.score / scale } else { 0.0 };
            // If all weights are zero, the order is arbitrary but no score is NaN.
            weights.of(channel) * share.clamp(0.0, 1.0) / all.max(f64::MIN_POSITIVE)
        }
    };
    let mut fused: Vec<FusedHit> = found
        .into_iter()
        .map(|(id, channels)| FusedHit {
            id: id.to_owned(),
            score: channels
                .iter()
                .map(|(channel, found)| part(*channel, *found))
                .sum(),
            channels,
        })
        .collect();
    fused.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
    fused
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EQUAL: Weights = Weights {
        lexical: 1.0,
        vector: 1.0,
        trigger: 1.0,
        graph: 1.0,
    };

    fn hits(list: &[(&str, f64)]) -> Vec<Hit> {
        list.iter().map(|(id, score)| Hit::new(*id, *score)).collect()
    }

    /// By hand: a is 1st and 3rd, 1/61 + 1/63; b 2nd and 1st, 1/62 + 1/61; c 2nd of one, 1/62.
    #[test]
    fn ranks_are_fused_as_in_the_paper() {
        let (words, meaning) = (
            hits(&[("a", 9.0), ("b", 1.0)]),
            hits(&[("b", 0.9), ("c", 0.8), ("a", 0.1)]),
        );
        let lists = [(Channel::Lexical, &words[..]), (Channel::Vector, &meaning[..])];
        let fused = fuse(&lists, EQUAL, Fusion::ReciprocalRank { k: 60 });
        let found: Vec<(&str, f64)> = fused.iter().map(|one| (one.id.as_str(), one.score)).collect();
        let expected = [
            ("b", 1.0 / 62.0 + 1.0 / 61.0),
            ("a", 1.0 / 61.0 + 1.0 / 63.0),
            ("c", 1.0 / 62.0),
        ];
        assert_eq!(found, expected);
        assert_eq!(fused[1].channels[&Channel::Vector].rank, 3);
    }

    /// By hand, weights .6 and .4: a is .6 · 9/9 + .4 · .1 = .64; b .6 · 3/9 + .4 · .9 = .56; c .4 · .8 = .32.
    #[test]
    fn lexical_scores_are_normalised_and_cosines_are_unchanged() {
        let (words, meaning) = (
            hits(&[("a", 9.0), ("b", 3.0)]),
            hits(&[("b", 0.9), ("c", 0.8), ("a", 0.1)]),
        );
        let weights = Weights {
            lexical: 0.6,
            vector: 0.4,
            ..EQUAL
        };
        let fused = fuse(
            &[(Channel::Lexical, &words), (Channel::Vector, &meaning)],
            weights,
            Fusion::Score,
        );
        for (one, (id, score)) in fused.iter().zip([("a", 0.64), ("b", 0.56), ("c", 0.32)]) {
            assert_eq!(one.id, id);
            assert!((one.score - score).abs() < 1e-12, "{one:?}");
        }
    }

    /// By hand: lexical scores 9, 3, 0 have mean 4 and deviation √14, cosines .1, .9, .8 mean .6 and deviation √(.38/3).
    #[test]
    fn standard_scores_are_relative_to_all_candidates() {
        let (words, meaning) = (
            hits(&[("a", 9.0), ("b", 3.0)]),
            hits(&[("b", 0.9), ("c", 0.8), ("a", 0.1)]),
        );
        let weights = Weights {
            lexical: 0.4,
            vector: 0.6,
            ..EQUAL
        };
        let lists = [(Channel::Lexical, &words[..]), (Channel::Vector, &meaning[..])];
        let fused = fuse(&lists, weights, Fusion::ZScore);
        let (l, v) = (14.0_f64.sqrt(), (0.38_f64 / 3.0).sqrt());
        let raw = [
            ("a", 0.4 * 5.0 / l - 0.6 * 0.5 / v),
            ("b", -0.4 / l + 0.6 * 0.3 / v),
            ("c", -0.4 * 4.0 / l + 0.6 * 0.2 / v),
        ];
        let least = raw.iter().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
        let most = raw
            .iter()
            .map(|(_, score)| *score)
            .fold(f64::NEG_INFINITY, f64::max);
        for (id, score) in raw {
            let hit = fused.iter().find(|hit| hit.id == id).unwrap();
            let expected = (score - least + 1.0) / (most - least + 1.0);
            assert!((hit.score - expected).abs() < 1e-12, "{hit:?}");
        }
        assert_eq!(fused[0].id, "b");
    }

    /// Scores that do not differ say nothing, and a candidate without a vector is compared by its words.
    #[test]
    fn a_channel_without_differences_has_no_effect() {
        let pool: Vec<PoolScore> = [("a", 2.0, Some(0.5)), ("b", 1.0, Some(0.5)), ("c", 3.0, None)]
            .map(|(id, lexical, vector)| PoolScore {
                id: id.into(),
                lexical: Some(lexical),
                vector,
            })
            .into();
        let fused = fuse_standard_scores(&[], &pool, EQUAL, 0.8);
        let ids: Vec<&str> = fused.iter().map(|hit| hit.id.as_str()).collect();
        assert_eq!(ids, ["c", "a", "b"]);
        // c is (3 - 2) / √(2/3) above the mean, and b half as much below it, because its cosine counts 0.
        let range = 1.5 / (2.0_f64 / 3.0).sqrt();
        assert!((fused[0].score - 0.8).abs() < 1e-12);
        assert!((fused[2].score - 0.8 / (range + 1.0)).abs() < 1e-12);
        let trigger = [Hit::new("b", 1.0)];
        let fused = fuse_standard_scores(&[(Channel::Trigger, &trigger)], &pool, EQUAL, 1.0);
        assert_eq!(fused[0].id, "b");
        assert!(fuse_standard_scores(&[], &[], EQUAL, 1.0).is_empty());
    }

    #[test]
    fn a_duplicate_counts_once_and_takes_no_rank() {
        let words = hits(&[("a", 2.0), ("a", 2.0), ("b", 1.0)]);
        let fused = fuse(
            &[(Channel::Lexical, &words)],
            EQUAL,
            Fusion::ReciprocalRank { k: 60 },
        );
        assert_eq!(fused[1].channels[&Channel::Lexical].rank, 2);
        assert_eq!(fuse(&[], EQUAL, Fusion::Score), []);
        assert_eq!(fuse(&[(Channel::Lexical, &[])], EQUAL, Fusion::Score), []);
    }

    proptest! {
        #[test]
        fn every_hit_is_fused_once_with_a_score_in_range(
            words in proptest::collection::vec((0u8..30, 0.0..20.0f64), 0..30),
            meaning in proptest::collection::vec((0u8..30, -1.0..1.0f64), 0..30),
            by_deviation in any::<bool>(),
        ) {
            let list = |found: &[(u8, f64)]| {
                found.iter().map(|(id, score)| Hit::new(id.to_string(), *score)).collect::<Vec<_>>()
            };
            let (words, meaning) = (list(&words), list(&meaning));
            let lists = [(Channel::Lexical, &words[..]), (Channel::Vector, &meaning[..])];
            let fused = fuse(&lists, EQUAL, if by_deviation { Fusion::ZScore } else { Fusion::Score });
            let ids: std::collections::BTreeSet<&str> = words.iter().chain(&meaning).map(|hit| hit.id.as_str()).collect();
            prop_assert_eq!(fused.len(), ids.len());
            prop_assert!(fused.iter().all(|one| ids.contains(one.id.as_str())));
            prop_assert!(fused.iter().all(|one| (0.0..=1.0).contains(&one.score)));
            prop_assert!(fused.windows(2).all(|pair| pair[0].score >= pair[1].score));
        }
    }
}
