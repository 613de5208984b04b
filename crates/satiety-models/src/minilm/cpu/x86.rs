//! Kernels for x86-64.
//!
//! The functions of the modules below are safe: the compiler allows calling them only from functions that are
//! compiled for at least the same features. `unsafe` is left for reading and writing vectors through
//! references to arrays of exactly their size, and for entering code that is compiled for a feature.
#![expect(
    unsafe_code,
    reason = "vectors are read and written through pointers, and features are detected at run time"
)]
use super::{Instructions, IntegerTile, Job};
use crate::minilm::matmul::PANEL;
use crate::minilm::quantized::Layout;
use crate::minilm::weights::GROUP;

/// Vectors of 256 bits.
mod wide256 {
    pub(super) use std::arch::x86_64::__m256i;
    use std::arch::x86_64::{
        __m256, _mm256_add_epi32, _mm256_cvtepi32_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_mul_ps,
        _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    };

    /// Numbers of 32 bits in a vector.
    pub(super) const LANES: usize = 8;

    pub(super) type Floats = __m256;

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn zero() -> __m256 {
        _mm256_setzero_ps()
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn load(values: &[f32; LANES]) -> __m256 {
        // SAFETY: the reference is valid for reading eight floats, and the instruction needs no alignment.
        unsafe { _mm256_loadu_ps(values.as_ptr()) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn store(values: __m256, out: &mut [f32; LANES]) {
        // SAFETY: the reference is valid for writing eight floats, and the instruction needs no alignment.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), values) }
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn multiply_add(a: f32, b: __m256, c: __m256) -> __m256 {
        _mm256_fmadd_ps(_mm256_set1_ps(a), b, c)
    }

    /// `out += sum * scale * scales`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn add_scaled(sum: __m256i, scale: f32, scales: &[f32; LANES], out: &mut [f32; LANES]) {
        let sum = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(scale));
        store(_mm256_fmadd_ps(sum, load(scales), load(out)), out);
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn add(a: __m256i, b: __m256i) -> __m256i {
        _mm256_add_epi32(a, b)
    }
}

/// Vectors of 512 bits.
mod wide512 {
    pub(super) use std::arch::x86_64::__m512i;
    use std::arch::x86_64::{
        __m512, _mm512_add_epi32, _mm512_cvtepi32_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mul_ps,
        _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    };

    /// Numbers of 32 bits in a vector.
    pub(super) const LANES: usize = 16;

    pub(super) type Floats = __m512;

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn zero() -> __m512 {
        _mm512_setzero_ps()
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn load(values: &[f32; LANES]) -> __m512 {
        // SAFETY: the reference is valid for reading sixteen floats, and the instruction needs no alignment.
        unsafe { _mm512_loadu_ps(values.as_ptr()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn store(values: __m512, out: &mut [f32; LANES]) {
        // SAFETY: the reference is valid for writing sixteen floats, and the instruction needs no alignment.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), values) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn multiply_add(a: f32, b: __m512, c: __m512) -> __m512 {
        _mm512_fmadd_ps(_mm512_set1_ps(a), b, c)
    }

    /// `out += sum * scale * scales`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn add_scaled(sum: __m512i, scale: f32, scales: &[f32; LANES], out: &mut [f32; LANES]) {
        let sum = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(scale));
        store(_mm512_fmadd_ps(sum, load(scales), load(out)), out);
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn add(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi32(a, b)
    }
}

/// Products of 16-bit numbers, added in pairs: weights are widened when they are loaded, so that no sum of two
/// products saturates, as it would with the instruction for 8-bit numbers.
mod pairs256 {
    use std::arch::x86_64::{
        _mm_loadu_si128, _mm256_cvtepi8_epi16, _mm256_madd_epi16, _mm256_set1_epi32, _mm256_setzero_si256,
    };

    use super::wide256::{__m256i, LANES, add};

    pub(super) type Level = i16;
    pub(super) const STEP: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn zero() -> __m256i {
        _mm256_setzero_si256()
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn start(_: &[i32; LANES]) -> __m256i {
        zero()
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn weights(weights: &[i8; LANES * STEP]) -> __m256i {
        // SAFETY: the reference is valid for reading 16 bytes, and the instruction needs no alignment.
        _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(weights.as_ptr().cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn broadcast(levels: [i16; STEP]) -> __m256i {
        _mm256_set1_epi32(super::pair(levels))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn dot(sum: __m256i, levels: __m256i, weights: __m256i) -> __m256i {
        add(sum, _mm256_madd_epi16(levels, weights))
    }

    /// 1 for one of the inputs of a step and 0 for the others.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn one_at(input: usize) -> __m256i {
        _mm256_set1_epi32(1 << (input * 16))
    }
}

/// The same as [`pairs256`] with twice the width.
mod pairs512 {
    use std::arch::x86_64::{
        _mm256_loadu_si256, _mm512_cvtepi8_epi16, _mm512_madd_epi16, _mm512_set1_epi32, _mm512_setzero_si512,
    };

    use super::wide512::{__m512i, LANES, add};

    pub(super) type Level = i16;
    pub(super) const STEP: usize = 2;

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn zero() -> __m512i {
        _mm512_setzero_si512()
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn start(_: &[i32; LANES]) -> __m512i {
        zero()
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn weights(weights: &[i8; LANES * STEP]) -> __m512i {
        // SAFETY: the reference is valid for reading 32 bytes, and the instruction needs no alignment.
        _mm512_cvtepi8_epi16(unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn broadcast(levels: [i16; STEP]) -> __m512i {
        _mm512_set1_epi32(super::pair(levels))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn dot(sum: __m512i, levels: __m512i, weights: __m512i) -> __m512i {
        add(sum, _mm512_madd_epi16(levels, weights))
    }

    /// 1 for one of the inputs of a step and 0 for the others.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn one_at(input: usize) -> __m512i {
        _mm512_set1_epi32(1 << (input * 16))
    }
}

/// Two numbers as they are in memory.
#[inline]
fn pair(levels: [i16; 2]) -> i32 {
    let [[a, b], [c, d]] = levels.map(i16::to_le_bytes);
    i32::from_le_bytes([a, b, c, d])
}

/// Products of unsigned by signed 8-bit numbers, added in fours.
mod fours256 {
    use std::arch::x86_64::{
        _mm256_dpbusd_avx_epi32, _mm256_loadu_si256, _mm256_set1_epi32, _mm256_setzero_si256,
    };

    use super::wide256::{__m256i, LANES};

    pub(super) type Level = u8;
    pub(super) const STEP: usize = 4;

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn zero() -> __m256i {
        _mm256_setzero_si256()
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn start(starts: &[i32; LANES]) -> __m256i {
        // SAFETY: the reference is valid for reading eight numbers, and the instruction needs no alignment.
        unsafe { _mm256_loadu_si256(starts.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn weights(weights: &[i8; LANES * STEP]) -> __m256i {
        // SAFETY: the reference is valid for reading 32 bytes, and the instruction needs no alignment.
        unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn broadcast(levels: [u8; STEP]) -> __m256i {
        _mm256_set1_epi32(i32::from_le_bytes(levels))
    }

    #[inline]
    #[target_feature(enable = "avx2,avxvnni")]
    pub(super) fn dot(sum: __m256i, levels: __m256i, weights: __m256i) -> __m256i {
        _mm256_dpbusd_avx_epi32(sum, levels, weights)
    }

    /// 1 for one of the inputs of a step and 0 for the others.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn one_at(input: usize) -> __m256i {
        _mm256_set1_epi32(1 << (input * 8))
    }
}

/// The same as [`fours256`] with twice the width.
mod fours512 {
    use std::arch::x86_64::{
        _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_si512,
    };

    use super::wide512::{__m512i, LANES};

    pub(super) type Level = u8;
    pub(super) const STEP: usize = 4;

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn zero() -> __m512i {
        _mm512_setzero_si512()
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn start(starts: &[i32; LANES]) -> __m512i {
        // SAFETY: the reference is valid for reading sixteen numbers, and the instruction needs no alignment.
        unsafe { _mm512_loadu_si512(starts.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn weights(weights: &[i8; LANES * STEP]) -> __m512i {
        // SAFETY: the reference is valid for reading 64 bytes, and the instruction needs no alignment.
        unsafe { _mm512_loadu_si512(weights.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn broadcast(levels: [u8; STEP]) -> __m512i {
        _mm512_set1_epi32(i32::from_le_bytes(levels))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn dot(sum: __m512i, levels: __m512i, weights: __m512i) -> __m512i {
        _mm512_dpbusd_epi32(sum, levels, weights)
    }

    /// 1 for one of the inputs of a step and 0 for the others.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn one_at(input: usize) -> __m512i {
        _mm512_set1_epi32(1 << (input * 8))
    }
}

/// Defines an instruction set: its proof of detection, the two tiles and the entry to code that is compiled for it.
macro_rules! instruction_set {
    (
        $(#[$doc:meta])*
        $name:ident, $features:literal, [$($feature:tt),*], $floats:ident, $integers:ident, $vectors:literal
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(());

        impl $name {
            /// The proof that the processor has the instructions.
            pub(super) fn detect() -> Option<Self> {
                ($(std::arch::is_x86_feature_detected!($feature))&&*).then_some(Self(()))
            }

            pub(super) fn run<J: Job>(self, job: J) -> J::Output {
                #[target_feature(enable = $features)]
                fn compiled<J: Job>(set: $name, job: J) -> J::Output {
                    job.run(set)
                }
                // SAFETY: `self` exists, so all features were detected.
                unsafe { compiled(self, job) }
            }
        }

        impl Instructions for $name {
            const FMA: bool = true;
            const LAYOUT: Layout = Layout {
                outputs: $vectors * $floats::LANES,
                step: $integers::STEP,
            };
            type Level = $integers::Level;

            #[inline]
            fn float_tile<const HEIGHT: usize>(
                self,
                inputs: &[[f32; HEIGHT]],
                lanes: &[[f32; PANEL]],
                sums: &mut [[f32; PANEL]; HEIGHT],
            ) {
                #[inline]
                #[target_feature(enable = $features)]
                fn compiled<const HEIGHT: usize>(
                    inputs: &[[f32; HEIGHT]],
                    lanes: &[[f32; PANEL]],
                    out: &mut [[f32; PANEL]; HEIGHT],
                ) {
                    const VECTORS: usize = PANEL / $floats::LANES;
                    let mut sums: [[$floats::Floats; VECTORS]; HEIGHT] = [[$floats::zero(); VECTORS]; HEIGHT];
                    for row in 0..HEIGHT {
                        let (out, _) = out[row].as_chunks::<{ $floats::LANES }>();
                        for vector in 0..VECTORS {
                            sums[row][vector] = $floats::load(&out[vector]);
                        }
                    }
                    for (inputs, lanes) in inputs.iter().zip(lanes) {
                        let (lanes, _) = lanes.as_chunks::<{ $floats::LANES }>();
                        for vector in 0..VECTORS {
                            let lanes = $floats::load(&lanes[vector]);
                            for row in 0..HEIGHT {
                                sums[row][vector] = $floats::multiply_add(inputs[row], lanes, sums[row][vector]);
                            }
                        }
                    }
                    for row in 0..HEIGHT {
                        let (out, _) = out[row].as_chunks_mut::<{ $floats::LANES }>();
                        for vector in 0..VECTORS {
                            $floats::store(sums[row][vector], &mut out[vector]);
                        }
                    }
                }
                // SAFETY: `self` exists, so all features were detected.
                unsafe { compiled(inputs, lanes, sums) }
            }

            #[inline]
            fn integer_tile<const HEIGHT: usize>(
                self,
                tile: IntegerTile<'_, Self::Level>,
                out: &mut [f32],
                stride: usize,
            ) {
                #[inline]
                #[target_feature(enable = $features)]
                fn compiled<const HEIGHT: usize>(
                    tile: IntegerTile<'_, $integers::Level>,
                    out: &mut [f32],
                    stride: usize,
                ) {
                    const LANES: usize = $floats::LANES;
                    const STEP: usize = $integers::STEP;
                    const OUTPUTS: usize = $vectors * LANES;
                    let groups = tile.groups.len() / HEIGHT;
                    let (levels, _) = tile.levels.as_chunks::<GROUP>();
                    let (weights, _) = tile.weights.as_chunks::<{ LANES * STEP }>();
                    let (weights, _) = weights.as_chunks::<$vectors>();
                    let (weights, _) = weights.as_chunks::<{ GROUP / STEP }>();
                    let (scales, _) = tile.scales.as_chunks::<LANES>();
                    let (scales, _) = scales.as_chunks::<$vectors>();
                    let (starts, _) = tile.starts.as_chunks::<LANES>();
                    let (starts, _) = starts.as_chunks::<$vectors>();
                    let (bias, _) = tile.bias.as_chunks::<LANES>();
                    let (bias, _) = bias.as_chunks::<$vectors>();
                    let mut totals = [bias[0]; HEIGHT];
                    for group in 0..groups {
                        let mut inputs = [&levels[0]; HEIGHT];
                        for row in 0..HEIGHT {
                            inputs[row] = &levels[row * groups + group];
                        }
                        let mut sums = [[$integers::start(&starts[group][0]); $vectors]; HEIGHT];
                        for row in 0..HEIGHT {
                            for vector in 0..$vectors {
                                sums[row][vector] = $integers::start(&starts[group][vector]);
                            }
                        }
                        for (step, weights) in weights[group].iter().enumerate() {
                            let mut loaded = [$integers::weights(&weights[0]); $vectors];
                            for vector in 0..$vectors {
                                loaded[vector] = $integers::weights(&weights[vector]);
                            }
                            for row in 0..HEIGHT {
                                let (inputs, _) = inputs[row].as_chunks::<STEP>();
                                let levels = $integers::broadcast(inputs[step]);
                                for vector in 0..$vectors {
                                    sums[row][vector] = $integers::dot(sums[row][vector], levels, loaded[vector]);
                                }
                            }
                        }
                        for row in 0..HEIGHT {
                            let scale = tile.groups[row * groups + group].scale;
                            for vector in 0..$vectors {
                                $floats::add_scaled(
                                    sums[row][vector],
                                    scale,
                                    &scales[group][vector],
                                    &mut totals[row][vector],
                                );
                            }
                        }
                        // A loop of its own: the one above must be unrolled to keep the sums in registers.
                        for row in 0..HEIGHT {
                            let row_group = &tile.groups[row * groups + group];
                            if row_group.residual == 0.0 {
                                continue;
                            }
                            let weights = &weights[group][row_group.outlier / STEP];
                            let one = $integers::one_at(row_group.outlier % STEP);
                            for vector in 0..$vectors {
                                let weights = $integers::weights(&weights[vector]);
                                $floats::add_scaled(
                                    $integers::dot($integers::zero(), one, weights),
                                    row_group.residual,
                                    &scales[group][vector],
                                    &mut totals[row][vector],
                                );
                            }
                        }
                    }
                    for row in 0..HEIGHT {
                        out[row * stride..row * stride + OUTPUTS].copy_from_slice(totals[row].as_flattened());
                    }
                }
                // SAFETY: `self` exists, so all features were detected.
                unsafe { compiled::<HEIGHT>(tile, out, stride) }
            }
        }
    };
}

instruction_set!(
    /// AVX2 with fused multiply-add, which nearly every x86-64 processor since 2013 has.
    Avx2, "avx2,fma", ["avx2", "fma"], wide256, pairs256, 2
);
instruction_set!(
    /// AVX2 with dot products of 8-bit numbers: desktop processors since 2021.
    AvxVnni, "avx2,fma,avxvnni", ["avx2", "fma", "avxvnni"], wide256, fours256, 2
);
instruction_set!(
    /// AVX-512: server processors since 2017.
    Avx512, "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq",
    ["avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq"], wide512, pairs512, 4
);
instruction_set!(
    /// AVX-512 with dot products of 8-bit numbers: server processors since 2019.
    Avx512Vnni, "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni",
    ["avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vnni"], wide512, fours512, 4
);
