//! Parses arbitrary bytes as a trace, finished or growing: every prefix of a valid file is valid as a growing file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satiety::dialogue::input::{InputError, InputFormat, ReadOptions, parse};

fuzz_target!(|bytes: &[u8]| {
    let format = Some(InputFormat::Trace);
    if parse(bytes, ReadOptions { format, growing: false }).is_ok() && bytes.len() < 2000 {
        for end in 0..bytes.len() {
            match parse(&bytes[..end], ReadOptions { format, growing: true }) {
                Ok(_) | Err(InputError::Empty) => {}
                Err(error) => panic!("a complete file truncated at byte {end}: {error}"),
            }
        }
    }
});
