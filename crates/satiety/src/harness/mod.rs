//! Do the evals still tell good from better, and how may they change? A saturation score as the specification has it, a
//! measured one beside it, the record of cycles, the ratchet that only turns one way, and the protocol of an expansion
//! with the person who must agree to it.
//!
//! Everything takes values that somebody else read, times and ids that somebody else made. Nothing here opens a file,
//! asks a model or holds a private key.
//!
//! | question | module |
//! |---|---|
//! | how saturated, by the specification's five signals? | [`signals`], [`literal`] (to the letter) |
//! | how saturated, measured? | [`measured`] |
//! | is it consistent, what follows? | [`cycles`] |

#![expect(
    clippy::float_cmp,
    reason = "rates of exactly 0 or 1 and unchanged thresholds mean something of their own"
)]

pub mod cycles;
pub mod literal;
pub mod measured;
pub mod signals;

pub use cycles::{
    Action, Aggregate, Consistency, ConsistencyThresholds, CycleError, CycleSnapshot, Driver, Urgency,
};
pub use measured::{Matrix, MeasureError, MeasureSettings, Measured, Verdict, measure};
pub use signals::{Level, SignalError, SignalMetrics, SignalScore, SignalSettings, score};
