//! Word segmentation used by everything that compares, searches or counts words.
//!
//! A word is a run of letters and digits, with the combining marks after them, in lower case and in the
//! compatibility normal form NFKC: "Ｃａｆé" and "café" are one word. Typographic apostrophes and hyphens become
//! plain ones, and invisible joiners are dropped. The remaining rules depend on the purpose:
//!
//! | | [`Compare`] | [`Phrase`] | [`Search`] | [`Query`] |
//! |---|---|---|---|---|
//! | hyphens: "re-run" | re, run | re-run | re, run | re, run |
//! | identifiers and numbers: "`get_user`", "config.yaml", "3.5" | whole | parts | parts | parts |
//! | contractions: "don't", "user's" | whole | whole | do, user | do, user |
//! | accents: "café" | cafe | cafe | cafe | café |
//! | scripts without spaces: "東京都" | 東, 京, 都 | 東京都 | 東京, 京都 | 東京都 |
//! | Korean: "서울에서" | 서울에서 | 서울에서 | 서울, 울에, 에서 | 서울에서 |
//!
//! Searching needs words where a script does not separate them. Without a dictionary, overlapping pairs of characters
//! are the best known substitute for Chinese, Japanese and Thai; Korean attaches particles to words, which pairs
//! separate as well.
//!
//! [`Compare`]: WordRule::Compare
//! [`Phrase`]: WordRule::Phrase
//! [`Search`]: WordRule::Search
//! [`Query`]: WordRule::Query

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};
use unicode_segmentation::UnicodeSegmentation;

/// Purpose of the words; the table above says what stays in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordRule {
    /// Word sets whose overlap is measured: the words of Unicode's UAX 29.
    Compare,
    /// Phrase matching: "non-blocking" does not contain "blocking".
    Phrase,
    /// Indexing and searching texts by their words.
    Search,
    /// Like `Search`, for words that are sent to search engines as written.
    Query,
}

/// Class of a character in word segmentation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    /// A combining mark, which cannot start a word.
    Mark,
    Other,
}

impl Kind {
    fn of(character: char) -> Self {
        if is_mark(character) {
            Self::Mark
        } else if character.is_alphabetic() {
            Self::Letter
        } else if character.is_numeric() {
            Self::Digit
        } else {
            Self::Other
        }
    }
}

impl WordRule {
    /// Folds a text for comparison, keeping everything between the words.
    pub(crate) fn fold(self, text: &str) -> Cow<'_, str> {
        if text.is_ascii() {
            let upper = text.bytes().any(|byte| byte.is_ascii_uppercase());
            return if upper {
                text.to_ascii_lowercase().into()
            } else {
                text.into()
            };
        }
        let mut folded = String::with_capacity(text.len());
        for segment in text.split_inclusive(' ') {
            let start = folded.len();
            if segment.is_ascii() {
                folded.push_str(segment);
                if let Some(added) = folded.get_mut(start..) {
                    added.make_ascii_lowercase();
                }
            } else if self.fold_segment(segment, &mut folded) {
                let composed: String = folded.get(start..).unwrap_or_default().nfc().collect();
                folded.truncate(start);
                folded.push_str(&composed);
            }
        }
        folded.into()
    }

    /// Appends a text character by character; returns whether neighbours may have to be composed.
    fn fold_segment(self, segment: &str, folded: &mut String) -> bool {
        let mut compose = false;
        for character in segment.chars() {
            if character.is_ascii() {
                folded.push(character.to_ascii_lowercase());
                continue;
            }
            let mut parts = 0;
            decompose_compatible(character, |part| {
                let lower = part.to_lowercase().filter_map(plain);
                for part in lower.filter(|part| self == Self::Query || !is_accent(*part)) {
                    folded.push(part);
                    parts += 1;
                }
            });
            // Marks, and the letters of Korean syllables.
            let joins = ('\u{1100}'..='\u{11ff}').contains(&character) || is_mark(character);
            compose |= parts > 1 || joins;
        }
        compose
    }

    /// Calls `each` for every word of a text, including repeats.
    pub(crate) fn for_each(self, text: &str, each: impl FnMut(&str)) {
        self.for_each_folded(&self.fold(text), each);
    }

    /// Like [`for_each`](Self::for_each), for a text returned by [`fold`](Self::fold).
    #[inline]
    pub(crate) fn for_each_folded<'a>(self, folded: &'a str, mut each: impl FnMut(&'a str)) {
        let bytes = folded.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            let (mut says_something, mut apostrophe) = (false, false);
            loop {
                let run = at;
                while at < bytes.len() && bytes[at].is_ascii_alphanumeric() {
                    at += 1;
                }
                says_something |= at > run;
                let Some(&byte) = bytes.get(at) else { break };
                let rest = folded.get(at..).unwrap_or_default();
                if !byte.is_ascii() {
                    // `None` inside a character.
                    let Some(character) = rest.chars().next() else {
                        break;
                    };
                    match Kind::of(character) {
                        Kind::Letter | Kind::Digit => says_something = true,
                        Kind::Mark if at > start => {}
                        _ => break,
                    }
                    at += character.len_utf8();
                    continue;
                }
                if byte != b'_' || self != Self::Compare {
                    if at == start || !self.joins(byte, &folded[start..at], rest) {
                        break;
                    }
                    apostrophe |= byte == b'\'';
                }
                at += 1;
            }
            if says_something {
                self.found(&folded[start..at], apostrophe, &mut each);
            }
            // A character that ends a word does not start one.
            at += 1;
        }
    }

    /// Words of a text returned by [`fold`](Self::fold).
    pub(crate) fn words(self, folded: &str) -> Vec<&str> {
        let mut words = Vec::new();
        self.for_each_folded(folded, |word| words.push(word));
        words
    }

    fn found<'a>(self, word: &'a str, apostrophe: bool, each: &mut impl FnMut(&'a str)) {
        if apostrophe && matches!(self, Self::Search | Self::Query) {
            let word = contraction(word).map_or(word, |(word, _)| word);
            word.split('\'').for_each(|part| self.found(part, false, each));
        } else if self == Self::Search && word.chars().any(is_unsegmented) {
            Self::pairs(word, each);
        } else if !word.is_ascii() && matches!(self, Self::Compare | Self::Search) {
            segment(word, each);
        } else {
            each(word);
        }
    }

    /// Splits a run that contains a script without spaces: overlapping pairs of its characters, each with its marks,
    /// and the other parts as words.
    fn pairs<'a>(word: &'a str, each: &mut impl FnMut(&'a str)) {
        let mut start = 0;
        while let Some(first) = word.get(start..).and_then(|rest| rest.chars().next()) {
            let unsegmented = is_unsegmented(first);
            let rest = word.get(start..).unwrap_or_default();
            let belongs = |c: char| is_unsegmented(c) == unsegmented || is_mark(c);
            let length = rest.find(|c: char| !belongs(c)).unwrap_or(rest.len());
            let run = rest.get(..length).unwrap_or_default();
            start += length;
            if !unsegmented {
                segment(run, each);
                continue;
            }
            // Start of each character, with the marks after it, and the end of the run.
            let starts = run.char_indices().filter(|(at, c)| *at == 0 || !is_mark(*c));
            let mut starts: Vec<usize> = starts.map(|(at, _)| at).collect();
            starts.push(run.len());
            if starts.len() == 2 {
                each(run);
            }
            for pair in starts.windows(3) {
                each(&run[pair[0]..pair[2]]);
            }
        }
    }

    /// Whether a mark at the start of `rest` keeps both of its sides in one word.
    #[inline]
    fn joins(self, mark: u8, word: &str, rest: &str) -> bool {
        let (letters, digits, mixed) = match mark {
            b'.' if self == Self::Compare => (true, true, false),
            b':' if self == Self::Compare => (true, false, false),
            b',' | b';' if self == Self::Compare => (false, true, false),
            b'\'' => (true, true, self != Self::Compare),
            b'-' => [self == Self::Phrase; 3].into(),
            _ => return false,
        };
        let before = word.chars().rev().map(Kind::of).find(|kind| *kind != Kind::Mark);
        match (before, rest.chars().nth(1).map(Kind::of)) {
            (Some(Kind::Letter), Some(Kind::Letter)) => letters,
            (Some(Kind::Digit), Some(Kind::Digit)) => digits,
            (Some(Kind::Letter), Some(Kind::Digit)) | (Some(Kind::Digit), Some(Kind::Letter)) => mixed,
            _ => false,
        }
    }
}

/// Splits a run at the word boundaries of Unicode.
fn segment<'a>(word: &'a str, each: &mut impl FnMut(&'a str)) {
    // A Hebrew letter keeps the apostrophe after it.
    let parts = word.unicode_words().map(|part| part.trim_end_matches('\''));
    // Unicode segments include joiners that carry only marks.
    let says_something = |part: &&str| {
        part.chars()
            .any(|c| matches!(Kind::of(c), Kind::Letter | Kind::Digit))
    };
    parts.filter(says_something).for_each(each);
}

/// Maps variants of a character to one; `None` for invisible characters.
fn plain(character: char) -> Option<char> {
    Some(match character {
        '\u{2019}' | '\u{2bc}' => '\'',
        '\u{2010}' => '-',
        'ς' => 'σ',
        '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}' => return None,
        other => other,
    })
}

/// Whether a character modifies the one before it; none of the first 768 does.
fn is_mark(character: char) -> bool {
    character >= '\u{300}' && is_combining_mark(character)
}

/// Whether a letter belongs to a script that is searched by pairs of characters: Chinese, Japanese, Korean, Thai, Lao,
/// Khmer or Burmese.
fn is_unsegmented(character: char) -> bool {
    character >= '\u{e00}'
        && matches!(
            u32::from(character),
            0xe00..=0xeff            // Thai, Lao
                | 0x1000..=0x109f    // Burmese
                | 0x1780..=0x17ff    // Khmer
                | 0x3005..=0x3007    // 々, 〆, 〇
                | 0x3040..=0x30ff    // Hiragana, Katakana
                | 0x31f0..=0x31ff
                | 0x3400..=0x4dbf    // Chinese characters
                | 0x4e00..=0x9fff
                | 0xac00..=0xd7af    // Korean syllables
                | 0xf900..=0xfaff
                | 0x2_0000..=0x3_ffff
        )
}

/// Marks of Latin, Greek and Cyrillic letters; in other scripts marks form different letters.
fn is_accent(character: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&character)
}

/// A word without its accents.
pub(super) fn without_accents(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        return word.into();
    }
    word.nfd()
        .filter(|character| !is_accent(*character))
        .nfc()
        .collect()
}

/// The two words that a lower-case contraction stands for; for a possessive, the word and "'s".
pub(crate) fn contraction(word: &str) -> Option<(&str, &'static str)> {
    const ENDINGS: [(&str, &str); 7] = [
        ("n't", "not"),
        ("'ll", "will"),
        ("'re", "are"),
        ("'ve", "have"),
        ("'d", "would"),
        ("'m", "am"),
        ("'s", "'s"),
    ];
    match word {
        "cannot" | "can't" => return Some(("can", "not")),
        "won't" => return Some(("will", "not")),
        "shan't" => return Some(("shall", "not")),
        _ => {}
    }
    let parts = ENDINGS
        .iter()
        .find_map(|(ending, rest)| Some((word.strip_suffix(ending)?, *rest)));
    parts.filter(|(first, _)| !first.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RULES: [WordRule; 4] = [
        WordRule::Compare,
        WordRule::Phrase,
        WordRule::Search,
        WordRule::Query,
    ];

    fn words(rule: WordRule, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        rule.for_each(text, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn every_rule_by_example() {
        for (text, expected) in [
            (
                "Re-run `X.py` NOW!",
                [
                    "re run x.py now",
                    "re-run x py now",
                    "re run x py now",
                    "re run x py now",
                ],
            ),
            (
                "get_user(ID), 3.5",
                [
                    "get_user id 3.5",
                    "get user id 3 5",
                    "get user id 3 5",
                    "get user id 3 5",
                ],
            ),
            (
                "don\u{2019}t 'quote'",
                ["don't quote", "don't quote", "do quote", "do quote"],
            ),
            (
                "I\u{2019}m we'll 's t",
                ["i'm we'll s t", "i'm we'll s t", "i we s t", "i we s t"],
            ),
            (
                "1960's O'Brien",
                ["1960 s o'brien", "1960's o'brien", "1960 o brien", "1960 o brien"],
            ),
            (
                "Café cafe\u{301} Straße",
                [
                    "cafe cafe straße",
                    "cafe cafe straße",
                    "cafe cafe straße",
                    "café café straße",
                ],
            ),
            ("東京 ドア", ["東 京 ドア", "東京 ドア", "東京 ドア", "東京 ドア"]),
            (
                "東京都の店 v2版 서울에서 ภาษา",
                [
                    "東 京 都 の 店 v2 版 서울에서 ภ า ษ า",
                    "東京都の店 v2版 서울에서 ภาษา",
                    "東京 京都 都の の店 v2 版 서울 울에 에서 ภา าษ ษา",
                    "東京都の店 v2版 서울에서 ภาษา",
                ],
            ),
            (
                "ﬁle Ｆｕｌｌ ΟΔΟΣ",
                [
                    "file full οδοσ",
                    "file full οδοσ",
                    "file full οδοσ",
                    "file full οδοσ",
                ],
            ),
            ("-- _ ' ... ?!", ["", "", "", ""]),
            ("a -- b-", ["a b", "a b", "a b", "a b"]),
        ] {
            assert_eq!(RULES.map(|rule| words(rule, text).join(" ")), expected, "{text}");
        }
    }

    #[test]
    fn contractions_are_two_words() {
        for (word, expected) in [
            ("isn't", Some(("is", "not"))),
            ("won't", Some(("will", "not"))),
            ("they've", Some(("they", "have"))),
            ("user's", Some(("user", "'s"))),
            ("n't", None),
            ("o'brien", None),
        ] {
            assert_eq!(contraction(word), expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn compare_words_match_unicode_segmentation(text in "[a-z0-9_.,:;'\" !?/()-]{0,40}") {
            let expected: Vec<&str> = text.unicode_words().collect();
            prop_assert_eq!(words(WordRule::Compare, &text), expected);
        }

        #[test]
        fn segmentation_is_idempotent(text in "\\PC{0,60}") {
            for rule in RULES {
                let once = words(rule, &text);
                prop_assert!(once.iter().all(|word| !word.is_empty() && !word.contains(char::is_whitespace)));
                prop_assert_eq!(words(rule, &once.join(" ")), once);
            }
        }

        #[test]
        fn ascii_fast_path_matches_the_general_rule(text in "[ -~]{0,40}") {
            for rule in RULES {
                let mut long = words(rule, &format!("{text} \u{df}"));
                prop_assert_eq!(long.pop(), Some("\u{df}".to_owned()));
                prop_assert_eq!(words(rule, &text), long);
            }
        }
    }
}
