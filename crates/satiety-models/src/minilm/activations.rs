//! Element-wise functions of the encoder: exponential, GELU, softmax, layer norm, normalization to unit
//! length.
//!
//! Written over lanes of 16 in a fixed order, so that they vectorize and always sum in the same order. The
//! tests below check their accuracy.
#![expect(
    clippy::inline_always,
    reason = "compiled again for each instruction set, see cpu/mod.rs"
)]
use super::cpu::Instructions;
use super::matmul::PANEL;

/// `e^x` for finite `x`, relative error below 2e-7; results below 2^-126 are 0 or tiny, results above e^88
/// are large.
///
/// `x = n ln 2 + r`, `|r| <= ln 2 / 2`, `e^x = 2^n e^r`, `e^r` by its Taylor polynomial of degree 7.
#[inline(always)]
pub(crate) fn exp<I: Instructions>(x: f32) -> f32 {
    // 1.5 * 2^23: adding it leaves the nearest integer in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts; the first has few bits, so that its product with n is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 88.0);
    let rounded = I::multiply_add(x, std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = I::multiply_add(n, -LN2_LOW, I::multiply_add(n, -LN2_HIGH, x));
    let mut p = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = I::multiply_add(p, r, coefficient);
    }
    // The low bits of `rounded` are n; shifting leaves only n in the exponent.
    let power = f32::from_bits((rounded.to_bits() << 23).wrapping_add(127 << 23));
    p * power
}

/// `x Φ(x)`, the exact GELU, with `erfc` after Abramowitz and Stegun 7.1.26 (absolute error below 1.5e-7).
#[inline(always)]
pub(crate) fn gelu<I: Instructions>(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / I::multiply_add(0.327_591_1, z, 1.0);
    let mut p = 1.061_405_4;
    for coefficient in [-1.453_152_f32, 1.421_413_8, -0.284_496_72, 0.254_829_6] {
        p = I::multiply_add(p, t, coefficient);
    }
    let erfc = p * t * exp::<I>(-z * z);
    // For a negative x, Φ is erfc/2: no difference of nearly equal numbers.
    let twice_phi = if x < 0.0 { erfc } else { 2.0 - erfc };
    0.5 * x * twice_phi
}

/// [`gelu`] within 5e-5 (within 5e-5 times x beyond 4), at half the cost: for values that are quantized next, to
/// steps a hundred times as large.
///
/// `Φ(x) - 1/2` is odd: x times a minimax polynomial in x², for |x| <= 4, where Φ differs from 0 or 1 by 3e-5.
#[inline(always)]
pub(crate) fn rough_gelu<I: Instructions>(x: f32) -> f32 {
    let bounded = x.clamp(-4.0, 4.0);
    let square = bounded * bounded;
    let mut p = -1.301_295_4e-9;
    for coefficient in [
        1.041_961e-7_f32,
        -3.657_134_2e-6,
        7.485_506e-5,
        -1.006_490_5e-3,
        9.505_399e-3,
        -6.588_784e-2,
        0.398_673_4,
    ] {
        p = I::multiply_add(p, square, coefficient);
    }
    x * I::multiply_add(bounded, p, 0.5)
}

/// Replaces a row of scores by the softmax of their multiples by `factor`, a positive number. The row consists
/// of whole panels; values beyond `length` become 0.
#[inline(always)]
pub(crate) fn softmax<I: Instructions>(row: &mut [f32], length: usize, factor: f32) {
    row[length..].fill(f32::MIN);
    let (lanes, _) = row.as_chunks_mut::<PANEL>();
    let mut largest = [f32::MIN; PANEL];
    for chunk in lanes.iter() {
        for lane in 0..PANEL {
            largest[lane] = if chunk[lane] > largest[lane] {
                chunk[lane]
            } else {
                largest[lane]
            };
        }
    }
    let largest = largest.iter().fold(f32::MIN, |a, b| a.max(*b));
    let mut sums = [0.0f32; PANEL];
    for chunk in lanes.iter_mut() {
        for lane in 0..PANEL {
            chunk[lane] = exp::<I>((chunk[lane] - largest) * factor);
            sums[lane] += chunk[lane];
        }
    }
    // The minimum of exp is e^-87, not 0, which is negligible in the sum of a row whose largest term is 1.
    let scale = 1.0 / total(&sums);
    for chunk in lanes.iter_mut() {
        for value in chunk {
            *value *= scale;
        }
    }
    row[length..].fill(0.0);
}

/// `hidden = norm(hidden + update) * gain + bias` for one row.
#[inline(always)]
pub(crate) fn add_and_norm<I: Instructions>(
    hidden: &mut [f32],
    update: &[f32],
    gain: &[f32],
    bias: &[f32],
    epsilon: f32,
) {
    for (value, update) in hidden.iter_mut().zip(update) {
        *value += update;
    }
    norm::<I>(hidden, gain, bias, epsilon);
}

/// Layer norm of one row in place; the variance is the mean of squared differences, as in the reference.
#[inline(always)]
pub(crate) fn norm<I: Instructions>(hidden: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) {
    let count = hidden.len() as f32;
    let mean = sum_of(hidden, |value| value) / count;
    let variance = sum_of(hidden, |value| (value - mean) * (value - mean)) / count;
    let scale = 1.0 / (variance + epsilon).sqrt();
    for ((value, gain), bias) in hidden.iter_mut().zip(gain).zip(bias) {
        *value = I::multiply_add((*value - mean) * scale, *gain, *bias);
    }
}

/// Scales a vector to length 1; a zero vector stays unchanged.
#[inline(always)]
pub(crate) fn to_unit_length(vector: &mut [f32]) {
    let length = sum_of(vector, |value| value * value).sqrt();
    if length > 0.0 {
        for value in vector {
            *value /= length;
        }
    }
}

#[inline(always)]
fn sum_of(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let (lanes, rest) = values.as_chunks::<PANEL>();
    let mut sums = [0.0f32; PANEL];
    for chunk in lanes {
        for lane in 0..PANEL {
            sums[lane] += term(chunk[lane]);
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += term(*value);
    }
    total(&sums)
}

/// Adds the lanes pairwise, as a vector unit would.
#[inline(always)]
fn total(sums: &[f32; PANEL]) -> f32 {
    let mut sums = *sums;
    let mut width = PANEL / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minilm::cpu::{InstructionSet, Job, Portable};

    /// Values of a function with the instructions of every available set.
    struct Values<'a>(Function, &'a [f32]);

    #[derive(Clone, Copy)]
    enum Function {
        Exp,
        Gelu,
        RoughGelu,
    }

    impl Job for Values<'_> {
        type Output = Vec<f32>;

        #[inline(always)]
        fn run<I: Instructions>(self, _: I) -> Vec<f32> {
            let Self(function, values) = self;
            values
                .iter()
                .map(|x| match function {
                    Function::Exp => exp::<I>(*x),
                    Function::Gelu => gelu::<I>(*x),
                    Function::RoughGelu => rough_gelu::<I>(*x),
                })
                .collect()
        }
    }

    fn with_every_set(function: Function, x: f32) -> impl Iterator<Item = f32> {
        InstructionSet::available().flat_map(move |set| set.run(Values(function, &[x])))
    }

    #[test]
    fn exp_agrees_with_the_standard_library() {
        for step in -8600..8700i16 {
            let x = f32::from(step) * 0.01;
            let expected = f64::from(x).exp();
            for found in with_every_set(Function::Exp, x) {
                assert!(
                    (f64::from(found) / expected - 1.0).abs() < 3e-7,
                    "exp({x}) = {found}, not {expected}"
                );
            }
        }
        for found in with_every_set(Function::Exp, -1e30) {
            assert!((0.0..1e-37).contains(&found));
        }
    }

    #[test]
    fn gelu_agrees_with_scipy() {
        // python -c "from scipy.stats import norm; print([(x, x*norm.cdf(x)) for x in (-8,-4,-2,-1,-.5,-.1,0,.1,.5,1,2,4,8)])"
        let table = [
            (-8.0, -4.976768459417392e-15),
            (-4.0, -0.00012668496733247945),
            (-2.0, -0.04550026389635839),
            (-1.0, -0.15865525393145707),
            (-0.5, -0.15426876936299344),
            (-0.1, -0.0460172162722971),
            (0.0, 0.0),
            (0.1, 0.053982783727702904),
            (0.5, 0.34573123063700656),
            (1.0, 0.8413447460685429),
            (2.0, 1.9544997361036416),
            (4.0, 3.9998733150326675),
            (8.0, 7.999999999999995),
        ];
        for (x, expected) in table {
            for found in with_every_set(Function::Gelu, x) {
                assert!(
                    (f64::from(found) - expected).abs() < 4e-7,
                    "gelu({x}) = {found}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn rough_gelu_is_near_the_exact_one() {
        for step in -1200..1200i16 {
            let x = f32::from(step) * 0.01;
            let exact = gelu::<Portable>(x);
            for found in with_every_set(Function::RoughGelu, x) {
                let allowed = if x.abs() <= 4.0 { 5e-5 } else { 5e-5 * x.abs() };
                assert!(
                    (found - exact).abs() < allowed,
                    "gelu({x}) = {found}, not {exact}"
                );
            }
        }
    }

    #[test]
    fn softmax_ignores_values_beyond_the_length() {
        let mut row = [9.0f32; 32];
        row[..3].copy_from_slice(&[2.0, 4.0, 6.0]);
        softmax::<Portable>(&mut row, 3, 0.5);
        // python -c "import numpy as np; e=np.exp([1,2,3]); print(e/e.sum())"
        for (found, expected) in row.iter().zip([0.09003057, 0.24472847, 0.66524096]) {
            assert!((found - expected).abs() < 1e-6);
        }
        assert!(row[3..].iter().all(|value| *value == 0.0));
    }

    #[test]
    fn norm_gives_mean_zero_and_variance_one() {
        let mut row: Vec<f32> = (0..40u16).map(|i| f32::from(i * 7 % 13)).collect();
        norm::<Portable>(&mut row, &[1.0; 40], &[0.0; 40], 1e-12);
        assert!(row.iter().sum::<f32>().abs() < 1e-4);
        assert!((row.iter().map(|v| v * v).sum::<f32>() / 40.0 - 1.0).abs() < 1e-5);
    }

    #[test]
    fn a_zero_vector_has_no_direction() {
        let mut zero = [0.0f32; 20];
        to_unit_length(&mut zero);
        assert!(zero.iter().all(|value| *value == 0.0));
    }
}
