//! Kernels for 64-bit ARM with dot products of 8-bit numbers: Apple's M series, Graviton 2 and newer, and
//! nearly every phone since 2018. Without them, [`Portable`](super::Portable) is compiled for NEON.
#![expect(
    unsafe_code,
    reason = "vectors are read and written through pointers, and features are detected at run time"
)]
use super::kernels::define_set;

/// Float vectors of 128 bits.
mod wide128 {
    pub(super) use std::arch::aarch64::int32x4_t;
    use std::arch::aarch64::{
        float32x4_t, vcvtq_f32_s32, vdupq_n_f32, vfmaq_f32, vfmaq_n_f32, vld1q_f32, vmulq_n_f32, vst1q_f32,
    };

    /// Numbers of 32 bits in a vector.
    pub(super) const LANES: usize = 4;

    pub(super) type Floats = float32x4_t;

    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn zero() -> float32x4_t {
        vdupq_n_f32(0.0)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn load(values: &[f32; LANES]) -> float32x4_t {
        // SAFETY: the reference is valid for reading four floats.
        unsafe { vld1q_f32(values.as_ptr()) }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn store(values: float32x4_t, out: &mut [f32; LANES]) {
        // SAFETY: the reference is valid for writing four floats.
        unsafe { vst1q_f32(out.as_mut_ptr(), values) }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn multiply_add(a: f32, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        vfmaq_n_f32(c, b, a)
    }

    /// `total + sum * scale * scales`.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn add_scaled(
        total: float32x4_t,
        sum: int32x4_t,
        scale: f32,
        scales: &[f32; LANES],
    ) -> float32x4_t {
        vfmaq_f32(total, vmulq_n_f32(vcvtq_f32_s32(sum), scale), load(scales))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn transpose(block: &[[f32; 16]; 16]) -> [[f32; 16]; 16] {
        crate::minilm::cpu::transpose(block)
    }
}

/// Products of signed 8-bit numbers, added in fours.
mod fours128 {
    use std::arch::aarch64::{int8x16_t, vdupq_n_s32, vld1q_s8, vreinterpretq_s8_s32};
    use std::arch::asm;

    use super::wide128::{LANES, int32x4_t};

    pub(super) type Level = i8;
    pub(super) const STEP: usize = 4;

    /// Sums, weights and levels are all 128 bits; sums are kept as four numbers of 32 bits.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn zero() -> int32x4_t {
        vdupq_n_s32(0)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn start(_: &[i32; LANES]) -> int32x4_t {
        zero()
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn no_weights() -> int8x16_t {
        vreinterpretq_s8_s32(zero())
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn weights(weights: &[i8; LANES * STEP]) -> int8x16_t {
        // SAFETY: the reference is valid for reading 16 bytes.
        unsafe { vld1q_s8(weights.as_ptr()) }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn broadcast(levels: [i8; STEP]) -> int8x16_t {
        let bytes = levels.map(i8::cast_unsigned);
        vreinterpretq_s8_s32(vdupq_n_s32(i32::from_le_bytes(bytes)))
    }

    /// `std` has this instruction only in nightly compilers.
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    pub(super) fn dot(mut sum: int32x4_t, levels: int8x16_t, weights: int8x16_t) -> int32x4_t {
        // SAFETY: the instruction reads and writes only these registers, and the function can be called only
        // where the processor has it.
        unsafe {
            asm!(
                "sdot {sum:v}.4s, {levels:v}.16b, {weights:v}.16b",
                sum = inout(vreg) sum,
                levels = in(vreg) levels,
                weights = in(vreg) weights,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sum
    }

    /// 1 for one of the inputs of a step and 0 for the others.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn one_at(input: usize) -> int8x16_t {
        vreinterpretq_s8_s32(vdupq_n_s32(1 << (input * 8)))
    }
}

define_set!(
    /// NEON with dot products of 8-bit numbers.
    NeonDot, "neon,dotprod", is_aarch64_feature_detected, ["neon", "dotprod"], wide128, fours128, 4, 6
);
