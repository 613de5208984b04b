//! Learning from what was kept back: how well the scorer foretells it ([`report`]), better weights ([`mod@fit`]), and small
//! steps while the agent works ([`online`]). Every fit is a new version of the weights; putting one into force is not done
//! here: see [`super::gate`].

pub mod fit;
pub mod online;
pub mod report;

pub use fit::{FitSettings, Fitted, Gain, fit};
pub use online::{Online, OnlineSettings};
pub use report::{FeedbackReport, Prediction, RateRow, Rates, feedback_report, prediction};
