//! Simulation of eviction policies: replays traces under a token budget and compares policies with Belady's
//! bound.

mod billing;
mod compare;
mod generate;
mod learn;
mod policy;
mod replay;
mod trace;

pub use compare::{Comparison, PolicyReport, Simulation, SimulationSettings, simulate};
pub use generate::{GeneratorSettings, generate};
pub use learn::{LearningSettings, gather, observed_needs};
pub use policy::Policy;
pub use replay::{Agent, Budget, Outcome, ReplayOptions, replay};
pub use trace::{Session, TraceTurn, read_trace, write_trace};
