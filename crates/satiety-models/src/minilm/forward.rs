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
use super::matmul::{Lanes, PANEL, Rows, multiply};
use super::quantized::{Buffers, Level as _, QuantizedInputs, multiply_gelu_quantized, multiply_quantized};
use super::weights::{Layer, Linear, Matrix, Weights};
use super::wordpiece::Texts;

/// Embeds the texts of one batch, given as token ids below the vocabulary size, at most as many as the model
/// has positions. Appends their vectors to `vectors`.
pub(crate) fn embed(
    weights: &Weights,
    pooling: Pooling,
    texts: Texts<'_>,
    workspace: &mut Workspace,
    vectors: &mut Vec<Vec<f32>>,
) {
    weights.instructions.run(Forward {
        weights,
        pooling,
        texts,
        workspace,
        vectors,
    });
}

/// Buffers of the forward pass, reused between batches: a few megabytes, which would be mapped and unmapped for
/// every batch otherwise.
#[derive(Default)]
pub(crate) struct Workspace {
    hidden: Vec<f32>,
    projected: Vec<f32>,
    context: Vec<f32>,
    update: Vec<f32>,
    inner: Vec<f32>,
    quantized: Buffers,
    attention: Attention,
}

struct Forward<'a> {
    weights: &'a Weights,
    pooling: Pooling,
    texts: Texts<'a>,
    workspace: &'a mut Workspace,
    vectors: &'a mut Vec<Vec<f32>>,
}

impl Job for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: Instructions>(self, instructions: I) {
        let Self {
            weights,
            pooling,
            texts,
            workspace,
            vectors,
        } = self;
        let width = weights.config.hidden_size;
        embed_tokens::<I>(weights, texts, &mut workspace.hidden);
        for layer in &weights.layers {
            encode_layer(instructions, weights, layer, texts, workspace);
        }
        pool(pooling, texts, &workspace.hidden, width, vectors);
    }
}

#[inline(always)]
fn encode_layer<I: Instructions>(
    instructions: I,
    weights: &Weights,
    layer: &Layer,
    texts: Texts<'_>,
    workspace: &mut Workspace,
) {
    let width = weights.config.hidden_size;
    let epsilon = weights.config.layer_norm_eps;
    let Workspace {
        hidden,
        projected,
        context,
        update,
        inner,
        quantized,
        attention,
    } = workspace;
    let [inputs, activated] = I::Level::buffers(quantized);
    linear(instructions, &layer.query_key_value, hidden, projected, inputs);
    context.resize(hidden.len(), 0.0);
    let mut first = 0;
    for text in texts.iter() {
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
    linear(instructions, &layer.attention_output, context, update, inputs);
    for (hidden, update) in hidden.chunks_exact_mut(width).zip(update.chunks_exact(width)) {
        let norm = &layer.attention_norm;
        add_and_norm::<I>(hidden, update, &norm.gain, &norm.bias, epsilon);
    }
    if let (Matrix::Quantized(up), Matrix::Quantized(down)) = (&layer.up.matrix, &layer.down.matrix) {
        inputs.set::<I>(hidden);
        multiply_gelu_quantized(instructions, inputs, up, &layer.up.bias, activated);
        update.resize(hidden.len(), 0.0);
        multiply_quantized(instructions, activated, down, &layer.down.bias, update);
    } else {
        linear(instructions, &layer.up, hidden, inner, inputs);
        for value in inner.iter_mut() {
            *value = gelu::<I>(*value);
        }
        linear(instructions, &layer.down, inner, update, inputs);
    }
    for (hidden, update) in hidden.chunks_exact_mut(width).zip(update.chunks_exact(width)) {
        let norm = &layer.output_norm;
        add_and_norm::<I>(hidden, update, &norm.gain, &norm.bias, epsilon);
    }
}

// A function and not a closure: a closure that is called four times is compiled separately, without the
// instruction set of its caller, and then every multiplication is a library call.
#[inline(always)]
fn linear<I: Instructions>(
    instructions: I,
    map: &Linear,
    input: &[f32],
    out: &mut Vec<f32>,
    quantized: &mut QuantizedInputs<I::Level>,
) {
    match &map.matrix {
        Matrix::Floats(panels) => {
            let rows = Rows {
                data: input,
                stride: panels.inputs,
                count: input.len() / panels.inputs,
            };
            out.resize(rows.count * panels.outputs, 0.0);
            multiply(
                instructions,
                rows,
                panels.lanes(),
                Some(&map.bias),
                out,
                panels.outputs,
            );
        }
        Matrix::Quantized(panels) => {
            quantized.set::<I>(input);
            out.resize(input.len() / panels.inputs * panels.outputs, 0.0);
            multiply_quantized(instructions, quantized, panels, &map.bias, out);
        }
    }
}

/// Word, position and type vectors, summed and normalized.
#[inline(always)]
fn embed_tokens<I: Instructions>(weights: &Weights, texts: Texts<'_>, hidden: &mut Vec<f32>) {
    let width = weights.config.hidden_size;
    hidden.clear();
    for text in texts.iter() {
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
}

/// Buffers of the attention step, reused between texts.
#[derive(Default)]
struct Attention {
    /// Keys of one head: `[panel of tokens][component][token in panel]`.
    keys: Vec<[f32; PANEL]>,
    /// Values of one head, only if a head does not consist of whole panels.
    values: Vec<f32>,
    scores: Vec<f32>,
    mixed: Vec<f32>,
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
        let factor = 1.0 / (size as f32).sqrt();
        let stride = tokens.next_multiple_of(PANEL);
        self.scores.resize(tokens * stride, 0.0);
        self.keys.resize(stride / PANEL * size, [0.0; PANEL]);
        for at in (0..heads * size).step_by(size) {
            self.set_keys(instructions, &projected[width + at..], 3 * width, tokens, size);
            let queries = Rows {
                data: &projected[at..],
                stride: 3 * width,
                count: tokens,
            };
            let keys = Lanes::new(self.keys.as_flattened(), size, tokens);
            multiply(instructions, queries, keys, None, &mut self.scores, stride);
            for row in self.scores.chunks_exact_mut(stride) {
                softmax::<I>(row, tokens, factor);
            }
            let scores = Rows {
                data: &self.scores,
                stride,
                count: tokens,
            };
            let values = &projected[2 * width + at..];
            if size.is_multiple_of(PANEL) {
                let values = Lanes {
                    data: values,
                    panel_stride: PANEL,
                    stride: 3 * width,
                    inputs: tokens,
                    outputs: size,
                };
                // The width is a multiple of whole heads, so a row of the context has place for all panels.
                multiply(instructions, scores, values, None, &mut context[at..], width);
            } else {
                self.mix_narrow(instructions, values, 3 * width, tokens, size);
                for (row, mixed) in context
                    .chunks_exact_mut(width)
                    .zip(self.mixed.chunks_exact(size.next_multiple_of(PANEL)))
                {
                    row[at..at + size].copy_from_slice(&mixed[..size]);
                }
            }
        }
    }

    /// Packs the keys of one head, which begin at `rows` and are `stride` apart.
    #[inline(always)]
    fn set_keys<I: Instructions>(
        &mut self,
        instructions: I,
        rows: &[f32],
        stride: usize,
        tokens: usize,
        size: usize,
    ) {
        for (panel, keys) in self.keys.chunks_exact_mut(size).enumerate() {
            let first = panel * PANEL;
            for from in (0..size).step_by(PANEL) {
                let mut block = [[0.0; PANEL]; PANEL];
                for (token, row) in (first..tokens).zip(&mut block) {
                    let source = &rows[token * stride + from..token * stride + size];
                    match source.first_chunk() {
                        Some(source) => *row = *source,
                        None => row[..source.len()].copy_from_slice(source),
                    }
                }
                let block = instructions.transpose(&block);
                let count = PANEL.min(size - from);
                keys[from..from + count].copy_from_slice(&block[..count]);
            }
        }
    }

    /// Weighs the values of a head that does not consist of whole panels.
    #[inline(always)]
    fn mix_narrow<I: Instructions>(
        &mut self,
        instructions: I,
        rows: &[f32],
        row_stride: usize,
        tokens: usize,
        size: usize,
    ) {
        let stride = size.next_multiple_of(PANEL);
        self.values.clear();
        self.values.resize(tokens * stride, 0.0);
        for (token, values) in self.values.chunks_exact_mut(stride).enumerate() {
            values[..size].copy_from_slice(&rows[token * row_stride..][..size]);
        }
        self.mixed.resize(tokens * stride, 0.0);
        let scores = Rows {
            data: &self.scores,
            stride: tokens.next_multiple_of(PANEL),
            count: tokens,
        };
        let values = Lanes {
            data: &self.values,
            panel_stride: PANEL,
            stride,
            inputs: tokens,
            outputs: stride,
        };
        multiply(instructions, scores, values, None, &mut self.mixed, stride);
    }
}

#[inline(always)]
fn pool(pooling: Pooling, texts: Texts<'_>, hidden: &[f32], width: usize, vectors: &mut Vec<Vec<f32>>) {
    let mut rows = hidden.chunks_exact(width);
    for text in texts.iter() {
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
        vectors.push(vector);
    }
}
