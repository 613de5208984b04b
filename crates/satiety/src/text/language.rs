//! Detects the language of a text by its script and its function words, to choose a stemmer. Undetected texts are
//! treated as English, so that a wrong guess never costs more than an unstemmed word.

use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use rustc_hash::FxHashMap;

use super::words::WordRule;

/// Number of characters of a text that are examined.
const EXAMINED_CHARS: usize = 600;
/// Minimum number of function words, and minimum share among all words, for a language other than English.
const MIN_WORDS: usize = 2;
const MIN_SHARE: f64 = 0.08;

/// A language with a Snowball stemmer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Language {
    English,
    Arabic,
    Danish,
    Dutch,
    Finnish,
    French,
    German,
    Greek,
    Hungarian,
    Italian,
    Norwegian,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Tamil,
    Turkish,
}

impl Language {
    const ALL: [Self; 18] = [
        Self::English,
        Self::Arabic,
        Self::Danish,
        Self::Dutch,
        Self::Finnish,
        Self::French,
        Self::German,
        Self::Greek,
        Self::Hungarian,
        Self::Italian,
        Self::Norwegian,
        Self::Portuguese,
        Self::Romanian,
        Self::Russian,
        Self::Spanish,
        Self::Swedish,
        Self::Tamil,
        Self::Turkish,
    ];

    fn algorithm(self) -> Algorithm {
        match self {
            Self::English => Algorithm::English,
            Self::Arabic => Algorithm::Arabic,
            Self::Danish => Algorithm::Danish,
            Self::Dutch => Algorithm::Dutch,
            Self::Finnish => Algorithm::Finnish,
            Self::French => Algorithm::French,
            Self::German => Algorithm::German,
            Self::Greek => Algorithm::Greek,
            Self::Hungarian => Algorithm::Hungarian,
            Self::Italian => Algorithm::Italian,
            Self::Norwegian => Algorithm::Norwegian,
            Self::Portuguese => Algorithm::Portuguese,
            Self::Romanian => Algorithm::Romanian,
            Self::Russian => Algorithm::Russian,
            Self::Spanish => Algorithm::Spanish,
            Self::Swedish => Algorithm::Swedish,
            Self::Tamil => Algorithm::Tamil,
            Self::Turkish => Algorithm::Turkish,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Arabic => "ar",
            Self::Danish => "da",
            Self::Dutch => "nl",
            Self::Finnish => "fi",
            Self::French => "fr",
            Self::German => "de",
            Self::Greek => "el",
            Self::Hungarian => "hu",
            Self::Italian => "it",
            Self::Norwegian => "no",
            Self::Portuguese => "pt",
            Self::Romanian => "ro",
            Self::Russian => "ru",
            Self::Spanish => "es",
            Self::Swedish => "sv",
            Self::Tamil => "ta",
            Self::Turkish => "tr",
        }
    }

    /// Stem of a folded word of this language.
    pub(crate) fn stem(self, word: &str) -> String {
        STEMMERS
            .get(&self)
            .map_or_else(|| word.to_owned(), |stemmer| stemmer.stem(word).into_owned())
    }

    /// Whether a folded word is a function word of this language, which does not indicate a topic.
    pub(crate) fn is_function_word(self, word: &str) -> bool {
        FUNCTION_WORDS
            .get(word)
            .is_some_and(|languages| languages.0 & self.bit() != 0)
    }

    /// Language of a text, as far as its stemmer is concerned.
    pub(crate) fn detect(text: &str) -> Self {
        let end = text
            .char_indices()
            .nth(EXAMINED_CHARS)
            .map_or(text.len(), |(at, _)| at);
        let text = text.get(..end).unwrap_or(text);
        match Script::detect(text) {
            Script::Cyrillic => return Self::Russian,
            Script::Greek => return Self::Greek,
            Script::Arabic => return Self::Arabic,
            Script::Tamil => return Self::Tamil,
            Script::Other => return Self::English,
            Script::Latin => {}
        }
        let mut counts = [0_usize; Self::ALL.len()];
        let mut all = 0_usize;
        WordRule::Search.for_each(text, |word| {
            all += 1;
            // Single letters are more often names, such as "drive C", than function words.
            let languages = FUNCTION_WORDS.get(word).filter(|_| word.len() > 1);
            let mut rest = languages.map_or(0, |languages| languages.0);
            while rest != 0 {
                if let Some(count) = counts.get_mut(rest.trailing_zeros() as usize) {
                    *count += 1;
                }
                rest &= rest - 1;
            }
        });
        let counted = Self::ALL.into_iter().zip(counts);
        let english = counts[0];
        // The first of equals, in the order of the list; English wins a draw.
        let best = counted.fold(
            (Self::English, english),
            |best, one| {
                if one.1 > best.1 { one } else { best }
            },
        );
        if best.1 >= MIN_WORDS && best.1 as f64 >= MIN_SHARE * all as f64 {
            best.0
        } else {
            Self::English
        }
    }

    /// Bit of this language in a set; the position equals that in [`Language::ALL`].
    fn bit(self) -> u32 {
        1 << (self as u32)
    }
}

/// Writing system of most letters of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    Latin,
    Cyrillic,
    Greek,
    Arabic,
    Tamil,
    /// Any other one, such as Chinese, Thai or Hebrew.
    Other,
}

impl Script {
    /// Latin for a text without letters.
    pub(crate) fn detect(text: &str) -> Self {
        if text.is_ascii() {
            return Self::Latin;
        }
        let mut counts = [0_usize; 6];
        for letter in text.chars().take(EXAMINED_CHARS).filter(|c| c.is_alphabetic()) {
            let script = match u32::from(letter) {
                0..=0x24f | 0x1e00..=0x1eff => 0,
                0x400..=0x52f => 1,
                0x370..=0x3ff | 0x1f00..=0x1fff => 2,
                0x600..=0x6ff | 0x750..=0x77f => 3,
                0xb80..=0xbff => 4,
                // A character of Chinese or a syllable of Korean says as much as several letters.
                0x3400..=0x9fff | 0xac00..=0xd7af => {
                    counts[5] += 2;
                    5
                }
                _ => 5,
            };
            counts[script] += 1;
        }
        let scripts = [
            Self::Latin,
            Self::Cyrillic,
            Self::Greek,
            Self::Arabic,
            Self::Tamil,
            Self::Other,
        ];
        let counted = scripts.into_iter().zip(counts);
        let best = counted.fold(
            (Self::Latin, 0),
            |best, one| if one.1 > best.1 { one } else { best },
        );
        best.0
    }
}

/// Set of languages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Languages(u32);

impl Languages {
    /// One bit per language, in the order of the enumeration.
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// Reverses [`Languages::bits`]; bits without a language have no effect.
    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(crate) fn insert(&mut self, language: Language) {
        if language != Language::English {
            self.0 |= language.bit();
        }
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Language> {
        let all = Language::ALL.into_iter();
        all.filter(move |language| self.0 & language.bit() != 0)
    }
}

static STEMMERS: LazyLock<FxHashMap<Language, Stemmer>> = LazyLock::new(|| {
    let all = Language::ALL.into_iter();
    all.map(|language| (language, Stemmer::create(language.algorithm())))
        .collect()
});

/// Languages in which a word, without accents, is a function word.
static FUNCTION_WORDS: LazyLock<FxHashMap<&'static str, Languages>> = LazyLock::new(|| {
    let mut words: FxHashMap<&'static str, Languages> = FxHashMap::default();
    for line in include_str!("data/function_words.txt").lines() {
        let Some((code, list)) = line.split_once(':') else {
            continue;
        };
        if let Some(language) = Language::ALL.into_iter().find(|one| one.code() == code.trim()) {
            for word in list.split_whitespace() {
                words.entry(word).or_default().0 |= language.bit();
            }
        }
    }
    words
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_detected_by_script_and_function_words() {
        for (text, expected) in [
            ("The cache is warm before the first request", Language::English),
            (
                "Der Cache ist vor der ersten Anfrage warm und wird nicht geleert",
                Language::German,
            ),
            (
                "Le cache est chaud avant la première requête et il ne se vide pas",
                Language::French,
            ),
            (
                "La caché está caliente antes de la primera petición y no se vacía",
                Language::Spanish,
            ),
            (
                "La cache è calda prima della prima richiesta e non si svuota",
                Language::Italian,
            ),
            (
                "O cache está quente antes do primeiro pedido e não é esvaziado",
                Language::Portuguese,
            ),
            (
                "De cache is warm voor het eerste verzoek en wordt niet geleegd",
                Language::Dutch,
            ),
            (
                "Cachen är varm före den första förfrågan och töms inte",
                Language::Swedish,
            ),
            (
                "Välimuisti on lämmin ennen ensimmäistä pyyntöä ja se ei tyhjene",
                Language::Finnish,
            ),
            (
                "Önbellek ilk istekten önce sıcak ve bu nedenle hızlı için",
                Language::Turkish,
            ),
            ("Кэш прогрет до первого запроса", Language::Russian),
            ("キャッシュは最初のリクエストの前に暖かい", Language::English),
            ("sqlite wal", Language::English),
            ("config.die", Language::English),
            ("a b c d e f g h", Language::English),
            ("", Language::English),
        ] {
            assert_eq!(Language::detect(text), expected, "{text}");
        }
    }

    #[test]
    fn every_list_belongs_to_a_language_and_words_are_folded() {
        for line in include_str!("data/function_words.txt").lines() {
            let Some((code, words)) = line.split_once(':').filter(|_| !line.starts_with('#')) else {
                continue;
            };
            assert!(Language::ALL.iter().any(|one| one.code() == code), "{code}");
            for word in words.split_whitespace() {
                assert_eq!(WordRule::Search.fold(word), word, "{code}");
            }
        }
    }
}
