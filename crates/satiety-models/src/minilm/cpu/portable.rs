//! Kernels in plain Rust: the reference for all others, and the fallback.
use super::{Instructions, IntegerTile};
use crate::minilm::matmul::{PANEL, multiply_add};
use crate::minilm::quantized::Layout;
use crate::minilm::weights::GROUP;

/// The baseline of the target, which every processor has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

const STEP: usize = 2;

impl Instructions for Portable {
    // The baseline of 64-bit ARM has fused multiply-add.
    const FMA: bool = cfg!(target_arch = "aarch64");
    const LAYOUT: Layout = Layout {
        outputs: PANEL,
        step: STEP,
    };
    type Level = i16;

    #[inline]
    fn float_tile<const HEIGHT: usize>(
        self,
        inputs: &[[f32; HEIGHT]],
        lanes: &[[f32; PANEL]],
        sums: &mut [[f32; PANEL]; HEIGHT],
    ) {
        for (inputs, lanes) in inputs.iter().zip(lanes) {
            for row in 0..HEIGHT {
                for lane in 0..PANEL {
                    sums[row][lane] = multiply_add::<Self>(inputs[row], lanes[lane], sums[row][lane]);
                }
            }
        }
    }

    #[inline]
    fn integer_tile<const HEIGHT: usize>(self, tile: IntegerTile<'_, i16>, out: &mut [f32], stride: usize) {
        let groups = tile.groups.len() / HEIGHT;
        let (levels, _) = tile.levels.as_chunks::<GROUP>();
        let (weights, _) = tile.weights.as_chunks::<{ PANEL * STEP }>();
        let (scales, _) = tile.scales.as_chunks::<PANEL>();
        for row in 0..HEIGHT {
            out[row * stride..row * stride + PANEL].copy_from_slice(tile.bias);
        }
        for (group, weights) in weights.chunks_exact(GROUP / STEP).enumerate() {
            for row in 0..HEIGHT {
                let (inputs, _) = levels[row * groups + group].as_chunks::<STEP>();
                let mut sums = [0i32; PANEL];
                for (inputs, weights) in inputs.iter().zip(weights) {
                    let (weights, _) = weights.as_chunks::<STEP>();
                    for (sum, weights) in sums.iter_mut().zip(weights) {
                        *sum += i32::from(inputs[0]) * i32::from(weights[0])
                            + i32::from(inputs[1]) * i32::from(weights[1]);
                    }
                }
                let row_group = &tile.groups[row * groups + group];
                let out = &mut out[row * stride..row * stride + PANEL];
                for ((out, sum), scale) in out.iter_mut().zip(sums).zip(&scales[group]) {
                    *out = multiply_add::<Self>(sum as f32 * row_group.scale, *scale, *out);
                }
                let (outlier, _) = weights[row_group.outlier / STEP].as_chunks::<STEP>();
                for ((out, weights), scale) in out.iter_mut().zip(outlier).zip(&scales[group]) {
                    let weight = f32::from(weights[row_group.outlier % STEP]);
                    *out = multiply_add::<Self>(weight * row_group.residual, *scale, *out);
                }
            }
        }
    }
}
