//! The state of the judge as text, for hosts in which every step is judged by a new process.

use std::collections::VecDeque;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::finish::Ending;
use super::judge::{Episode, Past, Progress};
use super::profile::ProgressProfile;
use super::report::ToolStats;
use super::signature::Signature;

/// Version of this format and of the hashes in it.
const VERSION: u32 = 1;

/// Maximum number of actions, outcomes, targets and replacements of each kind in a snapshot. What is left out
/// counts as new later, which lowers the level: the judge then errs towards leaving the agent alone.
const MAX_REMEMBERED: usize = 20_000;

/// State of a [`Progress`] without its profile and without embeddings.
#[derive(Serialize, Deserialize)]
struct Snapshot {
    version: u32,
    /// Hashes depend on the word size of the machine.
    word_bits: u32,
    steps: usize,
    recent: Vec<PastStep>,
    seen: String,
    seen_outcomes: String,
    seen_targets: String,
    replacements: String,
    level: f64,
    episode: Episode,
    nudged: bool,
    since_new: usize,
    ending: Ending,
    tools: Vec<ToolStats>,
    wasted_steps: usize,
}

#[derive(Serialize, Deserialize)]
struct PastStep {
    step: usize,
    signature: Signature,
    repeats: Option<usize>,
    stagnation: usize,
    new_edit: bool,
}

impl Progress {
    /// The state of the judge as JSON text, without its profile and without embeddings. Its size is bounded: a
    /// run of 2,000 steps takes about 200 KB.
    pub fn snapshot(&self) -> String {
        let Self {
            profile: _,
            steps,
            recent,
            seen,
            seen_outcomes,
            seen_targets,
            replacements,
            level,
            episode,
            nudged,
            since_new,
            ending,
            tools,
            wasted_steps,
        } = self;
        let past = |past: &Past| PastStep {
            step: past.step,
            signature: past.signature.clone(),
            repeats: past.repeats,
            stagnation: past.stagnation,
            new_edit: past.new_edit,
        };
        let snapshot = Snapshot {
            version: VERSION,
            word_bits: usize::BITS,
            steps: *steps,
            recent: recent.iter().map(past).collect(),
            seen: pack_pairs(seen),
            seen_outcomes: pack_set(seen_outcomes),
            seen_targets: pack_set(seen_targets),
            replacements: pack_pairs(replacements),
            level: *level,
            episode: *episode,
            nudged: *nudged,
            since_new: *since_new,
            ending: ending.clone(),
            tools: tools.values().cloned().collect(),
            wasted_steps: *wasted_steps,
        };
        // Numbers, texts and lists only: serialization cannot fail, and an empty snapshot is not restored.
        serde_json::to_string(&snapshot).unwrap_or_default()
    }

    /// Restores a judge from a [`snapshot`](Self::snapshot). Returns `None` if the text is damaged or was
    /// written by another version; the run is then judged from its next step.
    pub fn restore(snapshot: &str, profile: Arc<ProgressProfile>) -> Option<Self> {
        let snapshot: Snapshot = serde_json::from_str(snapshot).ok()?;
        if snapshot.version != VERSION || snapshot.word_bits != usize::BITS {
            return None;
        }
        let past = |past: PastStep| Past {
            step: past.step,
            signature: past.signature,
            vector: None,
            repeats: past.repeats,
            stagnation: past.stagnation,
            new_edit: past.new_edit,
        };
        let recent: VecDeque<Past> = snapshot.recent.into_iter().map(past).collect();
        let seen = unpack_pairs(&snapshot.seen)?;
        let replacements = unpack_pairs(&snapshot.replacements)?;
        let known = |step: &usize| (1..=snapshot.steps).contains(step);
        let ordered = recent
            .iter()
            .zip(recent.iter().skip(1))
            .all(|(left, right)| left.step < right.step);
        let is_valid = ordered
            && recent.iter().all(|past| known(&past.step))
            && seen.values().chain(replacements.values()).all(known)
            && snapshot.level.is_finite();
        is_valid.then_some(Self {
            profile,
            steps: snapshot.steps,
            recent,
            seen,
            seen_outcomes: unpack_set(&snapshot.seen_outcomes)?,
            seen_targets: unpack_set(&snapshot.seen_targets)?,
            replacements,
            level: snapshot.level,
            episode: snapshot.episode,
            nudged: snapshot.nudged,
            since_new: snapshot.since_new,
            ending: snapshot.ending,
            tools: snapshot
                .tools
                .into_iter()
                .map(|stats| (stats.tool.clone(), stats))
                .collect(),
            wasted_steps: snapshot.wasted_steps,
        })
    }
}

/// Packs the latest entries of a map from two hashes to a step.
fn pack_pairs(map: &FxHashMap<(u64, u64), usize>) -> String {
    let mut entries: Vec<(usize, u64, u64)> = map
        .iter()
        .map(|((left, right), step)| (*step, *left, *right))
        .collect();
    entries.sort_unstable_by(|left, right| right.cmp(left));
    entries.truncate(MAX_REMEMBERED);
    pack(
        entries
            .into_iter()
            .flat_map(|(step, left, right)| [left, right, step as u64]),
    )
}

fn unpack_pairs(text: &str) -> Option<FxHashMap<(u64, u64), usize>> {
    let numbers = unpack(text)?;
    let (entries, rest) = numbers.as_chunks::<3>();
    let entry = |[left, right, step]: &[u64; 3]| Some(((*left, *right), usize::try_from(*step).ok()?));
    rest.is_empty()
        .then(|| entries.iter().map(entry).collect())
        .flatten()
}

fn pack_set(set: &FxHashSet<u64>) -> String {
    let mut hashes: Vec<u64> = set.iter().copied().collect();
    hashes.sort_unstable();
    hashes.truncate(MAX_REMEMBERED);
    pack(hashes)
}

fn unpack_set(text: &str) -> Option<FxHashSet<u64>> {
    Some(unpack(text)?.into_iter().collect())
}

fn pack(numbers: impl IntoIterator<Item = u64>) -> String {
    let bytes: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
    STANDARD_NO_PAD.encode(bytes)
}

fn unpack(text: &str) -> Option<Vec<u64>> {
    let bytes = STANDARD_NO_PAD.decode(text).ok()?;
    let (numbers, rest) = bytes.as_chunks::<8>();
    rest.is_empty()
        .then(|| numbers.iter().copied().map(u64::from_le_bytes).collect())
}

/// Hashes of words as text: little-endian bytes in Base64.
pub(super) mod packed_words {
    use base64::Engine as _;

    use super::{Deserialize, STANDARD_NO_PAD, Serialize};

    pub(in super::super) fn serialize<S: serde::Serializer>(
        words: &[u32],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = words.iter().copied().flat_map(u32::to_le_bytes).collect();
        STANDARD_NO_PAD.encode(bytes).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u32>, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let bytes = STANDARD_NO_PAD
            .decode(text.as_bytes())
            .map_err(serde::de::Error::custom)?;
        let (words, rest) = bytes.as_chunks::<4>();
        if rest.is_empty() {
            Ok(words.iter().copied().map(u32::from_le_bytes).collect())
        } else {
            Err(serde::de::Error::custom("incomplete number"))
        }
    }
}
