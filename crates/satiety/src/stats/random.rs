//! Seeded randomness: resample `i` draws from stream `i` of the seed, so that results do not depend on the
//! order or the number of threads.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Generator of one resample.
pub(crate) fn stream(seed: u64, resample: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(resample);
    random
}

/// Fast draws with replacement from `0..bound`. About ten million draws per second are needed, and a
/// cryptographic generator would dominate the cost. ChaCha therefore only supplies, for each resample, the
/// state of Wang Yi's wyrand (final version 4.2), a counter whose values are mixed by one wide
/// multiplication.
pub(crate) struct Draws {
    state: u64,
    bound: u32,
}

impl Draws {
    /// Draws of one resample.
    pub(crate) fn new(seed: u64, resample: u64, bound: u32) -> Self {
        Self {
            state: stream(seed, resample).next_u64(),
            bound,
        }
    }

    #[inline]
    pub(crate) fn pair(&mut self) -> [usize; 2] {
        let bits = self.bits();
        #[expect(clippy::cast_possible_truncation, reason = "the two halves are wanted")]
        let (low, high) = (bits as u32, (bits >> 32) as u32);
        [self.below(low), self.below(high)]
    }

    /// Unbiased number below the bound from 32 random bits (Lemire 2019).
    #[inline]
    fn below(&mut self, bits: u32) -> usize {
        let product = u64::from(bits) * u64::from(self.bound);
        #[expect(clippy::cast_possible_truncation, reason = "the low half is wanted")]
        let low = product as u32;
        if low < self.bound {
            return self.settle(product);
        }
        (product >> 32) as usize
    }

    /// The rare case in which the product may bias some numbers and has to be rejected.
    #[cold]
    fn settle(&mut self, mut product: u64) -> usize {
        let threshold = self.bound.wrapping_neg() % self.bound;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low half, or any 32 fresh bits"
        )]
        while (product as u32) < threshold {
            product = u64::from(self.bits() as u32) * u64::from(self.bound);
        }
        (product >> 32) as usize
    }

    #[inline]
    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x2d35_8dcc_aa6c_78a5);
        let product = u128::from(self.state) * u128::from(self.state ^ 0x8bb8_4b93_962e_acc9);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves are mixed")]
        let mixed = (product >> 64) as u64 ^ product as u64;
        mixed
    }
}

/// Uniform number in [0, 1) with 53 bits.
#[cfg(test)]
pub(crate) fn uniform(random: &mut impl Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    // Oracle: the same two lines in Python, `s = s + 0x2d358dccaa6c78a5 & M; t = s * (s ^ 0x8bb84b93962eacc9);
    // (t >> 64 ^ t) & M`, from s = 0.
    #[test]
    fn the_generator_is_wyrand() {
        let mut draws = Draws { state: 0, bound: 1 };
        for expected in [
            11116517241604665558,
            91298403691422709,
            1747996488805885078,
            5609826828018144761,
        ] {
            assert_eq!(draws.bits(), expected);
        }
    }

    #[test]
    fn draws_are_even() {
        // Three quarters of 2^32: the bias without rejection would be a third.
        let mut draws = Draws::new(1, 0, 3 << 30);
        let low = (0..20_000)
            .flat_map(|_| draws.pair())
            .filter(|&draw| draw < 1 << 30)
            .count();
        assert!((low as f64 / 40_000.0 - 1.0 / 3.0).abs() < 0.01, "{low}");
        let mut draws = Draws::new(1, 0, 5);
        let mut counts = [0; 5];
        for draw in (0..10_000).flat_map(|_| draws.pair()) {
            counts[draw] += 1;
        }
        assert!(
            counts.iter().all(|&count| (3800..4200).contains(&count)),
            "{counts:?}"
        );
    }

    #[test]
    fn streams_differ() {
        assert_ne!(stream(1, 0).next_u64(), stream(1, 1).next_u64());
        assert_ne!(stream(1, 0).next_u64(), stream(2, 0).next_u64());
        assert_eq!(stream(1, 7).next_u64(), stream(1, 7).next_u64());
    }
}
