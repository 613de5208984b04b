//! Trigger phrase matching: finds the memories whose phrases occur in a text. [`TriggerIndex`] looks phrases
//! up by the words of the text; its tests compare it with an exhaustive search.

mod image;

#[cfg(test)]
use super::Hit;
use super::shared::SharedMap;
use crate::text::words::WordRule;

/// Memories with a phrase that occurs in the text as whole words, best first: 1 for a phrase that is the
/// whole text, and less the smaller its share, but at least 0.5. The longest of several phrases counts.
#[cfg(test)]
fn match_triggers<'a>(text: &str, memories: impl IntoIterator<Item = (&'a str, &'a [String])>) -> Vec<Hit> {
    let text = words(text);
    if text.trim().is_empty() {
        return Vec::new();
    }
    let length = text.split_whitespace().count() as f64;
    let mut hits: Vec<Hit> = Vec::new();
    for (id, phrases) in memories {
        let said = phrases.iter().filter_map(|phrase| {
            let phrase = words(phrase);
            let count = phrase.split_whitespace().count();
            (count > 0 && text.contains(&phrase)).then_some(count)
        });
        if let Some(longest) = said.max() {
            hits.push(Hit::new(id, 0.5 + 0.5 * (longest as f64 / length).min(1.0)));
        }
    }
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
    hits
}

/// Words of a text with one space around each, so that only whole words match.
fn words(text: &str) -> String {
    let mut words = String::from(" ");
    WordRule::Search.for_each(text, |word| {
        words.push_str(word);
        words.push(' ');
    });
    words
}

/// Phrases of many memories, each indexed by one of its words: the cost of a lookup depends on the words of
/// the text and not on the number of phrases.
#[derive(Debug, Clone, Default)]
pub struct TriggerIndex {
    by_word: SharedMap<Box<str>, Vec<Phrase>>,
    /// Index words of each memory's phrases.
    kept: SharedMap<u32, Vec<Box<str>>>,
}

#[derive(Debug, Clone)]
struct Phrase {
    memory: u32,
    /// All words, separated by single spaces.
    words: Box<str>,
    /// Number of words before the index word, and number of all words.
    before: u16,
    count: u16,
}

impl TriggerIndex {
    /// Replaces the phrases of a memory.
    pub fn put<'a>(&mut self, memory: u32, phrases: impl IntoIterator<Item = &'a str>) {
        self.remove(memory);
        let mut kept = Vec::new();
        for phrase in phrases {
            let text = words(phrase);
            let list: Vec<&str> = text.split_whitespace().collect();
            // Index by the longest word, which is rarely a common one; the first of equals keeps the choice
            // stable.
            let longest = list.iter().enumerate().rev().max_by_key(|(_, word)| word.len());
            let Some((before, word)) = longest else { continue };
            let to_u16 = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
            let phrase = Phrase {
                memory,
                words: list.join(" ").into(),
                before: to_u16(before),
                count: to_u16(list.len()),
            };
            self.by_word.entry((*word).into()).push(phrase);
            kept.push((*word).into());
        }
        if !kept.is_empty() {
            self.kept.insert(memory, kept);
        }
    }

    /// Removes the phrases of a memory.
    pub fn remove(&mut self, memory: u32) {
        for word in self.kept.remove(&memory).unwrap_or_default() {
            let list = self.by_word.entry(word.clone());
            list.retain(|phrase| phrase.memory != memory);
            if list.is_empty() {
                self.by_word.remove(&word);
            }
        }
    }

    /// Memories with a phrase that occurs in the text as whole words, with a score: 1 for a phrase that is
    /// the whole text, and less the smaller its share, but at least 0.5. The longest of several phrases
    /// counts. Ordered by memory number.
    pub fn matches(&self, text: &str, wanted: impl Fn(u32) -> bool) -> Vec<(u32, f64)> {
        let text = words(text);
        let said: Vec<&str> = text.split_whitespace().collect();
        let mut longest: std::collections::BTreeMap<u32, u16> = std::collections::BTreeMap::new();
        for (at, word) in said.iter().enumerate() {
            for phrase in self.by_word.get(*word).into_iter().flatten() {
                let from = at.checked_sub(usize::from(phrase.before));
                let there = from.and_then(|from| said.get(from..from + usize::from(phrase.count)));
                if there.is_some_and(|there| there.iter().copied().eq(phrase.words.split(' ')))
                    && wanted(phrase.memory)
                {
                    let known = longest.entry(phrase.memory).or_default();
                    *known = phrase.count.max(*known);
                }
            }
        }
        let score = |count: u16| 0.5 + 0.5 * (f64::from(count) / said.len() as f64).min(1.0);
        longest
            .into_iter()
            .map(|(memory, count)| (memory, score(count)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str, phrases: &[(&str, &[&str])]) -> Vec<(String, f64)> {
        let owned: Vec<(&str, Vec<String>)> = phrases
            .iter()
            .map(|(id, phrases)| (*id, phrases.iter().map(ToString::to_string).collect()))
            .collect();
        let hits = match_triggers(text, owned.iter().map(|(id, phrases)| (*id, &phrases[..])));
        hits.into_iter().map(|hit| (hit.id, hit.score)).collect()
    }

    #[test]
    fn whole_words_in_order_and_the_longest_phrase_counts() {
        let phrases: &[(&str, &[&str])] = &[
            ("a", &["rate limit", "limit"]),
            ("b", &["limit rate"]),
            ("c", &["imit", "rat"]),
            ("d", &["the rate limit, again!"]),
            ("e", &[""]),
        ];
        // Of 4 words, "rate limit" covers half, and the phrase of four all.
        assert_eq!(
            found("The rate-limit again?", phrases),
            [("d".to_owned(), 1.0), ("a".to_owned(), 0.75)]
        );
        assert_eq!(found("", phrases), []);
        assert_eq!(found("?!", phrases), []);
    }
    proptest! {
        /// The index finds the same phrases as an exhaustive search, after any changes.
        #[test]
        fn the_index_matches_the_definition(
            changes in proptest::collection::vec((0u32..8, proptest::collection::vec("[abC _.]{0,9}", 0..4)), 0..20),
            text in "[abc A-]{0,24}", odd in any::<bool>(),
        ) {
            let mut index = TriggerIndex::default();
            let mut phrases: std::collections::BTreeMap<String, Vec<String>> = std::collections::BTreeMap::new();
            for (memory, list) in changes {
                index.put(memory, list.iter().map(String::as_str));
                phrases.insert(memory.to_string(), list);
            }
            let wanted = |memory: u32| !odd || memory % 2 == 1;
            let of_wanted = phrases.iter().filter(|(id, _)| wanted(id.parse().unwrap()));
            let expected = match_triggers(&text, of_wanted.map(|(id, list)| (id.as_str(), &list[..])));
            let mut found: Vec<Hit> = index.matches(&text, wanted).into_iter()
                .map(|(memory, score)| Hit::new(memory.to_string(), score)).collect();
            found.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
            prop_assert_eq!(found, expected);
        }
    }
}
