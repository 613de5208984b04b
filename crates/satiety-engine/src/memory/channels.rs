//! The channels look: by words, by meaning, by trigger phrases, and along causal links.

use std::collections::{BTreeMap, HashMap};

use satiety::memory::{
    Fused, Hit, LexicalSettings, LinkSettings, ModeSettings, Pipeline, Question, query_terms,
};

use super::index::{Filter, Index, Piece};
use crate::{Engine, EngineError};

/// What the channels found, each list best first and each memory once.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) lexical: Vec<Hit>,
    pub(super) vector: Vec<Hit>,
    pub(super) trigger: Vec<Hit>,
    /// What they looked at before each memory counted once.
    pub(super) looked_at: usize,
    /// By memory, its nearest piece.
    nearest: HashMap<u32, u32>,
}

/// A question as the channels need it.
pub(super) struct Looking<'a> {
    pub(super) query: &'a str,
    /// Its vector; absent when meaning is not compared.
    pub(super) vector: Option<&'a [f32]>,
    pub(super) pipeline: &'a Pipeline,
    pub(super) mode: ModeSettings,
}

/// A question with its words looked up, to be asked more than once.
pub(super) struct Asked<'a> {
    question: Question<'a>,
    settings: LexicalSettings,
}

impl<'a> Asked<'a> {
    pub(super) fn new(index: &'a Index, looking: &Looking<'_>) -> Self {
        let settings = looking.pipeline.lexical;
        let terms = query_terms(looking.query, looking.mode.expand).weighed(settings.expansion);
        Self {
            question: index.lexical.question(&terms),
            settings,
        }
    }
}

/// Lets the channels look.
pub(super) fn look(index: &Index, filter: &Filter<'_>, asked: &Asked<'_>, looking: &Looking<'_>) -> Found {
    let mut found = Found::default();
    let switches = looking.pipeline.channels;
    let most = looking.mode.candidates;
    let hit = |memory: u32, score: f64| index.get(memory).map(|known| Hit::new(known.id.clone(), score));
    if switches.lexical {
        let hits = asked
            .question
            .search(asked.settings, most, |memory| filter.wants(memory));
        found.looked_at += hits.len();
        found.lexical = hits
            .into_iter()
            .filter_map(|(memory, score)| hit(memory, score))
            .collect();
    }
    if let Some(vector) = looking.vector {
        // A memory has several pieces, and more than one may be near.
        let pieces = most.saturating_mul(looking.pipeline.candidates_over);
        let owner = |piece: u32| index.pieces.get(piece as usize).map(|piece| piece.memory);
        let near = index.vectors.nearest(vector, pieces, |piece| {
            owner(piece).is_some_and(|memory| filter.wants(memory))
        });
        found.looked_at += near.len();
        for (piece, cosine) in near {
            let Some(memory) = owner(piece).filter(|_| found.vector.len() < most) else {
                continue;
            };
            if let std::collections::hash_map::Entry::Vacant(place) = found.nearest.entry(memory) {
                place.insert(piece);
                found.vector.extend(hit(memory, cosine));
            }
        }
    }
    if switches.trigger {
        let hits = index
            .triggers
            .matches(looking.query, |memory| filter.wants(memory));
        found.looked_at += hits.len();
        found.trigger = hits
            .into_iter()
            .filter_map(|(memory, score)| hit(memory, score))
            .collect();
    }
    for list in [&mut found.lexical, &mut found.vector, &mut found.trigger] {
        // Equals in the order of ids, whatever order this process happened to read them in.
        list.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
        list.truncate(most);
    }
    found
}

impl Found {
    /// The piece of a memory that is shown: the one with most of the words, else the nearest, else the first.
    pub(super) fn piece(
        &self,
        index: &Index,
        asked: &Asked<'_>,
        memory: u32,
        by_words: bool,
    ) -> Option<Piece> {
        let own = index.pieces_of(memory);
        let several = by_words && own.len() > 1;
        let place = several
            .then(|| asked.question.best_piece(asked.settings, memory))
            .flatten();
        if let Some(place) = place {
            return own.get(place as usize).copied();
        }
        let nearest = self
            .nearest
            .get(&memory)
            .and_then(|piece| index.pieces.get(*piece as usize));
        nearest.or_else(|| own.first()).copied()
    }
}

impl Engine {
    /// Causal neighbours of the best of what was found, each with a share of the score of what led to it. A way leads only
    /// through memories that may be passed.
    pub(super) async fn memory_neighbours(
        &self,
        seeds: &[Fused],
        hops: usize,
        links: LinkSettings,
        may_pass: impl Fn(&str) -> bool,
    ) -> Result<Vec<Hit>, EngineError> {
        let mut reached: BTreeMap<String, f64> = BTreeMap::new();
        let top = seeds
            .first()
            .map_or(1.0, |seed| seed.score)
            .max(f64::MIN_POSITIVE);
        let mut border: BTreeMap<String, f64> = seeds
            .iter()
            .take(links.seeds)
            .map(|seed| (seed.id.clone(), seed.score / top))
            .collect();
        for _ in 0..hops {
            let ids: Vec<String> = border.keys().cloned().collect();
            if ids.is_empty() {
                break;
            }
            let mut next: BTreeMap<String, f64> = BTreeMap::new();
            for link in self.store().await?.memories().links(&ids).await? {
                for (from, to) in [(&link.from_id, &link.to_id), (&link.to_id, &link.from_id)] {
                    let Some(score) = border.get(from) else { continue };
                    if !may_pass(to) {
                        continue;
                    }
                    let share = score * links.share;
                    if reached.get(to).is_none_or(|known| *known < share) {
                        reached.insert(to.clone(), share);
                        next.insert(to.clone(), share);
                    }
                }
            }
            border = next;
        }
        let mut hits: Vec<Hit> = reached
            .into_iter()
            .map(|(id, score)| Hit::new(id, score))
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
        Ok(hits)
    }
}
