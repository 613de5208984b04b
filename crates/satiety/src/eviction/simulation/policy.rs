//! Eviction policies of the simulation. Every policy sees the same resident items; only Belady's policies see
//! the future.

use std::fmt;
use std::str::FromStr;

use rand_chacha::rand_core::Rng;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::EvictionError;
use super::super::weights::Weights;

/// Policy that decides which items to evict.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// The scorer with these weights, using the same proposals as an agent would get.
    Ours(Box<Weights>),
    /// The scorer with these weights and the prices of the replay: evicts whenever that pays, and what is
    /// cheapest if the context exceeds its budget.
    Priced(Box<Weights>),
    /// Evicts nothing, as if the context had no limit.
    None,
    /// Evicts the least recently used item first.
    Lru,
    /// Evicts the oldest item first.
    Fifo,
    /// Evicts the largest item first.
    Size,
    /// GreedyDual-Size-Frequency (Cherkasova 1998): inflation + uses / tokens.
    GreedyDual,
    /// Evicts random items, with this seed.
    Random(u64),
    /// Evicts the item with the farthest next use first (Belady 1966): optimal for items of equal size.
    Belady,
    /// Evicts the item with the largest product of tokens and distance to the next use first: near-optimal
    /// for items of different sizes.
    BeladySize,
}

impl Policy {
    /// Returns the name used in reports.
    pub fn name(&self) -> String {
        match self {
            Self::Ours(weights) => weights.version.clone(),
            Self::Priced(weights) => format!("{}+prices", weights.version),
            Self::None => "none".into(),
            Self::Lru => "lru".into(),
            Self::Fifo => "fifo".into(),
            Self::Size => "size".into(),
            Self::GreedyDual => "gdsf".into(),
            Self::Random(_) => "random".into(),
            Self::Belady => "belady".into(),
            Self::BeladySize => "belady-size".into(),
        }
    }

    /// Whether the policy needs to know the future.
    pub(crate) fn is_clairvoyant(&self) -> bool {
        matches!(self, Self::Belady | Self::BeladySize)
    }

    /// Returns the weights of the scorer; `None` for policies without one.
    pub(crate) fn weights(&self) -> Option<&Weights> {
        match self {
            Self::Ours(weights) | Self::Priced(weights) => Some(weights),
            _ => None,
        }
    }

    /// Returns the policies that need no weights, with Belady's two last.
    pub fn plain() -> Vec<Self> {
        vec![
            Self::Lru,
            Self::Fifo,
            Self::Size,
            Self::GreedyDual,
            Self::Random(1),
            Self::Belady,
            Self::BeladySize,
        ]
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl JsonSchema for Policy {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Policy".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

impl Serialize for Policy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Policy {
    type Err = EvictionError;

    fn from_str(name: &str) -> Result<Self, EvictionError> {
        if name == "heuristic" || name == "ours" {
            return Ok(Self::Ours(Box::new(Weights::heuristic())));
        }
        if name == "priced" {
            return Ok(Self::Priced(Box::new(Weights::heuristic())));
        }
        if name == "none" {
            return Ok(Self::None);
        }
        Self::plain()
            .into_iter()
            .find(|policy| policy.name() == name)
            .ok_or_else(|| EvictionError::Policy(name.to_owned()))
    }
}

/// State of a resident item, as seen by the policies without a scorer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resident {
    pub(super) tokens: u64,
    pub(super) arrived: u64,
    pub(super) last_use: u64,
    pub(super) uses: u64,
    /// Priority assigned by `GreedyDual`.
    pub(super) value: f64,
    /// Next turn that uses the item, if any.
    pub(super) next_use: Option<u64>,
    /// Place in the context: number of the arrival.
    pub(super) place: u64,
}

impl Policy {
    /// Returns the eviction priority; the lowest is evicted first.
    pub(super) fn rank(&self, resident: &Resident, turn: u64, random: &mut impl Rng) -> f64 {
        // 1e9 is beyond the end of any trace.
        let distance = |next: Option<u64>| next.map_or(1e9, |next| (next - turn.min(next)) as f64);
        match self {
            // The scorer ranks by itself; see `replay`.
            Self::Ours(_) | Self::Priced(_) | Self::None | Self::Lru => resident.last_use as f64,
            Self::Fifo => resident.arrived as f64,
            Self::Size => -(resident.tokens as f64),
            Self::GreedyDual => resident.value,
            Self::Random(_) => random.next_u64() as f64,
            Self::Belady => -distance(resident.next_use),
            Self::BeladySize => -distance(resident.next_use) * resident.tokens as f64,
        }
    }
}
