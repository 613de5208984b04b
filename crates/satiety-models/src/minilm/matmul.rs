//! Matrix product with weights that are packed once and reused.
//!
//! Weights are split into panels of 16 outputs, so that a tile of a few rows times 16 columns stays in
//! registers while both operands stream through the L1 cache. Rows are read where they are: packing them would
//! cost as much as the arithmetic for one short sentence. Each output is summed over its inputs
//! in one fixed order, regardless of the batch: a text has bit-identical vectors alone and in a batch.
//!
//! Everything is `inline(always)` so that it is compiled once for each instruction set; see `cpu/mod.rs`.
#![expect(
    clippy::inline_always,
    reason = "compiled again for each instruction set, see cpu/mod.rs"
)]

use super::cpu::{FloatTile, Instructions};

/// Outputs per panel: two AVX2 registers, four NEON ones.
pub(crate) const PANEL: usize = 16;
/// Rows of a full tile: 6 x 2 accumulators, two panel registers and one broadcast use 15 of AVX2's 16.
pub(crate) const TILE: usize = 6;
/// Inputs per block: a panel of them is 24 kB, which fits in the L1 cache.
const DEPTH: usize = 384;
/// Rows per block, so that their inputs stay in the L2 cache.
const ROWS: usize = 96;

/// Calls a function that is compiled for every height of tiles.
macro_rules! by_height {
    ($height:expr, $function:ident::<$set:ty>($($argument:expr),*)) => {
        match $height {
            6 => $function::<6, $set>($($argument),*),
            5 => $function::<5, $set>($($argument),*),
            4 => $function::<4, $set>($($argument),*),
            3 => $function::<3, $set>($($argument),*),
            2 => $function::<2, $set>($($argument),*),
            _ => $function::<1, $set>($($argument),*),
        }
    };
}
pub(super) use by_height;

/// Matrix as panels: `[panel][input][output in panel]`, padded with zeros in the last panel.
#[derive(Debug)]
pub(crate) struct Panels {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    lanes: Vec<[f32; PANEL]>,
}

impl Panels {
    /// Packs weights stored one row per output, as in linear layers, starting at output `first`.
    pub(crate) fn set_rows(&mut self, first: usize, weights: &[f32]) {
        let inputs = self.inputs;
        for (block, rows) in weights.chunks(PANEL * inputs).enumerate() {
            let output = first + block * PANEL;
            if output.is_multiple_of(PANEL) && rows.len() == PANEL * inputs {
                // Writes a whole panel front to back; row by row would traverse it sixteen times.
                let start = output / PANEL * inputs;
                for (input, lanes) in self.lanes[start..start + inputs].iter_mut().enumerate() {
                    *lanes = std::array::from_fn(|lane| rows[lane * inputs + input]);
                }
            } else {
                for (row, weights) in rows.chunks_exact(inputs).enumerate() {
                    self.set_output(output + row, weights);
                }
            }
        }
    }

    /// A matrix of zeros.
    pub(crate) fn new(inputs: usize, outputs: usize) -> Self {
        Self {
            inputs,
            outputs,
            lanes: vec![[0.0; PANEL]; inputs * outputs.div_ceil(PANEL)],
        }
    }

    pub(crate) fn lanes(&self) -> Lanes<'_> {
        Lanes::new(self.lanes.as_flattened(), self.inputs, self.outputs)
    }

    fn set_output(&mut self, output: usize, weights: &[f32]) {
        let start = output / PANEL * self.inputs;
        let lane = output % PANEL;
        for (lanes, weight) in self.lanes[start..start + self.inputs].iter_mut().zip(weights) {
            lanes[lane] = *weight;
        }
    }
}

/// Rows of a larger matrix: row `r` begins at `r * stride`.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

/// Matrix whose outputs are read in panels: the numbers for input `i` and the outputs of panel `p` begin at
/// `p * panel_stride + i * stride`.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) panel_stride: usize,
    pub(crate) stride: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

impl<'a> Lanes<'a> {
    /// A matrix that is packed panel by panel.
    pub(crate) fn new(data: &'a [f32], inputs: usize, outputs: usize) -> Self {
        Self {
            data,
            panel_stride: inputs * PANEL,
            stride: PANEL,
            inputs,
            outputs,
        }
    }
}

/// `out[r][o] = bias[o] + sum over i of rows[r][i] * weights[i][o]`; `out` has rows of `out_stride`, of which
/// the first `outputs` (rounded up to whole panels if the stride allows it) are written. An absent bias is
/// zero.
#[inline(always)]
pub(crate) fn multiply<I: Instructions>(
    instructions: I,
    rows: Rows<'_>,
    weights: Lanes<'_>,
    bias: Option<&[f32]>,
    out: &mut [f32],
    out_stride: usize,
) {
    for first in (0..rows.count).step_by(ROWS) {
        let block = ROWS.min(rows.count - first);
        for from in (0..weights.inputs).step_by(DEPTH) {
            let depth = DEPTH.min(weights.inputs - from);
            for panel in 0..weights.outputs.div_ceil(PANEL) {
                let column = panel * PANEL;
                let width = PANEL.min(out_stride - column);
                let mut start = [0.0; PANEL];
                if let Some(bias) = bias {
                    let bias = &bias[column..bias.len().min(column + PANEL)];
                    start[..bias.len()].copy_from_slice(bias);
                }
                for (row, height) in tiles(block, TILE) {
                    let row = first + row;
                    let operands = FloatTile {
                        rows: &rows.data[row * rows.stride + from..],
                        row_stride: rows.stride,
                        lanes: &weights.data[panel * weights.panel_stride + from * weights.stride..],
                        lane_stride: weights.stride,
                        depth,
                    };
                    let out = &mut out[row * out_stride + column..];
                    let start = (from == 0).then_some(&start);
                    by_height!(
                        height,
                        tile::<I>(instructions, operands, start, out, out_stride, width)
                    );
                }
            }
        }
    }
}

/// Splits a block into tiles of nearly equal height, at most `height`: 20 rows are 5+5+5+5, because a tile of 2 reads as many
/// weights for fewer rows.
#[inline(always)]
pub(crate) fn tiles(block: usize, height: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = block.div_ceil(height);
    (0..count).map(move |tile| {
        let row = tile * block / count;
        (row, (tile + 1) * block / count - row)
    })
}

/// One tile: `HEIGHT` rows by one panel, of which the first `width` columns are needed. Starts from `start`,
/// or from the values in `out` if there is none.
#[inline(always)]
fn tile<const HEIGHT: usize, I: Instructions>(
    instructions: I,
    operands: FloatTile<'_>,
    start: Option<&[f32; PANEL]>,
    out: &mut [f32],
    out_stride: usize,
    width: usize,
) {
    let mut narrow = [[0.0; PANEL]; HEIGHT];
    let mut starts = [&[0.0; PANEL]; HEIGHT];
    for (row, (row_start, narrow)) in starts.iter_mut().zip(&mut narrow).enumerate() {
        *row_start = match (start, out[row * out_stride..].first_chunk()) {
            (Some(start), _) => start,
            (None, Some(out)) if width == PANEL => out,
            (None, _) => {
                narrow[..width].copy_from_slice(&out[row * out_stride..][..width]);
                narrow
            }
        };
    }
    let sums = instructions.float_tile(operands, starts);
    for (row, sum) in sums.iter().enumerate() {
        match out[row * out_stride..].first_chunk_mut::<PANEL>() {
            Some(out) if width == PANEL => *out = *sum,
            _ => out[row * out_stride..][..width].copy_from_slice(&sum[..width]),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::minilm::cpu::{InstructionSet, Job};

    /// Small integers, whose sums of products are exact in f32 in any order.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|i| ((i * 31 + seed * 17) % 13) as f32 - 6.0)
            .collect()
    }

    struct Product<'a> {
        rows: Rows<'a>,
        panels: &'a Panels,
        bias: Option<&'a [f32]>,
        out: &'a mut [f32],
    }

    impl Job for Product<'_> {
        type Output = ();

        fn run<I: Instructions>(self, instructions: I) {
            let outputs = self.panels.outputs;
            multiply(
                instructions,
                self.rows,
                self.panels.lanes(),
                self.bias,
                self.out,
                outputs,
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn product_matches_the_textbook_loop(count in 1usize..210, inputs in 1usize..800, outputs in 1usize..50, split in 0usize..50) {
            let (rows, weights, bias) = (numbers(count * inputs, 1), numbers(outputs * inputs, 2), numbers(outputs, 3));
            let mut panels = Panels::new(inputs, outputs);
            let split = split.min(outputs);
            panels.set_rows(0, &weights[..split * inputs]);
            panels.set_rows(split, &weights[split * inputs..]);
            let given = Rows { data: &rows, stride: inputs, count };
            let biases = [Some(bias.as_slice()), None];
            for (set, bias) in InstructionSet::available().flat_map(|set| biases.map(|bias| (set, bias))) {
                let mut out = vec![f32::NAN; count * outputs];
                set.run(Product { rows: given, panels: &panels, bias, out: &mut out });
                for row in 0..count {
                    for output in 0..outputs {
                        let products = (0..inputs).map(|i| rows[row * inputs + i] * weights[output * inputs + i]);
                        let expected = bias.map_or(0.0, |bias| bias[output]) + products.sum::<f32>();
                        prop_assert_eq!(out[row * outputs + output].to_bits(), (expected + 0.0).to_bits());
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_cover_a_block_once_and_are_nearly_equal() {
        for block in 1..=ROWS {
            let mut next = 0;
            let heights: Vec<usize> = tiles(block, TILE)
                .map(|(row, height)| {
                    assert_eq!(row, next);
                    next += height;
                    height
                })
                .collect();
            assert_eq!(next, block);
            let (least, most) = (heights.iter().min().unwrap(), heights.iter().max().unwrap());
            assert!(*least >= 1 && *most <= TILE && most - least <= 1, "{heights:?}");
        }
    }
}
