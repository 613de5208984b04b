//! Arbitrary text: sentences are in order, inside the text and not empty.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satiety::text::{normalize, sentences};

fuzz_target!(|text: &str| {
    let mut at = 0;
    for sentence in sentences(text) {
        let start = sentence.text.as_ptr() as usize - text.as_ptr() as usize;
        assert!(start >= at && !sentence.text.is_empty());
        at = start + sentence.text.len();
        assert!(at <= text.len());
    }
    let normal = normalize(text);
    assert_eq!(normalize(&normal), normal);
});
