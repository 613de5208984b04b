//! Contradicting amounts and opposite bounds.

use super::Difference;
use super::lexicon::Class;
use super::numbers::Quantity;
use super::parsed::{Kind, ParsedStatement, Term};

/// Numbers of each text that the other does not contain, if both sides have some: a number on one side only
/// is a detail that the other omits.
pub(super) fn differences(a: &ParsedStatement, b: &ParsedStatement) -> Vec<Difference> {
    let (left, right) = (quantities(a), quantities(b));
    let (mut left_open, mut right_open): (Vec<usize>, Vec<usize>) =
        ((0..left.len()).collect(), (0..right.len()).collect());
    let mut found = Vec::new();
    // Each number may match one on the other side; the nearest in order is used.
    left_open.retain(|&i| {
        let partner = right_open
            .iter()
            .position(|&j| left[i].quantity.agrees_with(right[j].quantity));
        if let Some(partner) = partner {
            let j = right_open.remove(partner);
            if let (Some(x), Some(y)) = (left[i].direction, right[j].direction)
                && x != y
            {
                found.push(Difference::Bound {
                    a: left[i].bound_text(),
                    b: right[j].bound_text(),
                });
            }
        }
        partner.is_none()
    });
    // An unmatched number may still occur in the other text as a number that is already matched ("both of the
    // 3 nodes", "3 of 3").
    left_open.retain(|&i| {
        !left[i].quantity.weak && !right.iter().any(|q| q.quantity.agrees_with(left[i].quantity))
    });
    right_open.retain(|&j| {
        !right[j].quantity.weak && !left.iter().any(|q| q.quantity.agrees_with(right[j].quantity))
    });
    if let (Some(&i), Some(&j)) = (left_open.first(), right_open.first()) {
        found.push(Difference::Number {
            a: left[i].term.surface.clone(),
            b: right[j].term.surface.clone(),
        });
    }
    found
}

/// Whether [`differences`] finds a [`Difference::Number`]: each text has a number that agrees with none of the
/// other. Such a number never finds a partner, so the order of the partners is irrelevant.
pub(super) fn are_different(a: &ParsedStatement, b: &ParsedStatement) -> bool {
    let has_foreign = |a: &ParsedStatement, b: &ParsedStatement| {
        a.quantities()
            .any(|own| !own.weak && !b.quantities().any(|other| other.agrees_with(own)))
    };
    has_foreign(a, b) && has_foreign(b, a)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Upwards,
    Downwards,
}

struct Bounded<'a> {
    quantity: &'a Quantity,
    term: &'a Term,
    before: Option<&'a Term>,
    direction: Option<Direction>,
}

impl Bounded<'_> {
    fn bound_text(&self) -> String {
        let word = self.before.map(|term| term.surface.as_str()).unwrap_or_default();
        format!("{word} {}", self.term.surface).trim().to_owned()
    }
}

fn quantities(reading: &ParsedStatement) -> Vec<Bounded<'_>> {
    let terms = &reading.terms;
    (0..terms.len())
        .filter_map(|at| {
            let Kind::Number(quantity) = &terms[at].kind else {
                return None;
            };
            let before = at.checked_sub(1).map(|before| &terms[before]);
            let direction = sign_direction(&terms[at].surface).or_else(|| before.and_then(word_direction));
            Some(Bounded {
                quantity,
                term: &terms[at],
                before,
                direction,
            })
        })
        .collect()
}

fn word_direction(term: &Term) -> Option<Direction> {
    let any = |classes: &[Class]| classes.iter().any(|class| term.is(*class));
    if any(&[Class::AtLeast, Class::MoreThan]) || matches!(term.surface.as_str(), ">" | "≥" | ">=") {
        Some(Direction::Upwards)
    } else if any(&[Class::AtMost, Class::LessThan]) || matches!(term.surface.as_str(), "<" | "≤" | "<=") {
        Some(Direction::Downwards)
    } else {
        None
    }
}

fn sign_direction(surface: &str) -> Option<Direction> {
    if surface.starts_with(['>', '≥']) {
        Some(Direction::Upwards)
    } else if surface.starts_with(['<', '≤']) {
        Some(Direction::Downwards)
    } else {
        None
    }
}
