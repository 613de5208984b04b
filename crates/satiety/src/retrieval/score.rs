//! Fast, correctly rounded parsing of decimal numbers in run files.

use std::ops::Range;

use super::fast_parse;

/// Powers of ten for up to sixteen digits.
const POWERS: [f64; 16] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
];

const INTEGER_POWERS: [u64; 9] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// Parses a decimal number. A mantissa below 2^53 divided by a power of ten up to 10^22 is correctly rounded,
/// because both are exact (Clinger 1990); other numbers use the standard library.
pub(super) fn parse(text: &[u8]) -> Option<f64> {
    let mut wide = [0; 16];
    match wide.get_mut(..text.len()) {
        Some(part) => {
            part.copy_from_slice(text);
            short(wide, text.len()).or_else(|| general(text))
        }
        None => general(text),
    }
}

/// Parses the decimal number in a range of a block. Up to eight digits on each side of the point take a fast
/// path.
#[inline]
pub(super) fn parse_within(block: &[u8], range: Range<usize>) -> Option<f64> {
    match plain(block, range.start, range.end) {
        Some(value) => Some(value),
        None => parse(block.get(range)?),
    }
}

#[inline]
fn plain(block: &[u8], start: usize, end: usize) -> Option<f64> {
    let head = fast_parse::word(block, start);
    let other = head ^ 0x2e2e_2e2e_2e2e_2e2e;
    let points = !(((other & fast_parse::LOW) + fast_parse::LOW) | other) & fast_parse::HIGH;
    if points == 0 {
        return None;
    }
    let whole = (points.trailing_zeros() / 8) as usize;
    let decimals = end.checked_sub(start + whole + 1)?;
    let mantissa = fast_parse::digits(head, whole)? * INTEGER_POWERS.get(decimals)?
        + fast_parse::digits(fast_parse::word(block, start + whole + 1), decimals)?;
    (mantissa < 1 << 53).then(|| mantissa as f64 / POWERS[decimals])
}

/// Parses a number of up to sixteen bytes with SIMD within a register: removes the point, pads with leading
/// zeros and combines pairs of digits.
#[inline]
fn short(wide: [u8; 16], length: usize) -> Option<f64> {
    const HIGH: u128 = 0x8080_8080_8080_8080_8080_8080_8080_8080;
    let mut text = u128::from_le_bytes(wide);
    let negative = wide[0] == b'-';
    let length = length.checked_sub(usize::from(negative))?;
    if length == 0 || length > 16 {
        return None;
    }
    text >>= 8 * u32::from(negative);
    text &= first(length);
    let other = text ^ 0x2e2e_2e2e_2e2e_2e2e_2e2e_2e2e_2e2e_2e2e;
    let points = !(((other & !HIGH) + !HIGH) | other) & HIGH;
    let (count, decimals) = if points == 0 {
        (length, 0)
    } else {
        let point = (points.trailing_zeros() / 8) as usize;
        let before = first(point);
        text = (text & before) | ((text >> 8) & !before);
        (length - 1, length - 1 - point)
    };
    if count == 0 {
        return None;
    }
    let digits = ((text ^ 0x3030_3030_3030_3030_3030_3030_3030_3030) & first(count)) << (8 * (16 - count));
    #[expect(clippy::cast_possible_truncation, reason = "the two halves are wanted")]
    let (upper, lower) = (digits as u64, (digits >> 64) as u64);
    if !fast_parse::is_digits(upper) || !fast_parse::is_digits(lower) {
        return None;
    }
    let mantissa =
        fast_parse::parse_eight_digits(upper) * 100_000_000 + fast_parse::parse_eight_digits(lower);
    if mantissa >= 1 << 53 {
        return None;
    }
    let value = mantissa as f64 / POWERS.get(decimals)?;
    Some(if negative { -value } else { value })
}

/// Mask of the first `count` bytes.
#[inline]
fn first(count: usize) -> u128 {
    if count >= 16 {
        u128::MAX
    } else {
        (1 << (8 * count)) - 1
    }
}

fn general(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn invalid_numbers_are_none() {
        for text in ["", "-", ".", "-.", "1.2.3", "x", "1e", "--1", "0x10"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"1e-3"), Some(0.001));
        assert_eq!(parse(b"+2.5"), Some(2.5));
        assert_eq!(parse(b"5."), Some(5.0));
        assert_eq!(parse(b".5"), Some(0.5));
        assert_eq!(parse(b"-inf"), Some(f64::NEG_INFINITY));
        assert!(parse(b"nan").is_some_and(f64::is_nan));
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_standard_library(text in "-?[0-9]{0,12}\\.?[0-9]{0,12}") {
            prop_assert_eq!(parse(text.as_bytes()), text.parse().ok());
            let within = format!("q {text} 17.5 tag and more");
            prop_assert_eq!(parse_within(within.as_bytes(), 2..2 + text.len()), text.parse().ok());
        }
    }
}
