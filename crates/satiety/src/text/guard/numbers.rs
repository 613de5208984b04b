//! Quantities in text: numbers with separators, suffixes, signs and units, percentages, number words, times
//! and dates, normalized so that "1.5 k", "1,500" and "fifteen hundred" are the same amount.

use super::lexicon::LEXICON;

/// A quantity in a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Quantity {
    /// Value in the base unit of its dimension.
    pub(super) value: f64,
    /// Number as written, without its unit's factor: "5" in "5 ms".
    pub(super) bare: f64,
    /// `None` for a number without a unit.
    pub(super) dimension: Option<&'static str>,
    /// A word that is often not a number: it can agree but not contradict.
    pub(super) weak: bool,
    /// A share in words ("a third"), which is rounded as a number ("33 %").
    pub(super) rounded: bool,
}

impl Quantity {
    pub(super) fn number(value: f64) -> Self {
        Self {
            value,
            bare: value,
            dimension: None,
            weak: false,
            rounded: false,
        }
    }

    /// The same number with a unit.
    pub(super) fn in_unit(self, word: &str) -> Option<Self> {
        let unit = LEXICON.unit(word)?;
        Some(Self {
            value: self.bare * unit.factor,
            dimension: Some(unit.dimension),
            ..self
        })
    }

    pub(super) fn share(value: f64) -> Self {
        Self {
            rounded: true,
            ..Self::number(value)
        }
    }

    /// Whether both can be the same amount. If one side omits the unit, the bare number decides.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        match (self.dimension, other.dimension) {
            (Some(a), Some(b)) if a == b => close(self.value, other.value),
            // Half of them and 50 %; twice as fast and 2x.
            (Some("ratio"), None) if other.rounded => (self.value - other.value).abs() < 0.01,
            (Some("ratio"), None) => close(self.value, other.value) || close(self.bare, other.bare),
            (None, Some("ratio")) => other.agrees_with(self),
            (Some(_), Some(_)) => false,
            _ => close(self.bare, other.bare),
        }
    }
}

/// Equal up to rounding in the seventh digit.
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-7 * a.abs().max(b.abs())
}

/// Parses a single word as a quantity: `3`, `-2.5`, `10,000`, `10k`, `1.5M`, `$5`, `40%`, `20ms`, `2x`,
/// `3rd`.
pub(super) fn parse(word: &str) -> Option<Quantity> {
    // Fast path: most words contain no digit.
    if !word.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let lower = word.to_lowercase();
    let mut rest = lower.trim_start_matches(['~', '≈', '+', '#', '<', '>', '=', '≤', '≥']);
    let mut currency = None;
    for sign in ["$", "€", "£"] {
        if let Some(amount) = rest.strip_prefix(sign) {
            rest = amount;
            currency = Some(sign);
        }
    }
    let negative = rest.strip_prefix(['-', '−']);
    let unsigned = negative.unwrap_or(rest);
    let digits = unsigned
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '_')))
        .unwrap_or(unsigned.len());
    let (digits, suffix) = unsigned.split_at(digits);
    // A number that ends in a separator, or has two points, is a version, a sentence end or a typo.
    if !digits.ends_with(|c: char| c.is_ascii_digit()) || !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if digits.matches('.').count() > 1 {
        return None;
    }
    let plain: String = digits.chars().filter(|c| !matches!(c, ',' | '_')).collect();
    let mut value: f64 = plain.parse().ok()?;
    if negative.is_some() {
        value = -value;
    }
    let suffix = suffix.trim_start_matches('-').trim_end_matches('+');
    let (multiplier, unit) = match suffix {
        "" | "st" | "nd" | "rd" | "th" => (1.0, None),
        "k" => (1e3, None),
        "m" | "mn" | "mio" => (1e6, None),
        "bn" | "g" => (1e9, None),
        _ => (1.0, Some(suffix)),
    };
    let quantity = Quantity::number(value * multiplier);
    match (unit, currency) {
        (Some(unit), _) => quantity.in_unit(unit),
        (None, Some(sign)) => quantity.in_unit(sign),
        (None, None) => Some(quantity),
    }
}

/// Parses number words at the start of `words`: "twenty five", "three hundred", "two million", "a dozen".
/// Returns the quantity and the number of words.
pub(super) fn parse_words(words: &[&str]) -> Option<(Quantity, usize)> {
    let first = LEXICON.number_word(words.first()?)?;
    let (mut total, mut current, mut used) = (0.0, first.value, 1);
    let mut last = first.value;
    for word in &words[1..] {
        if *word == "and" && used > 0 && last >= 100.0 {
            // "two hundred and five": counted only if a number follows.
            match words.get(used + 1).and_then(|next| LEXICON.number_word(next)) {
                Some(next) if next.value < last && next.value >= 1.0 => {
                    used += 1;
                    continue;
                }
                _ => break,
            }
        }
        let Some(next) = LEXICON.number_word(word) else {
            break;
        };
        if next.value >= 100.0 {
            current *= next.value;
            if next.value >= 1000.0 {
                total += current;
                current = 0.0;
            }
        } else if last >= 20.0 && next.value >= 1.0 && next.value < last {
            current += next.value;
        } else {
            break;
        }
        last = next.value;
        used += 1;
    }
    let weak = first.weak && used == 1;
    Some((
        Quantity {
            weak,
            ..Quantity::number(total + current)
        },
        used,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_every_notation() {
        for (word, value, dimension) in [
            ("3", 3.0, None),
            ("-2.5", -2.5, None),
            ("10,000", 10_000.0, None),
            ("10k", 10_000.0, None),
            ("1.5M", 1.5e6, None),
            ("40%", 0.4, Some("ratio")),
            ("$5", 5.0, Some("money")),
            ("$5k", 5000.0, Some("money")),
            ("20ms", 0.02, Some("time")),
            ("2x", 2.0, Some("factor")),
            ("3rd", 3.0, None),
            ("~30", 30.0, None),
            ("30-day", 30.0 * 86400.0, Some("time")),
        ] {
            let quantity = parse(word).unwrap_or_else(|| panic!("{word} is a quantity"));
            assert!(close(quantity.value, value), "{word}: {quantity:?}");
            assert_eq!(quantity.dimension, dimension, "{word}");
        }
        for word in [
            "1.2.3",
            "p99",
            "v2",
            "3.",
            ".5.",
            "abc",
            "-",
            "",
            "2026-11-15",
            "10:30",
            "0x1f",
        ] {
            assert_eq!(parse(word), None, "{word}");
        }
    }

    #[test]
    fn numbers_in_words() {
        for (text, value, used) in [
            ("three nodes", 3.0, 1),
            ("twenty five nodes", 25.0, 2),
            ("three hundred and five", 305.0, 4),
            ("two million users", 2e6, 2),
            ("four thousand two hundred", 4200.0, 4),
            ("hundred and", 100.0, 1),
            ("five six", 5.0, 1),
        ] {
            let words: Vec<&str> = text.split(' ').collect();
            let (quantity, taken) = parse_words(&words).unwrap();
            assert!(close(quantity.value, value), "{text}: {quantity:?}");
            assert_eq!(taken, used, "{text}");
        }
        assert!(parse_words(&["one"]).unwrap().0.weak);
        assert!(parse_words(&["nodes"]).is_none());
    }

    #[test]
    fn units_are_converted_and_optional() {
        let minutes = parse("5").unwrap().in_unit("minutes").unwrap();
        assert!(minutes.agrees_with(&parse("300s").unwrap()));
        assert!(!minutes.agrees_with(&parse("5s").unwrap()));
        assert!(minutes.agrees_with(&parse("5").unwrap()));
        assert!(parse("50%").unwrap().agrees_with(&Quantity::number(0.5)));
        assert!(parse("33%").unwrap().agrees_with(&Quantity::share(1.0 / 3.0)));
        assert!(!parse("25%").unwrap().agrees_with(&Quantity::share(1.0 / 3.0)));
        assert!(!parse("50%").unwrap().agrees_with(&parse("5ms").unwrap()));
    }
}
