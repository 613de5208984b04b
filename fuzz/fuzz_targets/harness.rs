//! Parses arbitrary text as a proposal, a harness or a ledger: no panic, parsed values round-trip, a harness is as
//! rigorous as itself, and editing an entry of a valid chain invalidates it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satiety::bench::reader::Named;
use satiety::harness::ledger::{Entry, verify_anchored, verify_chain};
use satiety::harness::manifest::{Manifest, compare};
use satiety::harness::proposal::read_proposals;

fuzz_target!(|text: &str| {
    for file in ["p.yaml", "p.json", "p.toml"] {
        if let Err(error) = read_proposals(Named { file, text }) {
            assert!(error.to_string().starts_with(file), "{error}");
        }
    }
    if let Ok(manifest) = serde_json::from_str::<Manifest>(text)
        && manifest.check().is_ok()
    {
        let again: Manifest = serde_json::from_str(&manifest.canonical()).expect("serialized values parse");
        assert_eq!(again.version(), manifest.version());
        let diff = compare(&manifest, &again).expect("both are valid");
        assert!(diff.admissible && diff.changes.is_empty(), "{:?}", diff.changes);
    }
    let entries: Result<Vec<Entry>, _> = text.lines().map(serde_json::from_str).collect();
    if let Ok(mut entries) = entries
        && verify_chain(&entries).is_ok()
        && let Some(last) = entries.last()
    {
        let anchor = last.anchor();
        assert!(verify_anchored(&entries, &anchor).is_ok());
        for position in 0..entries.len() {
            entries[position].kind.push('!');
            assert!(verify_chain(&entries).is_err());
            entries[position].kind.pop();
        }
    }
});
