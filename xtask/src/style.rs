//! The `style` step: finds phrases that STYLE.md replaces, in comments, messages, help texts, docs, examples and tests.
//!
//! Of code, only comments, string literals and function names are searched. A phrase that has to stay, a quotation for
//! example, is listed in `xtask/style-allow.txt`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// What to look for, what to write instead, and the words behind a match that make it ordinary English.
const PHRASES: &[(&str, &str, &[&str])] = &[
    ("whoever", "the caller, client or user", &[]),
    ("nobody", "name the subject: no caller, no client", &[]),
    ("anybody", "any caller, client or user", &[]),
    ("asker", "caller", &[]),
    ("who asks", "caller", &[]),
    ("is had", "name the action", &[]),
    ("as ever", "as before", &[]),
    ("in force", "active", &[]),
    ("into force", "active", &[]),
    ("to be told", "reported", &[]),
    ("taken up", "resumed", &[]),
    ("take up", "resume", &["to", "space", "the", "more", "less"]),
    ("takes up", "resumes", &["space", "more", "less"]),
    ("fenced in", "sandboxed", &[]),
    ("the fence", "the sandbox", &[]),
    ("for good", "permanently", &[]),
    ("anew", "again", &[]),
    ("foretell", "predict", &[]),
    ("foretold", "predicted", &[]),
    ("likeness", "similarity", &[]),
    ("kept back", "excluded", &[]),
    ("held back", "delayed or excluded", &[]),
    ("held against", "compared with", &[]),
    ("'s back", "asynchronously", &[]),
    (
        "is no",
        "is not a",
        &[
            "longer",
            "more",
            "less",
            "different",
            "better",
            "worse",
            "higher",
            "lower",
            "larger",
        ],
    ),
    (
        "are no",
        "are not",
        &["longer", "more", "less", "different", "better", "worse"],
    ),
    ("there is no such", "not found", &[]),
    ("where there is none", "say what happens when it is absent", &[]),
    ("says no", "fails", &[]),
    ("the usual one", "the default", &[]),
    ("so many at a time", "name the limit", &[]),
    ("those of none", "not comparable", &[]),
    ("gone on with", "continued", &[]),
    ("what is remembered", "the database", &[]),
    ("setback", "transient outage", &[]),
];

/// Searches the repository and fails with a list of the places.
pub fn check(root: &Path) -> Result<()> {
    let allowed = Allowed::read(&root.join("xtask/style-allow.txt"))?;
    let mut found = Vec::new();
    for path in files(root)? {
        let text = fs_err::read_to_string(&path)?;
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .to_string_lossy()
            .replace('\\', "/");
        let lines = match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => rust_prose(&text),
            _ => text.lines().map(str::to_owned).enumerate().collect(),
        };
        for (index, line) in text.lines().enumerate() {
            if is_conflict_marker(line) {
                found.push(format!("{name}:{}: \"{line}\" (resolve the conflict)", index + 1));
            }
        }
        for (index, line) in lines {
            for (phrase, instead) in telltales(&line) {
                if !allowed.permits(&name, &line) {
                    found.push(format!("{name}:{}: \"{phrase}\" (write: {instead})", index + 1));
                }
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let count = found.len();
    bail!(
        "{}\n{count} places; reword phrases that STYLE.md replaces, or list a quotation in xtask/style-allow.txt",
        found.join("\n")
    )
}

/// Whether git wrote this line into a file that could not be merged. A line of `=` alone may also underline a title.
fn is_conflict_marker(line: &str) -> bool {
    ["<<<<<<< ", ">>>>>>> "]
        .iter()
        .any(|marker| line.starts_with(marker))
}

/// The phrases in a line, each with its replacement.
fn telltales(line: &str) -> Vec<(&'static str, &'static str)> {
    let lower = line.to_lowercase();
    let mut found = Vec::new();
    for (phrase, instead, ordinary) in PHRASES {
        let matches = lower.match_indices(phrase).any(|(at, _)| {
            let before = lower[..at].chars().next_back();
            let after = &lower[at + phrase.len()..];
            let starts_word = phrase.starts_with('\'') || !before.is_some_and(char::is_alphanumeric);
            let ends_word = !after
                .chars()
                .next()
                .is_some_and(|next| next.is_alphanumeric() || next == '_');
            let next = after
                .split(|c: char| !c.is_alphanumeric())
                .find(|word| !word.is_empty());
            // "is no" needs a noun behind it: at the end of a clause it is an ordinary answer, and "there is no run"
            // is ordinary English.
            let continues = !phrase.ends_with(" no")
                || (after.starts_with(' ') && !lower[..at].trim_end().ends_with("there"));
            starts_word && ends_word && continues && !next.is_some_and(|next| ordinary.contains(&next))
        });
        if matches {
            found.push((*phrase, *instead));
        }
    }
    found
}

/// Comments, string literals and function names of a Rust file by line. Words of a name are separated by spaces.
fn rust_prose(text: &str) -> Vec<(usize, String)> {
    let mut prose: Vec<(usize, String)> = Vec::new();
    let mut in_string = false;
    for (index, line) in text.lines().enumerate() {
        let mut kept = match function_name(line) {
            Some(name) if !in_string => name.replace('_', " "),
            _ => String::new(),
        };
        let mut rest = line.char_indices().peekable();
        while let Some((at, character)) = rest.next() {
            match character {
                '\\' if in_string => {
                    rest.next();
                }
                // A quotation mark as a character literal opens nothing.
                '\'' if !in_string && line[at..].starts_with("'\"'") => {
                    rest.next();
                    rest.next();
                }
                '"' => {
                    in_string = !in_string;
                    kept.push(' ');
                }
                '/' if !in_string && line[at..].starts_with("//") => {
                    kept.push_str(&line[at..]);
                    break;
                }
                _ if in_string => kept.push(character),
                _ => {}
            }
        }
        if !kept.trim().is_empty() {
            prose.push((index, kept));
        }
    }
    prose
}

fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (before.is_empty() || before.ends_with(' ')).then(|| &rest[..end])
}

fn files(root: &Path) -> Result<Vec<PathBuf>> {
    const EXTENSIONS: [&str; 13] = [
        "rs",
        "md",
        "html",
        "js",
        "mjs",
        "py",
        "sh",
        "toml",
        "ts",
        "yaml",
        "yml",
        "service",
        "Containerfile",
    ];
    const DIRECTORIES: [&str; 11] = [
        ".github",
        "contrib",
        "crates",
        "docs",
        "examples",
        "fuzz",
        "npm",
        "perf",
        "studies",
        "tests",
        "xtask/src",
    ];
    // Build output, input for models, input of tests and examples, generated pages, recorded output.
    const SKIPPED: [&str; 9] = [
        "target",
        "dist",
        "node_modules",
        "prompts",
        "reference",
        "snapshots",
        "fixtures",
        "corpus-seeds",
        "heat-pumps",
    ];
    let mut open: Vec<PathBuf> = DIRECTORIES.iter().map(|name| root.join(name)).collect();
    let mut files = Vec::new();
    for entry in fs_err::read_dir(root)? {
        let path = entry?.path();
        // STYLE.md lists the phrases.
        if path.extension().is_some_and(|extension| extension == "md") && !path.ends_with("STYLE.md") {
            files.push(path);
        }
    }
    while let Some(directory) = open.pop() {
        for entry in fs_err::read_dir(&directory)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                // `bench/target` is a module, not a build directory.
                if !SKIPPED.contains(&name.as_str())
                    || (name == "target" && path.starts_with(root.join("crates")))
                {
                    open.push(path);
                }
            } else if EXTENSIONS.contains(&name.rsplit('.').next().unwrap_or_default())
                && !path.ends_with("xtask/src/style.rs")
            {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Quotations that may stay: a path and a part of the line each, separated by a colon.
struct Allowed(Vec<(String, String)>);

impl Allowed {
    fn read(path: &Path) -> Result<Self> {
        let text = fs_err::read_to_string(path)?;
        let entries = text
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        let entries = entries.map(|line| {
            let (path, part) = line.split_once(": ").with_context(|| {
                format!("style-allow.txt: expected `path: part of the line`, found `{line}`")
            })?;
            Ok((path.to_owned(), part.to_owned()))
        });
        entries.collect::<Result<_>>().map(Self)
    }

    fn permits(&self, path: &str, line: &str) -> bool {
        self.0
            .iter()
            .any(|(file, part)| file == path && line.contains(part.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_as_words_only() {
        let phrases = |line: &str| {
            telltales(line)
                .into_iter()
                .map(|(phrase, _)| phrase)
                .collect::<Vec<_>>()
        };
        assert_eq!(phrases("Whoever asks"), ["whoever"]);
        assert_eq!(phrases("`x` is no tier"), ["is no"]);
        assert_eq!(
            phrases("the tasker is no longer there; the answer is no."),
            Vec::<&str>::new()
        );
    }

    #[test]
    fn conflicts_are_found() {
        assert!(is_conflict_marker(&format!("{} ours", "<".repeat(7))));
        assert!(is_conflict_marker(&format!("{} theirs", ">".repeat(7))));
        assert!(!is_conflict_marker("======="));
    }

    #[test]
    fn comments_strings_and_function_names_are_prose() {
        let source = "let nobody = 1; // whoever\nlet text = \"in force\";\n#[cfg(test)]\nmod tests {\n    async fn nobody_asks() {}\n}\n";
        let lines: Vec<String> = rust_prose(source)
            .into_iter()
            .map(|(_, line)| line.trim().to_owned())
            .collect();
        assert_eq!(lines, ["// whoever", "in force", "nobody asks"]);
    }
}
