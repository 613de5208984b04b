//! In-memory full-text index ranked by BM25 (Robertson and Zaragoza 2009, with Lucene's non-negative inverse
//! document frequency).
//!
//! A text is scored as a whole, regardless of its number of chunks, so that a long note has no advantage for
//! having its words in one chunk. The best chunk is determined separately, for the excerpt.

mod image;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::language::{Language, Languages};
use super::stem::{StopWords, Vocabulary, stem};
use super::words::without_accents;
use crate::memory::shared::SharedVec;

/// Parameters of BM25.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bm25 {
    /// Saturation of repeated occurrences.
    pub k1: f64,
    /// Length normalization from 0 (none) to 1 (full).
    pub b: f64,
    /// Weight of an occurrence in a title relative to one in the text.
    pub title: f64,
}

impl Default for Bm25 {
    fn default() -> Self {
        Self {
            k1: 1.2,
            b: 0.75,
            title: 1.0,
        }
    }
}

/// Weighted word of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Word in its written form.
    pub word: String,
    /// Number of occurrences in the query; lower for a synonym.
    pub weight: f64,
}

/// Occurrences of a word in a chunk.
#[derive(Debug, Clone, Copy)]
struct Posting {
    chunk: u32,
    title: u16,
    body: u16,
}

/// Consecutive chunks of a memory.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    first: u32,
    chunks: u32,
    /// Number of indexed words in all chunks.
    length: u32,
}

/// Inverted index over the words of all memories.
#[derive(Debug, Clone, Default)]
pub struct LexicalIndex {
    vocabulary: Vocabulary,
    /// Postings of each term.
    postings: SharedVec<PostingList>,
    /// Memory that each chunk belongs to; [`GONE`] after removal.
    owners: Vec<u32>,
    spans: Vec<Span>,
    memories: usize,
    total_length: u64,
    gone: usize,
    /// Languages of the texts, of which the words of a query may be.
    languages: Languages,
}

const GONE: u32 = u32::MAX;

/// Postings of a word by chunk. A change of a shared list copies the recent ones only: a frequent word occurs in
/// every second memory, and every memory that is saved contains frequent words.
#[derive(Debug, Clone, Default)]
struct PostingList {
    older: Arc<Vec<Posting>>,
    recent: Option<Arc<Vec<Posting>>>,
}

impl PostingList {
    /// Recent postings before they are added to the older ones.
    const RECENT: usize = 256;

    /// Appends a posting of a memory whose chunks begin with `first`. The postings of one memory stay in one part.
    fn push(&mut self, posting: Posting, first: u32) {
        let has_this = |list: &[Posting]| list.last().is_some_and(|last| last.chunk >= first);
        match &mut self.recent {
            None if self.older.len() < Self::RECENT || has_this(&self.older) => {
                Arc::make_mut(&mut self.older).push(posting);
            }
            None => self.recent = Some(Arc::new(vec![posting])),
            Some(recent) => {
                if recent.len() >= Self::RECENT && !has_this(recent) {
                    Arc::make_mut(&mut self.older).append(Arc::make_mut(recent));
                }
                Arc::make_mut(recent).push(posting);
            }
        }
    }

    fn parts(&self) -> [&[Posting]; 2] {
        [&self.older, self.recent.as_ref().map_or(&[], |recent| recent)]
    }

    fn len(&self) -> usize {
        self.parts().into_iter().map(<[Posting]>::len).sum()
    }

    /// Approximate heap size.
    fn bytes(&self) -> usize {
        let recent = self
            .recent
            .as_ref()
            .map_or(0, |recent| 40 + 8 * recent.capacity());
        40 + 8 * self.older.capacity() + recent
    }
}

impl LexicalIndex {
    /// Creates an empty index that ignores these stop words.
    pub fn new(stop_words: StopWords) -> Self {
        Self {
            vocabulary: Vocabulary::new(stop_words),
            ..Self::default()
        }
    }

    /// Number of chunks, including removed ones.
    pub fn pieces(&self) -> usize {
        self.owners.len()
    }

    /// Number of removed chunks that still occupy memory.
    pub fn gone(&self) -> usize {
        self.gone
    }

    /// Approximate heap size in bytes.
    pub fn bytes(&self) -> usize {
        let postings: usize = self.postings.iter().map(PostingList::bytes).sum();
        postings + self.vocabulary.bytes() + 4 * self.owners.capacity() + 12 * self.spans.capacity()
    }

    /// Replaces the chunks of a memory, each given as title or heading and text. Chunks are numbered
    /// consecutively from [`LexicalIndex::pieces`]. The words of notes are stemmed in the language of their text.
    pub fn put<'a>(&mut self, memory: u32, chunks: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let mut chunks = chunks.into_iter().peekable();
        let language = match chunks.peek() {
            Some((_, body)) if self.vocabulary.stop_words() == StopWords::Notes => Language::detect(body),
            _ => Language::English,
        };
        self.languages.insert(language);
        self.remove(memory);
        self.vocabulary.consolidate();
        let first = u32::try_from(self.owners.len()).unwrap_or(GONE);
        let rule = self.vocabulary.stop_words().word_rule();
        let mut length = 0;
        let mut counted: Vec<(u32, bool)> = Vec::new();
        for (title, body) in chunks {
            let chunk = u32::try_from(self.owners.len()).unwrap_or(GONE);
            self.owners.push(memory);
            counted.clear();
            for (text, is_title) in [(title, true), (body, false)] {
                rule.for_each(text, |word| {
                    let term = self.vocabulary.number_in(language, word);
                    counted.extend(term.map(|term| (term, is_title)));
                });
            }
            while self.postings.len() < self.vocabulary.len() {
                self.postings.push(PostingList::default());
            }
            length += u32::try_from(counted.len()).unwrap_or(u32::MAX);
            counted.sort_unstable();
            for same in counted.chunk_by(|a, b| a.0 == b.0) {
                let Some((term, _)) = same.first() else { continue };
                let in_title = same.iter().filter(|(_, is_title)| *is_title).count();
                let small = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
                let posting = Posting {
                    chunk,
                    title: small(in_title),
                    body: small(same.len() - in_title),
                };
                if let Some(list) = self.postings.get_mut(*term as usize) {
                    list.push(posting, first);
                }
            }
        }
        let chunks = u32::try_from(self.owners.len()).unwrap_or(GONE) - first;
        let at = memory as usize;
        if self.spans.len() <= at {
            self.spans.resize(at + 1, Span::default());
        }
        if let Some(span) = self.spans.get_mut(at).filter(|_| chunks > 0) {
            *span = Span {
                first,
                chunks,
                length,
            };
            self.memories += 1;
            self.total_length += u64::from(length);
        }
    }

    /// Removes a memory. The space is not reclaimed: the owner rebuilds the index when too much was removed.
    pub fn remove(&mut self, memory: u32) {
        let Some(span) = self.spans.get_mut(memory as usize).filter(|span| span.chunks > 0) else {
            return;
        };
        let gone = std::mem::take(span);
        let chunks = gone.first as usize..(gone.first + gone.chunks) as usize;
        if let Some(owners) = self.owners.get_mut(chunks) {
            owners.fill(GONE);
        }
        self.gone += gone.chunks as usize;
        self.memories -= 1;
        self.total_length -= u64::from(gone.length);
    }

    /// Builds a query from its terms; forms of the same word are added up. A word stands for its stem in English and
    /// in every language of the indexed texts.
    pub fn question(&self, terms: &[Term]) -> Question<'_> {
        let (wanted, unknown) = self.numbers(terms);
        let mut question = self.weighed(wanted);
        question.worth += unknown * self.rarity(0);
        question
    }

    /// Like [`question`](Self::question), with the words of a long text that occur least, at most `most` of them and
    /// as many as have a bounded number of occurrences together. For texts that share most of their words with it.
    pub fn question_of_rare_words(&self, terms: &[Term], most: usize) -> Question<'_> {
        const OCCURRENCES: usize = 200_000;
        let (mut wanted, _) = self.numbers(terms);
        let occurrences = |number: u32| self.postings.get(number as usize).map_or(0, PostingList::len);
        wanted.sort_by_key(|(number, _)| (occurrences(*number), *number));
        wanted.truncate(most);
        let mut all = 0;
        wanted.retain(|(number, _)| {
            let is_first = all == 0;
            all += occurrences(*number);
            is_first || all <= OCCURRENCES
        });
        self.weighed(wanted)
    }

    /// The known words among the terms with their weights, and the weight of all others.
    fn numbers(&self, terms: &[Term]) -> (Vec<(u32, f64)>, f64) {
        let mut wanted: Vec<(u32, f64)> = Vec::new();
        let mut places: FxHashMap<u32, usize> = FxHashMap::default();
        let mut unknown = 0.0;
        for term in terms {
            let english = self.vocabulary.find(&stem(&term.word));
            let plain = without_accents(&term.word);
            let others = self.languages.iter();
            let others = others.filter_map(|language| self.vocabulary.find(&language.stem(&plain)));
            let mut numbers: Vec<u32> = english.into_iter().chain(others).collect();
            numbers.sort_unstable();
            numbers.dedup();
            if numbers.is_empty() {
                unknown += term.weight;
            }
            for number in numbers {
                let place = *places.entry(number).or_insert(wanted.len());
                match wanted.get_mut(place) {
                    Some((_, weight)) => *weight += term.weight,
                    None => wanted.push((number, term.weight)),
                }
            }
        }
        (wanted, unknown)
    }

    /// Best texts for the distinct words of a query, each counted once, with their scores, best first.
    pub fn search(&self, query: &str, most: usize) -> Vec<(u32, f64)> {
        let stop_words = self.vocabulary.stop_words();
        let mut wanted: Vec<(u32, f64)> = Vec::new();
        stop_words.word_rule().for_each(query, |word| {
            let number = self
                .vocabulary
                .find(&stem(word))
                .filter(|_| !stop_words.contains(word));
            wanted.extend(number.map(|number| (number, 1.0)));
        });
        wanted.sort_unstable_by_key(|(number, _)| *number);
        wanted.dedup_by_key(|(number, _)| *number);
        self.weighed(wanted).search(Bm25::default(), most, |_| true)
    }

    fn weighed(&self, wanted: Vec<(u32, f64)>) -> Question<'_> {
        let mut question = Question {
            index: self,
            lists: Vec::new(),
            worth: 0.0,
        };
        for (number, weight) in wanted {
            let parts = self
                .postings
                .get(number as usize)
                .map_or([&[][..]; 2], PostingList::parts);
            let mut having = 0_usize;
            let mut last = GONE;
            for posting in parts.into_iter().flatten() {
                let owner = self.owner(posting.chunk);
                having += usize::from(owner != GONE && owner != last);
                last = owner;
            }
            let worth = weight * self.rarity(having);
            question.worth += worth;
            if having > 0 {
                let lists = parts.into_iter().filter(|part| !part.is_empty());
                question.lists.extend(lists.map(|part| (part, worth)));
            }
        }
        question
    }

    /// Inverse document frequency of a word that this many memories contain.
    fn rarity(&self, having: usize) -> f64 {
        let (having, all) = (having as f64, self.memories as f64);
        (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
    }

    fn owner(&self, chunk: u32) -> u32 {
        self.owners.get(chunk as usize).copied().unwrap_or(GONE)
    }
}

/// Query with its postings resolved.
#[derive(Debug)]
pub struct Question<'a> {
    index: &'a LexicalIndex,
    /// Postings of each word, in one or two lists, with the weight of an occurrence. Those of a memory are in one list.
    lists: Vec<(&'a [Posting], f64)>,
    /// Sum of the weights of all words of the query, including those that no memory contains.
    worth: f64,
}

impl Question<'_> {
    /// Memories that contain any of the words and are `wanted`, best first, up to the given number.
    pub fn search(
        &self,
        settings: impl Into<Bm25>,
        most: usize,
        wanted: impl Fn(u32) -> bool,
    ) -> Vec<(u32, f64)> {
        let index = self.index;
        let mean = (index.total_length as f64 / index.memories.max(1) as f64).max(1.0);
        let settings = settings.into();
        let Bm25 { k1, b, .. } = settings;
        let mut scores = vec![0.0_f64; index.spans.len()];
        let mut touched: Vec<u32> = Vec::new();
        for (list, worth) in &self.lists {
            // The chunks of a memory are consecutive, and so are its postings.
            for same in list.chunk_by(|a, b| index.owner(a.chunk) == index.owner(b.chunk)) {
                let Some(owner) = same.first().map(|posting| index.owner(posting.chunk)) else {
                    continue;
                };
                let (Some(span), Some(score)) =
                    (index.spans.get(owner as usize), scores.get_mut(owner as usize))
                else {
                    continue;
                };
                let times: f64 = same.iter().map(|posting| occurrences(*posting, settings)).sum();
                let long = 1.0 - b + b * f64::from(span.length) / mean;
                if *score <= 0.0 {
                    touched.push(owner);
                }
                *score += worth * times * (k1 + 1.0) / (times + k1 * long).max(f64::MIN_POSITIVE);
            }
        }
        let mut found: Vec<(u32, f64)> = touched
            .into_iter()
            .filter_map(|owner| Some((owner, *scores.get(owner as usize)?)))
            .filter(|(owner, score)| *score > 0.0 && wanted(*owner))
            .collect();
        let better = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if most < found.len() {
            found.select_nth_unstable_by(most, better);
            found.truncate(most);
        }
        found.sort_unstable_by(better);
        found
    }

    /// Score of one memory; equals that of [`Question::search`], and 0 if the memory contains none of the words.
    pub fn score(&self, settings: impl Into<Bm25>, memory: u32) -> f64 {
        let index = self.index;
        let settings = settings.into();
        let span = index.spans.get(memory as usize).filter(|span| span.chunks > 0);
        let Some(span) = span else { return 0.0 };
        let mean = (index.total_length as f64 / index.memories.max(1) as f64).max(1.0);
        let long = 1.0 - settings.b + settings.b * f64::from(span.length) / mean;
        let mut score = 0.0;
        for (list, worth) in &self.lists {
            let from = list.partition_point(|posting| posting.chunk < span.first);
            let own = list
                .iter()
                .skip(from)
                .take_while(|posting| posting.chunk < span.first + span.chunks);
            let times: f64 = own.map(|posting| occurrences(*posting, settings)).sum();
            if times > 0.0 {
                score +=
                    worth * times * (settings.k1 + 1.0) / (times + settings.k1 * long).max(f64::MIN_POSITIVE);
            }
        }
        score
    }

    /// Share of the query that a score covers, from 0 to 1: 1 if every word of the query occurs very often, and less
    /// for each rare word that is missing. Comparable between queries and databases, unlike a score.
    pub fn coverage(&self, settings: impl Into<Bm25>, score: f64) -> f64 {
        let most = self.worth * (settings.into().k1 + 1.0);
        if most > 0.0 {
            (score / most).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// Position of the chunk of a memory that contains most of the words; the first one on ties.
    pub fn best_chunk(&self, settings: impl Into<Bm25>, memory: u32) -> Option<u32> {
        let settings = settings.into();
        let span = self
            .index
            .spans
            .get(memory as usize)
            .filter(|span| span.chunks > 0)?;
        if span.chunks == 1 {
            return Some(0);
        }
        let mut scores = vec![0.0_f64; span.chunks as usize];
        for (list, worth) in &self.lists {
            let from = list.partition_point(|posting| posting.chunk < span.first);
            let own = list
                .iter()
                .skip(from)
                .take_while(|posting| posting.chunk < span.first + span.chunks);
            for posting in own {
                let times = occurrences(*posting, settings);
                if let Some(score) = scores.get_mut((posting.chunk - span.first) as usize) {
                    *score += worth * times / (times + settings.k1).max(f64::MIN_POSITIVE);
                }
            }
        }
        let mut best = (0_u32, 0.0_f64);
        for (at, score) in (0_u32..).zip(scores) {
            if score > best.1 {
                best = (at, score);
            }
        }
        Some(best.0)
    }
}

fn occurrences(posting: Posting, settings: Bm25) -> f64 {
    f64::from(posting.body) + settings.title * f64::from(posting.title)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn terms(words: &[&str]) -> Vec<Term> {
        words
            .iter()
            .map(|word| Term {
                word: (*word).to_owned(),
                weight: 1.0,
            })
            .collect()
    }

    #[test]
    fn postings_of_a_memory_stay_in_one_part() {
        let posting = |chunk| Posting {
            chunk,
            title: 0,
            body: 1,
        };
        let mut list = PostingList::default();
        let mut pushed = Vec::new();
        let mut first = 0;
        // Memories of 1 to 7 chunks, every second version shared with a reader.
        for memory in 0..400_u32 {
            let reader = memory.is_multiple_of(2).then(|| list.clone());
            for chunk in first..first + 1 + memory % 7 {
                list.push(posting(chunk), first);
                pushed.push(chunk);
            }
            let of_this = |part: &&[Posting]| part.iter().any(|posting| posting.chunk >= first);
            assert_eq!(list.parts().iter().filter(|part| of_this(part)).count(), 1);
            drop(reader);
            first += 1 + memory % 7;
        }
        let all = list.parts().into_iter().flatten();
        assert_eq!(all.map(|posting| posting.chunk).collect::<Vec<_>>(), pushed);
        assert!(list.recent.is_some() && list.len() == pushed.len());
    }

    #[test]
    fn rare_words_find_what_all_words_find_first() {
        let mut index = LexicalIndex::default();
        for memory in 0..200 {
            let text = format!(
                "the backup of service {memory} runs at {} in region r{}",
                memory % 24,
                memory % 5
            );
            index.put(memory, [("", text.as_str())]);
        }
        let query = terms(&["backup", "service", "117", "runs", "21", "region", "r2"]);
        let question = index.question_of_rare_words(&query, 3);
        assert_eq!(question.lists.len(), 3);
        let found = question.search(Bm25::default(), 5, |_| true);
        assert_eq!(found.first().map(|(memory, _)| *memory), Some(117));
        let all = index.question_of_rare_words(&query, 100);
        assert_eq!(all.lists.len(), index.question(&query).lists.len());
    }

    /// From `bm25s` 0.3 (k1 1.2, b .75, method "lucene", no stemmer, no stop words), times 2.2, a factor that
    /// it omits: `r.index(bm25s.tokenize(["cat sat mat", "dog cat cat house garden", "bird tree"],
    /// stopwords=None))`, then `r.get_scores(["cat", "tree"])`.
    #[test]
    fn scores_match_bm25s() {
        let mut index = LexicalIndex::default();
        for (memory, text) in (0..).zip(["cat sat mat", "dog cat cat house garden", "bird tree"]) {
            index.put(memory, [("", text)]);
        }
        let found = index
            .question(&terms(&["cat", "tree"]))
            .search(Bm25::default(), 10, |_| true);
        let expected = [(2, 1.172_730), (1, 0.566_580), (0, 0.490_051)];
        assert_eq!(found.len(), 3);
        for ((owner, score), (memory, known)) in found.iter().zip(expected) {
            assert_eq!(*owner, memory);
            assert!((score - known).abs() < 1e-5, "{found:?}");
        }
    }

    #[test]
    fn the_score_of_one_memory_equals_that_of_a_search_and_covers_a_share() {
        let mut index = LexicalIndex::default();
        for (memory, text) in (0..).zip(["cat sat mat", "dog cat cat house garden", "bird tree"]) {
            index.put(memory, [("", text)]);
        }
        let question = index.question(&terms(&["cat", "garden", "unknown"]));
        let settings = Bm25::default();
        for (memory, score) in question.search(settings, 9, |_| true) {
            assert!((question.score(settings, memory) - score).abs() < 1e-12);
        }
        assert!(question.score(settings, 2).abs() < 1e-12 && question.score(settings, 99).abs() < 1e-12);
        // Of ln(1 + 1.5/2.5) + ln(1 + 2.5/1.5) + ln(1 + 3.5/.5), times 2.2 at most.
        let most = 2.2 * (1.6_f64.ln() + (8.0_f64 / 3.0).ln() + 8.0_f64.ln());
        let score = question.score(settings, 1);
        assert!((question.coverage(settings, score) - score / most).abs() < 1e-12);
    }

    /// "Häuser" and "Haus" have one stem in German; the query does not say that it is German.
    #[test]
    fn words_are_stemmed_in_the_language_of_the_text() {
        let mut index = LexicalIndex::default();
        index.put(
            0,
            [(
                "",
                "Die Häuser werden von der Stadt verkauft und sind nicht zu vermieten",
            )],
        );
        index.put(1, [("", "The houses of the city are sold")]);
        let found = index
            .question(&terms(&["haus"]))
            .search(Bm25::default(), 9, |_| true);
        assert_eq!(found.first().map(|(memory, _)| *memory), Some(0));
        let found = index
            .question(&terms(&["house"]))
            .search(Bm25::default(), 9, |_| true);
        assert_eq!(found.iter().map(|(memory, _)| *memory).collect::<Vec<_>>(), [1]);
        // Function words of the language are not indexed.
        assert!(
            index
                .question(&terms(&["werden"]))
                .search(Bm25::default(), 9, |_| true)
                .is_empty()
        );
    }

    #[test]
    fn forms_of_a_word_are_one_and_repeats_in_the_question_count() {
        let mut index = LexicalIndex::default();
        index.put(0, [("Locks", "the database was locked")]);
        index.put(1, [("Caches", "caching and caching again")]);
        let found = |words: &[&str]| -> Vec<u32> {
            let found = index
                .question(&terms(words))
                .search(Bm25::default(), 10, |_| true);
            found.into_iter().map(|(memory, _)| memory).collect()
        };
        assert_eq!(found(&["lock"]), [0]);
        assert_eq!(found(&["database", "cached"]), [1, 0]);
        assert_eq!(found(&["database", "database", "database", "cached"]), [0, 1]);
        assert_eq!(found(&["the"]), [0; 0]);
    }

    #[test]
    fn a_query_has_each_word_once_and_ties_go_to_the_earlier_text() {
        let mut index = LexicalIndex::new(StopWords::Research);
        for (number, text) in (0..).zip(["same words", "other things entirely", "same words"]) {
            index.put(number, [("", text)]);
        }
        let found = |query: &str, most| -> Vec<u32> {
            let found = index.search(query, most).into_iter();
            found.map(|(number, _)| number).collect()
        };
        assert_eq!(found("same word, the same words", 10), [0, 2]);
        assert_eq!(index.search("same same", 1), index.search("same", 1));
        assert_eq!(found("same words", 1), [0]);
        assert_eq!(found("the of and find articles", 10), [0; 0]);
        assert!(LexicalIndex::default().search("x", 3).is_empty());
    }

    #[test]
    fn the_best_chunk_contains_the_words() {
        let mut index = LexicalIndex::default();
        index.put(
            7,
            [
                ("Notes", "about cats"),
                ("", "nothing"),
                ("Dogs", "dogs and dogs"),
            ],
        );
        assert_eq!(
            index.question(&terms(&["dog"])).best_chunk(Bm25::default(), 7),
            Some(2)
        );
        assert_eq!(
            index.question(&terms(&["bird"])).best_chunk(Bm25::default(), 7),
            Some(0)
        );
        assert_eq!(
            index.question(&terms(&["dog"])).best_chunk(Bm25::default(), 3),
            None
        );
    }

    /// Reference implementation of the formula over whole texts.
    fn plain(texts: &BTreeMap<u32, Vec<String>>, words: &[&str]) -> Vec<(u32, f64)> {
        let tokens = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let whole: BTreeMap<u32, Vec<String>> = texts
            .iter()
            .map(|(id, chunks)| (*id, tokens(&chunks.join(" "))))
            .collect();
        let mean = whole.values().map(Vec::len).sum::<usize>() as f64 / whole.len().max(1) as f64;
        let mut found: Vec<(u32, f64)> = Vec::new();
        for (id, tokens) in &whole {
            let mut score = 0.0;
            for word in words {
                let times = tokens.iter().filter(|token| token == word).count() as f64;
                let having = whole
                    .values()
                    .filter(|tokens| tokens.iter().any(|token| token == word))
                    .count() as f64;
                let rare = (1.0 + (whole.len() as f64 - having + 0.5) / (having + 0.5)).ln();
                score += rare * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * tokens.len() as f64 / mean));
            }
            if score > 0.0 {
                found.push((*id, score));
            }
        }
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found
    }

    proptest! {
        /// After any sequence of changes the index agrees with the formula.
        #[test]
        fn index_matches_the_formula_after_changes(
            changes in proptest::collection::vec(
                (0u32..12, proptest::collection::vec(proptest::collection::vec(0usize..6, 1..8), 0..4)), 1..40),
        ) {
            const WORDS: [&str; 6] = ["cat", "dog", "bird", "fish", "cow", "pig"];
            let mut index = LexicalIndex::default();
            let mut texts: BTreeMap<u32, Vec<String>> = BTreeMap::new();
            for (memory, chunks) in changes {
                let chunks: Vec<String> = chunks.iter()
                    .map(|words| words.iter().map(|word| WORDS[*word]).collect::<Vec<_>>().join(" ")).collect();
                index.put(memory, chunks.iter().map(|chunk| ("", chunk.as_str())));
                if chunks.is_empty() { texts.remove(&memory); } else { texts.insert(memory, chunks); }
            }
            let found = index.question(&terms(&["cat", "fish"])).search(Bm25::default(), 100, |_| true);
            let expected = plain(&texts, &["cat", "fish"]);
            prop_assert_eq!(found.len(), expected.len());
            for (one, other) in found.iter().zip(&expected) {
                prop_assert!((one.1 - other.1).abs() < 1e-9, "{:?} {:?}", found, expected);
            }
            let few = index.question(&terms(&["cat", "fish"])).search(Bm25::default(), 3, |memory| memory % 2 == 0);
            let even: Vec<(u32, f64)> = found.into_iter().filter(|(memory, _)| memory % 2 == 0).take(3).collect();
            prop_assert_eq!(few, even);
        }
    }
}
