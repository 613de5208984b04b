//! Stories that are too long for unit tests.

mod sequential_error_rates;
mod stats_never_lie;
