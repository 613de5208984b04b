//! Which context to drop, learning from what the agent keeps back.
//!
//! An agent with a full context asks what can go. A [`Scope`] holds its items, ranked at all times; [`propose`] names
//! those that free enough tokens at the least expected loss; the agent may keep some back, [`resolve`] says what follows;
//! and every keep-back is a [`Label`] that [`calibration`] learns from. No learned scorer goes live by itself: see
//! [`gate`]. [`simulation`] replays traces and compares policies with the best there could be.
//!
//! Everything here is pure: time, chance and ids come in as arguments.

pub mod calibration;
mod convert;
mod error;
pub mod features;
pub mod gate;
mod item;
mod overlap;
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
pub use propose::{
    EvictionCandidate, EvictionProposal, Need, PinnedItem, ProposeRequest, Shortfall, propose,
};
pub use resolve::{
    EvictionExclusion, EvictionFeedback, Exclude, Label, QUOTA, Resolution, ResolvedBy, SecondPass, labels,
    resolve, settle,
};
pub use scope::Scope;
pub use score::{Score, ScoreTerm, score};
pub use timeline::{ItemFate, ItemOutcome, Timeline, TimelineRow, timeline};
pub use weights::{Objective, Weights, ZoneWeights};
