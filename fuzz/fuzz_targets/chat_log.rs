//! Parses arbitrary bytes as a chat log and as a coding agent's session log.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satiety::dialogue::input::{InputFormat, ReadOptions, parse};

fuzz_target!(|bytes: &[u8]| {
    for format in [InputFormat::Chat, InputFormat::AgentLog] {
        for growing in [false, true] {
            if let Ok(input) = parse(bytes, ReadOptions { format: Some(format), growing }) {
                for (index, round) in input.content.rounds.iter().enumerate() {
                    assert_eq!(round.round as usize, index + 1);
                    assert!(round.agent.is_some());
                }
            }
        }
    }
});
