//! Clients for the models that Satiety uses: local and remote sentence embedders, and chat models, each
//! behind a small trait.
//!
//! - [`Embedder`] is the interface for the rest of the product: texts in, unit vectors out, and an
//!   [`EmbedderId`] that is stored with every vector so that vectors of different models never mix.
//! - [`minilm::MiniLm`] is all-MiniLM-L6-v2 inside the binary (int8), or f32 weights from a directory.
//! - [`http`] contains the outgoing HTTP client, and embedders for Ollama and OpenAI-compatible endpoints.
//! - [`catalogue`] opens an embedder from a specification (`builtin`, `dir:…`, `ollama:…`, `openai:…`).
//! - [`CachingEmbedder`] caches recent vectors.
//! - [`EmbedderPool`] limits concurrent and queued calls.
//! - [`chat`] calls chat models over three wire formats, with JSON answers if a schema is given.
//!
//! Without the cargo feature `http` only [`minilm`] is available: no async runtime, no TLS.
//!
//! Decisions about novelty and stopping are made in the library, which also holds the thresholds, keyed by
//! the id.
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
