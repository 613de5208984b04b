//! Simulations and comparisons that take too long for unit tests.

mod attribution;
mod golden;
mod memory_search;
mod recorded_trajectories;
mod retrieval;
mod sequential_error_rates;
mod stats_never_lie;
