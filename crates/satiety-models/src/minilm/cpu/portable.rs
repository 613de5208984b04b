//! Kernels in plain Rust: the reference for all others, and the fallback.
#![expect(
    clippy::inline_always,
    reason = "compiled again for each instruction set, see cpu/mod.rs"
)]
use super::{FloatTile, Instructions, IntegerTile, transpose};
use crate::minilm::matmul::PANEL;
use crate::minilm::quantized::Layout;
use crate::minilm::weights::GROUP;

/// The baseline of the target, which every processor has. Gives the same bits as all other sets: where
/// the baseline has no fused multiply-add, it is computed in double precision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// The baseline of the target with separate multiplication and addition, for models whose weights are floats:
/// with [`Portable`] they would take ten times as long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortableFloats;

const STEP: usize = 2;
const LAYOUT: Layout = Layout {
    outputs: PANEL,
    step: STEP,
};

impl Instructions for Portable {
    const LAYOUT: Layout = LAYOUT;
    const ROWS: usize = 6;
    type Level = i16;

    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        if cfg!(target_arch = "aarch64") {
            a.mul_add(b, c)
        } else {
            fused(a, b, c)
        }
    }

    #[inline]
    fn float_tile<const HEIGHT: usize>(
        self,
        tile: FloatTile<'_>,
        starts: [&[f32; PANEL]; HEIGHT],
    ) -> [[f32; PANEL]; HEIGHT] {
        float_tile::<Self, HEIGHT>(tile, starts)
    }

    #[inline]
    fn integer_tile<const HEIGHT: usize>(
        self,
        tile: IntegerTile<'_, i16>,
        starts: [&[f32; GROUP]; HEIGHT],
    ) -> [[f32; GROUP]; HEIGHT] {
        integer_tile::<Self, HEIGHT>(tile, starts)
    }

    #[inline]
    fn transpose(self, block: &[[f32; 16]; 16]) -> [[f32; 16]; 16] {
        transpose(block)
    }
}

impl Instructions for PortableFloats {
    const LAYOUT: Layout = LAYOUT;
    const ROWS: usize = 6;
    type Level = i16;

    #[inline(always)]
    fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }

    #[inline]
    fn float_tile<const HEIGHT: usize>(
        self,
        tile: FloatTile<'_>,
        starts: [&[f32; PANEL]; HEIGHT],
    ) -> [[f32; PANEL]; HEIGHT] {
        float_tile::<Self, HEIGHT>(tile, starts)
    }

    #[inline]
    fn integer_tile<const HEIGHT: usize>(
        self,
        tile: IntegerTile<'_, i16>,
        starts: [&[f32; GROUP]; HEIGHT],
    ) -> [[f32; GROUP]; HEIGHT] {
        integer_tile::<Self, HEIGHT>(tile, starts)
    }

    #[inline]
    fn transpose(self, block: &[[f32; 16]; 16]) -> [[f32; 16]; 16] {
        transpose(block)
    }
}

/// `a * b + c`, rounded once.
///
/// The product of two numbers of 24 bits is exact in 53 bits. The sum is rounded to odd: if it is not exact, its
/// last bit is set. A number of 53 bits that was rounded to odd and is rounded again to 24 gives what rounding
/// once gives (Boldo and Melquiond 2008, theorem 3). The error of the sum is exact (Knuth's `TwoSum`).
#[inline(always)]
fn fused(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = product + c;
    let added = sum - product;
    let error = (product - (sum - added)) + (c - added);
    let bits = sum.to_bits();
    // False for an exact sum, and for a sum that is infinite or not a number.
    let is_inexact = error.abs() > 0.0;
    let towards_zero = (error < 0.0) == (sum > 0.0);
    let even = is_inexact && bits & 1 == 0;
    let bits = bits
        .wrapping_add(u64::from(even && !towards_zero))
        .wrapping_sub(u64::from(even && towards_zero));
    #[expect(clippy::cast_possible_truncation, reason = "this is the rounding")]
    let rounded = f64::from_bits(bits) as f32;
    rounded
}

#[inline(always)]
#[expect(
    clippy::needless_range_loop,
    reason = "an index into several rows; iterators over all of them are not vectorized"
)]
fn float_tile<I: Instructions, const HEIGHT: usize>(
    tile: FloatTile<'_>,
    starts: [&[f32; PANEL]; HEIGHT],
) -> [[f32; PANEL]; HEIGHT] {
    let mut sums = starts.map(|start| *start);
    let rows: [&[f32]; HEIGHT] = std::array::from_fn(|row| tile.row(row));
    for input in 0..tile.depth {
        let lanes = tile.lanes(input);
        for row in 0..HEIGHT {
            for lane in 0..PANEL {
                sums[row][lane] = I::multiply_add(rows[row][input], lanes[lane], sums[row][lane]);
            }
        }
    }
    sums
}

#[inline(always)]
fn integer_tile<I: Instructions, const HEIGHT: usize>(
    tile: IntegerTile<'_, i16>,
    starts: [&[f32; GROUP]; HEIGHT],
) -> [[f32; GROUP]; HEIGHT] {
    let mut totals = starts.map(|start| *start);
    let (levels, _) = tile.levels.as_chunks::<GROUP>();
    let (weights, _) = tile.weights.as_chunks::<{ PANEL * STEP }>();
    let (weights, _) = weights.as_chunks::<{ GROUP / STEP }>();
    let (scales, _) = tile.scales.as_chunks::<PANEL>();
    for panel in 0..GROUP / PANEL {
        for group in 0..tile.depth {
            let (weights, scales) = (
                &weights[panel * tile.row_groups + group],
                &scales[panel * tile.row_groups + group],
            );
            for row in 0..HEIGHT {
                let place = row * tile.row_groups + group;
                let sums = dot_products(&levels[place], weights);
                let row_group = &tile.groups[place];
                let (totals, _) = totals[row].as_chunks_mut::<PANEL>();
                let totals = &mut totals[panel];
                for lane in 0..PANEL {
                    let sum = sums[lane] as f32 * row_group.scale;
                    totals[lane] = I::multiply_add(sum, scales[lane], totals[lane]);
                }
                if row_group.residual == 0.0 {
                    continue;
                }
                let (outlier, _) = weights[row_group.outlier / STEP].as_chunks::<STEP>();
                for lane in 0..PANEL {
                    let weight = f32::from(outlier[lane][row_group.outlier % STEP]);
                    totals[lane] = I::multiply_add(weight * row_group.residual, scales[lane], totals[lane]);
                }
            }
        }
    }
    totals
}

/// Sums of the products of one group for the outputs of a panel.
#[inline(always)]
fn dot_products(levels: &[i16; GROUP], weights: &[[i8; PANEL * STEP]; GROUP / STEP]) -> [i32; PANEL] {
    let (levels, _) = levels.as_chunks::<STEP>();
    let mut sums = [0i32; PANEL];
    for (levels, weights) in levels.iter().zip(weights) {
        // Widened first: then the compiler finds the instruction that multiplies and adds pairs.
        let weights = weights.map(i16::from);
        let (weights, _) = weights.as_chunks::<STEP>();
        for lane in 0..PANEL {
            sums[lane] += i32::from(levels[0]) * i32::from(weights[lane][0])
                + i32::from(levels[1]) * i32::from(weights[lane][1]);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100_000))]

        #[test]
        fn fused_multiply_add_rounds_once(a in any::<u32>(), b in any::<u32>(), c in any::<u32>(), near in -3i32..=3) {
            let (a, b, c) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            // A sum far from the middle of two numbers rounds in the same way anyhow.
            let close = f32::from_bits((-a * b).to_bits().wrapping_add_signed(near));
            let halfway = f32::from_bits(c.to_bits() & 0xff80_0000 | 0x0000_0001);
            for [a, b, c] in [[a, b, c], [a, b, close], [a, halfway, c], [a, 1.0, c], [halfway, halfway, c]] {
                let (found, expected) = (fused(a, b, c), a.mul_add(b, c));
                prop_assert!(
                    found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan()),
                    "{a:e} * {b:e} + {c:e} = {found:e}, not {expected:e}"
                );
            }
        }
    }
}
