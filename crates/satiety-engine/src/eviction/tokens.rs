//! Token counts by the byte-pair encoding of current OpenAI models (`o200k_base`). Other providers do not
//! publish theirs; their counts differ by about ten per cent, so pass `token_count` if you know it.

/// Counts tokens. The first call loads the vocabulary, which takes a few tenths of a second.
pub fn count_tokens(text: &str) -> u64 {
    tiktoken_rs::o200k_base_singleton().count_ordinary(text) as u64
}

#[cfg(test)]
mod tests {
    // Oracle: `python -c "import tiktoken; e = tiktoken.get_encoding('o200k_base'); print(len(e.encode_ordinary('…')))"`.
    #[test]
    fn agrees_with_tiktoken() {
        for (text, expected) in [
            ("", 0),
            ("hello world", 2),
            ("fn main() { println!(\"hi\"); }", 9),
            ("Straße 42: 🦊!", 9),
        ] {
            assert_eq!(super::count_tokens(text), expected, "{text}");
        }
    }
}
