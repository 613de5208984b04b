//! Comparison with oracles, for the tests of this directory.

/// Asserts that `actual` is within `tolerance` of `expected`, relative to the larger of 1 and the expected
/// magnitude, so that small values are compared absolutely.
#[track_caller]
pub(crate) fn assert_close(actual: f64, expected: f64, tolerance: f64) {
    let scale = expected.abs().max(1.0);
    assert!(
        (actual - expected).abs() <= tolerance * scale,
        "{actual:e} is not {expected:e} (off by {:e}, tolerance {tolerance:e})",
        (actual - expected).abs() / scale
    );
}

/// Asserts agreement relative to the expected value alone, for tail probabilities.
#[track_caller]
pub(crate) fn assert_relative(actual: f64, expected: f64, tolerance: f64) {
    assert!(
        (actual - expected).abs() <= tolerance * expected.abs(),
        "{actual:e} is not {expected:e} (relative {:e}, tolerance {tolerance:e})",
        ((actual - expected) / expected).abs()
    );
}

/// Sample used by several tests; `B` is its partner in paired tests.
pub(crate) const A: [f64; 12] = [
    0.81, 0.34, 0.55, 1.0, 0.62, 0.13, 0.77, 0.5, 0.91, 0.28, 0.66, 0.47,
];

/// Partner of `A`: one difference is zero, some are tied.
pub(crate) const B: [f64; 12] = [
    0.74, 0.39, 0.41, 0.86, 0.62, 0.2, 0.58, 0.43, 0.79, 0.31, 0.45, 0.36,
];
