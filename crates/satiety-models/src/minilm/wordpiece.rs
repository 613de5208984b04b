//! WordPiece tokens as BERT's uncased models were trained on: clean, space out CJK, strip accents, lower-case, split at
//! white space and punctuation, then match the longest known pieces from the left.
//!
//! Tested against the reference tokenizer in `tests/it/tokens.rs`. One difference is wanted: the literal text
//! `[CLS]` or `[SEP]` is text like any other here, never a control token.
use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

/// Longer words are one unknown token (`max_input_chars_per_word` of the reference).
const LONGEST_WORD: usize = 100;

/// A vocabulary, ready to tokenize.
#[derive(Debug)]
pub(crate) struct WordPiece {
    /// Pieces that start a word.
    starts: HashMap<Box<str>, u32>,
    /// Pieces that continue one, without their `##`.
    continuations: HashMap<Box<str>, u32>,
    /// The longest piece, in bytes: no longer candidate is looked up.
    longest: usize,
    unknown: u32,
    start: u32,
    end: u32,
}

impl WordPiece {
    /// Reads `vocab.txt`: one piece a line, the line number is the id.
    pub(crate) fn new(vocabulary: &str) -> Result<Self, String> {
        let mut starts = HashMap::with_capacity(32_768);
        let mut continuations = HashMap::with_capacity(8_192);
        let mut longest = 0;
        for (id, line) in (0u32..).zip(vocabulary.lines()) {
            let (map, piece) = match line.strip_prefix("##") {
                Some(rest) if !rest.is_empty() => (&mut continuations, rest),
                _ => (&mut starts, line),
            };
            longest = longest.max(piece.len());
            map.insert(Box::from(piece), id);
        }
        let special = |name: &str| {
            starts
                .get(name)
                .copied()
                .ok_or_else(|| format!("lacks the token {name}"))
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

    /// Token ids with the start and end tokens, at most `limit` of them; what does not fit is cut off at the end.
    pub(crate) fn tokenize(&self, text: &str, limit: usize) -> Vec<u32> {
        let mut ids = vec![self.start];
        let room = limit.saturating_sub(1).max(1);
        let mut word = String::new();
        for c in normalized(text) {
            if ids.len() >= room {
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
        ids.truncate(room);
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
            let mut pieces = &self.starts;
            while let Some((id, length)) = self.longest_piece(pieces, rest) {
                ids.push(id);
                rest = &rest[length..];
                pieces = &self.continuations;
                if rest.is_empty() {
                    return;
                }
            }
        }
        ids.truncate(before);
        ids.push(self.unknown);
    }

    fn longest_piece(&self, pieces: &HashMap<Box<str>, u32>, text: &str) -> Option<(u32, usize)> {
        (1..=text.len().min(self.longest))
            .rev()
            .filter(|end| text.is_char_boundary(*end))
            .find_map(|end| pieces.get(&text[..end]).map(|id| (*id, end)))
    }
}

/// The text as the vocabulary knows it; every kind of white space comes out as `' '`.
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

/// The ideograph blocks that BERT spaces out; kana and hangul are not among them.
fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{20000}'..='\u{2A6DF}' | '\u{2A700}'..='\u{2B73F}'
        | '\u{2B740}'..='\u{2B81F}' | '\u{2B920}'..='\u{2CEAF}' | '\u{F900}'..='\u{FAFF}' | '\u{2F800}'..='\u{2FA1F}')
}
