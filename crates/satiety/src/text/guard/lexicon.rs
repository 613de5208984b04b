//! Word lists of the guard, parsed once from the data files: stems and classes of words.

use std::sync::LazyLock;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::text::stem::stem;

/// Effect of a word or phrase on a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Negator,
    /// Looks like a negation or quantity, but is not.
    Neutral,
    SoftNegator,
    Universal,
    Partial,
    Majority,
    Minority,
    Exclusive,
    Obligation,
    Permission,
    Certain,
    Possible,
    Future,
    AtLeast,
    AtMost,
    MoreThan,
    LessThan,
    /// Joins parts that may stand in either order.
    Coordinator,
    /// A relation without direction.
    Symmetric,
    Article,
    Auxiliary,
    Pronoun,
    Preposition,
    Conjunction,
    Filler,
}

/// Value of a number word, and whether it is often not a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberWord {
    pub(super) value: f64,
    pub(super) weak: bool,
}

/// Dimension of a unit and its factor to the base unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) dimension: &'static str,
    pub(super) factor: f64,
}

pub(super) struct Lexicon {
    classes: FxHashMap<&'static str, Vec<Class>>,
    /// Length of the longest phrase that starts with a word, in words.
    longest_from: FxHashMap<&'static str, usize>,
    antonyms: FxHashMap<String, Vec<(usize, Side)>>,
    irregular: FxHashMap<&'static str, &'static str>,
    not_negated: Vec<&'static str>,
    names: FxHashSet<&'static str>,
    aliases: FxHashMap<&'static str, usize>,
    units: FxHashMap<&'static str, Unit>,
    number_words: FxHashMap<&'static str, NumberWord>,
    fractions: FxHashMap<&'static str, f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// Word lists, parsed at first use.
pub(super) static LEXICON: LazyLock<Lexicon> = LazyLock::new(Lexicon::read);

impl Lexicon {
    /// Form in which a word is compared.
    pub(super) fn stem(&self, word: &str) -> String {
        stem(self.irregular.get(word).copied().unwrap_or(word)).into_owned()
    }

    /// Classes of the longest phrase at the start of `words`, and its length in words.
    pub(super) fn phrase(&self, words: &[&str]) -> Option<(&[Class], usize)> {
        let longest = *self.longest_from.get(words.first()?)?;
        let classes = |phrase: &str| self.classes.get(phrase).map(Vec::as_slice);
        (2..=longest.min(words.len()))
            .rev()
            .find_map(|length| Some((classes(&words[..length].join(" "))?, length)))
            .or_else(|| Some((classes(words.first()?)?, 1)))
    }

    pub(super) fn has_antonym(&self, stem: &str) -> bool {
        self.antonyms.contains_key(stem)
    }

    /// Whether replacing one stem with the other reverses a statement.
    pub(super) fn are_antonyms(&self, a: &str, b: &str) -> bool {
        let (Some(a), Some(b)) = (self.antonyms.get(a), self.antonyms.get(b)) else {
            return false;
        };
        a.iter().any(|(line, side)| {
            b.iter()
                .any(|(other_line, other)| line == other_line && side != other)
        })
    }

    /// Stem of a word without its negating prefix: "unsafe" gives that of "safe".
    pub(super) fn without_negating_prefix(&self, word: &str) -> Option<String> {
        if self.not_negated.iter().any(|start| word.starts_with(start)) {
            return None;
        }
        ["un", "non", "in", "im", "ir", "il", "dis"]
            .iter()
            .find_map(|prefix| word.strip_prefix(prefix))
            .filter(|rest| rest.len() >= 3)
            .map(|rest| self.stem(rest))
    }

    pub(super) fn is_known_name(&self, word: &str) -> bool {
        self.names.contains(word)
    }

    /// Whether two lower-case names are aliases.
    pub(super) fn are_aliases(&self, a: &str, b: &str) -> bool {
        self.alias_group(a)
            .is_some_and(|group| self.alias_group(b) == Some(group))
    }

    /// Number shared by all aliases of a lower-case name.
    pub(super) fn alias_group(&self, name: &str) -> Option<usize> {
        self.aliases.get(name).copied()
    }

    pub(super) fn unit(&self, word: &str) -> Option<Unit> {
        self.units.get(word).copied()
    }

    pub(super) fn number_word(&self, word: &str) -> Option<NumberWord> {
        self.number_words.get(word).copied()
    }

    /// Share named by an ordinal after "a": "tenth" gives 0.1.
    pub(super) fn fraction(&self, ordinal: &str) -> Option<f64> {
        self.fractions.get(ordinal).copied()
    }

    fn read() -> Self {
        let irregular: FxHashMap<_, _> = lines(include_str!("../data/irregular.txt"))
            .filter_map(|line| line.split_once(' '))
            .collect();
        let mut classes: FxHashMap<&str, Vec<Class>> = FxHashMap::default();
        let mut longest_from: FxHashMap<&str, usize> = FxHashMap::default();
        for (section, entry) in sections(include_str!("../data/classes.txt")) {
            classes.entry(entry).or_default().extend(class_named(section));
            let first = entry.split(' ').next().unwrap_or_default();
            let longest = longest_from.entry(first).or_default();
            *longest = entry.split(' ').count().max(*longest);
        }
        let stem = |word: &str| stem(irregular.get(word).copied().unwrap_or(word)).into_owned();
        let mut antonyms: FxHashMap<String, Vec<(usize, Side)>> = FxHashMap::default();
        for (number, line) in lines(include_str!("../data/antonyms.txt")).enumerate() {
            let Some((left, right)) = line.split_once('|') else {
                continue;
            };
            for (words, side) in [(left, Side::Left), (right, Side::Right)] {
                for word in words.split_whitespace() {
                    antonyms.entry(stem(word)).or_default().push((number, side));
                }
            }
        }
        let mut units = FxHashMap::default();
        for line in lines(include_str!("../data/units.txt")) {
            let mut fields = line.split(' ');
            let (Some(dimension), Some(Ok(factor))) = (fields.next(), fields.next().map(str::parse)) else {
                continue;
            };
            units.extend(fields.map(|spelling| (spelling, Unit { dimension, factor })));
        }
        let mut number_words = FxHashMap::default();
        for line in lines(include_str!("../data/number_words.txt")) {
            let mut fields = line.split(' ');
            let (Some(word), Some(Ok(value))) = (fields.next(), fields.next().map(str::parse)) else {
                continue;
            };
            number_words.insert(
                word,
                NumberWord {
                    value,
                    weak: fields.next() == Some("weak"),
                },
            );
        }
        let fractions = lines(include_str!("../data/fractions.txt"))
            .filter_map(|line| {
                line.split_once(' ')
                    .and_then(|(word, parts)| Some((word, 1.0 / parts.parse::<f64>().ok()?)))
            })
            .collect();
        let aliases = lines(include_str!("../data/aliases.txt"))
            .enumerate()
            .flat_map(|(number, line)| line.split(' ').map(move |name| (name, number)))
            .collect();
        Self {
            longest_from,
            classes,
            antonyms,
            not_negated: lines(include_str!("../data/not_negated.txt")).collect(),
            names: sections(include_str!("../data/names.txt"))
                .map(|(_, name)| name)
                .collect(),
            aliases,
            units,
            number_words,
            fractions,
            irregular,
        }
    }
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Entries of a file with `[section]` headings.
fn sections(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let mut section = "";
    lines(text).filter_map(
        move |line| match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(name) => {
                section = name;
                None
            }
            None => Some((section, line)),
        },
    )
}

fn class_named(section: &str) -> Option<Class> {
    Some(match section {
        "negator" => Class::Negator,
        "neutral" => Class::Neutral,
        "soft_negator" => Class::SoftNegator,
        "universal" => Class::Universal,
        "partial" => Class::Partial,
        "majority" => Class::Majority,
        "minority" => Class::Minority,
        "exclusive" => Class::Exclusive,
        "obligation" => Class::Obligation,
        "permission" => Class::Permission,
        "certain" => Class::Certain,
        "possible" => Class::Possible,
        "future" => Class::Future,
        "at_least" => Class::AtLeast,
        "at_most" => Class::AtMost,
        "more_than" => Class::MoreThan,
        "less_than" => Class::LessThan,
        "coordinator" => Class::Coordinator,
        "symmetric" => Class::Symmetric,
        "article" => Class::Article,
        "auxiliary" => Class::Auxiliary,
        "pronoun" => Class::Pronoun,
        "preposition" => Class::Preposition,
        "conjunction" => Class::Conjunction,
        "filler" => Class::Filler,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_every_list_parses() {
        for (section, entry) in sections(include_str!("../data/classes.txt")) {
            assert!(class_named(section).is_some(), "no class [{section}]");
            assert_eq!(entry, entry.to_lowercase(), "entries are compared in lowercase");
        }
        for line in lines(include_str!("../data/antonyms.txt")) {
            let (left, right) = line.split_once('|').expect("two sides");
            assert!(
                left.split_whitespace()
                    .all(|word| !right.split_whitespace().any(|other| other == word)),
                "{line}"
            );
        }
        for line in lines(include_str!("../data/units.txt")) {
            assert!(line.split(' ').nth(1).unwrap().parse::<f64>().is_ok(), "{line}");
        }
        for line in lines(include_str!("../data/number_words.txt")) {
            assert!(line.split(' ').nth(1).unwrap().parse::<f64>().is_ok(), "{line}");
        }
        for line in lines(include_str!("../data/irregular.txt")) {
            assert_eq!(line.split(' ').count(), 2, "{line}");
        }
    }

    #[test]
    fn antonyms_are_found_in_any_form() {
        let antonyms = |a: &str, b: &str| LEXICON.are_antonyms(&LEXICON.stem(a), &LEXICON.stem(b));
        assert!(antonyms("increased", "decreasing"));
        assert!(antonyms("rose", "fell"));
        assert!(antonyms("enables", "disable"));
        assert!(!antonyms("increase", "rise"));
        assert!(!antonyms("cache", "disk"));
    }

    #[test]
    fn longer_phrases_win() {
        assert_eq!(
            LEXICON.phrase(&["no", "more", "than", "5"]),
            Some((&[Class::AtMost][..], 3))
        );
        assert_eq!(LEXICON.phrase(&["no", "more"]).unwrap().1, 1);
        assert_eq!(LEXICON.phrase(&["not", "only"]), Some((&[Class::Neutral][..], 2)));
        assert_eq!(LEXICON.phrase(&["cache"]), None);
    }

    #[test]
    fn only_negating_prefixes_negate() {
        assert_eq!(LEXICON.without_negating_prefix("unsafe"), Some("safe".to_owned()));
        assert_eq!(LEXICON.without_negating_prefix("dispatch"), None);
        assert_eq!(LEXICON.without_negating_prefix("union"), None);
    }
}
