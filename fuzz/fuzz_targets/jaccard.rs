//! Lines as statements, the first byte as threshold: the index returns the same matches as an exhaustive comparison.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satiety::text::{JaccardIndex, Threshold, Tokenization};

fuzz_target!(|input: (u8, bool, String)| {
    let (percent, whitespace, text) = input;
    let value = f64::from(percent % 100 + 1) / 100.0;
    let tokenization = if whitespace { Tokenization::Whitespace } else { Tokenization::Words };
    let threshold = Threshold::new(value).expect("between 0.01 and 1");
    let mut index = JaccardIndex::new(value, tokenization).expect("the same");
    let mut seen = Vec::new();
    for line in text.lines().take(40) {
        let words = tokenization.set(line);
        let mut best: Option<(u32, u32, u32)> = None;
        for (id, other) in seen.iter().enumerate() {
            let overlap = words.intersection(other).count() as u32;
            let union = words.union(other).count() as u32;
            let better = best.is_none_or(|(_, o, u)| u64::from(overlap) * u64::from(u) > u64::from(o) * u64::from(union));
            if threshold.is_reached_by(overlap, union) && better {
                best = Some((id as u32, overlap, union));
            }
        }
        let found = index.best_match(line).map(|found| (found.id, found.overlap, found.union));
        assert_eq!(found, best, "{line:?}");
        assert_eq!(index.observe(line).0.map(|found| found.id), best.map(|best| best.0));
        seen.push(words);
    }
});
