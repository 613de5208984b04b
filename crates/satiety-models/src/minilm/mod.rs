//! all-MiniLM-L6-v2 and encoders with the same architecture, computed locally.
//!
//! [`MiniLm::builtin`] has its weights inside the binary (int8, see `assets/NOTICE`) and needs nothing else,
//! unless the cargo feature `external-weights` moves them into a file;
//! [`MiniLm::from_directory`] reads f32 weights as published on Hugging Face and matches sentence-transformers
//! to the last float bits. Texts longer than the model's limit (256 tokens) are truncated, as in the
//! reference.
//!
//! The built-in model is computed in integers if the processor has instructions for it (see `cpu`), or else in
//! floats. All integer instructions give the same bits, so a text has the same vector on all such machines,
//! whatever else is in its batch. Cosines differ by less than .014 between integers and floats, far less than
//! between two models, so the arithmetic is not part of the id: an index that was computed by an older version
//! or on an older processor stays valid.
mod activations;
#[cfg(feature = "http")]
mod async_encoder;
mod builtin_weights;
mod config;
mod cpu;
mod directory;
mod forward;
mod matmul;
mod quantized;
mod weights;
mod weights_file;
mod wordpiece;

use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

#[cfg(feature = "external-weights")]
pub use self::builtin_weights::search_near;
use self::config::Pooling;
use self::cpu::InstructionSet;
use self::forward::Workspace;
use self::weights::Weights;
use self::weights_file::WeightsFile;
use self::wordpiece::{Texts, Tokens, WordPiece};
use crate::embedder::{EmbedError, EmbedderId};

/// Tokens per batch. In larger batches the weights are amortized already, and the activations leave the
/// cache.
const BATCH_TOKENS: usize = 128;

/// Sentence encoder. Cloning is cheap: clones share the weights.
#[derive(Clone)]
pub struct MiniLm {
    model: Arc<Model>,
}

struct Model {
    id: EmbedderId,
    weights: Weights,
    tokens: WordPiece,
    pooling: Pooling,
    longest: usize,
    /// Buffers of computations that have ended, at most one for each core.
    #[expect(clippy::vec_box, reason = "moved in and out under a lock")]
    unused: Mutex<Vec<Box<Scratch>>>,
    #[cfg(feature = "http")]
    queue: async_encoder::Queue,
}

/// Number of cores. Cached, because finding it out reads files.
fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZero::get))
}

impl MiniLm {
    /// The built-in model. The first call unpacks it (about 50 ms), later ones share it.
    pub fn builtin() -> Result<Self, EmbedError> {
        static LOADED: OnceLock<MiniLm> = OnceLock::new();
        if let Some(loaded) = LOADED.get() {
            return Ok(loaded.clone());
        }
        let loaded = Self::load_builtin()?;
        Ok(LOADED.get_or_init(|| loaded).clone())
    }

    fn load_builtin() -> Result<Self, EmbedError> {
        let bad = |file: &str| {
            let file = format!("built-in {file}");
            move |reason| EmbedError::BadFile { file, reason }
        };
        let instructions = InstructionSet::selected()?;
        let file = WeightsFile::parse(builtin_weights::weights()?).map_err(bad("weights"))?;
        let weights = Weights::load(file.config.clone(), &file, instructions).map_err(bad("weights"))?;
        let tokens = WordPiece::new(builtin_weights::vocabulary()).map_err(bad("vocabulary"))?;
        let id = Self::builtin_id()?;
        Ok(Self {
            model: Arc::new(Model {
                id,
                weights,
                tokens,
                pooling: Pooling::Mean,
                longest: 256,
                unused: Mutex::default(),
                #[cfg(feature = "http")]
                queue: async_encoder::Queue::default(),
            }),
        })
    }

    /// Id of the built-in model, without loading it.
    pub fn builtin_id() -> Result<EmbedderId, EmbedError> {
        let hash = builtin_weights::hash()?;
        Ok(EmbedderId::new("minilm-l6-v2-int8", &hash, Pooling::Mean.name()))
    }

    /// Loads a model from a directory with `config.json`, `vocab.txt` and `model.safetensors` (f32). If
    /// sentence-transformers' `sentence_bert_config.json` and `1_Pooling/config.json` exist, they set the
    /// token limit and the pooling.
    pub fn from_directory(directory: &Path) -> Result<Self, EmbedError> {
        Ok(Self {
            model: Arc::new(directory::load(directory)?),
        })
    }

    /// Identifies the model; stored with every vector.
    pub fn id(&self) -> &EmbedderId {
        &self.model.id
    }

    /// Number of components of a vector.
    pub fn dimension(&self) -> usize {
        self.model.weights.config.hidden_size
    }

    /// Whether the built-in weights and vocabulary match the hash in their id.
    pub fn builtin_is_intact() -> bool {
        builtin_weights::weights().is_ok_and(builtin_weights::is_intact)
    }

    /// Embeds on the calling thread and, for enough work, on as many more threads as the machine has cores.
    /// This is [`Embedder::embed`](crate::Embedder::embed) for callers without an async runtime.
    pub fn encode(&self, texts: &[&str]) -> Vec<Vec<f32>> {
        self.encode_on(texts, processors())
    }

    /// [`encode`](Self::encode) on at most `threads` threads. The vectors do not depend on the number.
    pub fn encode_on(&self, texts: &[&str], threads: usize) -> Vec<Vec<f32>> {
        self.encode_until(texts, threads, &AtomicBool::new(false))
    }

    /// [`encode_on`](Self::encode_on) that ends early, with fewer vectors than texts, once `cancelled` is
    /// set. Checked between batches of about 128 tokens.
    fn encode_until(&self, texts: &[&str], threads: usize, cancelled: &AtomicBool) -> Vec<Vec<f32>> {
        let is_cancelled = || cancelled.load(Ordering::Relaxed);
        let model = &*self.model;
        let mut scratch = model.scratch();
        let Scratch { tokens, workspace } = &mut *scratch.content;
        tokens.clear();
        for text in texts.iter().take_while(|_| !is_cancelled()) {
            model.tokens.tokenize(text, model.longest, tokens);
        }
        let mut batches = tokens.all().batches(BATCH_TOKENS).peekable();
        let mut vectors = Vec::with_capacity(texts.len());
        let compute = |batch: Texts<'_>, workspace: &mut Workspace, vectors: &mut Vec<Vec<f32>>| {
            forward::embed(&model.weights, model.pooling, batch, workspace, vectors);
        };
        let first = batches.next();
        if threads <= 1 || batches.peek().is_none() {
            for batch in first.into_iter().chain(batches).take_while(|_| !is_cancelled()) {
                compute(batch, workspace, &mut vectors);
            }
            return vectors;
        }
        let batches: Vec<Texts<'_>> = first.into_iter().chain(batches).collect();
        let next = AtomicUsize::new(0);
        let results: Vec<OnceLock<Vec<Vec<f32>>>> = batches.iter().map(|_| OnceLock::new()).collect();
        let work = |workspace: &mut Workspace| {
            while !is_cancelled() {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let (Some(batch), Some(result)) = (batches.get(index), results.get(index)) else {
                    break;
                };
                let mut vectors = Vec::new();
                compute(*batch, workspace, &mut vectors);
                result.get_or_init(|| vectors);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(batches.len()) {
                scope.spawn(|| work(&mut model.scratch().content.workspace));
            }
            work(workspace);
        });
        // In order, up to the first batch that was not computed.
        vectors.extend(results.into_iter().map_while(OnceLock::into_inner).flatten());
        vectors
    }

    /// Token ids of a text, as passed to the model.
    pub fn tokens(&self, text: &str) -> Vec<u32> {
        let mut scratch = self.model.scratch();
        let tokens = &mut scratch.content.tokens;
        tokens.clear();
        self.model.tokens.tokenize(text, self.model.longest, tokens);
        tokens.all().iter().flatten().copied().collect()
    }
}

/// Buffers of one computation.
#[derive(Default)]
struct Scratch {
    tokens: Tokens,
    workspace: Workspace,
}

/// Buffers that return to the model when this is dropped.
struct ScratchGuard<'a> {
    model: &'a Model,
    content: Box<Scratch>,
}

impl Model {
    fn scratch(&self) -> ScratchGuard<'_> {
        let unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner).pop();
        ScratchGuard {
            model: self,
            content: unused.unwrap_or_default(),
        }
    }
}

impl Drop for ScratchGuard<'_> {
    fn drop(&mut self) {
        let mut unused = self.model.unused.lock().unwrap_or_else(PoisonError::into_inner);
        // More than one for each core would only be memory.
        if unused.len() < processors() {
            unused.push(std::mem::take(&mut self.content));
        }
    }
}

impl std::fmt::Debug for MiniLm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("MiniLm").field(&self.model.id.to_string()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::quantized::QuantizedRows;
    use super::weights::{Table, Tensors};
    use super::*;

    const TEXTS: [&str; 5] = [
        "",
        "The cache holds 512 entries.",
        "A cache entry expires after ten minutes, unless it is read again before.",
        "Why does the second request take longer than the first one?",
        "Der Zug nach Lyon hatte gestern fast zwei Stunden Verspätung.",
    ];

    fn tokens() -> Tokens {
        let model = WordPiece::new(builtin_weights::vocabulary()).unwrap();
        let mut tokens = Tokens::default();
        for text in TEXTS {
            model.tokenize(text, 256, &mut tokens);
        }
        tokens
    }

    fn embed(weights: &Weights, texts: &Tokens) -> Vec<Vec<f32>> {
        let mut vectors = Vec::new();
        forward::embed(
            weights,
            Pooling::Mean,
            texts.all(),
            &mut Workspace::default(),
            &mut vectors,
        );
        vectors
    }

    fn file() -> WeightsFile {
        WeightsFile::parse(builtin_weights::weights().unwrap()).unwrap()
    }

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    /// The built-in weights, computed in floats.
    struct Dequantized(WeightsFile);

    impl Tensors for Dequantized {
        fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
            self.0.floats(name, shape)
        }

        fn quantized(&self, _: &str, _: &[usize]) -> Result<Option<QuantizedRows<'_>>, String> {
            Ok(None)
        }

        fn table(&self, name: &str, rows: usize, columns: usize) -> Result<Table, String> {
            self.0.table(name, rows, columns)
        }
    }

    #[test]
    fn every_set_with_integer_instructions_gives_the_same_vectors() {
        let file = file();
        let texts = tokens();
        let vectors = |set: InstructionSet| {
            let weights = Weights::load(file.config.clone(), &file, set).unwrap();
            embed(&weights, &texts)
        };
        let all: Vec<_> = InstructionSet::available()
            .filter(|set| set.prefers_integers())
            .map(vectors)
            .collect();
        for vectors in &all {
            assert_eq!(vectors, &all[0]);
        }
    }

    /// The arithmetic is not part of the id, so a stored vector that was computed in floats may be compared
    /// with one that was computed in integers.
    #[test]
    fn vectors_of_integer_and_float_arithmetic_are_comparable() {
        let set = InstructionSet::available().next().unwrap();
        let texts = tokens();
        let config = file().config;
        let integers = Weights::load(config.clone(), &file(), set).unwrap();
        let floats = Weights::load(config, &Dequantized(file()), set).unwrap();
        let new = embed(&integers, &texts);
        let old = embed(&floats, &texts);
        for (i, stored) in old.iter().enumerate() {
            assert!(dot(stored, &new[i]) > 0.999, "{}", dot(stored, &new[i]));
            for (j, query) in new.iter().enumerate() {
                let difference = (dot(stored, query) - dot(stored, &old[j])).abs();
                assert!(difference < 0.012, "{i} {j}: {difference}");
            }
        }
    }
}
