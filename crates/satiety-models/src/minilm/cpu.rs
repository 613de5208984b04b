//! Selects the instruction set at run time: the only place with `unsafe`.
//!
//! The forward pass is safe code that the compiler vectorizes. It is compiled twice, once for the baseline of
//! the target and once for AVX2 with fused multiply-add, which nearly every x86-64 processor since 2013
//! supports.
use super::config::Pooling;
use super::forward::forward;
use super::weights::Weights;

/// [`forward`] with the best instructions that this processor supports.
pub(crate) fn forward_here(weights: &Weights, pooling: Pooling, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        #[expect(
            unsafe_code,
            reason = "a function compiled for optional instructions is unsafe to call"
        )]
        // SAFETY: the only requirement for calling a safe `target_feature` function is that the processor has
        // the features, and both were detected just above.
        return unsafe { forward_avx2(weights, pooling, texts) };
    }
    // The baseline of 64-bit ARM has fused multiply-add.
    forward::<{ cfg!(target_arch = "aarch64") }>(weights, pooling, texts)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn forward_avx2(weights: &Weights, pooling: Pooling, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
    forward::<true>(weights, pooling, texts)
}
