//! Parses arbitrary bytes in every detected format: the result is a value or an error, and parsed values round-trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satiety::dialogue::input::{InputFormat, ReadOptions, parse};

fuzz_target!(|bytes: &[u8]| {
    for growing in [false, true] {
        let _ = parse(bytes, ReadOptions { format: None, growing });
    }
    if let Ok(input) = parse(bytes, ReadOptions { format: Some(InputFormat::Transcript), growing: false }) {
        let written = satiety::dialogue::input::to_json(&input.content);
        let again = parse(written.as_bytes(), ReadOptions { format: Some(InputFormat::Transcript), growing: false });
        assert_eq!(again.map(|again| again.content), Ok(input.content));
    }
});
