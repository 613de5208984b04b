//! The items of one scope, ranked at all times. Adding, using, pinning or dropping an item costs O(log n); a turn that
//! passes touches only items whose age enters the next band ([`super::features`]), which for each item happens twice for
//! every doubling of its age. A new goal or new weights touch everything.
//!
//! A scope only ranks. Proposing is [`super::propose`], answering is [`super::resolve`].

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::error::EvictionError;
use super::features::{self, Features, next_band};
use super::item::{ContextItem, Signals};
use super::overlap::{Overlaps, Words};
use super::score::{Compiled, Place, Score, score};
use super::weights::Weights;

/// Items in the order in which they would go.
#[derive(Debug)]
pub struct Scope {
    weights: Weights,
    compiled: Compiled,
    turn: u64,
    goal: Option<Words>,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_id: FxHashMap<String, u32>,
    /// Density as bits (it is never negative, so they sort alike), then entry.
    ranked: BTreeSet<(u64, u32)>,
    /// Turn → entries that enter their next age band then, unless something happened to them since.
    calendar: BTreeMap<u64, Vec<(u32, u64)>>,
    events: u64,
    twins: Overlaps,
    /// Id → items that refer to it.
    dependents: FxHashMap<String, u32>,
    /// Pinned items that refer to others.
    needy_pins: BTreeSet<u32>,
    /// Items that pinned items need, by whom.
    protected: FxHashMap<u32, u32>,
    tokens: u64,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) item: ContextItem,
    words: Option<Words>,
    place: Place,
    key: Option<u64>,
    pub(super) loss: f64,
    /// The event that last changed it: what the calendar says about earlier ones is stale.
    event: u64,
    held: bool,
    covered_by: Option<u32>,
    covers: Vec<u32>,
}

impl Scope {
    /// An empty scope.
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
            needy_pins: BTreeSet::new(),
            protected: FxHashMap::default(),
            tokens: 0,
        })
    }

    /// Items in it.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Tokens of all items.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The present turn.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// The weights it ranks by.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// An item.
    pub fn item(&self, ctx_id: &str) -> Option<&ContextItem> {
        Some(&self.entry(ctx_id)?.item)
    }

    /// All items, by id.
    pub fn items(&self) -> impl Iterator<Item = &ContextItem> {
        let ids: BTreeSet<&String> = self.by_id.keys().collect();
        ids.into_iter().filter_map(|id| self.item(id))
    }

    /// Takes in an item that came in this turn: what it refers to counts as used. One with the same id is replaced.
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

    /// Takes in an item with its counters as they are: one that was kept somewhere.
    pub fn insert(&mut self, item: ContextItem) -> Result<(), EvictionError> {
        item.check()?;
        self.remove(&item.ctx_id);
        self.turn = self.turn.max(item.last_referenced_turn);
        self.tokens += item.token_count;
        for id in &item.references {
            *self.dependents.entry(id.clone()).or_default() += 1;
        }
        let entry = Entry {
            words: item.content.as_deref().map(Words::of),
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
            // Four billion items do not fit into memory.
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        self.by_id.insert(entry.item.ctx_id.clone(), slot);
        let (content, references) = (entry.item.content.clone(), entry.item.references.clone());
        if entry.item.pinned && !references.is_empty() {
            self.needy_pins.insert(slot);
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

    /// Takes an item out.
    pub fn remove(&mut self, ctx_id: &str) -> Option<ContextItem> {
        let slot = self.by_id.remove(ctx_id)?;
        let entry = self.entries.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        if let Some(key) = entry.key {
            self.ranked.remove(&(key, slot));
        }
        self.tokens -= entry.item.token_count;
        self.needy_pins.remove(&slot);
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
            self.find_twins_anew();
        }
        self.protect();
        Some(entry.item)
    }

    /// Notes that an item was used.
    pub fn touch(&mut self, ctx_id: &str, turn: u64) -> Result<(), EvictionError> {
        let slot = self.slot(ctx_id)?;
        self.turn = self.turn.max(turn);
        if let Some(entry) = self.at_mut(slot) {
            entry.item.touch(turn);
        }
        self.rescore(slot);
        Ok(())
    }

    /// Pins an item, or lets it go.
    pub fn pin(&mut self, ctx_id: &str, pinned: bool) -> Result<(), EvictionError> {
        let slot = self.slot(ctx_id)?;
        let Some(entry) = self.at_mut(slot) else {
            return Ok(());
        };
        entry.item.pinned = pinned;
        if pinned && !entry.item.references.is_empty() {
            self.needy_pins.insert(slot);
        } else {
            self.needy_pins.remove(&slot);
        }
        self.rescore(slot);
        self.protect();
        Ok(())
    }

    /// Sets what is known about an item besides; signals that are absent stay as they are.
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

    /// Time passes.
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

    /// What the agent is after now: items that have its words are worth more.
    pub fn set_goal(&mut self, goal: &str) {
        self.goal = Some(Words::of(goal));
        for slot in self.slots() {
            self.update_goal(slot);
            self.rescore(slot);
        }
    }

    /// Ranks by other weights.
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

    /// Keeps an item out of further proposals while one is open, or lets it in again.
    pub fn hold(&mut self, ctx_id: &str, held: bool) -> Result<(), EvictionError> {
        let slot = self.slot(ctx_id)?;
        if let Some(entry) = self.at_mut(slot) {
            entry.held = held;
        }
        self.rescore(slot);
        Ok(())
    }

    /// The features of an item now.
    pub fn features(&self, ctx_id: &str) -> Option<Features> {
        let entry = self.entry(ctx_id)?;
        Some(Features {
            zone: entry.item.zone.clone(),
            kind: entry.item.kind.clone(),
            values: features::values(&entry.item, self.age(&entry.item), self.dependents_of(ctx_id)),
        })
    }

    /// What an item is worth now, and why.
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

    /// The ids of what may go, the first to go first.
    pub fn ranked(&self) -> impl Iterator<Item = &str> {
        self.ranking().map(|(_, entry)| entry.item.ctx_id.as_str())
    }

    /// Turns since an item's last use.
    pub fn age(&self, item: &ContextItem) -> u64 {
        self.turn.saturating_sub(item.last_referenced_turn)
    }

    /// The pinned item for which an item may not go: itself, or one that needs it.
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

    /// Puts an item where it belongs now, and into the calendar for its next age band.
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

    /// The older of two items that say the same is covered by the newer, unless it is pinned.
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

    fn find_twins_anew(&mut self) {
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

    /// Finds what pinned items need, and what that needs, and keeps it.
    fn protect(&mut self) {
        if self.needy_pins.is_empty() && self.protected.is_empty() {
            return;
        }
        let mut now: FxHashMap<u32, u32> = FxHashMap::default();
        let mut seen: FxHashSet<u32> = self.needy_pins.iter().copied().collect();
        let mut open: Vec<(u32, u32)> = self.needy_pins.iter().map(|pin| (*pin, *pin)).collect();
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
