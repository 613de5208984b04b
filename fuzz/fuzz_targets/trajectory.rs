//! Any bytes as the log of an agent, as a whole and one record at a time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satiety::trajectory::read::read;
use satiety::trajectory::{Feed, ReadOptions};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(log) = read(bytes, ReadOptions::default()) {
        assert!(log.skipped.first.len() <= log.skipped.count);
        for run in &log.trajectories {
            assert!(run.task.is_some() || !run.steps.is_empty());
        }
    }
    let mut feed = Feed::new();
    let mut returned = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(record) = serde_json::from_slice(line) {
            feed.push(&record);
            returned += feed.take_steps().len();
        }
    }
    assert!(returned == 0 || feed.records() > 0);
    let _ = feed.finish();
});
