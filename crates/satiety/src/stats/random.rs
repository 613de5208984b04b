//! Seeded chance: resample `i` draws from stream `i` of the seed, so that results do not depend on the order or
//! the number of threads in which resamples are made.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The generator of one resample.
pub(crate) fn stream(seed: u64, resample: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(resample);
    random
}

/// A number below `bound`, without bias (Lemire 2019).
pub(crate) fn below(random: &mut impl Rng, bound: u32) -> u32 {
    loop {
        let product = u64::from(random.next_u32()) * u64::from(bound);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low and the high half are wanted"
        )]
        let (low, high) = (product as u32, (product >> 32) as u32);
        // The exact threshold costs a division; it is needed only when the low half is small.
        if low >= bound || low >= bound.wrapping_neg() % bound {
            return high;
        }
    }
}

/// A uniform number in [0, 1) with 53 bits.
#[cfg(test)]
pub(crate) fn uniform(random: &mut impl Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}
