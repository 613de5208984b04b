//! Seeded claims: 10 to 25 words of a Zipf vocabulary; three in ten are perturbed copies of an earlier claim.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const VOCABULARY: usize = 20_000;

/// Generates `count` claims, deterministic by seed.
pub fn generate(count: usize, seed: u64) -> Vec<String> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let words: Vec<String> = (0..VOCABULARY).map(pseudo_word).collect();
    let cumulative = zipf_mandelbrot();
    let mut claims: Vec<Vec<usize>> = Vec::with_capacity(count);
    for _ in 0..count {
        let claim = if !claims.is_empty() && random.random_bool(0.3) {
            let source = claims[random.random_range(0..claims.len())].clone();
            perturb(&source, &cumulative, &mut random)
        } else {
            (0..random.random_range(10..=25))
                .map(|_| draw(&cumulative, &mut random))
                .collect()
        };
        claims.push(claim);
    }
    claims
        .iter()
        .map(|claim| {
            claim
                .iter()
                .map(|&word| words[word].as_str())
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

/// Replaces, drops or adds words at a rate between 5 and 45 %, so that every degree of similarity occurs.
fn perturb(source: &[usize], cumulative: &[f64], random: &mut impl Rng) -> Vec<usize> {
    let rate = random.random_range(0.05..0.45);
    let mut claim = Vec::with_capacity(source.len() + 4);
    for &word in source {
        if !random.random_bool(rate) {
            claim.push(word);
            continue;
        }
        match random.random_range(0..3) {
            0 => claim.push(draw(cumulative, random)),
            1 => claim.extend([word, draw(cumulative, random)]),
            _ => {}
        }
    }
    if claim.is_empty() { source.to_vec() } else { claim }
}

/// Cumulative weights of 1/(rank + 2.7), normalized to one.
fn zipf_mandelbrot() -> Vec<f64> {
    let mut total = 0.0;
    let mut cumulative: Vec<f64> = (0..VOCABULARY)
        .map(|rank| {
            total += 1.0 / (rank as f64 + 1.0 + 2.7);
            total
        })
        .collect();
    for sum in &mut cumulative {
        *sum /= total;
    }
    cumulative
}

fn draw(cumulative: &[f64], random: &mut impl Rng) -> usize {
    let point: f64 = random.random();
    cumulative.partition_point(|sum| *sum < point).min(VOCABULARY - 1)
}

/// Pronounceable word that is unique to this number.
fn pseudo_word(number: usize) -> String {
    const CONSONANTS: &[u8] = b"bdfgklmnprstvz";
    const VOWELS: &[u8] = b"aeiou";
    let mut word = String::new();
    let mut rest = number + VOWELS.len() * CONSONANTS.len();
    while rest > 0 {
        word.push(char::from(CONSONANTS[rest % CONSONANTS.len()]));
        rest /= CONSONANTS.len();
        word.push(char::from(VOWELS[rest % VOWELS.len()]));
        rest /= VOWELS.len();
    }
    word
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn words_are_distinct_and_claims_repeat_by_seed() {
        let words: BTreeSet<String> = (0..VOCABULARY).map(pseudo_word).collect();
        assert_eq!(words.len(), VOCABULARY);
        assert_eq!(generate(50, 7), generate(50, 7));
        assert_ne!(generate(50, 7), generate(50, 8));
    }
}
