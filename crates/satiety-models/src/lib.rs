//! The models Satiety asks: sentence embedders, local and remote, and chat models, each behind one small trait.
//!
//! - [`Embedder`] is what the rest of the product sees: texts in, unit vectors out, and an [`EmbedderId`] that is
//!   stored with every vector so that vectors of different models never mix.
//! - [`minilm::MiniLm`] is all-MiniLM-L6-v2 inside the binary (int8), or f32 weights from a folder.
//! - [`http`] has the outgoing HTTP client, and Ollama and OpenAI-compatible endpoints.
//! - [`catalogue`] turns what a user writes (`builtin`, `dir:…`, `ollama:…`, `openai:…`) into an embedder.
//! - [`CachingEmbedder`] keeps an embedder from computing twice what it was asked lately.
//! - [`EmbedderPool`] bounds how many calls an embedder works on and how many wait for it.
//! - [`chat`] asks chat models over three wire formats, with answers in JSON where a schema is given.
//!
//! Without the cargo feature `http` only [`minilm`] is left: no async runtime, no TLS.
//!
//! Nothing here decides anything about novelty or stopping; thresholds live in the library, keyed by the id.
#[cfg(feature = "http")]
mod caching_embedder;
#[cfg(feature = "http")]
pub mod catalogue;
#[cfg(feature = "http")]
pub mod chat;
mod embedder;
#[cfg(feature = "http")]
mod embedder_pool;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
mod keys;
pub mod minilm;
#[cfg(feature = "http")]
mod transport;

#[cfg(feature = "http")]
pub use caching_embedder::CachingEmbedder;
#[cfg(feature = "http")]
pub use chat::Chat;
pub use embedder::{EmbedError, EmbedFuture, Embedder, EmbedderId, ParseIdError};
#[cfg(feature = "http")]
pub use embedder_pool::{EmbedderPool, PoolLimits};
#[cfg(feature = "http")]
pub use keys::{AddressOrigin, KeyOwner, KeyRefusal};
