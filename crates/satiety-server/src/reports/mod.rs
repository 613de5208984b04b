//! Reports as pages: one file a capability, each a function from the use case's answer to a page.

mod retrieval;

pub use retrieval::{retrieval_comparison, retrieval_evaluation};
