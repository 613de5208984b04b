//! Fuses the ranked lists of the channels to one list, either by rank (reciprocal rank fusion, Cormack et al.
//! 2009, as in the specification) or by score, which performed better in measurements (docs/measurements.md). Both
//! record the contributing channels of every result.

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

/// Fuses the lists of the channels, each best first. The result is sorted best first, ties by id. A memory
/// that occurs more than once in a list counts at its first position. Channels with an empty list still count
/// in the mean, because they found nothing.
pub fn fuse(lists: &[(Channel, &[Hit])], weights: Weights, fusion: Fusion) -> Vec<FusedHit> {
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
    let all: f64 = lists.iter().map(|(channel, _)| weights.of(*channel)).sum();
    let best: BTreeMap<Channel, f64> = lists
        .iter()
        .map(|(channel, hits)| {
            let best = hits.iter().map(|hit| hit.score).fold(0.0, f64::max);
            (*channel, best)
        })
        .collect();
    let part = |channel: Channel, found: ChannelRank| match fusion {
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
        ) {
            let list = |found: &[(u8, f64)]| {
                found.iter().map(|(id, score)| Hit::new(id.to_string(), *score)).collect::<Vec<_>>()
            };
            let (words, meaning) = (list(&words), list(&meaning));
            let fused = fuse(&[(Channel::Lexical, &words), (Channel::Vector, &meaning)], EQUAL, Fusion::Score);
            let ids: std::collections::BTreeSet<&str> = words.iter().chain(&meaning).map(|hit| hit.id.as_str()).collect();
            prop_assert_eq!(fused.len(), ids.len());
            prop_assert!(fused.iter().all(|one| ids.contains(one.id.as_str())));
            prop_assert!(fused.iter().all(|one| (0.0..=1.0).contains(&one.score)));
            prop_assert!(fused.windows(2).all(|pair| pair[0].score >= pair[1].score));
        }
    }
}
