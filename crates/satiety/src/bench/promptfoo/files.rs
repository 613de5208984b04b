//! Files that a configuration refers to, by path or with wildcards.

use regex::Regex;
use serde_json::Value;

use super::CodeCall;

/// Files next to a configuration; names are relative to its directory.
pub trait ConfigFiles {
    /// Returns the text of a file; `None` if it does not exist.
    fn read(&self, name: &str) -> Option<String>;

    /// Returns the names of all files, for references with wildcards.
    fn list(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the path of a file relative to the directory of the suite, which may be a parent of the
    /// configuration's directory.
    fn path(&self, name: &str) -> String {
        name.to_owned()
    }

    /// Returns the result of a call; `None` if it has not been made, which adds it to the import's calls.
    fn returned(&self, _call: &CodeCall) -> Option<Result<Value, String>> {
        Some(Err("requires running code".to_owned()))
    }

    /// Whether programs may be TypeScript.
    fn runs_typescript(&self) -> bool {
        false
    }
}

impl<F: Fn(&str) -> Option<String>> ConfigFiles for F {
    fn read(&self, name: &str) -> Option<String> {
        self(name)
    }
}

/// Endings of files with prompts.
const PROMPT_ENDINGS: [&str; 15] = [
    "txt", "md", "json", "jsonl", "yaml", "yml", "csv", "j2", "js", "mjs", "cjs", "ts", "mts", "cts", "py",
];

/// Whether a prompt may be the path of a file instead of a text.
pub(super) fn looks_like_path(text: &str) -> bool {
    let is_plain = !text.contains(['\n', '{']) || text.contains("/{");
    let ending = super::file_extension(text);
    let ending = ending.split(':').next().unwrap_or_default();
    is_plain
        && !text.contains("{{")
        && text.len() < 512
        && (PROMPT_ENDINGS.contains(&ending) || (text.contains('*') && !text.contains(' ')))
}

/// Pattern of a name with wildcards; `None` if it has none.
pub(super) fn glob_pattern(name: &str) -> Option<Regex> {
    if !name.contains(['*', '?', '{']) {
        return None;
    }
    let mut pattern = String::from(r"\A");
    let mut rest = name;
    let mut depth = 0;
    while let Some(letter) = rest.chars().next() {
        let (part, length) = match letter {
            '*' if rest.starts_with("**/") => ("(?:.*/)?".to_owned(), 3),
            '*' if rest.starts_with("**") => (".*".to_owned(), 2),
            '*' => ("[^/]*".to_owned(), 1),
            '?' => ("[^/]".to_owned(), 1),
            '{' => {
                depth += 1;
                ("(?:".to_owned(), 1)
            }
            '}' if depth > 0 => {
                depth -= 1;
                (")".to_owned(), 1)
            }
            ',' if depth > 0 => ("|".to_owned(), 1),
            letter => (regex::escape(&letter.to_string()), letter.len_utf8()),
        };
        pattern += &part;
        rest = rest.get(length..).unwrap_or_default();
    }
    Regex::new(&(pattern + r"\z")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_like_in_a_shell() {
        for (glob, name, expected) in [
            ("prompts/*.txt", "prompts/a.txt", true),
            ("prompts/*.txt", "prompts/sub/a.txt", false),
            ("**/*.yaml", "a.yaml", true),
            ("**/*.yaml", "x/y/a.yaml", true),
            ("t/*.{csv,jsonl}", "t/a.jsonl", true),
            ("t/?.csv", "t/ab.csv", false),
        ] {
            assert_eq!(
                glob_pattern(glob).unwrap().is_match(name),
                expected,
                "{glob} {name}"
            );
        }
        assert!(glob_pattern("plain.txt").is_none());
    }

    #[test]
    fn prompts_and_paths_are_told_apart() {
        for path in ["prompts/a.txt", "prompt.md", "prompts/*", "chat.json"] {
            assert!(looks_like_path(path), "{path}");
        }
        for text in [
            "Answer yes/no",
            "Say {{x}}.txt",
            "2 * 3",
            "two\nlines.txt",
            "Hello.",
        ] {
            assert!(!looks_like_path(text), "{text}");
        }
    }
}
