//! Numbers of a run file, read as `atof` reads them: correctly rounded, most of them without the general algorithm.

use std::ops::Range;

use super::fast_parse;

/// As many as sixteen digits can need.
const POWERS: [f64; 16] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
];

const WHOLE_POWERS: [u64; 9] = [
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

/// A decimal number. A mantissa below 2^53 divided by a power of ten up to 10^22 is correctly rounded, because both are
/// exact (Clinger 1990); everything else goes the long way.
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

/// The decimal number between two positions of a block. Up to eight digits before the point and up to eight behind it are
/// read eight at a time.
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
    let mantissa = fast_parse::digits(head, whole)? * WHOLE_POWERS.get(decimals)?
        + fast_parse::digits(fast_parse::word(block, start + whole + 1), decimals)?;
    (mantissa < 1 << 53).then(|| mantissa as f64 / POWERS[decimals])
}

/// A number of up to sixteen bytes, all at once: the point is taken out, leading zeros fill up, and pairs of digits
/// become numbers together.
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
    let mantissa = fast_parse::eight(upper) * 100_000_000 + fast_parse::eight(lower);
    if mantissa >= 1 << 53 {
        return None;
    }
    let value = mantissa as f64 / POWERS.get(decimals)?;
    Some(if negative { -value } else { value })
}

/// A mask of the first bytes.
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
    fn what_is_no_number_is_none() {
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
        fn it_reads_what_the_standard_library_reads(text in "-?[0-9]{0,12}\\.?[0-9]{0,12}") {
            prop_assert_eq!(parse(text.as_bytes()), text.parse().ok());
            let within = format!("q {text} 17.5 tag and more");
            prop_assert_eq!(parse_within(within.as_bytes(), 2..2 + text.len()), text.parse().ok());
        }
    }
}
