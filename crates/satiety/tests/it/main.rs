//! Simulations and comparisons that take too long for unit tests.

mod golden;
mod retrieval;
mod sequential_error_rates;
mod stats_never_lie;
