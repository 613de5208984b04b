//! WordPiece tokenizer as used by BERT's uncased models: clean, separate CJK characters, strip accents,
//! lower-case, split at whitespace and punctuation, then match the longest known subwords from the left.
//!
//! Tested against the reference tokenizer in `tests/it/tokens.rs`. One difference is intentional: the literal
//! text `[CLS]` or `[SEP]` is ordinary text here, never a control token.
use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

/// Longer words become one unknown token (`max_input_chars_per_word` of the reference).
const LONGEST_WORD: usize = 100;

#[derive(Debug)]
pub(crate) struct WordPiece {
    /// Subwords that start a word.
    starts: HashMap<Box<str>, u32>,
    /// Subwords that continue a word, without their `##`.
    continuations: HashMap<Box<str>, u32>,
    /// Length of the longest subword in bytes: longer candidates are not looked up.
    longest: usize,
    unknown: u32,
    start: u32,
    end: u32,
}

/// Token ids of several texts, one after the other. The buffers are reused, so that tokenizing allocates
/// nothing once they are large enough.
#[derive(Debug)]
pub(crate) struct Tokens {
    ids: Vec<u32>,
    /// 0, then the end of every text in `ids`.
    bounds: Vec<usize>,
    word: String,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            bounds: vec![0],
            word: String::new(),
        }
    }
}

impl Tokens {
    /// Removes all texts; keeps the buffers, unless they are unusually large.
    pub(crate) fn clear(&mut self) {
        const KEPT: usize = 1 << 16;
        self.ids.clear();
        self.ids.shrink_to(KEPT);
        self.bounds.truncate(1);
        self.bounds.shrink_to(KEPT);
    }

    pub(crate) fn all(&self) -> Texts<'_> {
        Texts {
            ids: &self.ids,
            bounds: &self.bounds,
        }
    }
}

/// Token ids of consecutive texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Texts<'a> {
    ids: &'a [u32],
    bounds: &'a [usize],
}

impl<'a> Texts<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a [u32]> {
        self.bounds
            .array_windows()
            .map(move |[start, end]| &self.ids[*start..*end])
    }

    /// Splits into batches of at most `limit` tokens, or of one text that has more.
    pub(crate) fn batches(self, limit: usize) -> impl Iterator<Item = Self> {
        let mut first = 0;
        std::iter::from_fn(move || {
            let start = *self.bounds.get(first)?;
            let rest = &self.bounds[first + 1..];
            let count = rest.partition_point(|end| end - start <= limit).max(1);
            if count > rest.len() {
                return None;
            }
            let bounds = &self.bounds[first..=first + count];
            first += count;
            Some(Self {
                ids: self.ids,
                bounds,
            })
        })
    }
}

impl WordPiece {
    /// Reads `vocab.txt`: one subword per line, the line number is the id.
    pub(crate) fn new(vocabulary: &str) -> Result<Self, String> {
        let mut starts = HashMap::with_capacity(32_768);
        let mut continuations = HashMap::with_capacity(8_192);
        let mut longest = 0;
        for (id, line) in (0u32..).zip(vocabulary.lines()) {
            let (map, subword) = match line.strip_prefix("##") {
                Some(rest) if !rest.is_empty() => (&mut continuations, rest),
                _ => (&mut starts, line),
            };
            longest = longest.max(subword.len());
            map.insert(Box::from(subword), id);
        }
        let special = |name: &str| {
            starts
                .get(name)
                .copied()
                .ok_or_else(|| format!("missing token {name}"))
        };
        let (unknown, start, end) = (special("[UNK]")?, special("[CLS]")?, special("[SEP]")?);
        Ok(Self {
            starts,
            continuations,
            longest,
            unknown,
            start,
            end,
        })
    }

    /// Appends the token ids of a text with the start and end tokens, truncated to `limit`.
    pub(crate) fn tokenize(&self, text: &str, limit: usize, tokens: &mut Tokens) {
        let Tokens { ids, bounds, word } = tokens;
        ids.push(self.start);
        let capacity = bounds[bounds.len() - 1] + limit.saturating_sub(1).max(1);
        word.clear();
        let mut push = |c: char| {
            if c == ' ' || is_punctuation(c) {
                self.push_word(word, ids);
                word.clear();
                if c != ' ' {
                    self.push_word(c.encode_utf8(&mut [0; 4]), ids);
                }
            } else {
                word.push(c);
            }
            ids.len() < capacity
        };
        if text.is_ascii() {
            let _ = normalized_ascii(text).all(&mut push);
        } else {
            let _ = normalized(text).all(&mut push);
        }
        self.push_word(word, ids);
        ids.truncate(capacity);
        ids.push(self.end);
        bounds.push(ids.len());
    }

    fn push_word(&self, word: &str, ids: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        let before = ids.len();
        if word.chars().count() <= LONGEST_WORD {
            let mut rest = word;
            let mut subwords = &self.starts;
            while let Some((id, length)) = self.longest_subword(subwords, rest) {
                ids.push(id);
                rest = &rest[length..];
                subwords = &self.continuations;
                if rest.is_empty() {
                    return;
                }
            }
        }
        ids.truncate(before);
        ids.push(self.unknown);
    }

    fn longest_subword(&self, subwords: &HashMap<Box<str>, u32>, text: &str) -> Option<(u32, usize)> {
        (1..=text.len().min(self.longest))
            .rev()
            .filter(|end| text.is_char_boundary(*end))
            .find_map(|end| subwords.get(&text[..end]).map(|id| (*id, end)))
    }
}

/// [`normalized`] for text in ASCII, where it is simple.
fn normalized_ascii(text: &str) -> impl Iterator<Item = char> {
    text.bytes().filter_map(|byte| match byte {
        b'\t' | b'\n' | b'\r' => Some(' '),
        b' '..=b'~' => Some(byte.to_ascii_lowercase().into()),
        _ => None,
    })
}

/// Normalizes text to the vocabulary; all whitespace becomes `' '`.
fn normalized(text: &str) -> impl Iterator<Item = char> {
    text.chars()
        .filter(|c| !is_dropped(*c))
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .flat_map(|c| {
            let around = is_cjk(c).then_some(' ');
            around.into_iter().chain(Some(c)).chain(around)
        })
        .nfd()
        .filter(|c| c.is_ascii() || c.general_category() != GeneralCategory::NonspacingMark)
        .flat_map(char::to_lowercase)
}

/// Control and format characters, private use, the null and the replacement character; not tab and line ends.
fn is_dropped(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' | ' '..='~' => false,
        '\u{fffd}' => true,
        _ => matches!(
            c.general_category(),
            GeneralCategory::Control | GeneralCategory::Format | GeneralCategory::PrivateUse
        ),
    }
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || (!c.is_ascii() && c.general_category_group() == GeneralCategoryGroup::Punctuation)
}

/// Ideograph blocks that BERT separates; kana and hangul are not among them.
fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{20000}'..='\u{2A6DF}' | '\u{2A700}'..='\u{2B73F}'
        | '\u{2B740}'..='\u{2B81F}' | '\u{2B920}'..='\u{2CEAF}' | '\u{F900}'..='\u{FAFF}' | '\u{2F800}'..='\u{2FA1F}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(counts: &[usize]) -> Tokens {
        let mut tokens = Tokens::default();
        for (text, count) in (0..).zip(counts) {
            tokens.ids.extend(std::iter::repeat_n(text, *count));
            tokens.bounds.push(tokens.ids.len());
        }
        tokens
    }

    proptest! {
        #[test]
        fn ascii_is_normalized_like_other_text(text in "[\\x00-\\x7f]{0,40}") {
            let fast: String = normalized_ascii(&text).collect();
            prop_assert_eq!(fast, normalized(&text).collect::<String>());
        }

        #[test]
        fn batches_contain_every_text_once_and_respect_the_limit(counts in prop::collection::vec(2usize..300, 0..40)) {
            let tokens = tokens(&counts);
            let batches: Vec<Vec<&[u32]>> = tokens.all().batches(128).map(|batch| batch.iter().collect()).collect();
            prop_assert_eq!(batches.concat(), tokens.all().iter().collect::<Vec<_>>());
            for batch in &batches {
                let count = batch.iter().map(|text| text.len()).sum::<usize>();
                prop_assert!(!batch.is_empty() && (count <= 128 || batch.len() == 1));
            }
        }
    }

    #[test]
    fn buffers_are_reused() {
        let vocabulary = "[UNK]\n[CLS]\n[SEP]\na\n##b\n.\n";
        let model = WordPiece::new(vocabulary).unwrap();
        let mut tokens = Tokens::default();
        let tokenize = |tokens: &mut Tokens| {
            tokens.clear();
            for text in ["ab a.", "c", "", "ABBA \u{e4}"] {
                model.tokenize(text, 256, tokens);
            }
            (tokens.ids.as_ptr(), tokens.bounds.as_ptr(), tokens.word.as_ptr())
        };
        let first = tokenize(&mut tokens);
        assert_eq!(tokenize(&mut tokens), first);
        let found: Vec<&[u32]> = tokens.all().iter().collect();
        assert_eq!(
            found,
            [&[1, 3, 4, 3, 5, 2][..], &[1, 0, 2], &[1, 2], &[1, 0, 3, 2]]
        );
    }
}
