//! Learning from exclusions: how well the scorer predicts them ([`report`]), fitting better weights
//! ([`mod@fit`]), and online adjustment ([`online`]). Every fit is a new version of the weights; activating
//! one is the task of [`super::gate`].

pub mod fit;
pub mod online;
pub mod report;
mod space;

pub use fit::{FitSettings, Fitted, FittedModel, Gain, fit, rescale};
pub use online::{Online, OnlineSettings};
pub use report::{FeedbackReport, Prediction, RateRow, Rates, feedback_report, prediction};
