//! Kernels for x86-64.
//!
//! The functions of the modules below are safe: the compiler allows calling them only from functions that are
//! compiled for at least the same features. `unsafe` is left for reading and writing vectors through
//! references to arrays of exactly their size, and for entering code that is compiled for a feature.
#![expect(
    unsafe_code,
    reason = "vectors are read and written through pointers, and features are detected at run time"
)]
use super::kernels::define_set;

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

    /// `total + sum * scale * scales`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn add_scaled(total: __m256, sum: __m256i, scale: f32, scales: &[f32; LANES]) -> __m256 {
        let sum = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(scale));
        _mm256_fmadd_ps(sum, load(scales), total)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn transpose(block: &[[f32; 16]; 16]) -> [[f32; 16]; 16] {
        crate::minilm::cpu::transpose(block)
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
        _mm512_permutex2var_ps, _mm512_set1_ps, _mm512_setr_epi32, _mm512_setzero_ps, _mm512_storeu_ps,
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

    /// `total + sum * scale * scales`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn add_scaled(total: __m512, sum: __m512i, scale: f32, scales: &[f32; LANES]) -> __m512 {
        let sum = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(scale));
        _mm512_fmadd_ps(sum, load(scales), total)
    }

    /// In four rounds, each of which interleaves the rows `i` and `i + 8`: this rotates the eight bits of an
    /// index, the number of the row and of the column, by one.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn transpose(block: &[[f32; 16]; 16]) -> [[f32; 16]; 16] {
        let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        let mut rows = [zero(); 16];
        for row in 0..16 {
            rows[row] = load(&block[row]);
        }
        for _ in 0..4 {
            let before = rows;
            for row in 0..8 {
                rows[2 * row] = _mm512_permutex2var_ps(before[row], low, before[row + 8]);
                rows[2 * row + 1] = _mm512_permutex2var_ps(before[row], high, before[row + 8]);
            }
        }
        let mut out = [[0.0; 16]; 16];
        for row in 0..16 {
            store(rows[row], &mut out[row]);
        }
        out
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

    pub(super) use zero as no_weights;

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

    pub(super) use zero as no_weights;

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

    pub(super) use zero as no_weights;

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

/// [`fours256`] with the instruction as processors with AVX-512 encode it, so that they can test the rest.
#[cfg(test)]
mod fours256_of_avx512 {
    use std::arch::x86_64::_mm256_dpbusd_epi32;

    pub(super) use super::fours256::{Level, STEP, broadcast, no_weights, one_at, start, weights, zero};
    use super::wide256::__m256i;

    #[inline]
    #[target_feature(enable = "avx2,avx512vl,avx512vnni")]
    pub(super) fn dot(sum: __m256i, levels: __m256i, weights: __m256i) -> __m256i {
        _mm256_dpbusd_epi32(sum, levels, weights)
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

    pub(super) use zero as no_weights;

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

define_set!(
    /// AVX2 with fused multiply-add, which nearly every x86-64 processor since 2013 has.
    Avx2, "avx2,fma", is_x86_feature_detected, ["avx2", "fma"], wide256, pairs256, 2, 6
);
define_set!(
    /// AVX2 with dot products of 8-bit numbers: desktop processors since 2021.
    AvxVnni, "avx2,fma,avxvnni", is_x86_feature_detected, ["avx2", "fma", "avxvnni"], wide256, fours256, 2, 6
);
define_set!(
    /// AVX-512: server processors since 2017.
    Avx512, "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq",
    is_x86_feature_detected, ["avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq"], wide512, pairs512, 4, 3
);
define_set!(
    /// AVX-512 with dot products of 8-bit numbers: server processors since 2019.
    Avx512Vnni, "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni",
    is_x86_feature_detected, ["avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vnni"], wide512, fours512, 4, 3
);
#[cfg(test)]
define_set!(
    /// [`AvxVnni`] on a processor with AVX-512.
    NarrowVnni, "avx2,fma,avx512f,avx512vl,avx512vnni",
    is_x86_feature_detected, ["avx2", "fma", "avx512f", "avx512vl", "avx512vnni"], wide256, fours256_of_avx512, 2, 6
);
