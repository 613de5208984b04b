//! Polarity: detects that one statement negates the other. Negations, antonyms and swapped roles each reverse
//! a statement, and two of them cancel out: "enable it" and "do not disable it", "A before B" and "B after A"
//! say the same.

use std::collections::BTreeSet;

use super::Difference;
use super::lexicon::{Class, LEXICON};
use super::order::Swap;
use super::parsed::{ParsedStatement, Term};

/// Share of the other content words that must be common before an antonym counts.
const ENOUGH_IN_COMMON: f64 = 0.5;

/// Share of the content words of the statement with fewer negations that must occur in the other one. With
/// different wording, the difference may express the negation ("does not resemble", "differs from").
const SAME_WORDING: f64 = 0.8;

/// Contradictions between the texts, if the reversals do not cancel out.
pub(super) fn differences(a: &ParsedStatement, b: &ParsedStatement, swap: Option<&Swap>) -> Vec<Difference> {
    let (left, right) = (negations(a, b), negations(b, a));
    let opposites = opposites(a, b);
    let crossed = swap.is_none() && opposites.iter().any(|(x, y)| is_crossed(a, b, x, y));
    let turns = left.len() + right.len() + opposites.len() + usize::from(swap.is_some() || crossed);
    if turns.is_multiple_of(2) {
        // All cancel out, or the same negation has moved to another part.
        return moved_negation(a, b, &left, &right).into_iter().collect();
    }
    let mut found = Vec::new();
    if let Some(swap) = swap {
        found.push(Difference::Swap {
            first: swap.first.clone(),
            second: swap.second.clone(),
        });
    }
    let unclear = has_unshared_soft_negator(a, b) || has_unshared_soft_negator(b, a);
    if opposites.len() % 2 == 1 && common_content_share(a, b, &opposites) >= ENOUGH_IN_COMMON {
        let (x, y) = &opposites[0];
        found.push(Difference::Antonym {
            a: x.surface.clone(),
            b: y.surface.clone(),
        });
    }
    if (left.len() + right.len()) % 2 == 1 && !unclear {
        let (more, plain, other) = if left.len() > right.len() {
            (&left, b, a)
        } else {
            (&right, a, b)
        };
        if share_found(plain, other, more) >= SAME_WORDING {
            found.push(Difference::Negation {
                negated: more[0].text.clone(),
            });
        }
    }
    found
}

struct Negation {
    text: String,
    /// Stems of the content words it precedes.
    targets: Vec<String>,
    /// Number of content words before it.
    content_before: usize,
    /// Number of breaks and contrasting words before it.
    parts_before: usize,
}

/// Negating words of `a`, and words of `a` that are words of `b` with a negating prefix.
fn negations(a: &ParsedStatement, b: &ParsedStatement) -> Vec<Negation> {
    let mut found: Vec<Negation> = Vec::new();
    let (mut content_before, mut parts_before) = (0, 0);
    for (at, term) in a.terms.iter().enumerate() {
        parts_before +=
            usize::from(term.after_break || matches!(term.stem.as_str(), "but" | "and" | "while" | "wherea"));
        let prefixed = || {
            let base = LEXICON.without_negating_prefix(&term.surface.to_lowercase())?;
            (term.is_content() && !b.has_stem(&term.stem) && !a.has_stem(&base) && b.has_stem(&base))
                .then_some(base)
        };
        if term.is(Class::Negator) {
            let targets: Vec<String> = a.terms[at + 1..]
                .iter()
                .filter(|term| term.is_content())
                .take(2)
                .map(|term| term.stem.clone())
                .collect();
            let next = a
                .terms
                .get(at + 1)
                .map(|next| format!(" {}", next.surface))
                .unwrap_or_default();
            found.push(Negation {
                text: format!("{}{next}", term.surface),
                targets,
                content_before,
                parts_before,
            });
        } else if let Some(base) = prefixed() {
            found.push(Negation {
                text: term.surface.clone(),
                targets: vec![base],
                content_before,
                parts_before,
            });
        }
        content_before += usize::from(term.is_content());
    }
    // "Not until" and "not unless" affirm what they seem to deny.
    if !found.is_empty()
        && let Some(term) = a
            .terms
            .iter()
            .find(|term| matches!(term.stem.as_str(), "until" | "unless"))
        && !b.terms.iter().any(|other| other.stem == term.stem)
    {
        found.push(Negation {
            text: term.surface.clone(),
            targets: Vec::new(),
            content_before,
            parts_before,
        });
    }
    found
}

/// Pairs of antonyms of which each text has only one.
fn opposites<'a>(a: &'a ParsedStatement, b: &'a ParsedStatement) -> Vec<(&'a Term, &'a Term)> {
    let mut used = BTreeSet::new();
    let mut found = Vec::new();
    for x in &a.terms {
        if !LEXICON.has_antonym(&x.stem) || b.has_stem(&x.stem) || used.contains(&x.stem) {
            continue;
        }
        let partner = b.terms.iter().find(|y| {
            LEXICON.are_antonyms(&x.stem, &y.stem)
                && !a.has_stem(&y.stem)
                && !used.contains(&y.stem)
                && is_same_place(a, x, b, y)
        });
        if let Some(y) = partner {
            used.insert(x.stem.clone());
            used.insert(y.stem.clone());
            found.push((x, y));
        }
    }
    found
}

/// Small words have many uses ("fires on every deployment", "goes off"), so they are antonyms only next to
/// the same word.
fn is_same_place(a: &ParsedStatement, x: &Term, b: &ParsedStatement, y: &Term) -> bool {
    let is_weighty = |term: &Term| term.is_content() || term.is(Class::Conjunction);
    if is_weighty(x) && is_weighty(y) {
        return true;
    }
    let neighbours = |reading: &ParsedStatement, term: &Term| {
        let at = reading
            .terms
            .iter()
            .position(|other| other.stem == term.stem)
            .unwrap_or(0);
        let stem = |at: usize| reading.terms.get(at).map(|term| term.stem.clone());
        (at.checked_sub(1).and_then(stem), stem(at + 1))
    };
    let ((before_x, after_x), (before_y, after_y)) = (neighbours(a, x), neighbours(b, y));
    (before_x.is_some() && before_x == before_y) || (after_x.is_some() && after_x == after_y)
}

/// Whether the words before the term in one text are after its antonym in the other: "A before B" and "B
/// comes after A".
fn is_crossed(a: &ParsedStatement, b: &ParsedStatement, x: &Term, y: &Term) -> bool {
    let (left_a, right_a) = sides(a, x);
    let (left_b, right_b) = sides(b, y);
    let common = |x: &BTreeSet<&str>, y: &BTreeSet<&str>| x.intersection(y).count();
    let (ahead, behind) = (common(&left_a, &right_b), common(&right_a, &left_b));
    ahead > 0 && behind > 0 && ahead + behind > common(&left_a, &left_b) + common(&right_a, &right_b)
}

/// Content words before and after a term. A clause that it opens at the front counts as following the rest.
fn sides<'a>(reading: &'a ParsedStatement, term: &Term) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
    let terms = &reading.terms;
    let at = terms
        .iter()
        .position(|other| other.stem == term.stem)
        .unwrap_or(0);
    let content = |terms: &'a [Term]| {
        terms
            .iter()
            .filter(|term| term.is_content())
            .map(|term| term.stem.as_str())
    };
    let opens_front = at == 0 && term.is(Class::Conjunction);
    let clause_end = terms[at + 1..]
        .iter()
        .position(|term| term.after_break)
        .map(|end| at + 1 + end);
    match clause_end {
        Some(end) if opens_front => (
            content(&terms[end..]).collect(),
            content(&terms[at + 1..end]).collect(),
        ),
        _ => (
            content(&terms[..at]).collect(),
            content(&terms[at + 1..]).collect(),
        ),
    }
}

/// Share of the content words of `plain` that `other` also contains, as they are or with a negating prefix.
fn share_found(plain: &ParsedStatement, other: &ParsedStatement, negations: &[Negation]) -> f64 {
    let words = plain.content();
    let is_found = |word: &str| {
        other.has_stem(word)
            || negations
                .iter()
                .any(|negation| negation.targets.iter().any(|target| target == word))
    };
    if words.is_empty() {
        return 0.0;
    }
    words.iter().filter(|word| is_found(word)).count() as f64 / words.len() as f64
}

/// Share of common content words, excluding the antonyms themselves.
fn common_content_share(a: &ParsedStatement, b: &ParsedStatement, opposites: &[(&Term, &Term)]) -> f64 {
    let (mut left, mut right) = (a.content(), b.content());
    for (x, y) in opposites {
        left.remove(x.stem.as_str());
        right.remove(y.stem.as_str());
    }
    let smaller = left.len().min(right.len());
    if smaller == 0 {
        return f64::from(u8::from(left.is_empty() && right.is_empty()));
    }
    left.intersection(&right).count() as f64 / smaller as f64
}

/// Whether a word that may negate something has no counterpart in the other text.
fn has_unshared_soft_negator(a: &ParsedStatement, b: &ParsedStatement) -> bool {
    a.terms
        .iter()
        .any(|term| term.is(Class::SoftNegator) && !b.has_stem(&term.stem))
}

/// One negation in each, the same words in the same order, but in different parts: "A is safe, B is not".
fn moved_negation(
    a: &ParsedStatement,
    b: &ParsedStatement,
    left: &[Negation],
    right: &[Negation],
) -> Option<Difference> {
    let ([x], [y]) = (left, right) else { return None };
    let same_words = || {
        let content = |reading: &ParsedStatement| -> Vec<String> {
            reading
                .terms
                .iter()
                .filter(|term| term.is_content())
                .map(|term| term.stem.clone())
                .collect()
        };
        content(a) == content(b)
    };
    (x.content_before != y.content_before && x.parts_before != y.parts_before && same_words()).then(|| {
        Difference::Negation {
            negated: x.text.clone(),
        }
    })
}
