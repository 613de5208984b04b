//! Context eviction: proposes which items an agent's context should drop, and learns from the items it
//! excludes. [`PriceList`] says what editing a cached prompt costs, so that an eviction which does not pay is not
//! proposed.
//!
//! An agent with a full context asks what to drop. A [`Scope`] keeps its items ranked; [`propose`] selects
//! items that free enough tokens at the least expected loss. The agent may exclude some candidates, and
//! [`resolve`] computes the outcome. Every answered candidate becomes a [`Label`] that [`calibration`] learns
//! from. A learned scorer goes live only through the [`gate`]. [`simulation`] replays traces and compares
//! policies with Belady's bound.
//!
//! Everything here is pure: time, randomness and ids are arguments.

pub mod calibration;
mod convert;
mod error;
pub mod features;
pub mod gate;
mod item;
mod overlap;
mod price;
mod propose;
mod resolve;
mod scope;
mod score;
pub mod simulation;
mod timeline;
mod weights;

pub use convert::{ConvertOptions, convert};
pub use error::EvictionError;
pub use item::{ContextItem, Signals};
pub use price::{CachePrices, CostDecision, EvictionCost, PriceList, Pricing, SessionState};
pub use propose::{
    EvictionCandidate, EvictionProposal, Need, PinnedItem, ProposeRequest, Shortfall, propose,
};
pub use resolve::{
    EvictionExclusion, EvictionFeedback, Exclude, Label, QUOTA, Resolution, ResolvedBy, SecondPass,
    apply_resolution, labels, resolve,
};
pub use scope::Scope;
pub use score::{Score, ScoreTerm, score};
pub use timeline::{ItemFate, ItemOutcome, Timeline, TimelineRow, timeline};
pub use weights::{Objective, Weights, ZoneWeights};
