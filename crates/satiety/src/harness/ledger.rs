//! A record that cannot be changed unnoticed: every entry carries the hash of the one before it.
//!
//! The chain shows any edit, deletion, insertion or reordering inside it. Two things it cannot show by itself: that
//! entries were cut off its end, and that somebody wrote all of it anew. Both show against an [`Anchor`], the last hash
//! kept elsewhere. Nothing here stores entries or makes times.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::bench::hash::canonical_json;

/// What the first entry has in place of a previous hash.
pub(crate) const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Hashes of entries are never hashes of anything else.
const DOMAIN: &str = "satiety harness ledger v1\n";

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// From 0, without gaps.
    pub seq: u64,
    /// The hash of the entry before.
    pub prev: String,
    /// When.
    pub at: Timestamp,
    /// What kind of event: `cycle`, `approved`, `restored`.
    pub kind: String,
    /// What happened.
    pub body: Value,
    /// BLAKE3 over all of the above in canonical JSON.
    pub hash: String,
}

/// A position of the chain that is known from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Anchor {
    /// Which entry.
    pub seq: u64,
    /// Its hash.
    pub hash: String,
}

/// Where a chain is broken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the ledger is broken at entry {position}: {fault}; restore it from a copy, and find out who could write to it"
)]
pub struct BrokenAt {
    /// Position in the list, from 0; its length when the end is missing.
    pub position: usize,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// Something was deleted, inserted or reordered.
    #[error("its number is {found}, not {expected}")]
    Sequence {
        /// The number it should have.
        expected: u64,
        /// The number it has.
        found: u64,
    },
    /// It does not follow the entry before.
    #[error("it does not follow the entry before it")]
    Link,
    /// Its content is not what was hashed.
    #[error("its content was changed")]
    Content,
    /// Its time is before that of the entry before.
    #[error("it is older than the entry before it")]
    Time,
    /// The anchored entry is gone.
    #[error("the chain ends before entry {0}, which is known to exist")]
    Truncated(u64),
    /// The anchored entry is another.
    #[error("it is not the entry that is known to stand here")]
    Anchor,
}

/// The next entry after `last`. A time before the last entry's is raised to it: a clock that was set back must not
/// reorder what happened.
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

/// Whether the chain is whole from its beginning.
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

/// Whether the chain is whole and reaches what is known from elsewhere.
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
    /// The hash of what it says.
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

    /// To be kept elsewhere.
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
        fn whatever_is_done_to_a_chain_is_found(
            bodies in prop::collection::vec(any::<i64>(), 2..12),
            a in any::<prop::sample::Index>(),
            b in any::<prop::sample::Index>(),
            attack in 0..9,
            other in any::<i64>(),
        ) {
            let whole = chain(&bodies);
            prop_assert_eq!(verify_chain(&whole), Ok(()));
            let anchor = whole.last().unwrap().anchor();
            prop_assert_eq!(verify_anchored(&whole, &anchor), Ok(()));
            let (i, j) = (a.index(whole.len()), b.index(whole.len()));
            let mut forged = whole.clone();
            match attack {
                0 => forged[i].body = json!({"n": other, "y": 1}),
                1 => forged[i].kind = "approved".into(),
                2 => forged[i].at = Timestamp::UNIX_EPOCH,
                3 => { forged.remove(i); }
                4 => { prop_assume!(i != j); forged.swap(i, j); }
                5 => { let copy = forged[i].clone(); forged.insert(j, copy); }
                6 => forged[i].hash = blake3::hash(&other.to_le_bytes()).to_hex().to_string(),
                // An edit whose own hash was made right again.
                7 => {
                    forged[i].body = json!({"n": other, "y": 1});
                    forged[i].hash = forged[i].expected_hash();
                }
                // All of it written anew from the edit on.
                _ => {
                    let mut anew = whole[..i].to_vec();
                    for entry in &whole[i..] {
                        let body = if entry.seq == i as u64 { json!({"forged": other}) } else { entry.body.clone() };
                        anew.push(append(anew.last(), entry.at, entry.kind.clone(), body));
                    }
                    forged = anew;
                }
            }
            prop_assert!(verify_anchored(&forged, &anchor).is_err(), "attack {}", attack);
            // Without an anchor all but the end and a chain written anew is found.
            let end = matches!(attack, 3 | 7) && i + 1 == whole.len();
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
    fn the_fault_is_named() {
        let whole = chain(&[1, 2, 3]);
        let fault = |entries: &[Entry]| verify_chain(entries).unwrap_err();
        let mut edited = whole.clone();
        edited[1].body = json!(null);
        assert_eq!(
            (fault(&edited).position, fault(&edited).fault),
            (1, Fault::Content)
        );
        assert_eq!(
            fault(&whole[1..]).fault,
            Fault::Sequence {
                expected: 0,
                found: 1
            }
        );
        let anchor = whole[2].anchor();
        let cut = verify_anchored(&whole[..2], &anchor).unwrap_err();
        assert_eq!((cut.position, cut.fault), (2, Fault::Truncated(2)));
        assert_eq!(verify_chain(&[]), Ok(()));
    }

    #[test]
    fn a_clock_set_back_does_not_reorder() {
        let whole = chain(&[1]);
        let next = append(whole.last(), Timestamp::UNIX_EPOCH, "cycle", json!(2));
        assert_eq!(next.at, whole[0].at);
        assert_eq!(verify_chain(&[whole[0].clone(), next]), Ok(()));
    }
}
