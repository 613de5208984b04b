//! Forward pass: token ids in, unit vectors out.
//!
//! The texts of a batch are concatenated without padding; only attention needs the boundaries of a text.
#![expect(
    clippy::inline_always,
    reason = "compiled again for each instruction set, see cpu/mod.rs"
)]
use super::activations::{add_and_norm, gelu, norm, softmax, to_unit_length};
use super::config::Pooling;
use super::cpu::{Instructions, Job};
use super::matmul::{PANEL, Panels, Rows, multiply};
use super::quantized::{QuantizedInputs, multiply_quantized};
use super::weights::{Linear, Matrix, Weights};

/// Embeds the texts of one batch, given as token ids below the vocabulary size, at most as many as the model
/// has positions.
pub(crate) fn embed(weights: &Weights, pooling: Pooling, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
    weights.instructions.run(Forward {
        weights,
        pooling,
        texts,
    })
}

struct Forward<'a> {
    weights: &'a Weights,
    pooling: Pooling,
    texts: &'a [Vec<u32>],
}

impl Job for Forward<'_> {
    type Output = Vec<Vec<f32>>;

    #[inline(always)]
    fn run<I: Instructions>(self, instructions: I) -> Vec<Vec<f32>> {
        forward(instructions, self.weights, self.pooling, self.texts)
    }
}

#[inline(always)]
fn forward<I: Instructions>(
    instructions: I,
    weights: &Weights,
    pooling: Pooling,
    texts: &[Vec<u32>],
) -> Vec<Vec<f32>> {
    let width = weights.config.hidden_size;
    let epsilon = weights.config.layer_norm_eps;
    let mut scratch = Scratch::default();
    let mut attention = Attention::default();
    let mut hidden = embed_tokens::<I>(weights, texts);
    let (mut projected, mut context, mut update, mut inner) = (vec![], vec![], vec![], vec![]);
    for layer in &weights.layers {
        linear(
            instructions,
            &layer.query_key_value,
            &hidden,
            &mut projected,
            &mut scratch,
        );
        context.resize(hidden.len(), 0.0);
        let mut first = 0;
        for text in texts {
            let last = first + text.len();
            attention.attend(
                instructions,
                &projected[first * 3 * width..last * 3 * width],
                &mut context[first * width..last * width],
                weights.config.num_attention_heads,
                width,
            );
            first = last;
        }
        linear(
            instructions,
            &layer.attention_output,
            &context,
            &mut update,
            &mut scratch,
        );
        for (hidden, update) in hidden.chunks_exact_mut(width).zip(update.chunks_exact(width)) {
            add_and_norm::<I>(
                hidden,
                update,
                &layer.attention_norm.gain,
                &layer.attention_norm.bias,
                epsilon,
            );
        }
        linear(instructions, &layer.up, &hidden, &mut inner, &mut scratch);
        for value in &mut inner {
            *value = gelu::<I>(*value);
        }
        linear(instructions, &layer.down, &inner, &mut update, &mut scratch);
        for (hidden, update) in hidden.chunks_exact_mut(width).zip(update.chunks_exact(width)) {
            add_and_norm::<I>(
                hidden,
                update,
                &layer.output_norm.gain,
                &layer.output_norm.bias,
                epsilon,
            );
        }
    }
    pool(pooling, texts, &hidden, width)
}

// A function and not a closure: a closure that is called four times is compiled separately, without the
// instruction set of its caller, and then every multiplication is a library call.
#[inline(always)]
fn linear<I: Instructions>(
    instructions: I,
    map: &Linear,
    input: &[f32],
    out: &mut Vec<f32>,
    scratch: &mut Scratch<I::Level>,
) {
    match &map.matrix {
        Matrix::Floats(panels) => {
            let rows = Rows {
                data: input,
                stride: panels.inputs,
                count: input.len() / panels.inputs,
            };
            out.resize(rows.count * panels.outputs, 0.0);
            let bias = Some(map.bias.as_slice());
            multiply(
                instructions,
                rows,
                panels,
                bias,
                out,
                panels.outputs,
                &mut scratch.packed,
            );
        }
        Matrix::Quantized(panels) => {
            scratch.quantized.set::<I>(input);
            out.resize(input.len() / panels.inputs * panels.outputs, 0.0);
            multiply_quantized(instructions, &scratch.quantized, panels, &map.bias, out);
        }
    }
}

/// Inputs of a linear map in the order that its kernel reads; the buffers are reused.
#[derive(Default)]
struct Scratch<L> {
    packed: Vec<f32>,
    quantized: QuantizedInputs<L>,
}

#[inline(always)]
fn embed_tokens<I: Instructions>(weights: &Weights, texts: &[Vec<u32>]) -> Vec<f32> {
    let width = weights.config.hidden_size;
    let mut hidden = Vec::with_capacity(texts.iter().map(Vec::len).sum::<usize>() * width);
    for text in texts {
        for (token, position) in text.iter().zip(weights.positions.chunks_exact(width)) {
            let start = hidden.len();
            hidden.extend_from_slice(position);
            weights.words.add_row(*token as usize, &mut hidden[start..]);
            let norm_weights = &weights.embedding_norm;
            norm::<I>(
                &mut hidden[start..],
                &norm_weights.gain,
                &norm_weights.bias,
                weights.config.layer_norm_eps,
            );
        }
    }
    hidden
}

/// Buffers of the attention step, reused between texts.
#[derive(Default)]
struct Attention {
    keys: Panels,
    values: Panels,
    queries: Vec<f32>,
    scores: Vec<f32>,
    mixed: Vec<f32>,
    packed: Vec<f32>,
}

impl Attention {
    /// `softmax(Q K^T / sqrt(d)) V` for every head of one text (Vaswani et al. 2017, equation 1). A row of
    /// `projected` is query, key and value of one token; a row of `context` is its concatenated heads.
    #[inline(always)]
    fn attend<I: Instructions>(
        &mut self,
        instructions: I,
        projected: &[f32],
        context: &mut [f32],
        heads: usize,
        width: usize,
    ) {
        let size = width / heads;
        let tokens = context.len() / width;
        let scale = 1.0 / (size as f32).sqrt();
        let score_stride = tokens.next_multiple_of(PANEL);
        let mixed_stride = size.next_multiple_of(PANEL);
        self.scores.resize(tokens * score_stride, 0.0);
        self.mixed.resize(tokens * mixed_stride, 0.0);
        self.queries.resize(tokens * size, 0.0);
        for head in 0..heads {
            let at = head * size;
            self.keys.resize(size, tokens);
            self.values.resize(tokens, size);
            for (token, row) in projected.chunks_exact(3 * width).enumerate() {
                let query = &mut self.queries[token * size..(token + 1) * size];
                for (query, value) in query.iter_mut().zip(&row[at..at + size]) {
                    *query = value * scale;
                }
                self.keys.set_output(token, &row[width + at..width + at + size]);
                self.values
                    .set_input(token, &row[2 * width + at..2 * width + at + size]);
            }
            let queries = Rows {
                data: &self.queries,
                stride: size,
                count: tokens,
            };
            multiply(
                instructions,
                queries,
                &self.keys,
                None,
                &mut self.scores,
                score_stride,
                &mut self.packed,
            );
            for row in self.scores.chunks_exact_mut(score_stride) {
                softmax::<I>(row, tokens);
            }
            let scores = Rows {
                data: &self.scores,
                stride: score_stride,
                count: tokens,
            };
            multiply(
                instructions,
                scores,
                &self.values,
                None,
                &mut self.mixed,
                mixed_stride,
                &mut self.packed,
            );
            for (row, mixed) in context
                .chunks_exact_mut(width)
                .zip(self.mixed.chunks_exact(mixed_stride))
            {
                row[at..at + size].copy_from_slice(&mixed[..size]);
            }
        }
    }
}

#[inline(always)]
fn pool(pooling: Pooling, texts: &[Vec<u32>], hidden: &[f32], width: usize) -> Vec<Vec<f32>> {
    let mut rows = hidden.chunks_exact(width);
    texts
        .iter()
        .map(|text| {
            let mut vector = vec![0.0f32; width];
            for (token, row) in rows.by_ref().take(text.len()).enumerate() {
                if pooling == Pooling::Mean || token == 0 {
                    for (sum, value) in vector.iter_mut().zip(row) {
                        *sum += value;
                    }
                }
            }
            // Mean and sum have the same direction, and the vector is normalized next.
            to_unit_length(&mut vector);
            vector
        })
        .collect()
}
