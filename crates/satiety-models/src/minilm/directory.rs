//! Reads a model directory in Hugging Face's layout. Errors name the file, and the field or tensor in it.
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use super::Model;
use super::config::{Config, Pooling};
use super::cpu::InstructionSet;
use super::quantized::QuantizedRows;
use super::weights::{Table, Tensors, Weights};
use super::wordpiece::WordPiece;
use crate::embedder::{EmbedError, EmbedderId};

/// Token limit of sentence-transformers' MiniLM models, for directories that do not set one.
const DEFAULT_LIMIT: usize = 256;

pub(crate) fn load(directory: &Path) -> Result<Model, EmbedError> {
    let config_bytes = read(directory, "config.json")?;
    let vocabulary = read(directory, "vocab.txt")?;
    let tensors = read(directory, "model.safetensors")?;
    let bad = |file: &str| {
        let file = directory.join(file).display().to_string();
        move |reason: String| EmbedError::BadFile { file, reason }
    };

    let config = Config::parse(&config_bytes).map_err(bad("config.json"))?;
    let pooling = match optional(directory, "1_Pooling/config.json")? {
        Some(json) => Pooling::parse(&json).map_err(bad("1_Pooling/config.json"))?,
        None => Pooling::Mean,
    };
    let limit = match optional(directory, "sentence_bert_config.json")? {
        Some(json) => limit(&json).map_err(bad("sentence_bert_config.json"))?,
        None => DEFAULT_LIMIT,
    };
    let longest = limit.min(config.max_position_embeddings);

    let text = std::str::from_utf8(&vocabulary).map_err(|error| bad("vocab.txt")(error.to_string()))?;
    let lines = text.lines().count();
    if lines != config.vocab_size {
        return Err(bad("vocab.txt")(format!(
            "has {lines} lines; config.json says vocab_size {}",
            config.vocab_size
        )));
    }
    let instructions = InstructionSet::selected()?.for_floats();
    let tokens = WordPiece::new(text).map_err(bad("vocab.txt"))?;

    let parsed =
        SafeTensors::deserialize(&tensors).map_err(|error| bad("model.safetensors")(error.to_string()))?;
    let weights = Weights::load(config, &parsed, instructions).map_err(bad("model.safetensors"))?;
    let hash = blake3::Hasher::new()
        .update(&tensors)
        .update(&vocabulary)
        .finalize();
    let name = directory
        .file_name()
        .map_or_else(|| "folder".into(), |name| name.to_string_lossy());
    Ok(Model {
        id: EmbedderId::new(&name, &hash, pooling.name()),
        weights,
        tokens,
        pooling,
        longest,
        unused: std::sync::Mutex::default(),
        #[cfg(feature = "http")]
        queue: super::async_encoder::Queue::default(),
    })
}

fn limit(json: &[u8]) -> Result<usize, String> {
    #[derive(Deserialize)]
    struct Settings {
        max_seq_length: Option<usize>,
    }
    let settings: Settings = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    match settings.max_seq_length {
        Some(limit) if limit < 3 => Err(format!("max_seq_length is {limit}")),
        Some(limit) => Ok(limit),
        None => Ok(DEFAULT_LIMIT),
    }
}

fn read(directory: &Path, file: &'static str) -> Result<Vec<u8>, EmbedError> {
    optional(directory, file)?.ok_or_else(|| EmbedError::MissingFile {
        directory: directory.to_owned(),
        file,
    })
}

fn optional(directory: &Path, file: &str) -> Result<Option<Vec<u8>>, EmbedError> {
    match fs_err::read(directory.join(file)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(EmbedError::Read(error)),
    }
}

impl Tensors for SafeTensors<'_> {
    fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        // Some exports prefix the name with the model class.
        let tensor = self
            .tensor(name)
            .or_else(|_| self.tensor(&format!("bert.{name}")))
            .map_err(|_| format!("missing tensor {name}"))?;
        if tensor.dtype() != Dtype::F32 {
            return Err(format!(
                "tensor {name} is {:?}; only F32 is supported",
                tensor.dtype()
            ));
        }
        if tensor.shape() != shape {
            return Err(format!(
                "tensor {name} has shape {:?}, expected {shape:?}",
                tensor.shape()
            ));
        }
        let (values, _) = tensor.data().as_chunks::<4>();
        Ok(values.iter().map(|value| f32::from_le_bytes(*value)).collect())
    }

    fn quantized(&self, _: &str, _: &[usize]) -> Result<Option<QuantizedRows<'_>>, String> {
        Ok(None)
    }

    fn table(&self, name: &str, rows: usize, columns: usize) -> Result<Table, String> {
        Ok(Table::Floats {
            values: self.floats(name, &[rows, columns])?,
            columns,
        })
    }
}
