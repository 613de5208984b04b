//! Parsed statement for the guard: words with stems and classes, quantities, identifiers and names, from one
//! pass over the text.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::lexicon::{Class, LEXICON};
use super::numbers::{self, Quantity};
use crate::text::words::contraction;

/// Words beyond this limit are ignored: so long a statement says many things, and comparing two of them would
/// be meaningless.
const LONGEST: usize = 300;

/// One word, number, identifier or phrase.
#[derive(Debug, Clone)]
pub(super) struct Term {
    /// As written, for display.
    pub(super) surface: String,
    /// Form for comparison: names and identifiers as a whole, words by their stem.
    pub(super) stem: String,
    /// For names, the stem of the name as an ordinary word.
    pub(super) word_stem: String,
    pub(super) classes: Vec<Class>,
    pub(super) kind: Kind,
    /// Whether a comma, colon, dash or full stop separates it from the preceding term.
    pub(super) after_break: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Word,
    /// A proper name or acronym.
    Name,
    /// A path, version, date, address, or word with digits or inner capitals.
    Identifier,
    Number(Quantity),
}

impl Term {
    pub(super) fn is(&self, class: Class) -> bool {
        self.classes.contains(&class)
    }

    /// Whether the term carries content, rather than grammar, polarity, amount or strength.
    pub(super) fn is_content(&self) -> bool {
        match self.kind {
            Kind::Number(_) => false,
            Kind::Name | Kind::Identifier => true,
            Kind::Word => self
                .classes
                .iter()
                .all(|class| matches!(class, Class::SoftNegator | Class::Symmetric)),
        }
    }
}

/// A statement, parsed once.
#[derive(Debug, Clone)]
pub(crate) struct ParsedStatement {
    pub(super) terms: Vec<Term>,
    /// Indexes of terms, sorted by stem.
    by_stem: Vec<usize>,
    /// Indexes of the numbers among the terms.
    numbers: Vec<usize>,
}

impl ParsedStatement {
    pub(crate) fn of(text: &str) -> Self {
        let text = plain_apostrophes(text);
        let mut chunks = chunks(&text);
        chunks.truncate(LONGEST);
        let shouting = is_title_case(&chunks);
        let lower: Vec<&str> = chunks.iter().map(|chunk| chunk.lower.as_ref()).collect();
        let mut terms = Vec::with_capacity(chunks.len());
        let mut at = 0;
        while at < chunks.len() {
            let (term, used) = term_at(&chunks, &lower, at, shouting);
            terms.push(term);
            at += used;
        }
        join_units(&mut terms);
        for term in &mut terms {
            if matches!(term.kind, Kind::Name | Kind::Identifier) {
                term.word_stem = LEXICON.stem(&term.stem);
            }
        }
        let mut by_stem: Vec<usize> = (0..terms.len()).collect();
        by_stem.sort_unstable_by(|a, b| terms[*a].stem.cmp(&terms[*b].stem));
        let numbers = (0..terms.len())
            .filter(|at| matches!(terms[*at].kind, Kind::Number(_)))
            .collect();
        Self {
            terms,
            by_stem,
            numbers,
        }
    }

    pub(super) fn quantities(&self) -> impl Iterator<Item = &Quantity> {
        self.numbers.iter().filter_map(|at| match &self.terms[*at].kind {
            Kind::Number(quantity) => Some(quantity),
            _ => None,
        })
    }

    /// Names and identifiers.
    pub(super) fn names(&self) -> impl Iterator<Item = &Term> {
        self.terms
            .iter()
            .filter(|term| matches!(term.kind, Kind::Name | Kind::Identifier))
    }

    /// Stems of the content words other than names.
    pub(super) fn plain_content(&self) -> BTreeSet<&str> {
        self.terms
            .iter()
            .filter(|term| term.kind == Kind::Word && term.is_content())
            .map(|term| term.stem.as_str())
            .collect()
    }

    pub(super) fn content(&self) -> BTreeSet<&str> {
        self.terms
            .iter()
            .filter(|term| term.is_content())
            .map(|term| term.stem.as_str())
            .collect()
    }

    pub(super) fn has(&self, class: Class) -> Option<&Term> {
        self.terms.iter().find(|term| term.is(class))
    }

    pub(super) fn has_stem(&self, stem: &str) -> bool {
        self.by_stem
            .binary_search_by(|at| self.terms[*at].stem.as_str().cmp(stem))
            .is_ok()
    }
}

/// Token between whitespace without surrounding punctuation; contractions and hyphens are split.
#[derive(Debug)]
struct Chunk<'a> {
    surface: Cow<'a, str>,
    lower: Cow<'a, str>,
    after_break: bool,
    sentence_start: bool,
    /// Part of a hyphenated word: its class (the "only" of "read-only") is ignored.
    compound: bool,
}

fn plain_apostrophes(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        text.into()
    } else {
        text.replace(['’', 'ʼ'], "'").into()
    }
}

fn chunks(text: &str) -> Vec<Chunk<'_>> {
    let mut chunks: Vec<Chunk<'_>> = Vec::new();
    let mut after_break = false;
    let mut sentence_start = true;
    for token in text.split_whitespace().take(LONGEST) {
        let core = token.trim_matches(|c: char| {
            !(c.is_alphanumeric()
                || matches!(
                    c,
                    '$' | '€' | '£' | '%' | '/' | '~' | '-' | '−' | '+' | '_' | '<' | '>' | '≤' | '≥'
                ))
        });
        let core = core.trim_end_matches(['-', '/', '+']).trim_start_matches('+');
        let leading = token.starts_with(['(', '[', '"', '“', '—', '–']);
        if core.is_empty()
            || !core.contains(|c: char| c.is_alphanumeric() || matches!(c, '%' | '<' | '>' | '≤' | '≥'))
        {
            after_break = true;
            continue;
        }
        let before = chunks.len();
        split_core(core, &mut chunks);
        if let Some(first) = chunks.get_mut(before) {
            first.after_break = after_break || leading;
            first.sentence_start = sentence_start;
        }
        after_break = token.ends_with([',', ';', ':', '.', '!', '?', ')', ']', '—', '–']);
        sentence_start = token
            .trim_end_matches(['"', ')', '”'])
            .ends_with(['.', '!', '?', ':']);
    }
    chunks
}

/// Lower-cases a text; avoids the allocation for most words.
fn lowercase(text: &str) -> Cow<'_, str> {
    if text
        .bytes()
        .all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase())
    {
        text.into()
    } else {
        text.to_lowercase().into()
    }
}

fn split_core<'a>(core: &'a str, chunks: &mut Vec<Chunk<'a>>) {
    let mut keep = |surface: Cow<'a, str>, lower: Cow<'a, str>, compound: bool| {
        if !surface.is_empty() {
            chunks.push(Chunk {
                surface,
                lower,
                after_break: false,
                sentence_start: false,
                compound,
            });
        }
    };
    if numbers::parse(core).is_some() || is_identifier(core) || !core.contains(char::is_alphanumeric) {
        keep(core.into(), lowercase(core), false);
        return;
    }
    let lower = lowercase(core);
    if let Some((word, rest)) = contraction(&lower) {
        match core.get(..word.len()).filter(|_| rest != "not") {
            Some(surface) => keep(surface.into(), lowercase(surface), false),
            None => keep(word.to_owned().into(), word.to_owned().into(), false),
        }
        keep(rest.into(), rest.into(), false);
        return;
    }
    let parts: Vec<&str> = core
        .split(['-', '/', '–', '—'])
        .filter(|part| !part.is_empty())
        .collect();
    for (position, part) in parts.iter().enumerate() {
        let negates =
            position == 0 && parts.len() > 1 && matches!(part.to_lowercase().as_str(), "non" | "no" | "not");
        let part = part.trim_matches(|c: char| !c.is_alphanumeric() && c != '%');
        keep(part.into(), lowercase(part), parts.len() > 1 && !negates);
    }
}

/// A path, address, version, date, code-like word, or a word with digits.
fn is_identifier(core: &str) -> bool {
    let has = |test: fn(char) -> bool| core.contains(test);
    let letters = has(char::is_alphabetic);
    let digits = has(|c| c.is_ascii_digit());
    if !letters {
        // Versions, dates, times, addresses: digits joined by marks.
        return digits
            && core.contains(['.', '-', ':', '/'])
            && core.matches(|c: char| !c.is_ascii_digit()).count() > 0;
    }
    if core.contains("://") || core.contains(['_', '@', '\\', '=']) || core.contains("::") {
        return true;
    }
    if core.contains('/') {
        return core.starts_with(['/', '~']) || core.matches('/').count() > 1 || core.contains('.') || digits;
    }
    if digits {
        return true;
    }
    // A point between letters: a file, a domain or a field.
    if core.split('.').filter(|part| part.len() > 1).count() > 1 {
        return true;
    }
    // Inner capitals after a small letter: camelCase, but not "PostgreSQL's" plural forms such as "PRs".
    core.chars()
        .zip(core.chars().skip(1))
        .filter(|(a, b)| a.is_lowercase() && b.is_uppercase())
        .count()
        > 0
}

/// Whether most words are capitalized, so that capitals do not indicate names.
fn is_title_case(chunks: &[Chunk<'_>]) -> bool {
    let words: Vec<&Chunk<'_>> = chunks
        .iter()
        .filter(|chunk| chunk.surface.len() > 3 && chunk.surface.starts_with(char::is_alphabetic))
        .collect();
    let capitals = words
        .iter()
        .filter(|chunk| chunk.surface.starts_with(char::is_uppercase))
        .count();
    words.len() > 2 && capitals * 3 > words.len() * 2
}

fn term_at(chunks: &[Chunk<'_>], lower: &[&str], at: usize, shouting: bool) -> (Term, usize) {
    let chunk = &chunks[at];
    let mut term = Term {
        surface: chunk.surface.clone().into_owned(),
        stem: String::new(),
        word_stem: String::new(),
        classes: Vec::new(),
        kind: Kind::Word,
        after_break: chunk.after_break,
    };
    // "Service A", "plan B": a letter is a name, except the article and the pronoun.
    let is_letter = chunk.surface.len() == 1 && chunk.surface != "I" && !chunk.sentence_start;
    if is_letter && chunk.surface.starts_with(char::is_uppercase) {
        term.kind = Kind::Name;
        // Not the stem of the article.
        chunk.surface.as_ref().clone_into(&mut term.stem);
        return (term, 1);
    }
    // "15 May": the month, not the verb.
    let next_to_number = |at: Option<usize>| {
        at.and_then(|at| lower.get(at))
            .is_some_and(|word| numbers::parse(word).is_some())
    };
    if chunk.surface == "May" && (next_to_number(at.checked_sub(1)) || next_to_number(Some(at + 1))) {
        term.kind = Kind::Name;
        chunk.lower.as_ref().clone_into(&mut term.stem);
        return (term, 1);
    }
    if !chunk.compound
        && let Some((classes, used)) = LEXICON.phrase(&lower[at..])
        && (used > 1 || LEXICON.number_word(&chunk.lower).is_none())
        // "US" and "IT" are not pronouns.
        && !(chunk.surface.len() > 1 && chunk.surface.chars().all(char::is_uppercase) && !shouting)
    {
        term.surface = chunks[at..at + used]
            .iter()
            .map(|chunk| chunk.surface.as_ref())
            .collect::<Vec<_>>()
            .join(" ");
        term.stem = if used == 1 {
            LEXICON.stem(&chunk.lower)
        } else {
            lower[at..at + used].join(" ")
        };
        term.classes = classes.to_vec();
        return (term, used);
    }
    if let Some(quantity) = numbers::parse(&chunk.surface) {
        term.kind = Kind::Number(quantity);
        chunk.lower.as_ref().clone_into(&mut term.stem);
        return (term, 1);
    }
    // "A tenth of" is a share, "the tenth" is an ordinal.
    if at > 0
        && matches!(lower[at - 1], "a" | "one")
        && lower.get(at + 1) == Some(&"of")
        && let Some(share) = LEXICON.fraction(&chunk.lower)
    {
        term.kind = Kind::Number(Quantity::share(share));
        term.stem = share.to_string();
        return (term, 1);
    }
    if let Some((quantity, used)) = numbers::parse_words(&lower[at..]) {
        term.surface = lower[at..at + used].join(" ");
        term.stem = quantity.value.to_string();
        term.kind = Kind::Number(quantity);
        if let Some((classes, 1)) = LEXICON.phrase(&lower[at..=at]) {
            term.classes = classes.to_vec();
        }
        return (term, used);
    }
    if is_identifier(&chunk.surface) {
        term.kind = Kind::Identifier;
        term.stem = squash(&chunk.lower);
        return (term, 1);
    }
    let capital = chunk.surface.starts_with(char::is_uppercase);
    let acronym = capital && chunk.surface.len() > 1 && chunk.surface.chars().skip(1).all(char::is_uppercase);
    let known = LEXICON.is_known_name(&chunk.lower) && (chunk.surface.len() > 2 || acronym);
    if known || (!shouting && (acronym || (capital && !chunk.sentence_start))) {
        term.kind = Kind::Name;
        chunk.lower.as_ref().clone_into(&mut term.stem);
        return (term, 1);
    }
    term.stem = LEXICON.stem(&chunk.lower);
    // Soft negators are listed as base forms and match in any form.
    if let Some((classes, 1)) = LEXICON.phrase(&[term.stem.as_str()])
        && classes == [Class::SoftNegator]
    {
        term.classes = classes.to_vec();
    }
    (term, 1)
}

/// Letters and digits only: `parse_header`, `parseHeader` and `parse-header` are one name.
fn squash(lower: &str) -> String {
    lower
        .chars()
        .filter(|c| c.is_alphanumeric() || *c == '.')
        .collect::<String>()
        .trim_end_matches('.')
        .to_owned()
}

/// Joins a number with the following power or unit ("10 million", "5 ms", "40 percent").
fn join_units(terms: &mut Vec<Term>) {
    let mut at = 0;
    while at + 1 < terms.len() {
        if let (Kind::Number(number), Kind::Number(power)) = (&terms[at].kind, &terms[at + 1].kind)
            && number.dimension.is_none()
            && LEXICON
                .number_word(&terms[at + 1].surface.to_lowercase())
                .is_some_and(|word| word.value >= 100.0)
        {
            let product = Quantity::number(number.value * power.value);
            let removed = terms.remove(at + 1);
            terms[at].surface = format!("{} {}", terms[at].surface, removed.surface);
            terms[at].kind = Kind::Number(product);
            continue;
        }
        let unit = terms[at + 1].surface.to_lowercase();
        if let Kind::Number(quantity) = &terms[at].kind
            && quantity.dimension.is_none()
            && !quantity.weak
            && let Some(joined) = quantity.clone().in_unit(&unit)
        {
            let removed = terms.remove(at + 1);
            terms[at].surface = format!("{} {}", terms[at].surface, removed.surface);
            terms[at].kind = Kind::Number(joined);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let reading = ParsedStatement::of(text);
        reading
            .terms
            .iter()
            .filter(|t| matches!(t.kind, Kind::Name | Kind::Identifier))
            .map(|t| t.surface.clone())
            .collect()
    }

    #[test]
    fn names_and_identifiers_are_recognized() {
        assert_eq!(
            names("Retries go through Envoy in us-east-1."),
            ["Envoy", "us-east-1"]
        );
        assert_eq!(
            names("Read src/main.rs and set MAX_RETRIES in config.yaml"),
            ["src/main.rs", "MAX_RETRIES", "config.yaml"]
        );
        assert_eq!(names("alice owns the p99 alert"), ["alice", "p99"]);
        assert_eq!(names("The read/write split is fine"), Vec::<String>::new());
        assert_eq!(names("Use Feature Flags For Every Release"), Vec::<String>::new());
    }

    #[test]
    fn contractions_become_negations() {
        for text in [
            "It isn't safe",
            "It can't start",
            "We won't ship",
            "It cannot start",
            "It isn’t safe",
        ] {
            assert!(ParsedStatement::of(text).has(Class::Negator).is_some(), "{text}");
        }
        for text in [
            "Not only fast but cheap",
            "The read-only replica",
            "No doubt it works",
        ] {
            assert!(ParsedStatement::of(text).has(Class::Negator).is_none(), "{text}");
        }
    }

    #[test]
    fn units_join_their_numbers() {
        let reading = ParsedStatement::of("It takes 5 ms, about forty percent of 3 nodes");
        let numbers: Vec<&str> = reading
            .terms
            .iter()
            .filter(|t| matches!(t.kind, Kind::Number(_)))
            .map(|t| t.surface.as_str())
            .collect();
        assert_eq!(numbers, ["5 ms", "forty percent", "3"]);
    }
}
