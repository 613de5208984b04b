//! Statistics that the decisions rest on, written like a numerical library: every function is compared with
//! an independent implementation in its tests, returns a [`StatsError`] for input it cannot judge and never
//! NaN for input it can. Nothing here knows what the numbers are about.
//!
//! - [`richness`]: what has not been seen yet (Good-Turing, coverage, Chao1, Chao2)

mod distribution;
mod error;
mod interval;
pub mod richness;
#[cfg(test)]
mod testing;

pub use error::{Result, StatsError};
pub use interval::Interval;
pub use richness::{
    Abundance, Incidence, Richness, UnseenMass, chao1, chao2, correct_for_missed_matches, coverage,
    unseen_mass,
};
