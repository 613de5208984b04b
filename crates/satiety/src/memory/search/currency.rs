//! Currency of results: which of the candidates still hold at the time of the search.
//!
//! A superseded memory hands its score to the current end of its chain of successors, which is added if no
//! channel found it, and never ranks above it. A contradicted memory brings the memory that contradicts it.
//! A memory outside its validity is demoted. All of them are marked, so that the reader knows.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{
    Candidate, FusedHit, Link, LinkKind, OutdatedRule, RankSettings, RankedCandidate, Ranking, Validity, rank,
};
use super::head::Head;
use super::{SearchMachine, estimate_tokens};
use crate::retrieval::Tier;

/// Maximum number of reads of links; longer chains end there.
const MAX_READS: usize = 16;
/// Maximum number of memories whose links are read.
const MAX_MEMORIES: usize = 1000;

/// Links of the candidates, and what follows from them.
#[derive(Debug, Default)]
pub(super) struct Currency {
    as_of: i64,
    /// Memories whose links are known.
    known: BTreeSet<String>,
    /// Memories whose links are needed next.
    pub(super) wanted: BTreeSet<String>,
    reads: usize,
    /// Direct successors of each memory with the time from which they replace it.
    successors: BTreeMap<String, BTreeSet<(i64, String)>>,
    /// Memories that supersede another one.
    succeeding: BTreeSet<String>,
    contradictions: BTreeMap<String, BTreeSet<String>>,
    marks: BTreeMap<String, Marks>,
    /// Candidates that are not ranked by themselves.
    held: BTreeSet<usize>,
    /// Held candidates that are returned below another one.
    attached: Vec<Attached>,
    /// Candidates by which others are relevant: superseded memories by successor, and memories by what contradicts them.
    vouchers: BTreeMap<usize, Vec<usize>>,
}

/// Marks of a result.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Marks {
    pub(super) superseded_by: Option<String>,
    pub(super) validity: Option<Validity>,
}

#[derive(Debug, Clone, Copy)]
struct Attached {
    candidate: usize,
    /// Candidate that it is returned below.
    below: usize,
    /// Whether it keeps its own place if that is further down.
    keeps_place: bool,
}

impl Currency {
    pub(super) fn new(as_of: i64) -> Self {
        Self {
            as_of,
            ..Self::default()
        }
    }

    pub(super) fn marks(&self, id: &str) -> Marks {
        self.marks.get(id).cloned().unwrap_or_default()
    }

    /// Memories that contradict this one, by id.
    pub(super) fn contradictions(&self, id: &str) -> impl Iterator<Item = &String> {
        self.contradictions.get(id).into_iter().flatten()
    }

    /// Candidates that make this one as relevant as they are.
    pub(super) fn vouchers(&self, candidate: usize) -> &[usize] {
        self.vouchers.get(&candidate).map_or(&[], Vec::as_slice)
    }

    fn want(&mut self, id: &str) {
        if !self.known.contains(id) && self.known.len() + self.wanted.len() < MAX_MEMORIES {
            self.wanted.insert(id.to_owned());
        }
    }

    /// The current memory at the end of the chain of successors; `None` if the memory is current itself.
    /// The latest member of a cycle is current.
    fn current_successor(&self, id: &str) -> Option<String> {
        let mut path: Vec<&(i64, String)> = Vec::new();
        let mut at = id;
        while let Some(next) = self.successor(at) {
            let start = path.iter().position(|(_, seen)| *seen == next.1);
            if let Some(start) = start {
                at = path[start..].iter().max().map_or(at, |(_, latest)| latest);
                break;
            }
            at = &next.1;
            path.push(next);
        }
        (at != id).then(|| at.to_owned())
    }

    /// The latest of the direct successors that replace the memory by the time of the search.
    fn successor(&self, id: &str) -> Option<&(i64, String)> {
        let all = self.successors.get(id)?;
        all.iter().rev().find(|(from, _)| *from <= self.as_of)
    }

    /// Ranks the candidates that are not held.
    pub(super) fn rank_current(
        &self,
        candidates: &[Candidate],
        settings: &RankSettings,
        repeats: impl Fn(usize, usize) -> f64,
    ) -> Ranking {
        let ranked: Vec<usize> = (0..candidates.len())
            .filter(|at| !self.held.contains(at))
            .collect();
        let own: Vec<Candidate> = ranked.iter().map(|at| candidates[*at].clone()).collect();
        let mut ranking = rank(&own, settings, |one, other| repeats(ranked[one], ranked[other]));
        for chosen in &mut ranking.chosen {
            chosen.candidate = ranked[chosen.candidate];
        }
        for list in [&mut ranking.already_shown, &mut ranking.over_budget] {
            for at in list {
                *at = ranked[*at];
            }
        }
        ranking
    }

    /// Returns held candidates below the results that they belong to, as far as limit and budget allow.
    pub(super) fn attach(&self, candidates: &[Candidate], settings: &RankSettings, ranking: &mut Ranking) {
        let is_rule = |chosen: &RankedCandidate| candidates[chosen.candidate].tier == Tier::Constitutional;
        let mut attached = self.attached.clone();
        let score = |at: usize| adjusted_score(&candidates[at], settings);
        attached.sort_by(|a, b| {
            let (one, other) = (&candidates[a.candidate], &candidates[b.candidate]);
            let better = score(b.candidate).total_cmp(&score(a.candidate));
            better.then_with(|| one.id.cmp(&other.id))
        });
        for Attached {
            candidate,
            below,
            keeps_place,
        } in attached
        {
            let chosen = &mut ranking.chosen;
            let Some(above) = chosen.iter().position(|one| one.candidate == below) else {
                continue;
            };
            if chosen.iter().any(|one| one.candidate == candidate) {
                continue;
            }
            if candidates[candidate].already_shown {
                ranking.already_shown.push(candidate);
                continue;
            }
            let worth = score(candidate).min(chosen[above].score);
            let mut place = above + 1;
            if keeps_place {
                let better = chosen[place..].iter().take_while(|one| one.score >= worth);
                place += better.count();
            }
            // Constitutional memories stay among the first results.
            let first = chosen.iter().take(settings.constitutional_within);
            place = place.max(first.rposition_of(&is_rule).map_or(0, |last| last + 1));
            let paid = chosen.iter().filter(|one| !is_rule(one));
            let paid: usize = paid.map(|one| candidates[one.candidate].tokens).sum();
            if paid + candidates[candidate].tokens > settings.token_budget {
                ranking.over_budget.push(candidate);
                continue;
            }
            if chosen.len() >= settings.limit {
                let last = chosen.iter().rposition(|one| !is_rule(one));
                match last.filter(|last| *last >= place) {
                    Some(last) => {
                        chosen.remove(last);
                    }
                    None => continue,
                }
            }
            let entry = RankedCandidate {
                candidate,
                score: worth,
                lifted: false,
            };
            chosen.insert(place.min(chosen.len()), entry);
        }
    }
}

/// Position of the last matching element of a bounded iterator.
trait LastPosition<'a> {
    fn rposition_of(self, wanted: &dyn Fn(&RankedCandidate) -> bool) -> Option<usize>;
}

impl<'a, I: Iterator<Item = &'a RankedCandidate>> LastPosition<'a> for I {
    fn rposition_of(self, wanted: &dyn Fn(&RankedCandidate) -> bool) -> Option<usize> {
        let found = self.enumerate().filter(|(_, one)| wanted(one));
        found.map(|(at, _)| at).last()
    }
}

/// Score of a candidate after the factors of the ranking.
fn adjusted_score(candidate: &Candidate, settings: &RankSettings) -> f64 {
    candidate.score
        * settings.tiers.of(candidate.tier)
        * settings.confidence.of(candidate.confidence)
        * (1.0 + settings.session_boost * candidate.attention.clamp(0.0, 1.0))
}

impl SearchMachine {
    /// Requests the links of the candidates that can become results.
    pub(super) fn want_links(&mut self) {
        let reach = (2 * self.limit()).max(20);
        let mut best: Vec<(f64, &str)> = self
            .candidates
            .iter()
            .map(|candidate| (candidate.score, candidate.id.as_str()))
            .collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let ids: Vec<String> = best
            .into_iter()
            .take(reach)
            .map(|(_, id)| id.to_owned())
            .collect();
        for id in ids {
            self.currency.want(&id);
        }
    }

    /// Whether more links must be read.
    pub(super) fn needs_links(&self) -> bool {
        !self.currency.wanted.is_empty() && self.currency.reads < MAX_READS
    }

    /// Takes the links of the wanted memories, or of those whose links the graph channel read.
    pub(super) fn take_links(&mut self, of: impl IntoIterator<Item = String>, links: &[Link]) {
        let may_see = |id: &str| {
            let memory = self.index.position(id)?;
            let header = self.index.get(memory)?;
            let effective = self.index.provenance(header).effective_from();
            self.filter
                .may_see(&self.index, memory)
                .then_some((effective, header.tier))
        };
        let mut reached = Vec::new();
        for link in links {
            let (Some((from, tier)), Some((_, old))) = (may_see(&link.from), may_see(&link.to)) else {
                continue;
            };
            let currency = &mut self.currency;
            match link.kind {
                // Only a rule replaces a rule: a link needs no person, a rule does.
                LinkKind::Supersedes if old != Tier::Constitutional || tier == Tier::Constitutional => {
                    let successors = currency.successors.entry(link.to.clone()).or_default();
                    successors.insert((from, link.from.clone()));
                    currency.succeeding.insert(link.from.clone());
                    reached.push(link.from.clone());
                }
                LinkKind::Contradicts => {
                    for (one, other) in [(&link.from, &link.to), (&link.to, &link.from)] {
                        let known = currency.contradictions.entry(one.clone()).or_default();
                        known.insert(other.clone());
                        reached.push(other.clone());
                    }
                }
                _ => {}
            }
        }
        self.currency.reads += 1;
        for id in of {
            self.currency.wanted.remove(&id);
            self.currency.known.insert(id);
        }
        for id in reached {
            self.currency.want(&id);
        }
    }

    /// Applies what the links and the validity of the candidates say.
    pub(super) fn settle_currency(&mut self) {
        let settings = self.pipeline.currency;
        let found = self.candidates.len();
        for at in 0..found {
            let id = self.candidates[at].id.clone();
            let validity = self.validity_of(&id);
            if validity != Validity::Current {
                self.currency.marks.entry(id).or_default().validity = Some(validity);
                self.set_back(at, settings.invalid);
            }
        }
        for at in 0..found {
            let id = self.candidates[at].id.clone();
            let Some(current) = self.currency.current_successor(&id) else {
                continue;
            };
            self.currency.marks.entry(id).or_default().superseded_by = Some(current.clone());
            if settings.superseded == OutdatedRule::Mark {
                continue;
            }
            let Some(below) = self.candidate_of(&current) else {
                // The successor does not satisfy the caller's conditions.
                self.set_back(at, settings.superseded);
                continue;
            };
            let (score, attention) = (self.candidates[at].score, self.candidates[at].attention);
            let successor = &mut self.candidates[below];
            successor.score = successor.score.max(score);
            successor.attention = successor.attention.max(attention);
            self.currency.vouchers.entry(below).or_default().push(at);
            self.currency.held.insert(at);
            if settings.superseded == OutdatedRule::Demote {
                self.currency.attached.push(Attached {
                    candidate: at,
                    below,
                    keeps_place: true,
                });
            }
        }
        self.bring_contradictions();
    }

    /// Adds memories that contradict a candidate and that no channel found.
    fn bring_contradictions(&mut self) {
        let mut order: Vec<usize> = (0..self.candidates.len())
            .filter(|at| !self.currency.held.contains(at))
            .collect();
        order.sort_by(|a, b| self.candidates[*b].score.total_cmp(&self.candidates[*a].score));
        for below in order.into_iter().take(2 * self.limit()) {
            let id = self.candidates[below].id.clone();
            let others: Vec<String> = self.currency.contradictions(&id).cloned().collect();
            for other in others {
                let is_known = self.candidates.iter().any(|candidate| candidate.id == other);
                if is_known || self.currency.current_successor(&other).is_some() {
                    continue;
                }
                if let Some(candidate) = self.candidate_of(&other) {
                    self.candidates[candidate].score = self.candidates[below].score;
                    self.currency.held.insert(candidate);
                    self.currency.vouchers.entry(candidate).or_default().push(below);
                    self.currency.attached.push(Attached {
                        candidate,
                        below,
                        keeps_place: false,
                    });
                }
            }
        }
    }

    /// Validity at the time of the search. A successor holds from the time when it replaces another memory.
    fn validity_of(&self, id: &str) -> Validity {
        let header = self.index.position(id).and_then(|memory| self.index.get(memory));
        let Some(about) = header.map(|header| self.index.provenance(header)) else {
            return Validity::Current;
        };
        let not_yet = self.currency.succeeding.contains(id) && about.effective_from() > self.currency.as_of;
        match about.validity_at(self.currency.as_of) {
            Validity::Current if not_yet => Validity::Future,
            validity => validity,
        }
    }

    fn set_back(&mut self, at: usize, rule: OutdatedRule) {
        let candidate = &mut self.candidates[at];
        match rule {
            OutdatedRule::Mark => {}
            OutdatedRule::Demote => {
                candidate.score *= self.pipeline.currency.factor;
                // A rule that does not hold is not placed among the first results.
                if candidate.tier == Tier::Constitutional {
                    candidate.tier = Tier::Normal;
                }
            }
            OutdatedRule::Hide => {
                self.currency.held.insert(at);
            }
        }
    }

    /// Position of a memory among the candidates; adds it if it satisfies the caller's conditions.
    fn candidate_of(&mut self, id: &str) -> Option<usize> {
        if let Some(at) = self.candidates.iter().position(|candidate| candidate.id == id) {
            return Some(at);
        }
        let memory = self.index.position(id)?;
        if !self.filter.allows(&self.index, memory) {
            return None;
        }
        self.push_candidate(
            memory,
            FusedHit {
                id: id.to_owned(),
                score: 0.0,
                channels: BTreeMap::new(),
            },
        )
    }

    /// Adds a candidate and returns its position; `None` if the memory has no text.
    pub(super) fn push_candidate(&mut self, memory: u32, fused: FusedHit) -> Option<usize> {
        let chunk = self.excerpt_chunk(memory, &fused)?;
        let header = self.index.get(memory)?;
        // Equals `estimate_tokens` of the chunk and of the title.
        let tokens = (chunk.bytes as usize).div_ceil(4) + estimate_tokens(&header.title);
        self.candidates.push(Candidate {
            id: header.id.clone(),
            score: fused.score,
            tier: header.tier,
            confidence: header.confidence,
            attention: self.history.attention.get(&header.id).copied().unwrap_or(0.0),
            tokens,
            already_shown: self.query.skip_shown && self.history.shown.contains(&header.id),
        });
        self.head.push(Head {
            memory,
            fused,
            chunk,
            tokens,
        });
        Some(self.candidates.len() - 1)
    }
}
