//! Regular expressions of JavaScript as those of the Rust crate `regex`, where both mean the same.

/// Translates a pattern; `None` if it has a construct that only JavaScript understands, or understands
/// differently, so that JavaScript has to match it.
pub(super) fn portable_pattern(pattern: &str) -> Option<String> {
    let mut out = String::new();
    let mut letters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => out += &escape(letters.next()?, in_class, &mut letters)?,
            '[' | '&' | '~' if in_class => return None,
            '[' => {
                in_class = true;
                out.push('[');
                if letters.peek() == Some(&'^') {
                    out.extend(letters.next());
                }
                // Empty classes are valid in JavaScript only.
                if letters.peek() == Some(&']') {
                    return None;
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '-' if in_class && letters.peek() == Some(&'-') => return None,
            '.' if !in_class => out += r"[^\n\r\u{2028}\u{2029}]",
            '(' if !in_class && letters.peek() == Some(&'?') => {
                out += "(?";
                letters.next();
                // Look-around and flags are left to JavaScript.
                match letters.next()? {
                    ':' => out.push(':'),
                    '<' if letters.peek().is_some_and(char::is_ascii_alphabetic) => out.push('<'),
                    _ => return None,
                }
            }
            letter => out.push(letter),
        }
    }
    regex::Regex::new(&out).is_ok().then_some(out)
}

fn escape(
    letter: char,
    in_class: bool,
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
) -> Option<String> {
    let text = match letter {
        'd' if in_class => "0-9",
        'w' if in_class => "0-9A-Za-z_",
        'd' => "[0-9]",
        'w' => "[0-9A-Za-z_]",
        'D' if !in_class => "[^0-9]",
        'W' if !in_class => "[^0-9A-Za-z_]",
        'b' if !in_class => r"(?-u:\b)",
        's' => r"\s",
        'S' if !in_class => r"\S",
        'n' => r"\n",
        'r' => r"\r",
        't' => r"\t",
        'f' => r"\f",
        'v' => r"\v",
        'u' | 'x' => {
            let length = if letter == 'u' { 4 } else { 2 };
            let digits: String = rest.by_ref().take(length).collect();
            let is_code = digits.len() == length && digits.chars().all(|digit| digit.is_ascii_hexdigit());
            return is_code.then(|| format!("\\{letter}{digits}"));
        }
        letter if letter.is_ascii_punctuation() => return Some(format!("\\{letter}")),
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_javascript() {
        let matches = |pattern: &str, text: &str| {
            regex::Regex::new(&portable_pattern(pattern).unwrap())
                .unwrap()
                .is_match(text)
        };
        assert!(matches(r"^\d+\s[\w-]+$", "12 a-b"));
        assert!(!matches(r"\d", "٣"));
        assert!(!matches(r"\w", "é"));
        assert!(!matches("a.b", "a\rb"));
        assert!(matches(r"a\/b\u00e9", "a/bé"));
        assert!(matches(r"(?<year>\d{4})(?:-)\d\d", "2026-08"));
    }

    #[test]
    fn constructs_of_javascript_alone_are_left_to_it() {
        for pattern in [
            r"(?<=a)b", "(?!x)y", "(?i)a", r"(\w)\1", "[a&&b]", "[[]", "[]", r"\p{L}", "{", r"\A", "(",
        ] {
            assert_eq!(portable_pattern(pattern), None, "{pattern}");
        }
    }
}
