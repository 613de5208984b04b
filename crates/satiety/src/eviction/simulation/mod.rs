//! Replaying traces under a budget: which policy keeps what is needed, and how far is it from the best there could be?

mod compare;
mod generate;
mod learn;
mod policy;
mod replay;
mod trace;

pub use compare::{Comparison, PolicyReport, Simulation, SimulationSettings, simulate};
pub use generate::{GeneratorSettings, generate};
pub use learn::{LearningSettings, gather};
pub use policy::Policy;
pub use replay::{Agent, Budget, Outcome, ReplayOptions, replay};
pub use trace::{Session, TraceTurn, read_trace, write_trace};
