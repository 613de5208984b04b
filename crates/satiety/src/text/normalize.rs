//! Normal form of a statement: case, spacing and closing punctuation are ignored.

/// Lower-cases, collapses whitespace and drops closing `.`, `!` and `?`, so that trivial reformatting of a
/// statement gives the same string. The function is idempotent.
///
/// ```
/// assert_eq!(satiety::text::normalize("  Ship  it\tNOW!! "), "ship it now");
/// ```
pub fn normalize(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !normal.is_empty() {
            normal.push(' ');
        }
        if word.is_ascii() {
            normal.extend(word.bytes().map(|byte| char::from(byte.to_ascii_lowercase())));
        } else {
            normal.push_str(&word.to_lowercase());
        }
    }
    let kept = normal
        .trim_end_matches(|c: char| matches!(c, '.' | '!' | '?') || c.is_whitespace())
        .len();
    normal.truncate(kept);
    normal
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reformatting_disappears_and_words_stay() {
        for (text, expected) in [
            ("Use Postgres.", "use postgres"),
            ("use\u{a0}postgres", "use postgres"),
            (" Really?! ", "really"),
            ("Wait . . .", "wait"),
            ("Version 1.0 is out", "version 1.0 is out"),
            ("...hidden", "...hidden"),
            ("ÄRGER Über Straße!", "ärger über straße"),
            ("?!.", ""),
            ("", ""),
        ] {
            assert_eq!(normalize(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn normalizing_twice_changes_nothing(text in "\\PC{0,40}") {
            let once = normalize(&text);
            prop_assert_eq!(normalize(&once), once);
        }

        #[test]
        fn case_and_spacing_never_matter(words in proptest::collection::vec("[a-z0-9,;]{1,8}", 1..12)) {
            let plain = words.join(" ");
            let spread = format!("  {}.!? ", words.join(" \t\n").to_uppercase());
            prop_assert_eq!(normalize(&plain), normalize(&spread));
        }
    }
}
