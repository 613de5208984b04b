//! Two texts, separated by the first newline: no panic, a text never differs from itself, and the result is symmetric.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satiety::text::guard::{agree, differences};

fuzz_target!(|text: &str| {
    let (a, b) = text.split_once('\n').unwrap_or((text, ""));
    assert_eq!(differences(a, a), []);
    assert_eq!(agree(a, b), agree(b, a));
    for difference in differences(a, b) {
        assert!(!difference.to_string().is_empty());
    }
});
