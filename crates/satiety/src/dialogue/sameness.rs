//! Stand-in for `text::guard` until it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    Number,
    Negation,
}
pub(super) fn difference(a: &str, b: &str) -> Option<Difference> {
    let numbers = |t: &str| {
        super::lexicon::words(t)
            .into_iter()
            .filter(|w| w.chars().any(|c| c.is_ascii_digit()))
            .collect::<std::collections::BTreeSet<_>>()
    };
    if numbers(a) != numbers(b) {
        return Some(Difference::Number);
    }
    let negated = |t: &str| {
        super::lexicon::words(t)
            .iter()
            .filter(|w| matches!(w.as_str(), "not" | "no" | "never" | "cannot") || w.ends_with("n't"))
            .count()
            % 2
    };
    (negated(a) != negated(b)).then_some(Difference::Negation)
}
