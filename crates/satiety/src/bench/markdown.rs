//! Text that goes into Markdown tables without breaking them: answers, names and reasons come from outside.

/// A text as one table cell or list item: one line, no column breaks, no HTML, no mentions, not too long.
pub(super) fn cell(text: &str) -> String {
    const MOST: usize = 300;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out = String::with_capacity(line.len());
    for (count, letter) in line.chars().enumerate() {
        if count == MOST {
            out.push('…');
            break;
        }
        match letter {
            '|' => out.push_str("\\|"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // A zero-width space keeps `@name` from notifying anybody.
            '@' => out.push_str("@\u{200b}"),
            letter if letter.is_control() => {}
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_a_cell() {
        assert_eq!(cell("a|b\n| c |"), "a\\|b \\| c \\|");
        assert_eq!(cell("<img src=x>"), "&lt;img src=x&gt;");
        assert_eq!(cell("@all"), "@\u{200b}all");
        assert_eq!(cell(&"x".repeat(400)).chars().count(), 301);
    }
}
