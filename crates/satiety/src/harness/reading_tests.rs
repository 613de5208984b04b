//! Robustness of parsing: the corpus of the fuzz target, truncated at every byte and with every byte changed,
//! is parsed or rejected with a reason, and never panics.

use super::ledger::{Entry, verify_chain};
use super::manifest::{Manifest, compare};
use super::proposal::read_proposals;
use crate::bench::reader::Named;

const PROPOSAL: &str = include_str!("../../../../fuzz/corpus-seeds/harness/proposal.yaml");
const MANIFEST: &str = include_str!("../../../../fuzz/corpus-seeds/harness/manifest.json");
const LEDGER: &str = include_str!("../../../../fuzz/corpus-seeds/harness/ledger.jsonl");

fn entries(text: &str) -> Result<Vec<Entry>, serde_json::Error> {
    text.lines().map(serde_json::from_str).collect()
}

/// Returns every prefix, and the text with each character replaced.
fn damaged(text: &str) -> impl Iterator<Item = String> {
    let cut = (0..text.len()).filter_map(|end| text.get(..end).map(str::to_owned));
    let changed = (0..text.len()).filter_map(|at| {
        let (before, rest) = (text.get(..at)?, text.get(at..)?);
        let mut rest = rest.chars();
        let other = if rest.next()? == '0' { '1' } else { '0' };
        Some(format!("{before}{other}{}", rest.as_str()))
    });
    cut.chain(changed)
}

#[test]
fn damaged_proposals_are_parsed_or_rejected_by_name() {
    let read = |text: &str| read_proposals(Named { file: "p.yaml", text });
    assert_eq!(read(PROPOSAL).unwrap().new_benchmarks[0].cases.len(), 1);
    for text in damaged(PROPOSAL) {
        if let Err(error) = read(&text) {
            assert!(error.to_string().starts_with("p.yaml: "), "{error}");
        }
    }
}

#[test]
fn a_damaged_manifest_is_rejected_or_different() {
    let whole: Manifest = serde_json::from_str(MANIFEST).unwrap();
    whole.check().unwrap();
    let mut read = 0;
    for text in damaged(MANIFEST.trim_end()) {
        if let Ok(other) = serde_json::from_str::<Manifest>(&text) {
            read += 1;
            // Comparable or rejected; an additional digit may give the same number.
            if let Ok(diff) = compare(&whole, &other) {
                assert_eq!(diff.from == diff.to, other == whole, "{text}");
            }
        }
    }
    assert!(read > 100, "{read}");
}

#[test]
fn a_damaged_ledger_is_detected() {
    let whole = entries(LEDGER).unwrap();
    assert_eq!(verify_chain(&whole), Ok(()));
    for text in damaged(LEDGER.trim_end()) {
        if let Ok(other) = entries(&text)
            && verify_chain(&other).is_ok()
        {
            // Truncated between two lines: only an anchor reveals that.
            assert!(whole.starts_with(&other), "{text}");
        }
    }
}
