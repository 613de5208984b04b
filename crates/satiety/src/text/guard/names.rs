//! Differing names: people, products, places, versions and files on both sides that have no counterpart on
//! the other.

use super::Difference;
use super::lexicon::LEXICON;
use super::parsed::{Kind, ParsedStatement, Term};

/// Share of common content words from which two different names contradict.
pub(super) const ENOUGH_IN_COMMON: f64 = 0.5;

/// First pair of names without counterpart. Like a number, a name on one side only is an omitted detail.
pub(super) fn differences(a: &ParsedStatement, b: &ParsedStatement) -> Option<Difference> {
    let left: Vec<&Term> = unmatched(a, b);
    let right: Vec<&Term> = unmatched(b, a);
    let found = |x: &Term, y: &Term| Difference::Name {
        a: x.surface.clone(),
        b: y.surface.clone(),
    };
    let identifiers = |terms: &[&Term]| {
        terms
            .iter()
            .position(|term| matches!(term.kind, Kind::Identifier))
    };
    // Names are guessed from capitals, so the rest of the statement must be similar; identifiers are not
    // guessed.
    if let (Some(x), Some(y)) = (identifiers(&left), identifiers(&right)) {
        return (common_content_share(a, b) >= 0.3).then(|| found(left[x], right[y]));
    }
    let (x, y) = (left.first()?, right.first()?);
    (common_content_share(a, b) >= ENOUGH_IN_COMMON).then(|| found(x, y))
}

fn unmatched<'a>(a: &'a ParsedStatement, b: &ParsedStatement) -> Vec<&'a Term> {
    a.names()
        .filter(|term| !b.terms.iter().any(|other| is_counterpart(term, other)) && !is_spelled_out(term, b))
        .collect()
}

/// Whether two terms may name the same thing.
fn is_counterpart(x: &Term, y: &Term) -> bool {
    let (a, b) = (x.stem.as_str(), y.stem.as_str());
    if a == b || LEXICON.are_aliases(a, b) || x.word_stem == y.stem || x.word_stem == y.word_stem {
        return true;
    }
    let (shorter, longer) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let has_digit = |text: &str| text.contains(|c: char| c.is_ascii_digit());
    // A short form of the name, the end of a path, or the file without its directory; an additional digit is
    // another version.
    shorter.chars().count() >= 4
        && !has_digit(
            longer
                .strip_prefix(shorter)
                .or_else(|| longer.strip_suffix(shorter))
                .unwrap_or("0"),
        )
}

/// Whether the acronym's letters are the initials of adjacent words in the other text.
fn is_spelled_out(term: &Term, other: &ParsedStatement) -> bool {
    acronym_letters(term).is_some_and(|letters| {
        initials(other)
            .windows(letters.len())
            .any(|window| window == letters)
    })
}

/// Letters of a name that may be an acronym.
pub(super) fn acronym_letters(term: &Term) -> Option<Vec<char>> {
    let letters: Vec<char> = term.stem.trim_end_matches('s').chars().collect();
    (2..=6).contains(&letters.len()).then_some(letters)
}

pub(super) fn initials(statement: &ParsedStatement) -> Vec<char> {
    statement
        .terms
        .iter()
        .filter_map(|term| term.surface.to_lowercase().chars().next())
        .collect()
}

/// Share of common content words other than names.
fn common_content_share(a: &ParsedStatement, b: &ParsedStatement) -> f64 {
    let (a, b) = (a.plain_content(), b.plain_content());
    match a.len().min(b.len()) {
        0 => f64::from(u8::from(a.is_empty() && b.is_empty())),
        smaller => a.intersection(&b).count() as f64 / smaller as f64,
    }
}
