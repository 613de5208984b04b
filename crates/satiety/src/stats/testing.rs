//! Comparison with oracles, for the tests of this folder.

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
