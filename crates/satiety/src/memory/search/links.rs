//! Causal links of a search: neighbours of the best candidates become candidates.

use std::collections::BTreeMap;

use super::super::Link;
use super::{Phase, SearchMachine};

/// Traversal of causal links from the best results: each neighbour inherits a fraction of the score.
#[derive(Debug, Default)]
pub(super) struct LinkWalk {
    pub(super) reached: BTreeMap<String, f64>,
    pub(super) border: BTreeMap<String, f64>,
    pub(super) hops_left: usize,
}

impl SearchMachine {
    pub(super) fn after_hop(&self) -> Phase {
        if self.links.hops_left == 0 || self.links.border.is_empty() {
            Phase::Fuse
        } else {
            Phase::Links
        }
    }

    /// Follows links for one hop, only through memories of visible projects.
    pub(super) fn follow_links(&mut self, links: &[Link]) {
        let may_pass = |id: &str| {
            let memory = self.index.position(id);
            memory.is_some_and(|memory| self.filter.in_project(&self.index, memory))
        };
        let walk = &mut self.links;
        let mut next: BTreeMap<String, f64> = BTreeMap::new();
        for link in links.iter().filter(|link| link.kind.carries_relevance()) {
            for (from, to) in [(&link.from, &link.to), (&link.to, &link.from)] {
                let Some(score) = walk.border.get(from).filter(|_| may_pass(to)) else {
                    continue;
                };
                let share = score * self.pipeline.links.share;
                if walk.reached.get(to).is_none_or(|known| *known < share) {
                    walk.reached.insert(to.clone(), share);
                    next.insert(to.clone(), share);
                }
            }
        }
        walk.border = next;
        walk.hops_left -= 1;
    }
}
