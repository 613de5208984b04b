//! The models Satiety asks: sentence embedders, local and remote, and chat models, each behind one small trait.
//!
//! - [`Embedder`] is what the rest of the product sees: texts in, unit vectors out, and an [`EmbedderId`] that is
//!   stored with every vector so that vectors of different models never mix.
//! - [`minilm::MiniLm`] is all-MiniLM-L6-v2 inside the binary (int8), or f32 weights from a folder.
//! - [`http`] has Ollama and OpenAI-compatible endpoints.
//! - [`catalogue`] turns what a user writes (`builtin`, `dir:…`, `ollama:…`, `openai:…`) into an embedder.
//! - [`Remembering`] keeps an embedder from computing twice what it was asked lately.
//! - [`chat`] asks chat models over three wire formats, with answers in JSON where a schema is given.
//!
//! Nothing here decides anything about novelty or stopping; thresholds live in the library, keyed by the id.
pub mod catalogue;
pub mod chat;
mod embedder;
pub mod http;
mod keys;
pub mod minilm;
mod remembering;
mod transport;

pub use chat::Chat;
pub use embedder::{EmbedError, EmbedFuture, Embedder, EmbedderId, ParseIdError};
pub use keys::{AddressOrigin, KeyOwner, KeyRefusal, same_origin_redirects};
pub use remembering::Remembering;
pub use transport::retry_after;
