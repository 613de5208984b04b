//! Who decides what goes when a context is full. Every policy sees the same resident items; only Belady's sees the future.

use std::fmt;
use std::str::FromStr;

use rand_chacha::rand_core::Rng;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::error::EvictionError;
use super::super::weights::Weights;

/// A policy.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// The scorer with the weights given, by the proposals that an agent would get.
    Ours(Box<Weights>),
    /// Least recently used first.
    Lru,
    /// Oldest first.
    Fifo,
    /// Largest first.
    Size,
    /// GreedyDual-Size-Frequency (Cherkasova 1998): inflation + uses / tokens.
    GreedyDual,
    /// Any, by a seed.
    Random(u64),
    /// Farthest next use first (Belady 1966): the best there is for items of one size.
    Belady,
    /// Largest product of tokens and distance to the next use first: close to the best for items of many sizes.
    BeladySize,
}

impl Policy {
    /// Its name in reports.
    pub fn name(&self) -> String {
        match self {
            Self::Ours(weights) => weights.version.clone(),
            Self::Lru => "lru".into(),
            Self::Fifo => "fifo".into(),
            Self::Size => "size".into(),
            Self::GreedyDual => "gdsf".into(),
            Self::Random(_) => "random".into(),
            Self::Belady => "belady".into(),
            Self::BeladySize => "belady-size".into(),
        }
    }

    /// Whether it needs to know the future.
    pub(crate) fn is_clairvoyant(&self) -> bool {
        matches!(self, Self::Belady | Self::BeladySize)
    }

    /// Those that need nothing but a name, Belady's two last.
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
        Self::plain().into_iter().find(|policy| policy.name() == name).ok_or_else(|| EvictionError::Weights(format!(
            "there is no policy `{name}`; there are heuristic, lru, fifo, size, gdsf, random, belady and belady-size"
        )))
    }
}

/// What a plain policy knows of a resident item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resident {
    pub(super) tokens: u64,
    pub(super) arrived: u64,
    pub(super) last_use: u64,
    pub(super) uses: u64,
    /// The value that `GreedyDual` gives it.
    pub(super) value: f64,
    /// The next turn that uses it, where there is one.
    pub(super) next_use: Option<u64>,
}

impl Policy {
    /// The lowest goes first.
    pub(super) fn rank(&self, resident: &Resident, turn: u64, random: &mut impl Rng) -> f64 {
        // Beyond the horizon of any trace.
        let distance = |next: Option<u64>| next.map_or(1e9, |next| (next - turn.min(next)) as f64);
        match self {
            // Our own scorer ranks by itself; see the replay.
            Self::Ours(_) | Self::Lru => resident.last_use as f64,
            Self::Fifo => resident.arrived as f64,
            Self::Size => -(resident.tokens as f64),
            Self::GreedyDual => resident.value,
            Self::Random(_) => random.next_u64() as f64,
            Self::Belady => -distance(resident.next_use),
            Self::BeladySize => -distance(resident.next_use) * resident.tokens as f64,
        }
    }
}
