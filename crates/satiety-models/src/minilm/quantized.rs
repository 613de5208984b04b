//! Matrix product in integers: int8 weights as stored in the file times activations that are quantized here.
//!
//! Weights have a scale for every group of 64 inputs of an output; activations get one for the same group of a
//! row. A few channels of a sentence encoder are ten times larger than the others, so the scale follows the
//! second largest value of a group, and what is left of the largest is multiplied as a float. The integer sum
//! over a group is exact, so the kernels of all instruction sets agree, and no row depends on the other rows of
//! its batch.
#![expect(
    clippy::inline_always,
    reason = "compiled again for each instruction set, see cpu/mod.rs"
)]
use std::ops::{Deref, DerefMut};

use super::activations::rough_gelu;
use super::cpu::{Instructions, IntegerTile};
use super::matmul::{by_height, tiles};
use super::weights::GROUP;

/// Largest magnitude of a quantized activation.
const LARGEST: f32 = 127.0;
/// A scale below the normal numbers would lose precision: such values become 0.
const SMALLEST: f32 = f32::MIN_POSITIVE * LARGEST;
/// Groups of inputs per block: the weights of 64 outputs for them are 24 kB, which fits in the L1 cache.
const DEPTH: usize = 6;
/// A value is an outlier if its magnitude is this many times the second largest one of its group.
const OUTLIER: f32 = 2.0;

/// Quantized activation in the form that a kernel multiplies.
pub(crate) trait Level: Copy + Default {
    /// Added to every activation to make it unsigned. The kernel subtracts it again: its sums start from
    /// `-OFFSET` times the sum of the weights.
    const OFFSET: i32;

    /// From a number in -127..=127.
    fn from_number(number: i32) -> Self;

    /// The buffers for activations of this type.
    fn buffers(buffers: &mut Buffers) -> &mut [QuantizedInputs<Self>; 2];

    #[cfg(test)]
    fn to_number(self) -> i32;
}

impl Level for i16 {
    const OFFSET: i32 = 0;

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the number is at most 127")]
    fn from_number(number: i32) -> Self {
        number as Self
    }

    fn buffers(buffers: &mut Buffers) -> &mut [QuantizedInputs<Self>; 2] {
        &mut buffers.words
    }

    #[cfg(test)]
    fn to_number(self) -> i32 {
        self.into()
    }
}

impl Level for i8 {
    const OFFSET: i32 = 0;

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the number is at most 127")]
    fn from_number(number: i32) -> Self {
        number as Self
    }

    fn buffers(buffers: &mut Buffers) -> &mut [QuantizedInputs<Self>; 2] {
        &mut buffers.signed
    }

    #[cfg(test)]
    fn to_number(self) -> i32 {
        self.into()
    }
}

impl Level for u8 {
    const OFFSET: i32 = 128;

    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the sum is between 1 and 255"
    )]
    fn from_number(number: i32) -> Self {
        (number + Self::OFFSET) as Self
    }

    fn buffers(buffers: &mut Buffers) -> &mut [QuantizedInputs<Self>; 2] {
        &mut buffers.unsigned
    }

    #[cfg(test)]
    fn to_number(self) -> i32 {
        i32::from(self) - Self::OFFSET
    }
}

/// Order of quantized weights in memory: `[panel][input / step][output in panel][step]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Number of outputs in one panel.
    pub(crate) outputs: usize,
    /// Inputs whose products one instruction adds.
    pub(crate) step: usize,
}

/// Weights as stored: one row of int8 levels per output, and one scale for each group of a row.
pub(crate) struct QuantizedRows<'a> {
    pub(crate) levels: &'a [u8],
    /// Little-endian f16.
    pub(crate) scales: &'a [u8],
}

/// Quantized matrix, packed for the kernels of one instruction set.
#[derive(Debug)]
pub(crate) struct QuantizedPanels {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    layout: Layout,
    weights: Aligned<i8>,
    /// `[panel][group][output in panel]`.
    scales: Aligned<f32>,
    /// In the order of `scales`: see [`Level::OFFSET`].
    starts: Aligned<i32>,
}

/// Values that begin at a cache line: a vector across two lines is read twice.
#[derive(Debug)]
struct Aligned<T> {
    values: Vec<T>,
    /// Index of the first value.
    start: usize,
}

impl<T: Copy + Default> Aligned<T> {
    const LINE: usize = 64;

    fn new(count: usize) -> Self {
        let padding = Self::LINE / size_of::<T>();
        let values = vec![T::default(); count + padding];
        // The distance to an aligned address may be unknown.
        let start = values.as_ptr().align_offset(Self::LINE).min(padding);
        Self { values, start }
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values[self.start..]
    }
}

impl<T> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[self.start..]
    }
}

impl QuantizedPanels {
    /// Whether a matrix of this size consists of whole groups and panels for every instruction set.
    pub(crate) fn supports(inputs: usize, outputs: usize) -> bool {
        inputs.is_multiple_of(GROUP) && outputs.is_multiple_of(GROUP)
    }

    /// A matrix of zeros.
    pub(crate) fn new(inputs: usize, outputs: usize, layout: Layout) -> Self {
        Self {
            inputs,
            outputs,
            layout,
            weights: Aligned::new(inputs * outputs),
            scales: Aligned::new(inputs / GROUP * outputs),
            starts: Aligned::new(inputs / GROUP * outputs),
        }
    }

    /// Sets the rows from output `first`, the first of a panel.
    pub(crate) fn set_rows(&mut self, first: usize, rows: &QuantizedRows<'_>) {
        let Self {
            inputs,
            layout: Layout { outputs, step },
            ..
        } = *self;
        let groups = inputs / GROUP;
        let (scales, _) = rows.scales.as_chunks::<2>();
        let panels = rows
            .levels
            .chunks_exact(outputs * inputs)
            .zip(scales.chunks_exact(outputs * groups));
        for (index, (levels, scales)) in panels.enumerate() {
            let panel = first / outputs + index;
            let packed = &mut self.weights[panel * outputs * inputs..(panel + 1) * outputs * inputs];
            for (at, packed) in packed.chunks_exact_mut(outputs * step).enumerate() {
                for (output, packed) in packed.chunks_exact_mut(step).enumerate() {
                    let start = output * inputs + at * step;
                    for (packed, level) in packed.iter_mut().zip(&levels[start..start + step]) {
                        *packed = level.cast_signed();
                    }
                }
            }
            for group in 0..groups {
                for output in 0..outputs {
                    let place = (panel * groups + group) * outputs + output;
                    let scale = scales[output * groups + group];
                    self.scales[place] = half::f16::from_le_bytes(scale).to_f32();
                    let start = output * inputs + group * GROUP;
                    let sum: i32 = levels[start..start + GROUP]
                        .iter()
                        .map(|level| i32::from(level.cast_signed()))
                        .sum();
                    self.starts[place] = -sum * <u8 as Level>::OFFSET;
                }
            }
        }
    }
}

impl QuantizedPanels {
    /// Operands for the rows of inputs from `row`, the 64 outputs of group `column`, and the `depth` groups of
    /// inputs from `from`.
    #[inline(always)]
    fn tile<'a, I: Instructions>(
        &'a self,
        inputs: &'a QuantizedInputs<I::Level>,
        row: usize,
        column: usize,
        from: usize,
        depth: usize,
    ) -> IntegerTile<'a, I::Level> {
        debug_assert_eq!(self.layout, I::LAYOUT, "packed for another instruction set");
        let row_groups = self.inputs / GROUP;
        let place = row * row_groups + from;
        let start = column * GROUP * row_groups + from * I::LAYOUT.outputs;
        IntegerTile {
            depth,
            row_groups,
            levels: &inputs.levels[place * GROUP..],
            groups: &inputs.groups[place..],
            weights: &self.weights[start * GROUP..],
            scales: &self.scales[start..],
            starts: &self.starts[start..],
        }
    }
}

/// What belongs to the quantized activations of a group: value = level x scale, except for the rounding, and
/// plus the residual for the outlier.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Group {
    pub(crate) scale: f32,
    /// Index of the value with the largest magnitude in the group, if it is an outlier.
    pub(crate) outlier: usize,
    pub(crate) residual: f32,
}

/// Quantized rows; the buffers are reused.
#[derive(Default)]
pub(crate) struct QuantizedInputs<L> {
    levels: Vec<L>,
    groups: Vec<Group>,
}

/// Two quantized matrices, inputs and inner activations, for each type of level. Only one type is used.
#[derive(Default)]
pub(crate) struct Buffers {
    unsigned: [QuantizedInputs<u8>; 2],
    signed: [QuantizedInputs<i8>; 2],
    words: [QuantizedInputs<i16>; 2],
}

impl<L: Level> QuantizedInputs<L> {
    /// Replaces the content by these values, whose rows consist of whole groups.
    #[inline(always)]
    pub(crate) fn set<I: Instructions<Level = L>>(&mut self, values: &[f32]) {
        let (values, _) = values.as_chunks::<GROUP>();
        self.resize(values.len());
        let (levels, _) = self.levels.as_chunks_mut::<GROUP>();
        for ((values, levels), group) in values.iter().zip(levels).zip(&mut self.groups) {
            *group = quantize::<I>(values, levels);
        }
    }

    fn resize(&mut self, groups: usize) {
        self.levels.resize(groups * GROUP, L::default());
        self.groups.resize(groups, Group::default());
    }
}

#[inline(always)]
fn quantize<I: Instructions>(values: &[f32; GROUP], levels: &mut [I::Level; GROUP]) -> Group {
    // 1.5 * 2^23: adding it leaves the nearest integer in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    let (largest, second) = two_largest(values);
    let outlying = largest > OUTLIER * second;
    let limit = if outlying { second } else { largest };
    let limit = if limit < SMALLEST { 0.0 } else { limit };
    let inverse = if limit > 0.0 { LARGEST / limit } else { 0.0 };
    for (level, value) in levels.iter_mut().zip(values) {
        let rounded = I::multiply_add(clamp(*value, limit), inverse, ROUND);
        let number = rounded.to_bits().cast_signed() - ROUND.to_bits().cast_signed();
        *level = I::Level::from_number(number);
    }
    let mut group = Group {
        scale: limit / LARGEST,
        ..Group::default()
    };
    // Also if the limit is smaller than the smallest scale.
    if largest > limit {
        let mut outlier = 0u32;
        for (index, value) in (0..).zip(values) {
            outlier = if value.abs() >= largest { index } else { outlier };
        }
        group.outlier = outlier as usize;
        group.residual = values[group.outlier] - clamp(values[group.outlier], limit);
    }
    group
}

/// The largest and the second largest magnitude.
#[inline(always)]
fn two_largest(values: &[f32; GROUP]) -> (f32, f32) {
    const LANES: usize = 16;
    let mut largest = [0.0f32; LANES];
    let mut second = [0.0f32; LANES];
    let (chunks, _) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            let value = chunk[lane].abs();
            second[lane] = max(second[lane], min(value, largest[lane]));
            largest[lane] = max(value, largest[lane]);
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            let (a, b) = (largest[lane], largest[lane + width]);
            second[lane] = max(min(a, b), max(second[lane], second[lane + width]));
            largest[lane] = max(a, b);
        }
        width /= 2;
    }
    (largest[0], second[0])
}

// `f32::max` and `f32::min` need three instructions, because they treat NaN in another way.
#[inline(always)]
fn max(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[inline(always)]
fn clamp(value: f32, limit: f32) -> f32 {
    max(min(value, limit), -limit)
}

/// `out[r][o] = bias[o] + sum over i of inputs[r][i] * weights[i][o]`.
#[inline(always)]
pub(crate) fn multiply_quantized<I: Instructions>(
    instructions: I,
    inputs: &QuantizedInputs<I::Level>,
    weights: &QuantizedPanels,
    bias: &[f32],
    out: &mut [f32],
) {
    let groups = weights.inputs / GROUP;
    let rows = inputs.groups.len() / groups;
    let (bias, _) = bias.as_chunks::<GROUP>();
    let (out, _) = out.as_chunks_mut::<GROUP>();
    let stride = weights.outputs / GROUP;
    for column in 0..stride {
        for from in (0..groups).step_by(DEPTH) {
            let depth = DEPTH.min(groups - from);
            let start = (from == 0).then_some(&bias[column]);
            for (row, height) in tiles(rows, I::ROWS) {
                let tile = weights.tile::<I>(inputs, row, column, from, depth);
                let out = &mut out[row * stride + column..];
                by_height!(height, add_tile::<I>(instructions, tile, start, out, stride));
            }
        }
    }
}

/// Products of a tile, added to `start`, or to the values in `out` if there is none.
#[inline(always)]
fn add_tile<const HEIGHT: usize, I: Instructions>(
    instructions: I,
    tile: IntegerTile<'_, I::Level>,
    start: Option<&[f32; GROUP]>,
    out: &mut [[f32; GROUP]],
    stride: usize,
) {
    let mut starts = [&[0.0; GROUP]; HEIGHT];
    for row in 0..HEIGHT {
        starts[row] = start.unwrap_or(&out[row * stride]);
    }
    let totals = instructions.integer_tile(tile, starts);
    for row in 0..HEIGHT {
        out[row * stride] = totals[row];
    }
}

/// Quantizes the GELU of what [`multiply_quantized`] computes: 64 outputs of a few rows are a group of the
/// next map, and never leave the L1 cache as floats.
#[inline(always)]
pub(crate) fn multiply_gelu_quantized<I: Instructions>(
    instructions: I,
    inputs: &QuantizedInputs<I::Level>,
    weights: &QuantizedPanels,
    bias: &[f32],
    out: &mut QuantizedInputs<I::Level>,
) {
    let groups = weights.inputs / GROUP;
    let rows = inputs.groups.len() / groups;
    let stride = weights.outputs / GROUP;
    out.resize(rows * stride);
    let (bias, _) = bias.as_chunks::<GROUP>();
    let (levels, _) = out.levels.as_chunks_mut::<GROUP>();
    for (column, bias) in bias.iter().enumerate() {
        for (row, height) in tiles(rows, I::ROWS) {
            let tile = weights.tile::<I>(inputs, row, column, 0, groups);
            let place = row * stride + column;
            let (groups, levels) = (&mut out.groups[place..], &mut levels[place..]);
            by_height!(
                height,
                gelu_tile::<I>(instructions, tile, bias, groups, levels, stride)
            );
        }
    }
}

#[inline(always)]
fn gelu_tile<const HEIGHT: usize, I: Instructions>(
    instructions: I,
    tile: IntegerTile<'_, I::Level>,
    bias: &[f32; GROUP],
    groups: &mut [Group],
    levels: &mut [[I::Level; GROUP]],
    stride: usize,
) {
    let mut totals = instructions.integer_tile(tile, [bias; HEIGHT]);
    for (row, values) in totals.iter_mut().enumerate() {
        for value in values.iter_mut() {
            *value = rough_gelu::<I>(*value);
        }
        groups[row * stride] = quantize::<I>(values, &mut levels[row * stride]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::minilm::cpu::{InstructionSet, Job};

    /// A matrix as it is stored: levels and scales of `outputs` rows.
    struct Stored {
        inputs: usize,
        outputs: usize,
        levels: Vec<u8>,
        scales: Vec<u8>,
    }

    impl Stored {
        fn new(inputs: usize, outputs: usize, seed: usize) -> Self {
            let scales = (0..outputs * inputs / GROUP)
                .flat_map(|i| half::f16::from_f32(((i * 7 + seed) % 11) as f32 / 1024.0).to_le_bytes());
            Self {
                inputs,
                outputs,
                levels: (0..inputs * outputs)
                    .map(|i| (i * 31 + i / 7 + seed).to_le_bytes()[0])
                    .collect(),
                scales: scales.collect(),
            }
        }

        fn pack(&self, layout: Layout, first: usize) -> QuantizedPanels {
            let mut panels = QuantizedPanels::new(self.inputs, first + self.outputs, layout);
            let rows = QuantizedRows {
                levels: &self.levels,
                scales: &self.scales,
            };
            panels.set_rows(first, &rows);
            panels
        }

        fn level(&self, output: usize, input: usize) -> i32 {
            i32::from(self.levels[output * self.inputs + input].cast_signed())
        }

        fn scale(&self, output: usize, group: usize) -> f32 {
            let at = 2 * (output * self.inputs / GROUP + group);
            half::f16::from_le_bytes([self.scales[at], self.scales[at + 1]]).to_f32()
        }
    }

    struct Multiplied<'a> {
        values: &'a [f32],
        panels: &'a QuantizedPanels,
        bias: &'a [f32],
    }

    impl Job for Multiplied<'_> {
        /// The product, then the quantized inputs as numbers, then their groups.
        type Output = (Vec<f32>, Vec<i32>, Vec<Group>);

        #[inline(always)]
        fn run<I: Instructions>(self, instructions: I) -> Self::Output {
            let mut inputs = QuantizedInputs::default();
            inputs.set::<I>(self.values);
            let mut out = vec![f32::NAN; self.values.len() / self.panels.inputs * self.panels.outputs];
            multiply_quantized(instructions, &inputs, self.panels, self.bias, &mut out);
            let numbers = inputs.levels.iter().map(|level| level.to_number()).collect();
            (out, numbers, inputs.groups)
        }
    }

    /// Values of very different magnitude in every group.
    fn values(count: usize, seed: usize) -> Vec<f32> {
        (0..count)
            .map(|i| {
                let value = ((i * 37 + seed * 11) % 201) as f32 / 100.0 - 1.0;
                if (i + seed).is_multiple_of(61) {
                    value * 20.0
                } else {
                    value
                }
            })
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn every_set_matches_the_textbook_loop(rows in 1usize..110, groups in 1usize..8, panels in 1usize..4, seed in 0usize..1000) {
            let (inputs, outputs) = (groups * GROUP, panels * GROUP);
            let stored = Stored::new(inputs, outputs, seed);
            let bias: Vec<f32> = (0..outputs).map(|i| (i % 5) as f32 - 2.0).collect();
            let values = values(rows * inputs, seed);
            for set in InstructionSet::available() {
                let panels = stored.pack(set.layout(), 0);
                let (out, numbers, row_groups) = set.run(Multiplied { values: &values, panels: &panels, bias: &bias });
                for (index, number) in numbers.iter().enumerate() {
                    let Group { scale, outlier, residual } = row_groups[index / GROUP];
                    let residual = if index % GROUP == outlier { residual } else { 0.0 };
                    let error = values[index] - *number as f32 * scale - residual;
                    prop_assert!(error.abs() <= 0.501 * scale, "{set}: {error} in {scale}");
                }
                for row in 0..rows {
                    for output in 0..outputs {
                        let mut expected = bias[output];
                        for group in 0..groups {
                            let sum: i32 = (group * GROUP..(group + 1) * GROUP)
                                .map(|input| numbers[row * inputs + input] * stored.level(output, input))
                                .sum();
                            let Group { scale, outlier, residual } = row_groups[row * groups + group];
                            let weight = stored.level(output, group * GROUP + outlier) as f32;
                            expected = (sum as f32 * scale).mul_add(stored.scale(output, group), expected);
                            expected = (weight * residual).mul_add(stored.scale(output, group), expected);
                        }
                        prop_assert_eq!(out[row * outputs + output].to_bits(), expected.to_bits(), "{} {} {}", set, row, output);
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_packed_behind_those_of_other_matrices() {
        let stored = Stored::new(128, 64, 5);
        let bias = [0.0; 128];
        for set in InstructionSet::available() {
            let alone = stored.pack(set.layout(), 0);
            let behind = stored.pack(set.layout(), 64);
            let values = values(128, 1);
            let (alone, ..) = set.run(Multiplied {
                values: &values,
                panels: &alone,
                bias: &bias[..64],
            });
            let (behind, ..) = set.run(Multiplied {
                values: &values,
                panels: &behind,
                bias: &bias,
            });
            assert_eq!(
                (&behind[..64], &behind[64..]),
                (&[0.0; 64][..], &alone[..]),
                "{set}"
            );
        }
    }

    #[test]
    fn the_outlier_of_a_group_is_exact() {
        let stored = Stored::new(64, 64, 0);
        for set in InstructionSet::available() {
            let panels = stored.pack(set.layout(), 0);
            for outlier in [0.0, 1e-42, -3.25, 1e30] {
                let mut values = [0.0; 64];
                values[37] = outlier;
                let (out, numbers, _) = set.run(Multiplied {
                    values: &values,
                    panels: &panels,
                    bias: &[1.5; 64],
                });
                assert_eq!(numbers, [0; 64]);
                for (output, found) in out.iter().enumerate() {
                    let weight = stored.level(output, 37) as f32 * stored.scale(output, 0);
                    let expected = outlier * weight + 1.5;
                    assert!(
                        (found - expected).abs() <= 1e-6 * expected.abs(),
                        "{set}: {found} {expected}"
                    );
                }
            }
        }
    }
}
