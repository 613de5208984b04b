#![doc = include_str!("../README.md")]
//!
//! # Where to go next
//!
//! | question | module |
//! |---|---|
//! | is a conversation still producing anything new? | [`dialogue`] |
//! | is another search worth it? | [`research`] |
//! | which memories answer a question? | [`memory`] |
//! | which context can go? | [`eviction`] |
//! | is a ranking really better? | [`retrieval`] |
//! | has an agent become worse? | [`mod@bench`] |
//! | is a change worth keeping? | [`experiment`] |
//! | do the evals still tell good from better? | [`harness`] |
//! | why was a verdict reached? | [`explanation`] |
//! | what can the user do about an error? | [`Hint`] |
//! | how are costs limited and computations cancelled? | [`admission`], [`quota`], [`cancel`] |
//! | statistics and text processing that the rest builds on | [`stats`], [`text`] |

// The internal crates omit doc comments that only repeat a name; here every public item has one.
#![warn(missing_docs)]

pub mod admission;
pub mod bench;
pub mod cancel;
pub mod dialogue;
pub mod eviction;
pub mod experiment;
pub mod explanation;
pub mod harness;
mod hint;
pub mod ids;
pub mod memory;
pub mod progress;
pub mod quota;
pub mod research;
pub mod retrieval;
pub mod stats;
pub mod text;
pub mod trajectory;
mod yaml;

pub use cancel::{Cancellation, Cancelled};
pub use dialogue::{Claim, Conversation, Outputs, Profile, Round, Signal, Verdict};
pub use explanation::Explanation;
pub use hint::Hint;
