//! What comes from outside, whole and damaged: the corpus of the fuzz target, cut at every byte and with every byte
//! changed, is read or refused with a reason and never breaks anything.

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

/// Every prefix, and the whole with one letter exchanged.
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
fn proposals_are_read_or_refused_by_name() {
    let read = |text: &str| read_proposals(Named { file: "p.yaml", text });
    assert_eq!(read(PROPOSAL).unwrap().new_benchmarks[0].cases.len(), 1);
    for text in damaged(PROPOSAL) {
        if let Err(error) = read(&text) {
            assert!(error.to_string().starts_with("p.yaml: "), "{error}");
        }
    }
}

#[test]
fn a_damaged_harness_is_refused_or_another_one() {
    let whole: Manifest = serde_json::from_str(MANIFEST).unwrap();
    whole.check().unwrap();
    let mut read = 0;
    for text in damaged(MANIFEST.trim_end()) {
        if let Ok(other) = serde_json::from_str::<Manifest>(&text) {
            read += 1;
            // Compared or refused; a digit more at the end of a number may be the same number.
            if let Ok(diff) = compare(&whole, &other) {
                assert_eq!(diff.from == diff.to, other == whole, "{text}");
            }
        }
    }
    assert!(read > 100, "{read}");
}

#[test]
fn a_damaged_ledger_is_found() {
    let whole = entries(LEDGER).unwrap();
    assert_eq!(verify_chain(&whole), Ok(()));
    for text in damaged(LEDGER.trim_end()) {
        if let Ok(other) = entries(&text)
            && verify_chain(&other).is_ok()
        {
            // Cut between two lines: only an anchor shows that.
            assert!(whole.starts_with(&other), "{text}");
        }
    }
}
