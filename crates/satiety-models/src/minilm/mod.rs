//! all-MiniLM-L6-v2 and encoders with the same architecture, computed locally.
//!
//! [`MiniLm::builtin`] has its weights inside the binary (int8, see `assets/NOTICE`) and needs nothing else,
//! unless the cargo feature `external-weights` moves them into a file;
//! [`MiniLm::from_directory`] reads f32 weights as published on Hugging Face and matches sentence-transformers
//! to the last float bits. Texts longer than the model's limit (256 tokens) are truncated, as in the
//! reference.
//!
//! The built-in model is computed in integers if the processor has instructions for it (see `cpu`), or else in
//! floats. Cosines differ by less than .01 between the two, far less than between two models, so the
//! arithmetic is not part of the id: an index that was computed by an older version or on another machine stays
//! valid. On one machine a text always has the same vector, whatever else is in its batch.
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
use std::sync::{Arc, OnceLock};

#[cfg(feature = "external-weights")]
pub use self::builtin_weights::search_near;
use self::config::Pooling;
use self::cpu::InstructionSet;
use self::weights::Weights;
use self::weights_file::WeightsFile;
use self::wordpiece::WordPiece;
use crate::embedder::{EmbedError, EmbedderId};

/// Tokens per batch. In larger batches the weights are amortized already, and the activations leave the
/// cache.
const BATCH_TOKENS: usize = 512;

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
    #[cfg(feature = "http")]
    callers: async_encoder::Callers,
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
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
                #[cfg(feature = "http")]
                callers: async_encoder::Callers::default(),
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
    /// set. Checked between batches of about 512 tokens.
    fn encode_until(&self, texts: &[&str], threads: usize, cancelled: &AtomicBool) -> Vec<Vec<f32>> {
        let is_cancelled = || cancelled.load(Ordering::Relaxed);
        let model = &*self.model;
        let texts: Vec<Vec<u32>> = texts
            .iter()
            .take_while(|_| !is_cancelled())
            .map(|text| model.tokens.tokenize(text, model.longest))
            .collect();
        let batches = batches(&texts);
        let compute = |batch: &[Vec<u32>]| forward::embed(&model.weights, model.pooling, batch);
        let threads = threads.min(batches.len());
        if threads <= 1 {
            return batches
                .into_iter()
                .take_while(|_| !is_cancelled())
                .flat_map(compute)
                .collect();
        }
        let next = AtomicUsize::new(0);
        let results: Vec<OnceLock<Vec<Vec<f32>>>> = batches.iter().map(|_| OnceLock::new()).collect();
        let work = || {
            while !is_cancelled() {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let (Some(batch), Some(result)) = (batches.get(index), results.get(index)) else {
                    break;
                };
                result.get_or_init(|| compute(batch));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        results
            .into_iter()
            .filter_map(OnceLock::into_inner)
            .flatten()
            .collect()
    }

    /// Token ids of a text, as passed to the model.
    pub fn tokens(&self, text: &str) -> Vec<u32> {
        self.model.tokens.tokenize(text, self.model.longest)
    }
}

/// Splits the texts into batches of about [`BATCH_TOKENS`].
fn batches(texts: &[Vec<u32>]) -> Vec<&[Vec<u32>]> {
    let mut batches = Vec::new();
    let mut first = 0;
    let mut tokens = 0;
    for (index, text) in texts.iter().enumerate() {
        if tokens > 0 && tokens + text.len() > BATCH_TOKENS {
            batches.push(&texts[first..index]);
            (first, tokens) = (index, 0);
        }
        tokens += text.len();
    }
    if tokens > 0 {
        batches.push(&texts[first..]);
    }
    batches
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

    fn tokens() -> Vec<Vec<u32>> {
        let tokens = WordPiece::new(builtin_weights::vocabulary()).unwrap();
        TEXTS.iter().map(|text| tokens.tokenize(text, 256)).collect()
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
            forward::embed(&weights, Pooling::Mean, &texts)
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
        let new = forward::embed(&integers, Pooling::Mean, &texts);
        let old = forward::embed(&floats, Pooling::Mean, &texts);
        for (i, stored) in old.iter().enumerate() {
            assert!(dot(stored, &new[i]) > 0.999, "{}", dot(stored, &new[i]));
            for (j, query) in new.iter().enumerate() {
                let difference = (dot(stored, query) - dot(stored, &old[j])).abs();
                assert!(difference < 0.012, "{i} {j}: {difference}");
            }
        }
    }
}
