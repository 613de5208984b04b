//! Price of an eviction. A provider's prompt cache holds the context as a prefix: dropping an item invalidates
//! everything behind it, which is then written to the cache again instead of being read from it. Against that
//! stand the tokens that later requests no longer pay for, and the dropped items that must be read again.
//!
//! All amounts are in tokens at the price of an uncached input token. Prices are data: [`PriceList`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::EvictionError;

const BUILT_IN: &str = include_str!("prices.toml");

/// Prices of prompt caches, by provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// Smallest expected number of further requests, if the caller gives none.
    pub min_remaining_turns: f64,
    /// Output tokens of a call that reads a dropped item again.
    pub reread_call_tokens: f64,
    /// Prices of each provider.
    pub provider: Vec<CachePrices>,
}

/// A user's price list, in the form of [`PriceList`] with optional parts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceOverrides {
    min_remaining_turns: Option<f64>,
    reread_call_tokens: Option<f64>,
    #[serde(default)]
    provider: Vec<CachePrices>,
}

/// Prices of a provider's prompt cache, relative to one uncached input token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CachePrices {
    /// Name of the provider, such as `anthropic`.
    pub name: String,
    /// Price of an input token that is written to the cache.
    pub write: f64,
    /// Price of an input token that is read from the cache.
    pub read: f64,
    /// Price of an output token.
    pub output: f64,
    /// Seconds without a request after which the cache is empty.
    pub lifetime_seconds: u64,
    /// Page on which the provider states the prices.
    pub source: String,
    /// Date on which the source was read, as year-month-day.
    pub as_of: String,
}

impl PriceList {
    /// Returns the built-in prices.
    pub fn built_in() -> Self {
        // The file is compiled in, and a test parses it.
        Self::from_toml(BUILT_IN).unwrap_or_else(|_| Self {
            min_remaining_turns: 1.0,
            reread_call_tokens: 0.0,
            provider: Vec::new(),
        })
    }

    /// Parses and checks a complete price list.
    pub fn from_toml(text: &str) -> Result<Self, EvictionError> {
        let list: Self = toml::from_str(text).map_err(|error| EvictionError::Prices(error.to_string()))?;
        list.check()
    }

    /// Parses a price list that adds to this one: its providers replace those of the same name, and what it
    /// does not have stays.
    pub fn overridden(self, text: &str) -> Result<Self, EvictionError> {
        let own: PriceOverrides =
            toml::from_str(text).map_err(|error| EvictionError::Prices(error.to_string()))?;
        let is_replaced = |known: &CachePrices| own.provider.iter().any(|one| one.name == known.name);
        let mut provider: Vec<CachePrices> = self
            .provider
            .into_iter()
            .filter(|known| !is_replaced(known))
            .collect();
        provider.extend(own.provider);
        let list = Self {
            min_remaining_turns: own.min_remaining_turns.unwrap_or(self.min_remaining_turns),
            reread_call_tokens: own.reread_call_tokens.unwrap_or(self.reread_call_tokens),
            provider,
        };
        list.check()
    }

    fn check(self) -> Result<Self, EvictionError> {
        let list = self;
        let wrong = |what: String| Err(EvictionError::Prices(what));
        if !(list.min_remaining_turns >= 1.0 && list.min_remaining_turns.is_finite()) {
            return wrong("`min_remaining_turns` must be at least 1".into());
        }
        if !(list.reread_call_tokens >= 0.0 && list.reread_call_tokens.is_finite()) {
            return wrong("`reread_call_tokens` must be 0 or more".into());
        }
        for prices in &list.provider {
            let all = [prices.write, prices.read, prices.output];
            if all.iter().any(|price| !(price.is_finite() && *price >= 0.0)) {
                return wrong(format!("the prices of `{}` must be 0 or more", prices.name));
            }
            if prices.write < prices.read {
                return wrong(format!(
                    "`{}` writes at {} and reads at {}; reading from a cache is never dearer than writing",
                    prices.name, prices.write, prices.read
                ));
            }
        }
        Ok(list)
    }

    /// Returns the prices of a provider.
    pub fn find(&self, provider: &str) -> Result<&CachePrices, EvictionError> {
        let found = self.provider.iter().find(|prices| prices.name == provider);
        found.ok_or_else(|| EvictionError::Provider {
            name: provider.to_owned(),
            known: self.provider.iter().map(|prices| prices.name.clone()).collect(),
        })
    }

    /// Combines the prices of a provider with the state of a session.
    pub fn pricing(&self, provider: &str, session: &SessionState) -> Result<Pricing, EvictionError> {
        let prices = self.find(provider)?.clone();
        let remaining_turns = session
            .remaining_turns
            .unwrap_or_else(|| (session.turn as f64).max(self.min_remaining_turns));
        if !(remaining_turns.is_finite() && remaining_turns >= 0.0) {
            return Err(EvictionError::Setting {
                what: "remaining_turns",
                value: remaining_turns,
                range: "0 or more",
            });
        }
        Ok(Pricing {
            warm: session.idle_seconds < prices.lifetime_seconds,
            prices,
            remaining_turns,
            reread_call_tokens: self.reread_call_tokens,
            window_tokens: session.window_tokens,
        })
    }
}

/// What the price of an eviction depends on, besides the items.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SessionState {
    /// Current turn.
    pub turn: u64,
    /// Expected number of further requests, if known.
    pub remaining_turns: Option<f64>,
    /// Seconds since the last request.
    pub idle_seconds: u64,
    /// Tokens that the model accepts at most, if known.
    pub window_tokens: Option<u64>,
}

/// Prices as they apply to one proposal.
#[derive(Debug, Clone, PartialEq)]
pub struct Pricing {
    /// Prices of the provider.
    pub prices: CachePrices,
    /// Whether the cache still holds the last request.
    pub warm: bool,
    /// Expected number of further requests.
    pub remaining_turns: f64,
    /// Output tokens of a call that reads a dropped item again.
    pub reread_call_tokens: f64,
    /// Tokens that the model accepts at most; above this an eviction is required, whatever it costs.
    pub window_tokens: Option<u64>,
}

/// Whether an eviction is worth its price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostDecision {
    /// The eviction saves more than it costs.
    Pays,
    /// It costs more than it saves, but the context must shrink.
    Required,
    /// It costs more than it saves: nothing is proposed.
    BelowBreakEven,
}

/// Expected cost and saving of an eviction, in tokens at the price of an uncached input token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvictionCost {
    /// Provider whose prices were used.
    pub provider: String,
    /// Date of the prices.
    pub prices_as_of: String,
    /// Whether the eviction is worth its price.
    pub decision: CostDecision,
    /// Expected number of further requests.
    pub remaining_turns: f64,
    /// Whether the cache still holds the last request; an expired cache is written again anyway.
    pub cache_warm: bool,
    /// Tokens behind the earliest dropped item that stay and are billed again.
    pub rebilled_tokens: u64,
    /// Cost of billing them again.
    pub rebilling: f64,
    /// Expected number of dropped items that are read again.
    pub expected_rereads: f64,
    /// Expected cost of reading them again.
    pub rereading: f64,
    /// Expected saving over the remaining requests.
    pub saving: f64,
    /// Saving minus costs.
    pub net: f64,
    /// Number of further requests from which the eviction pays; absent if it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_even_turns: Option<f64>,
}

/// An item as the price calculation sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PricedItem {
    pub(super) slot: u32,
    pub(super) tokens: u64,
    /// Whether the item may be dropped.
    pub(super) movable: bool,
    /// Whether the last request contained it.
    pub(super) sent: bool,
    /// Probability that it is needed again.
    pub(super) needed: f64,
    /// Cost of losing it, relative to reading it again.
    pub(super) loss: f64,
}

/// Largest number of positions at which the earliest edit is tried if a number of tokens must be freed.
const MAX_EDIT_POSITIONS: usize = 64;

impl Pricing {
    fn is_cached(&self, item: &PricedItem) -> bool {
        self.warm && item.sent
    }

    /// Cost of billing an item again because an earlier one was dropped.
    fn rebilling(&self, item: &PricedItem) -> f64 {
        if self.is_cached(item) {
            item.tokens as f64 * (self.prices.write - self.prices.read)
        } else {
            0.0
        }
    }

    /// Saving if the item is not in the remaining requests. An item that is needed at a random time is absent
    /// for half of them.
    fn saving(&self, item: &PricedItem, turns: f64) -> f64 {
        let absent = 1.0 - item.needed / 2.0;
        let first = if self.is_cached(item) {
            self.prices.read
        } else {
            self.prices.write
        };
        let later = (turns - 1.0).max(0.0) * self.prices.read * absent;
        item.tokens as f64 * (first * turns.min(1.0) + later)
    }

    /// Expected cost of reading the item again: its tokens, the call, and one more request with the context.
    fn rereading(&self, item: &PricedItem, context_tokens: u64) -> f64 {
        let request = context_tokens as f64 * self.prices.read;
        let call = self.reread_call_tokens * self.prices.output;
        item.needed * item.loss * (item.tokens as f64 * self.prices.write + request + call)
    }

    /// Value of dropping the item if the context is edited at or before it.
    fn value(&self, item: &PricedItem, context_tokens: u64) -> f64 {
        self.rebilling(item) + self.saving(item, self.remaining_turns) - self.rereading(item, context_tokens)
    }

    /// Selects the items whose eviction saves most, in one edit of the context. `items` are in the order of
    /// the context. Returns positions in `items`, none if nothing pays.
    ///
    /// For a given earliest edit the best set is every item behind it with a positive value, so one pass from
    /// the end finds the optimum.
    pub(super) fn best(&self, items: &[PricedItem], context_tokens: u64) -> Vec<usize> {
        let (mut gain, mut rebilled) = (0.0, 0.0);
        let (mut best, mut from) = (0.0, None);
        for (position, item) in items.iter().enumerate().rev() {
            rebilled += self.rebilling(item);
            let value = self.value(item, context_tokens);
            if !item.movable || value <= 0.0 {
                continue;
            }
            gain += value;
            if gain - rebilled > best {
                (best, from) = (gain - rebilled, Some(position));
            }
        }
        let Some(from) = from else { return Vec::new() };
        let pays = |i: &usize| items[*i].movable && self.value(&items[*i], context_tokens) > 0.0;
        (from..items.len()).filter(pays).collect()
    }

    /// Selects items that free `need` tokens, and no more than needed, at a low price; all movable items if they
    /// do not suffice.
    pub(super) fn cheapest(&self, items: &[PricedItem], need: u64, context_tokens: u64) -> Vec<usize> {
        let movable: Vec<usize> = (0..items.len())
            .filter(|i| items[*i].movable && items[*i].tokens > 0)
            .collect();
        let value: Vec<f64> = items
            .iter()
            .map(|item| self.value(item, context_tokens))
            .collect();
        let density = |i: usize| value[i] / items[i].tokens as f64;
        // For about `need` tokens, the most value is the least loss against the best value per token.
        let best_density = movable.iter().map(|&i| density(i)).fold(f64::MIN, f64::max);
        let mut ranked = movable;
        ranked.sort_by(|&a, &b| density(b).total_cmp(&density(a)).then(a.cmp(&b)));
        let mut best: Option<(f64, Vec<usize>)> = None;
        for from in self.edit_positions(items, need) {
            let rebilled: f64 = items[from..].iter().map(|item| self.rebilling(item)).sum();
            let behind = ranked.iter().filter(|i| **i >= from).map(|&i| {
                let tokens = items[i].tokens;
                let loss = (best_density * tokens as f64 - value[i]).max(0.0);
                // Positions are below the number of items, which fits into u32.
                (u32::try_from(i).unwrap_or(u32::MAX), tokens, loss)
            });
            let chosen: Vec<usize> = super::propose::cover(behind, need)
                .into_iter()
                .map(|i| i as usize)
                .collect();
            let net = chosen.iter().map(|&i| value[i]).sum::<f64>() - rebilled;
            if best.as_ref().is_none_or(|(least, _)| net > *least) {
                best = Some((net, chosen));
            }
        }
        best.map(|(_, chosen)| chosen).unwrap_or_default()
    }

    /// Positions of the earliest edit to try: those behind which enough tokens can be freed, thinned out.
    fn edit_positions(&self, items: &[PricedItem], need: u64) -> Vec<usize> {
        let mut found = Vec::new();
        let mut freed = 0;
        for (position, item) in items.iter().enumerate().rev() {
            if item.movable && item.tokens > 0 {
                freed += item.tokens;
                if freed >= need {
                    found.push(position);
                }
            }
        }
        if found.is_empty() {
            return vec![0];
        }
        if self.prices.write <= self.prices.read || !self.warm {
            // Nothing is billed again, so the whole context is open.
            return found.last().map(|_| 0).into_iter().collect();
        }
        let step = found.len().div_ceil(MAX_EDIT_POSITIONS);
        let mut kept: Vec<usize> = found.iter().copied().step_by(step).collect();
        kept.extend(found.last().filter(|last| kept.last() != Some(last)));
        kept
    }

    /// Computes the cost of dropping the items at `chosen`, and whether it pays; `required` evictions are
    /// made in any case.
    pub(super) fn cost(
        &self,
        items: &[PricedItem],
        chosen: &[usize],
        context_tokens: u64,
        required: bool,
    ) -> EvictionCost {
        let dropped: rustc_hash::FxHashSet<usize> = chosen.iter().copied().collect();
        let from = chosen.iter().copied().min().unwrap_or(items.len());
        let kept = (from..items.len()).filter(|i| !dropped.contains(i) && self.is_cached(&items[*i]));
        let (mut rebilled_tokens, mut rebilling) = (0, 0.0);
        for i in kept {
            rebilled_tokens += items[i].tokens;
            rebilling += self.rebilling(&items[i]);
        }
        let sum = |of: &dyn Fn(&PricedItem) -> f64| chosen.iter().map(|&i| of(&items[i])).sum::<f64>();
        let rereading = sum(&|item| self.rereading(item, context_tokens));
        let saving = sum(&|item| self.saving(item, self.remaining_turns));
        let net = saving - rebilling - rereading;
        // Beyond the first request, the saving grows linearly with their number.
        let first = sum(&|item| self.saving(item, 1.0));
        let per_turn = sum(&|item| self.saving(item, 2.0)) - first;
        let missing = rebilling + rereading - first;
        let break_even_turns = if missing <= 0.0 {
            Some(1.0)
        } else {
            (per_turn > 0.0).then(|| 1.0 + missing / per_turn)
        };
        EvictionCost {
            provider: self.prices.name.clone(),
            prices_as_of: self.prices.as_of.clone(),
            decision: if net > 0.0 {
                CostDecision::Pays
            } else if required {
                CostDecision::Required
            } else {
                CostDecision::BelowBreakEven
            },
            remaining_turns: self.remaining_turns,
            cache_warm: self.warm,
            rebilled_tokens,
            rebilling,
            expected_rereads: sum(&|item| item.needed),
            rereading,
            saving,
            net,
            break_even_turns: break_even_turns.filter(|_| !chosen.is_empty()),
        }
    }
}

#[cfg(test)]
#[path = "price_tests.rs"]
mod tests;
