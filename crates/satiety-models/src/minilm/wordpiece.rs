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

    /// Token ids with the start and end tokens, truncated to `limit`.
    pub(crate) fn tokenize(&self, text: &str, limit: usize) -> Vec<u32> {
        let mut ids = vec![self.start];
        let capacity = limit.saturating_sub(1).max(1);
        let mut word = String::new();
        for c in normalized(text) {
            if ids.len() >= capacity {
                break;
            }
            if c == ' ' || is_punctuation(c) {
                self.push_word(&word, &mut ids);
                word.clear();
                if c != ' ' {
                    self.push_word(c.encode_utf8(&mut [0; 4]), &mut ids);
                }
            } else {
                word.push(c);
            }
        }
        self.push_word(&word, &mut ids);
        ids.truncate(capacity);
        ids.push(self.end);
        ids
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
