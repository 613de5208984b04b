//! Strength: all or some, only or also, must or may, will or did. These words also differ between honest
//! paraphrases, so the statements must otherwise be nearly the same.

use super::lexicon::Class;
use super::parsed::{Kind, ParsedStatement, Term};
use super::{Difference, coverage};

/// Minimum share of common content words.
const NEARLY_THE_SAME: f64 = 0.7;

pub(super) fn differences(a: &ParsedStatement, b: &ParsedStatement) -> Vec<Difference> {
    if coverage(a, b) < NEARLY_THE_SAME {
        return Vec::new();
    }
    let mut found = Vec::new();
    let scale = [Class::Universal, Class::Majority, Class::Partial, Class::Minority];
    let steps = scale
        .iter()
        .enumerate()
        .flat_map(|(at, more)| scale[at + 1..].iter().map(move |less| (*more, *less)));
    // "Many" and "several" are too similar to count as different.
    let apart = steps.filter(|step| {
        *step != (Class::Majority, Class::Partial) && *step != (Class::Partial, Class::Minority)
    });
    if let Some((x, y)) = apart
        .into_iter()
        .find_map(|(more, less)| opposed(a, b, more, less))
    {
        found.push(Difference::Quantifier { a: x, b: y });
    }
    match (exclusive(a, b), exclusive(b, a)) {
        (Some(x), None) => found.push(Difference::Quantifier {
            a: x,
            b: String::new(),
        }),
        (None, Some(y)) => found.push(Difference::Quantifier {
            a: String::new(),
            b: y,
        }),
        _ => {}
    }
    for (strong, weak) in [
        (Class::Obligation, Class::Permission),
        (Class::Certain, Class::Possible),
    ] {
        if let Some((x, y)) = opposed(a, b, strong, weak) {
            found.push(Difference::Modality { a: x, b: y });
            break;
        }
    }
    if let Some((x, y)) = planned_and_done(a, b) {
        found.push(Difference::Tense { a: x, b: y });
    } else if let Some((y, x)) = planned_and_done(b, a) {
        found.push(Difference::Tense { a: x, b: y });
    }
    found
}

/// One text has a word of one class and the other text of the other, and neither has both.
fn opposed(a: &ParsedStatement, b: &ParsedStatement, strong: Class, weak: Class) -> Option<(String, String)> {
    let one_way = |a: &ParsedStatement, b: &ParsedStatement| {
        let (x, y) = (a.has(strong)?, b.has(weak)?);
        (a.has(weak).is_none() && b.has(strong).is_none()).then(|| (x.surface.clone(), y.surface.clone()))
    };
    one_way(a, b).or_else(|| one_way(b, a).map(|(y, x)| (x, y)))
}

/// An "only" of `a` that restricts who or when, and that `b` lacks. Before a verb or an amount it is mostly
/// emphasis.
fn exclusive(a: &ParsedStatement, b: &ParsedStatement) -> Option<String> {
    if b.has(Class::Exclusive).is_some() || coverage(a, b) < 0.8 {
        return None;
    }
    a.terms.iter().enumerate().find_map(|(at, term)| {
        let next = a.terms.get(at + 1);
        let narrows = at == 0
            || next.is_some_and(|next| {
                next.is(Class::Preposition) || next.is(Class::Conjunction) || matches!(next.kind, Kind::Name)
            });
        (term.is(Class::Exclusive) && term.stem != "just" && narrows).then(|| term.surface.clone())
    })
}

/// A verb that is in the future in `a` and in the past in `b`.
fn planned_and_done(a: &ParsedStatement, b: &ParsedStatement) -> Option<(String, String)> {
    if b.has(Class::Future).is_some() {
        return None;
    }
    a.terms
        .iter()
        .enumerate()
        .filter(|(_, term)| term.is(Class::Future))
        .find_map(|(at, future)| {
            let verb = a.terms[at + 1..].iter().take(3).find(|term| term.is_content())?;
            let done = b.terms.iter().enumerate().find(|(position, term)| {
                term.stem == verb.stem
                    && is_past(term)
                    && !is_passive_present(b, *position)
                    && term.surface != verb.surface
            })?;
            Some((
                format!("{} {}", future.surface, verb.surface),
                done.1.surface.clone(),
            ))
        })
}

fn is_past(term: &Term) -> bool {
    let lower = term.surface.to_lowercase();
    lower.ends_with("ed")
        || (lower != term.stem && !lower.ends_with('s') && !lower.ends_with("ing") && !lower.ends_with('e'))
}

/// "is deployed", "are deployed": a state, not a past event.
fn is_passive_present(reading: &ParsedStatement, position: usize) -> bool {
    reading.terms[..position].iter().rev().take(3).any(|term| {
        matches!(
            term.surface.to_lowercase().as_str(),
            "is" | "are" | "be" | "gets" | "get" | "being" | "to" | "must" | "should" | "can"
        )
    })
}
