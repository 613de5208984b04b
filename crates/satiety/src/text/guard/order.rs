//! Exchanged roles: detects that the second text is the first with two of its parts swapped. Parts that may
//! stand in either order (joined by "and", a clause moved to the front, a passive) do not count.

use super::lexicon::{Class, LEXICON};
use super::parsed::{Kind, ParsedStatement, Term};

/// Two parts that were swapped.
#[derive(Debug)]
pub(super) struct Swap {
    pub(super) first: String,
    pub(super) second: String,
}

/// Maximum length of a part in terms.
const LONGEST_PART: usize = 5;

/// Finds a swap that turns `a` into `b`.
pub(super) fn swap(a: &ParsedStatement, b: &ParsedStatement) -> Option<Swap> {
    let (a, b) = (stream(a), stream(b));
    let prefix = a.iter().zip(&b).take_while(|(x, y)| same(x, y)).count();
    let (a, b) = (&a[prefix..], &b[prefix..]);
    let suffix = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .take_while(|(x, y)| same(x, y))
        .count();
    let (a, b) = (&a[..a.len() - suffix], &b[..b.len() - suffix]);
    let shorter = a.len().min(b.len());
    for x in 1..=LONGEST_PART.min(shorter) {
        for y in 1..=LONGEST_PART.min(shorter - x) {
            let (first, rest) = a.split_at(x);
            let (middle_a, second) = rest.split_at(rest.len() - y);
            let (second_b, rest_b) = b.split_at(y);
            let (middle_b, first_b) = rest_b.split_at(rest_b.len() - x);
            if all_same(first, first_b)
                && all_same(second, second_b)
                && is_part(first)
                && is_part(second)
                && relates(middle_a)
                && keeps_direction(middle_a, middle_b)
            {
                return Some(Swap {
                    first: text(first),
                    second: text(second),
                });
            }
        }
    }
    None
}

/// Terms whose order matters: excludes articles, auxiliaries, modal verbs and fillers.
fn stream(reading: &ParsedStatement) -> Vec<&Term> {
    let silent = [
        Class::Article,
        Class::Auxiliary,
        Class::Filler,
        Class::Neutral,
        Class::Obligation,
        Class::Permission,
        Class::Certain,
        Class::Future,
    ];
    reading
        .terms
        .iter()
        .filter(|term| !silent.iter().any(|class| term.is(*class)))
        .collect()
}

fn same(x: &Term, y: &Term) -> bool {
    match (&x.kind, &y.kind) {
        (Kind::Number(x), Kind::Number(y)) => x.agrees_with(y),
        _ => x.stem == y.stem,
    }
}

fn all_same(a: &[&Term], b: &[&Term]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| same(x, y))
}

/// Whether terms can be a swapped part: they contain a content word or a number, and nothing that opens a
/// clause.
fn is_part(terms: &[&Term]) -> bool {
    let opens_clause = terms[0].is(Class::Conjunction) || terms[0].is(Class::Preposition);
    !opens_clause
        && terms
            .iter()
            .any(|term| term.is_content() || matches!(term.kind, Kind::Number(_)))
}

/// Whether the terms between the parts give them different roles: "A matches B" and "A and B" do not.
fn relates(middle: &[&Term]) -> bool {
    !middle.iter().any(|term| term.is(Class::Symmetric))
        && middle.iter().any(|term| term.is_content() || is_link(term))
}

fn is_link(term: &Term) -> bool {
    term.is(Class::Preposition) || term.is(Class::Conjunction) || matches!(term.kind, Kind::Number(_))
}

/// Whether both middles say the same in the same direction: no passive and no relative clause on one side. A
/// middle with an antonym ("before", "after") still counts: the antonym is a separate reversal.
fn keeps_direction(a: &[&Term], b: &[&Term]) -> bool {
    let weighty = |terms: &[&Term]| -> Vec<String> {
        let weighty = |term: &&&Term| term.is_content() || is_link(term) || term.is(Class::Pronoun);
        terms
            .iter()
            .filter(weighty)
            .map(|term| term.stem.clone())
            .collect()
    };
    let (a, b) = (weighty(a), weighty(b));
    a.len() == b.len()
        && a.iter()
            .zip(&b)
            .all(|(x, y)| x == y || LEXICON.are_antonyms(x, y))
}

fn text(terms: &[&Term]) -> String {
    terms
        .iter()
        .map(|term| term.surface.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}
