//! Ranked items of one scope. Adding, using, pinning or removing an item costs O(log n). A new turn touches
//! only the items whose age enters the next band ([`super::features`]), which happens to an item twice per
//! doubling of its age. A new goal or new weights rescore every item.
//!
//! A scope only ranks: [`super::propose`] makes proposals, and [`super::resolve`] resolves them.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::error::EvictionError;
use super::features::{self, Features, next_band};
use super::item::{ContextItem, Signals};
use super::overlap::{Overlaps, Words};
use super::price::PricedItem;
use super::score::{Compiled, Place, Score, probability, score};
use super::weights::Weights;

/// Items of a context, ranked in eviction order.
#[derive(Debug)]
pub struct Scope {
    weights: Weights,
    compiled: Compiled,
    turn: u64,
    goal: Option<Words>,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_id: FxHashMap<String, u32>,
    /// (Density as bits, entry). Densities are never negative, so their bits sort in the same order.
    ranked: BTreeSet<(u64, u32)>,
    /// Turn → entries that enter their next age band in it, unless they have changed since.
    calendar: BTreeMap<u64, Vec<(u32, u64)>>,
    events: u64,
    twins: Overlaps,
    /// Id → number of items that refer to it.
    dependents: FxHashMap<String, u32>,
    /// Pinned items that refer to others.
    pins_with_references: BTreeSet<u32>,
    /// Items that a pinned item depends on → that pinned item.
    protected: FxHashMap<u32, u32>,
    tokens: u64,
    /// Position of the next item that is appended.
    next_position: u64,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) item: ContextItem,
    words: Option<Words>,
    place: Place,
    key: Option<u64>,
    pub(super) loss: f64,
    /// Number of the last event that changed the entry; calendar entries of earlier events are stale.
    event: u64,
    held: bool,
    covered_by: Option<u32>,
    covers: Vec<u32>,
}

impl Scope {
    /// Creates an empty scope; fails if the weights are invalid.
    pub fn new(weights: Weights) -> Result<Self, EvictionError> {
        weights.check()?;
        Ok(Self {
            compiled: Compiled::new(&weights),
            weights,
            turn: 0,
            goal: None,
            entries: Vec::new(),
            free: Vec::new(),
            by_id: FxHashMap::default(),
            ranked: BTreeSet::new(),
            calendar: BTreeMap::new(),
            events: 0,
            twins: Overlaps::new(),
            dependents: FxHashMap::default(),
            pins_with_references: BTreeSet::new(),
            protected: FxHashMap::default(),
            tokens: 0,
            next_position: 0,
        })
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether the scope has no items.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Returns the total size of all items in tokens.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the current turn.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Returns the weights used for ranking.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Returns the item with this id.
    pub fn item(&self, ctx_id: &str) -> Option<&ContextItem> {
        Some(&self.entry(ctx_id)?.item)
    }

    /// Returns all items, sorted by id.
    pub fn items(&self) -> impl Iterator<Item = &ContextItem> {
        let ids: BTreeSet<&String> = self.by_id.keys().collect();
        ids.into_iter().filter_map(|id| self.item(id))
    }

    /// Adds a new item and counts its references as uses. An item with the same id is replaced.
    pub fn add(&mut self, item: ContextItem) -> Result<(), EvictionError> {
        item.check()?;
        let (used, turn) = (item.references.clone(), item.created_turn);
        self.insert(item)?;
        for ctx_id in used {
            if self.by_id.contains_key(&ctx_id) {
                self.touch(&ctx_id, turn)?;
            }
        }
        Ok(())
    }

    /// Inserts an item with its counters unchanged, for example one restored from a store.
    pub fn insert(&mut self, mut item: ContextItem) -> Result<(), EvictionError> {
        item.check()?;
        self.remove(&item.ctx_id);
        let position = *item.position.get_or_insert(self.next_position);
        self.next_position = self.next_position.max(position.saturating_add(1));
        self.turn = self.turn.max(item.last_referenced_turn);
        self.tokens += item.token_count;
        for id in &item.references {
            *self.dependents.entry(id.clone()).or_default() += 1;
        }
        let entry = Entry {
            words: item.content.as_deref().map(Words::from_text),
            place: Place::new(&self.weights, &item.zone, &item.kind),
            key: None,
            loss: 0.0,
            event: 0,
            held: false,
            covered_by: None,
            covers: Vec::new(),
            item,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            // More than u32::MAX items do not fit into memory.
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        self.by_id.insert(entry.item.ctx_id.clone(), slot);
        let (content, references) = (entry.item.content.clone(), entry.item.references.clone());
        if entry.item.pinned && !references.is_empty() {
            self.pins_with_references.insert(slot);
        }
        self.entries[slot as usize] = Some(entry);
        if let Some(content) = content {
            self.find_twin(slot, &content);
        }
        self.update_goal(slot);
        self.rescore(slot);
        self.rescore_all(&references);
        self.protect();
        Ok(())
    }

    /// Removes an item and returns it.
    pub fn remove(&mut self, ctx_id: &str) -> Option<ContextItem> {
        let slot = self.by_id.remove(ctx_id)?;
        let entry = self.entries.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        if let Some(key) = entry.key {
            self.ranked.remove(&(key, slot));
        }
        self.tokens -= entry.item.token_count;
        self.pins_with_references.remove(&slot);
        self.twins.remove(slot);
        if let Some(by) = entry.covered_by.and_then(|by| self.at_mut(by)) {
            by.covers.retain(|covered| *covered != slot);
        }
        for covered in entry.covers {
            if let Some(covered_entry) = self.at_mut(covered) {
                covered_entry.covered_by = None;
                covered_entry.item.signals.redundancy = None;
                self.rescore(covered);
            }
        }
        for id in &entry.item.references {
            if let Some(count) = self.dependents.get_mut(id) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.dependents.remove(id);
                }
            }
        }
        self.rescore_all(&entry.item.references);
        if self.twins.is_stale() {
            self.rebuild_twins();
        }
        self.protect();
        Some(entry.item)
    }

    /// Records a use of an item in `turn`.
    pub fn touch(&mut self, ctx_id: &str, turn: u64) -> Result<(), EvictionError> {
        let slot = self.slot(ctx_id)?;
        self.turn = self.turn.max(turn);
        if let Some(entry) = self.at_mut(slot) {
            entry.item.touch(turn);
        }
        self.rescore(slot);
        Ok(())
    }

    /// Pins or unpins an item.
    pub fn pin(&mut self, ctx_id: &str, pinned: bool) -> Result<(), EvictionError> {
        let slot = self.slot(ctx_id)?;
        let Some(entry) = self.at_mut(slot) else {
            return Ok(());
        };
        entry.item.pinned = pinned;
        if pinned && !entry.item.references.is_empty() {
            self.pins_with_references.insert(slot);
        } else {
            self.pins_with_references.remove(&slot);
        }
        self.rescore(slot);
        self.protect();
        Ok(())
    }

    /// Sets the signals of an item; absent signals keep their value.
    pub fn inform(&mut self, ctx_id: &str, signals: Signals) -> Result<(), EvictionError> {
        let slot = self.slot(ctx_id)?;
        if let Some(entry) = self.at_mut(slot) {
            let known = entry.item.signals;
            let mut item = entry.item.clone();
            item.signals = Signals {
                goal_overlap: signals.goal_overlap.or(known.goal_overlap),
                semantic: signals.semantic.or(known.semantic),
                redundancy: signals.redundancy.or(known.redundancy),
                model: signals.model.or(known.model),
            };
            item.check()?;
            entry.item.signals = item.signals;
        }
        self.rescore(slot);
        Ok(())
    }

    /// Advances the scope to `turn` and rescores the items that enter the next age band.
    pub fn advance(&mut self, turn: u64) {
        self.turn = self.turn.max(turn);
        while let Some(due) = self.calendar.first_entry().filter(|due| *due.key() <= self.turn) {
            for (slot, event) in due.remove() {
                if self.at(slot).is_some_and(|entry| entry.event == event) {
                    self.rescore(slot);
                }
            }
        }
    }

    /// Sets the current goal of the agent; items that share its words score higher.
    pub fn set_goal(&mut self, goal: &str) {
        self.goal = Some(Words::from_text(goal));
        for slot in self.slots() {
            self.update_goal(slot);
            self.rescore(slot);
        }
    }

    /// Replaces the weights and ranks all items again.
    pub fn set_weights(&mut self, weights: Weights) -> Result<(), EvictionError> {
        weights.check()?;
        self.compiled = Compiled::new(&weights);
        for entry in self.entries.iter_mut().flatten() {
            entry.place = Place::new(&weights, &entry.item.zone, &entry.item.kind);
        }
        self.weights = weights;
        for slot in self.slots() {
            self.rescore(slot);
        }
        Ok(())
    }

    /// Holds an item, which excludes it from proposals while one is open, or releases it.
    pub fn hold(&mut self, ctx_id: &str, held: bool) -> Result<(), EvictionError> {
        let slot = self.slot(ctx_id)?;
        if let Some(entry) = self.at_mut(slot) {
            entry.held = held;
        }
        self.rescore(slot);
        Ok(())
    }

    /// Returns the current features of an item.
    pub fn features(&self, ctx_id: &str) -> Option<Features> {
        let entry = self.entry(ctx_id)?;
        Some(Features {
            zone: entry.item.zone.clone(),
            kind: entry.item.kind.clone(),
            values: features::values(&entry.item, self.age(&entry.item), self.dependents_of(ctx_id)),
        })
    }

    /// Returns the current score of an item, with its terms.
    pub fn score(&self, ctx_id: &str) -> Option<Score> {
        let entry = self.entry(ctx_id)?;
        let features = self.features(ctx_id)?;
        Some(score(
            &self.weights,
            &features,
            entry.item.loss,
            entry.item.token_count,
        ))
    }

    /// Returns the items in the order of the context, as the price calculation needs them.
    pub(super) fn priced_items(&self) -> Vec<PricedItem> {
        let mut items: Vec<(u64, PricedItem)> = Vec::with_capacity(self.len());
        for (slot, entry) in (0..).zip(&self.entries) {
            let Some(entry) = entry else { continue };
            let values = features::values(
                &entry.item,
                self.age(&entry.item),
                self.dependents_of(&entry.item.ctx_id),
            );
            let log_odds = self.compiled.log_odds(&values, entry.place);
            let item = PricedItem {
                slot,
                tokens: entry.item.token_count,
                movable: entry.key.is_some(),
                sent: entry.item.created_turn < self.turn,
                needed: probability(&self.weights, log_odds),
                loss: entry.item.loss,
            };
            items.push((entry.item.position.unwrap_or(u64::MAX), item));
        }
        items.sort_unstable_by_key(|(position, item)| (*position, item.slot));
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// Returns the ids of the items that may be evicted, in eviction order.
    pub fn ranked(&self) -> impl Iterator<Item = &str> {
        self.ranking().map(|(_, entry)| entry.item.ctx_id.as_str())
    }

    /// Returns the number of turns since the last use of an item.
    pub fn age(&self, item: &ContextItem) -> u64 {
        self.turn.saturating_sub(item.last_referenced_turn)
    }

    /// Returns the pinned item that protects an item: itself, or one that depends on it.
    pub(super) fn kept_by_pin(&self, ctx_id: &str) -> Option<&str> {
        let slot = *self.by_id.get(ctx_id)?;
        if self.at(slot)?.item.pinned {
            return Some(&self.at(slot)?.item.ctx_id);
        }
        let by = *self.protected.get(&slot)?;
        Some(&self.at(by)?.item.ctx_id)
    }

    pub(super) fn is_held(&self, ctx_id: &str) -> bool {
        self.entry(ctx_id).is_some_and(|entry| entry.held)
    }

    pub(super) fn ranking(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.ranked
            .iter()
            .filter_map(|(_, slot)| Some((*slot, self.at(*slot)?)))
    }

    pub(super) fn at(&self, slot: u32) -> Option<&Entry> {
        self.entries.get(slot as usize)?.as_ref()
    }

    fn at_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.entries.get_mut(slot as usize)?.as_mut()
    }

    fn entry(&self, ctx_id: &str) -> Option<&Entry> {
        self.at(*self.by_id.get(ctx_id)?)
    }

    fn slot(&self, ctx_id: &str) -> Result<u32, EvictionError> {
        self.by_id
            .get(ctx_id)
            .copied()
            .ok_or_else(|| EvictionError::NoItem {
                ctx_id: ctx_id.to_owned(),
            })
    }

    fn slots(&self) -> Vec<u32> {
        (0..)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.is_some())
            .map(|(slot, _)| slot)
            .collect()
    }

    fn dependents_of(&self, ctx_id: &str) -> u32 {
        self.dependents.get(ctx_id).copied().unwrap_or(0)
    }

    /// Recomputes the rank of an item and schedules its next age band.
    fn rescore(&mut self, slot: u32) {
        self.events += 1;
        let (turn, event) = (self.turn, self.events);
        let protected = self.protected.contains_key(&slot);
        let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::as_mut) else {
            return;
        };
        let age = turn.saturating_sub(entry.item.last_referenced_turn);
        let dependents = self.dependents.get(&entry.item.ctx_id).copied().unwrap_or(0);
        let values = features::values(&entry.item, age, dependents);
        let log_odds = self.compiled.log_odds(&values, entry.place);
        let (loss, density) = self
            .compiled
            .loss(log_odds, entry.item.loss, entry.item.token_count);
        entry.loss = loss;
        entry.event = event;
        let frees = !(entry.item.pinned || protected || entry.held || entry.item.token_count == 0);
        let key = frees.then_some(density.to_bits());
        let old = std::mem::replace(&mut entry.key, key);
        let due = entry.item.last_referenced_turn.saturating_add(next_band(age));
        if old != key {
            if let Some(old) = old {
                self.ranked.remove(&(old, slot));
            }
            if let Some(key) = key {
                self.ranked.insert((key, slot));
            }
        }
        self.calendar.entry(due).or_default().push((slot, event));
    }

    fn rescore_all(&mut self, ids: &[String]) {
        for id in ids {
            if let Some(&slot) = self.by_id.get(id) {
                self.rescore(slot);
            }
        }
    }

    fn update_goal(&mut self, slot: u32) {
        let Some(entry) = self.entries.get_mut(slot as usize).and_then(Option::as_mut) else {
            return;
        };
        if let (Some(goal), Some(words)) = (&self.goal, &entry.words) {
            entry.item.signals.goal_overlap = goal.share_in(words);
        }
    }

    /// Looks for an item with nearly the same content. The newer item covers the older one, unless that is
    /// pinned.
    fn find_twin(&mut self, slot: u32, content: &str) {
        let Some((twin, share)) = self.twins.insert(slot, content) else {
            return;
        };
        let older_is_pinned = self.at(twin).is_some_and(|entry| entry.item.pinned);
        let (covered, by) = if older_is_pinned {
            (slot, twin)
        } else {
            (twin, slot)
        };
        if let Some(previous) = self.at(covered).and_then(|entry| entry.covered_by)
            && let Some(previous) = self.at_mut(previous)
        {
            previous.covers.retain(|other| *other != covered);
        }
        if let Some(entry) = self.at_mut(covered) {
            entry.covered_by = Some(by);
            entry.item.signals.redundancy = Some(share);
        }
        if let Some(entry) = self.at_mut(by) {
            entry.covers.push(covered);
        }
        self.rescore(covered);
    }

    fn rebuild_twins(&mut self) {
        self.twins = Overlaps::new();
        let mut slots: Vec<(u64, u32)> = Vec::with_capacity(self.len());
        for slot in self.slots() {
            if let Some(entry) = self.at_mut(slot) {
                entry.covered_by = None;
                entry.covers.clear();
                if entry.item.content.is_some() {
                    entry.item.signals.redundancy = None;
                    slots.push((entry.item.created_turn, slot));
                }
            }
        }
        slots.sort_unstable();
        for (_, slot) in slots {
            if let Some(content) = self.at(slot).and_then(|entry| entry.item.content.clone()) {
                self.find_twin(slot, &content);
                self.rescore(slot);
            }
        }
    }

    /// Recomputes which items are protected because a pinned item depends on them, directly or indirectly.
    fn protect(&mut self) {
        if self.pins_with_references.is_empty() && self.protected.is_empty() {
            return;
        }
        let mut now: FxHashMap<u32, u32> = FxHashMap::default();
        let mut seen: FxHashSet<u32> = self.pins_with_references.iter().copied().collect();
        let mut open: Vec<(u32, u32)> = self.pins_with_references.iter().map(|pin| (*pin, *pin)).collect();
        while let Some((slot, pin)) = open.pop() {
            let Some(entry) = self.at(slot) else { continue };
            let needed: Vec<u32> = entry
                .item
                .references
                .iter()
                .filter_map(|id| self.by_id.get(id).copied())
                .collect();
            for slot in needed {
                if seen.insert(slot) {
                    now.insert(slot, pin);
                    open.push((slot, pin));
                }
            }
        }
        let before = std::mem::replace(&mut self.protected, now);
        let mut changed: Vec<u32> = before
            .keys()
            .filter(|slot| !self.protected.contains_key(slot))
            .chain(self.protected.keys().filter(|slot| !before.contains_key(slot)))
            .copied()
            .collect();
        changed.sort_unstable();
        for slot in changed {
            self.rescore(slot);
        }
    }
}

#[cfg(test)]
#[path = "scope_tests.rs"]
mod tests;
