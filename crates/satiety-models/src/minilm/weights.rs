//! Weights of an encoder, ready for the forward pass, from the built-in file or a directory's safetensors.
//! Every tensor is requested by name and exact shape, so a wrong model fails here with the tensor's name.
#![expect(
    clippy::inline_always,
    reason = "compiled again for each instruction set, see cpu/mod.rs"
)]
use super::config::Config;
use super::cpu::InstructionSet;
use super::matmul::Panels;
use super::quantized::{QuantizedPanels, QuantizedRows};

/// Source of tensors.
pub(crate) trait Tensors {
    /// Values of a tensor, row by row; an error if it is missing or has another shape.
    fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String>;

    /// A matrix that is stored in groups of int8 levels; `None` if it is stored as floats.
    fn quantized(&self, name: &str, shape: &[usize]) -> Result<Option<QuantizedRows<'_>>, String>;

    /// Large table of which single rows will be read.
    fn table(&self, name: &str, rows: usize, columns: usize) -> Result<Table, String>;
}

/// Lookup table, kept in its stored form: a text uses only a few of its 30,000 rows.
#[derive(Debug)]
pub(crate) enum Table {
    Floats {
        values: Vec<f32>,
        columns: usize,
    },
    /// Rows of int8 levels in groups with a scale each, inside the binary.
    Levels {
        /// One byte per value.
        levels: &'static [u8],
        /// Two bytes (f16) per group.
        scales: &'static [u8],
        columns: usize,
    },
}

impl Table {
    /// Adds a row to `sum`.
    #[inline(always)]
    pub(crate) fn add_row(&self, row: usize, sum: &mut [f32]) {
        match self {
            Self::Floats { values, columns } => {
                for (sum, value) in sum.iter_mut().zip(&values[row * columns..(row + 1) * columns]) {
                    *sum += value;
                }
            }
            Self::Levels {
                levels,
                scales,
                columns,
            } => {
                let levels = &levels[row * columns..(row + 1) * columns];
                let groups = columns / GROUP;
                let scales = &scales[row * groups * 2..(row + 1) * groups * 2];
                let (scales, _) = scales.as_chunks::<2>();
                for ((levels, scale), sum) in levels
                    .chunks_exact(GROUP)
                    .zip(scales)
                    .zip(sum.chunks_exact_mut(GROUP))
                {
                    let scale = half::f16::from_le_bytes(*scale).to_f32();
                    for (level, sum) in levels.iter().zip(sum) {
                        *sum += f32::from(level.cast_signed()) * scale;
                    }
                }
            }
        }
    }
}

/// Values per scale in the built-in file.
pub(crate) const GROUP: usize = 64;

#[derive(Debug)]
pub(crate) struct Norm {
    pub(crate) gain: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

#[derive(Debug)]
pub(crate) struct Linear {
    pub(crate) matrix: Matrix,
    pub(crate) bias: Vec<f32>,
}

/// Weights of a linear map in the arithmetic that computes it.
#[derive(Debug)]
pub(crate) enum Matrix {
    Floats(Panels),
    Quantized(QuantizedPanels),
}

#[derive(Debug)]
pub(crate) struct Layer {
    /// Concatenated query, key and value maps, so that the hidden states are read once.
    pub(crate) query_key_value: Linear,
    pub(crate) attention_output: Linear,
    pub(crate) attention_norm: Norm,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    pub(crate) output_norm: Norm,
}

#[derive(Debug)]
pub(crate) struct Weights {
    pub(crate) config: Config,
    /// The instruction set for which the matrices are packed.
    pub(crate) instructions: InstructionSet,
    pub(crate) words: Table,
    /// Position vectors with the vector of token type 0 added: inputs are never text pairs.
    pub(crate) positions: Vec<f32>,
    pub(crate) embedding_norm: Norm,
    pub(crate) layers: Vec<Layer>,
}

impl Weights {
    pub(crate) fn load(
        config: Config,
        tensors: &impl Tensors,
        instructions: InstructionSet,
    ) -> Result<Self, String> {
        let instructions = if instructions.prefers_integers() {
            instructions
        } else {
            instructions.for_floats()
        };
        let hidden = config.hidden_size;
        let inner = config.intermediate_size;
        let norm = |name: &str| -> Result<Norm, String> {
            Ok(Norm {
                gain: tensors.floats(&format!("{name}.weight"), &[hidden])?,
                bias: tensors.floats(&format!("{name}.bias"), &[hidden])?,
            })
        };
        // Several maps of the same inputs are combined by stacking their rows.
        let linear = |names: &[String], outputs: usize, inputs: usize| -> Result<Linear, String> {
            let mut bias = Vec::new();
            for name in names {
                bias.extend(tensors.floats(&format!("{name}.bias"), &[outputs])?);
            }
            let weights = names.iter().map(|name| format!("{name}.weight"));
            let shape = [outputs, inputs];
            let stored = weights
                .clone()
                .map(|name| tensors.quantized(&name, &shape).transpose())
                .collect::<Option<Result<Vec<_>, _>>>()
                .transpose()?;
            let matrix = match stored {
                Some(stored)
                    if instructions.prefers_integers() && QuantizedPanels::supports(inputs, outputs) =>
                {
                    let mut panels =
                        QuantizedPanels::new(inputs, outputs * names.len(), instructions.layout());
                    for (place, rows) in stored.iter().enumerate() {
                        panels.set_rows(place * outputs, rows);
                    }
                    Matrix::Quantized(panels)
                }
                _ => {
                    let mut panels = Panels::new(inputs, outputs * names.len());
                    for (place, name) in weights.enumerate() {
                        panels.set_rows(place * outputs, &tensors.floats(&name, &shape)?);
                    }
                    Matrix::Floats(panels)
                }
            };
            Ok(Linear { matrix, bias })
        };

        let mut positions = tensors.floats(
            "embeddings.position_embeddings.weight",
            &[config.max_position_embeddings, hidden],
        )?;
        let types = tensors.floats("embeddings.token_type_embeddings.weight", &[2, hidden])?;
        for position in positions.chunks_exact_mut(hidden) {
            for (value, kind) in position.iter_mut().zip(&types) {
                *value += kind;
            }
        }
        let layers = (0..config.num_hidden_layers)
            .map(|layer| {
                let name = |part: &str| format!("encoder.layer.{layer}.{part}");
                let attention = ["query", "key", "value"].map(|part| name(&format!("attention.self.{part}")));
                Ok(Layer {
                    query_key_value: linear(&attention, hidden, hidden)?,
                    attention_output: linear(&[name("attention.output.dense")], hidden, hidden)?,
                    attention_norm: norm(&name("attention.output.LayerNorm"))?,
                    up: linear(&[name("intermediate.dense")], inner, hidden)?,
                    down: linear(&[name("output.dense")], hidden, inner)?,
                    output_norm: norm(&name("output.LayerNorm"))?,
                })
            })
            .collect::<Result<_, String>>()?;
        Ok(Self {
            words: tensors.table("embeddings.word_embeddings.weight", config.vocab_size, hidden)?,
            positions,
            embedding_norm: norm("embeddings.LayerNorm")?,
            layers,
            instructions,
            config,
        })
    }
}
