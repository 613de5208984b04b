//! Last stage of a search: the relevance floor, and the results within limit and token budget.

use super::super::index::MemoryHeader;
use super::super::pool::Evidence;
use super::super::{Channel, Fusion, SearchOutcome, Stage, quality_proxy};
use super::head::Head;
use super::{
    ExcludedResult, MemoryResult, MemorySearch, Phase, SearchMachine, SearchTelemetry, WeakResult,
    is_english_model,
};
use crate::retrieval::Tier;

impl SearchMachine {
    pub(super) fn collect_results(&mut self, elapsed_ms: &dyn Fn() -> f64) {
        let found = self.head.iter().filter(|head| !head.fused.channels.is_empty());
        let best = found
            .map(|head| self.relevance(head))
            .filter(|(_, relevant)| *relevant);
        let best = best.map(|(confidence, _)| confidence).max_by(f64::total_cmp);
        for chosen in &self.ranked.chosen {
            let Some(head) = self.head.get(chosen.candidate) else {
                continue;
            };
            // A missing text was changed or deleted during the search.
            let text = self.texts.remove(&head.chunk.doc);
            let (Some(excerpt), Some(header)) = (text, self.index.get(head.memory)) else {
                continue;
            };
            let marks = self.currency.marks(&header.id);
            let (mut confidence, mut relevant) = self.relevance(head);
            for other in self.currency.vouchers(chosen.candidate) {
                let Some(other) = self.head.get(*other) else {
                    continue;
                };
                let (inherited, is_relevant) = self.relevance(other);
                confidence = confidence.max(inherited);
                relevant |= is_relevant;
            }
            // Somebody linked it to a relevant memory.
            if let (Some(link), Some(best)) = (head.fused.channels.get(&Channel::Graph), best) {
                confidence = confidence.max(link.score * best);
                relevant = true;
            }
            self.results.push(MemoryResult {
                rank: self.results.len() + 1,
                id: header.id.clone(),
                title: header.title.clone(),
                partial: excerpt.len() < header.bytes,
                tier: header.tier,
                folder: self.index.folder(header).to_owned(),
                kind: header.kind.clone(),
                project: self.index.project(header).cloned(),
                score: chosen.score,
                confidence,
                relevant,
                constitutional_only: chosen.lifted
                    || (head.fused.channels.is_empty() && header.tier == Tier::Constitutional),
                channels: head.fused.channels.clone(),
                tokens: head.tokens,
                excerpt,
                superseded_by: marks.superseded_by,
                contradicts: self.currency.contradictions(&header.id).cloned().collect(),
                validity: marks.validity,
            });
        }
        if best.is_none() {
            self.outcome = SearchOutcome::NothingRelevant;
            self.drop_weak_results();
        }
        let (chosen, shown) = (self.ranked.chosen.len(), self.results.len());
        self.end_stage(Stage::FinalRank, chosen, shown, elapsed_ms());
        self.phase = Phase::Done;
    }

    /// Confidence that a candidate is relevant, and whether it reaches the floor.
    pub(super) fn relevance(&self, head: &Head) -> (f64, bool) {
        let Evidence { coverage, cosine, .. } = self.pool.evidence(&self.scorer(None), head.memory);
        let settings = self.pipeline.relevance;
        let is_calibrated = is_english_model(self.index.embedder()) && self.language_factor >= 1.0;
        let by_both = is_calibrated && self.pipeline.channels.lexical;
        let (calibration, floor) = match cosine {
            Some(_) if by_both && self.index.is_turn(head.memory) => (settings.turns, settings.turns.floor),
            Some(_) if by_both => (settings.fused, settings.fused.floor),
            Some(_) if is_calibrated => (settings.vector, settings.vector.floor),
            // A memory without a vector, or with one of a model or in a language whose cosines are not calibrated: only
            // its words are evidence, and their lack is not evidence of the contrary.
            Some(_) => (settings.lexical, 0.0),
            None if self.vector.is_some() => (settings.lexical, 0.0),
            None => (settings.lexical, settings.lexical.floor),
        };
        let confidence = calibration.confidence(coverage, cosine.unwrap_or(0.0));
        // The author of a trigger phrase, or an agent that used the memory, has said that it answers such a query.
        let trigger = head
            .fused
            .channels
            .get(&Channel::Trigger)
            .map_or(0.0, |found| found.score);
        let known = self.pipeline.fusion == Fusion::ZScore;
        (
            confidence.max(trigger),
            !known || trigger > 0.0 || confidence >= floor,
        )
    }

    /// Keeps only constitutional memories, unless the caller wants what is below the floor.
    pub(super) fn drop_weak_results(&mut self) {
        if self.query.below_floor {
            return;
        }
        let results = std::mem::take(&mut self.results);
        for mut result in results {
            if result.constitutional_only || result.tier == Tier::Constitutional {
                result.rank = self.results.len() + 1;
                self.results.push(result);
            } else {
                self.below_floor.push(WeakResult {
                    id: result.id,
                    title: result.title,
                    confidence: result.confidence,
                });
            }
        }
    }

    /// Returns the result. The caller adds the ids, the reason if a channel was unavailable, and the total
    /// duration.
    pub fn finish(
        self,
        query_id: String,
        trace_id: String,
        degraded: Option<String>,
        total_ms: f64,
    ) -> MemorySearch {
        let held = |positions: &[usize]| -> Vec<ExcludedResult> {
            let held = positions.iter().filter_map(|at| self.head.get(*at));
            let held = held.filter_map(|head| Some((head, self.index.get(head.memory)?)));
            held.map(|(head, header): (&Head, &MemoryHeader)| ExcludedResult {
                id: header.id.clone(),
                title: header.title.clone(),
                tokens: head.tokens,
            })
            .collect()
        };
        let scores: Vec<f64> = self.results.iter().map(|result| result.score).collect();
        MemorySearch {
            query_id,
            tokens: self.results.iter().map(|result| result.tokens).sum(),
            intent: self.intent,
            mode: self.mode,
            already_shown: held(&self.ranked.already_shown),
            over_budget: held(&self.ranked.over_budget),
            outcome: self.outcome,
            below_floor: self.below_floor,
            degraded,
            telemetry: SearchTelemetry {
                trace_id,
                stages: self.stages,
                total_latency_ms: total_ms,
                embedding_latency_ms: self.embedding_ms,
                weights: self.weights,
                result_count: self.results.len(),
                avg_relevance_score: scores.iter().sum::<f64>() / scores.len().max(1) as f64,
                top_result_score: scores.iter().copied().fold(0.0, f64::max),
                boost_impact_delta: self.ranked.boost_delta,
                quality_proxy_score: quality_proxy(&scores, total_ms),
                re_search_of: self.history.research_of,
            },
            query: self.query.text,
            results: self.results,
        }
    }
}
