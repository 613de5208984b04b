//! Numbers of a run file, read as `atof` reads them: correctly rounded, most of them without the general algorithm.

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// A decimal number. A mantissa below 2^53 divided by a power of ten up to 10^22 is correctly rounded, because both are
/// exact (Clinger 1990); everything else goes the long way.
pub(super) fn parse(text: &[u8]) -> Option<f64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (mut mantissa, mut decimals, mut point) = (0_u64, 0_usize, false);
    if digits.len() > 17 || digits.len() < 1 + usize::from(digits.contains(&b'.')) {
        return general(text);
    }
    for &byte in digits {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa * 10 + u64::from(byte - b'0');
                decimals += usize::from(point);
            }
            b'.' if !point => point = true,
            _ => return general(text),
        }
    }
    if mantissa >= 1 << 53 {
        return general(text);
    }
    let value = mantissa as f64 / POWERS[decimals];
    Some(if negative { -value } else { value })
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
        }
    }
}
