//! Synthetic memories: words with Zipf frequencies, and vectors scattered around those of real sentences.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use satiety::memory::encode_vector;
use satiety_models::minilm::MiniLm;
use satiety_store::memory::{ChunkRow, MemoryRow};
use satiety_store::{Store, StoreUrl};

const VOCABULARY: usize = 30_000;
/// Number of words that are too common to appear in a query.
const COMMON: usize = 60;
/// Number of sentences around whose vectors the others are scattered.
const CENTRES: usize = 200;
const FOLDERS: u64 = 20;

/// Memories and questions with their vectors.
pub(crate) struct Corpus {
    pub(crate) texts: Vec<(String, String)>,
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(crate) questions: Vec<String>,
}

/// Seeded random numbers.
pub(crate) struct Chance(ChaCha8Rng);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound.max(1)
    }

    fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Rank of a random word: the second is half as frequent as the first, the third a third.
    fn rank(&mut self) -> usize {
        let rank = (VOCABULARY as f64).powf(self.share());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "below the vocabulary's size"
        )]
        let rank = rank as usize - 1;
        rank.min(VOCABULARY - 1)
    }
}

/// Word for each rank, made of syllables: frequent words are short.
fn word(rank: usize) -> String {
    const SYLLABLES: [&str; 40] = [
        "ba", "co", "di", "fu", "ge", "hal", "in", "jo", "ka", "lem", "mo", "nar", "or", "pel", "qui", "ros",
        "su", "tam", "ur", "vel", "wo", "xan", "yor", "zi", "bra", "cle", "dro", "fli", "gra", "plo", "ste",
        "tri", "spa", "sco", "ple", "cra", "blo", "fre", "gli", "pro",
    ];
    let mut word = String::new();
    let mut rest = rank + 41;
    while rest > 0 {
        word.push_str(SYLLABLES[rest % SYLLABLES.len()]);
        rest /= SYLLABLES.len();
    }
    word
}

impl Corpus {
    pub(crate) fn new(size: usize, questions: usize) -> Result<Self> {
        let mut chance = Chance::new(20_261_116);
        let model = MiniLm::builtin()?;
        let text = |chance: &mut Chance, least: u64, more: u64| {
            let count = least + chance.below(more);
            let words: Vec<String> = (0..count).map(|_| word(chance.rank())).collect();
            words.join(" ")
        };
        let sentences: Vec<String> = (0..CENTRES).map(|_| text(&mut chance, 8, 12)).collect();
        let sentences: Vec<&str> = sentences.iter().map(String::as_str).collect();
        let centres = model.encode_on(&sentences, 2);
        let texts: Vec<(String, String)> = (0..size)
            .map(|_| (text(&mut chance, 3, 6), text(&mut chance, 30, 90)))
            .collect();
        let vectors = (0..size).map(|_| near(&mut chance, &centres)).collect();
        // A question has a few distinctive words of some memory, and one that does not occur.
        let questions = (0..questions)
            .map(|_| {
                let at = usize::try_from(chance.below(size as u64)).unwrap_or(0);
                let common: Vec<String> = (0..COMMON).map(word).collect();
                let words: Vec<&str> = texts[at]
                    .1
                    .split(' ')
                    .filter(|word| !common.iter().any(|one| one == word))
                    .collect();
                let count = 3 + chance.below(5);
                let mut picked: Vec<String> = (0..count)
                    .map(|_| words[usize::try_from(chance.below(words.len() as u64)).unwrap_or(0)].to_owned())
                    .collect();
                picked.push(word(chance.rank()));
                picked.join(" ")
            })
            .collect();
        Ok(Self {
            texts,
            vectors,
            questions,
        })
    }
}

fn near(chance: &mut Chance, centres: &[Vec<f32>]) -> Vec<f32> {
    let at = usize::try_from(chance.below(centres.len() as u64)).unwrap_or(0);
    #[expect(clippy::cast_possible_truncation, reason = "a share")]
    let mixed: Vec<f32> = centres[at]
        .iter()
        .map(|value| value + 0.12 * (chance.share() as f32 - 0.5))
        .collect();
    let length = mixed.iter().map(|value| value * value).sum::<f32>().sqrt();
    mixed.iter().map(|value| value / length).collect()
}

/// Builds a memory row for the store.
pub(crate) fn row(number: usize, title: &str, content: &str, chance: &mut Chance) -> MemoryRow {
    let tier = match number % 100 {
        0 => "critical",
        1..=9 => "important",
        _ => "normal",
    };
    let first: Vec<&str> = title.split(' ').take(2).collect();
    MemoryRow {
        memory_id: format!("mem-{number:08}"),
        title: title.to_owned(),
        content: content.to_owned(),
        tier: tier.into(),
        triggers: if number.is_multiple_of(3) {
            vec![first.join(" ")]
        } else {
            Vec::new()
        },
        learnt: Vec::new(),
        folder: format!("area{}/part{}", chance.below(FOLDERS), chance.below(FOLDERS)),
        kind: "note".into(),
        origin: None,
        content_hash: number.to_string(),
        confidence: 0.5,
        validations: 0,
        created_at: 1,
        updated_at: 1,
        expires_at: None,
        change: 0,
        project: None,
        project_label: None,
        provenance: satiety_store::memory::ProvenanceRow::default(),
    }
}

/// Store filled with the corpus; reuses one of an earlier run if it has the right number of memories.
pub(crate) async fn stored(corpus: &Corpus, directory: &Path, embedder: &str) -> Result<PathBuf> {
    let path = directory.join(format!("memory-{}.db", corpus.texts.len()));
    fill(corpus, &StoreUrl::sqlite(&path), embedder).await?;
    Ok(path)
}

/// Fills a store with the corpus, unless it has that many memories.
pub(crate) async fn fill(corpus: &Corpus, url: &StoreUrl, embedder: &str) -> Result<()> {
    let store = Store::open(url).await?;
    let memories = usize::try_from(store.memories().count().await?).unwrap_or(0);
    if memories < corpus.texts.len() {
        let mut chance = Chance::new(7);
        let all: Vec<usize> = (0..corpus.texts.len()).collect();
        for batch in all.chunks(1000) {
            let rows: Vec<_> = batch
                .iter()
                .map(|number| {
                    let (title, content) = &corpus.texts[*number];
                    let row = row(*number, title, content, &mut chance);
                    let chunk = ChunkRow {
                        title: title.clone(),
                        body: content.clone(),
                        phrases: row.triggers.join(" "),
                        vector: Some((embedder.to_owned(), encode_vector(&corpus.vectors[*number]))),
                    };
                    (row, Some(vec![chunk]))
                })
                .collect();
            store.memories().put_all(&rows).await?;
        }
    }
    store.close().await;
    Ok(())
}
