//! Tamper-evident ledger: every entry contains the hash of the previous one.
//!
//! The chain reveals any edit, deletion, insertion or reordering inside it. It cannot reveal by itself that
//! entries were truncated at the end or that the whole chain was rewritten; both show when it is compared
//! with an [`Anchor`], the last hash stored elsewhere. Nothing here stores entries or reads a clock.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::bench::hash::canonical_json;

/// Previous hash of the first entry.
pub(crate) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Domain separator for hashes of entries.
const DOMAIN: &str = "satiety harness ledger v1\n";

/// Entry of the ledger, which records one event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Sequence number, starting at 0 without gaps.
    pub seq: u64,
    /// Hash of the previous entry.
    pub prev: String,
    /// Time of the event.
    pub at: Timestamp,
    /// Kind of event, such as `cycle`, `approved` or `restored`.
    pub kind: String,
    /// Details of the event.
    pub body: Value,
    /// BLAKE3 hash of all other fields in canonical JSON.
    pub hash: String,
}

/// Position of the chain, stored elsewhere to detect truncation and rewriting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Anchor {
    /// Sequence number of the anchored entry.
    pub seq: u64,
    /// Hash of the anchored entry.
    pub hash: String,
}

/// Position and cause of a broken chain.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the ledger is broken at entry {position}: {fault}; restore it from a backup and review who has write access"
)]
pub struct BrokenAt {
    /// Index in the list, starting at 0; its length if the end is missing.
    pub position: usize,
    /// Problem with the entry.
    pub fault: Fault,
}

/// Problem with an entry of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// An entry was deleted, inserted or reordered.
    #[error("its sequence number is {found} (expected {expected})")]
    Sequence {
        /// Sequence number that was expected.
        expected: u64,
        /// Sequence number that was found.
        found: u64,
    },
    /// The entry does not contain the hash of the previous one.
    #[error("it does not contain the hash of the previous entry")]
    Link,
    /// The content of the entry does not match its hash.
    #[error("its content was changed")]
    Content,
    /// The entry is older than the previous one.
    #[error("it is older than the previous entry")]
    Time,
    /// The anchored entry is missing.
    #[error("the chain ends before the anchored entry {0}")]
    Truncated(u64),
    /// The anchored position holds a different entry.
    #[error("it differs from the anchored entry")]
    Anchor,
}

/// Creates the entry that follows `last`. A time before that of `last` is raised to it: a clock that was set
/// back must not reorder events.
pub fn append(last: Option<&Entry>, at: Timestamp, kind: impl Into<String>, body: Value) -> Entry {
    let (seq, prev, at) = match last {
        None => (0, GENESIS.to_owned(), at),
        Some(last) => (last.seq.saturating_add(1), last.hash.clone(), at.max(last.at)),
    };
    let mut entry = Entry {
        seq,
        prev,
        at,
        kind: kind.into(),
        body,
        hash: String::new(),
    };
    entry.hash = entry.expected_hash();
    entry
}

/// Verifies that the chain is intact from its beginning.
pub fn verify_chain(entries: &[Entry]) -> Result<(), BrokenAt> {
    let (mut prev, mut time) = (GENESIS, Timestamp::MIN);
    for (position, entry) in entries.iter().enumerate() {
        let expected = position as u64;
        let fault = if entry.seq != expected {
            Some(Fault::Sequence {
                expected,
                found: entry.seq,
            })
        } else if entry.prev != prev {
            Some(Fault::Link)
        } else if entry.hash != entry.expected_hash() {
            Some(Fault::Content)
        } else if entry.at < time {
            Some(Fault::Time)
        } else {
            None
        };
        if let Some(fault) = fault {
            return Err(BrokenAt { position, fault });
        }
        (prev, time) = (&entry.hash, entry.at);
    }
    Ok(())
}

/// Verifies that the chain is intact and contains the anchored entry.
pub fn verify_anchored(entries: &[Entry], anchor: &Anchor) -> Result<(), BrokenAt> {
    verify_chain(entries)?;
    let position = usize::try_from(anchor.seq).unwrap_or(usize::MAX);
    match entries.get(position) {
        None => Err(BrokenAt {
            position: entries.len(),
            fault: Fault::Truncated(anchor.seq),
        }),
        Some(entry) if entry.hash != anchor.hash => Err(BrokenAt {
            position,
            fault: Fault::Anchor,
        }),
        Some(_) => Ok(()),
    }
}

impl Entry {
    /// Computes the hash of the content.
    pub(crate) fn expected_hash(&self) -> String {
        let content = json!({
            "seq": self.seq,
            "prev": self.prev,
            "at": self.at.to_string(),
            "kind": self.kind,
            "body": self.body,
        });
        let mut hasher = blake3::Hasher::new();
        hasher.update(DOMAIN.as_bytes());
        hasher.update(canonical_json(&content).as_bytes());
        hasher.finalize().to_hex().to_string()
    }

    /// Returns the anchor of this entry, to be stored elsewhere.
    pub fn anchor(&self) -> Anchor {
        Anchor {
            seq: self.seq,
            hash: self.hash.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chain(bodies: &[i64]) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        for (index, body) in (0..).zip(bodies) {
            let at = Timestamp::from_second(1_767_000_000 + index).unwrap();
            entries.push(append(entries.last(), at, "cycle", json!({"n": body, "x": 0.1})));
        }
        entries
    }

    proptest! {
        #[test]
        fn every_manipulation_of_a_chain_is_detected(
            bodies in prop::collection::vec(any::<i64>(), 2..12),
            a in any::<prop::sample::Index>(),
            b in any::<prop::sample::Index>(),
            attack in 0..9,
            other in any::<i64>(),
        ) {
            let intact = chain(&bodies);
            prop_assert_eq!(verify_chain(&intact), Ok(()));
            let anchor = intact.last().unwrap().anchor();
            prop_assert_eq!(verify_anchored(&intact, &anchor), Ok(()));
            let (i, j) = (a.index(intact.len()), b.index(intact.len()));
            let mut forged = intact.clone();
            match attack {
                0 => forged[i].body = json!({"n": other, "y": 1}),
                1 => forged[i].kind = "approved".into(),
                2 => forged[i].at = Timestamp::UNIX_EPOCH,
                3 => { forged.remove(i); }
                4 => { prop_assume!(i != j); forged.swap(i, j); }
                5 => { let copy = forged[i].clone(); forged.insert(j, copy); }
                6 => forged[i].hash = blake3::hash(&other.to_le_bytes()).to_hex().to_string(),
                // An edit with a recomputed hash.
                7 => {
                    forged[i].body = json!({"n": other, "y": 1});
                    forged[i].hash = forged[i].expected_hash();
                }
                // The chain rewritten from the edit on.
                _ => {
                    let mut rewritten = intact[..i].to_vec();
                    for entry in &intact[i..] {
                        let body = if entry.seq == i as u64 { json!({"forged": other}) } else { entry.body.clone() };
                        rewritten.push(append(rewritten.last(), entry.at, entry.kind.clone(), body));
                    }
                    forged = rewritten;
                }
            }
            prop_assert!(verify_anchored(&forged, &anchor).is_err(), "attack {}", attack);
            // Without an anchor, everything except truncation and a rewritten chain is found.
            let end = matches!(attack, 3 | 7) && i + 1 == intact.len();
            if !end && attack != 8 {
                prop_assert!(verify_chain(&forged).is_err(), "attack {}", attack);
            }
        }

        #[test]
        fn a_chain_survives_json(bodies in prop::collection::vec(any::<i64>(), 1..6)) {
            let text = serde_json::to_string(&chain(&bodies)).unwrap();
            let back: Vec<Entry> = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(verify_chain(&back), Ok(()));
        }
    }

    #[test]
    fn the_fault_is_reported() {
        let intact = chain(&[1, 2, 3]);
        let fault = |entries: &[Entry]| verify_chain(entries).unwrap_err();
        let mut edited = intact.clone();
        edited[1].body = json!(null);
        assert_eq!(
            (fault(&edited).position, fault(&edited).fault),
            (1, Fault::Content)
        );
        assert_eq!(
            fault(&intact[1..]).fault,
            Fault::Sequence {
                expected: 0,
                found: 1
            }
        );
        let anchor = intact[2].anchor();
        let cut = verify_anchored(&intact[..2], &anchor).unwrap_err();
        assert_eq!((cut.position, cut.fault), (2, Fault::Truncated(2)));
        assert_eq!(verify_chain(&[]), Ok(()));
    }

    #[test]
    fn a_clock_set_back_does_not_reorder() {
        let intact = chain(&[1]);
        let next = append(intact.last(), Timestamp::UNIX_EPOCH, "cycle", json!(2));
        assert_eq!(next.at, intact[0].at);
        assert_eq!(verify_chain(&[intact[0].clone(), next]), Ok(()));
    }
}
