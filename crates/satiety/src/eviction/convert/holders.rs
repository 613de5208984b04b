//! Strict uses: which item holds a path or an id that a call names again.

use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::trajectory::{Call, CallKind, classify};

/// Latest item that holds each path and each id.
#[derive(Debug, Default)]
pub(super) struct Holders {
    paths: FxHashMap<String, usize>,
    /// File name → full paths with that name, to match `src/a.rs` and `/repo/src/a.rs`.
    by_name: FxHashMap<String, Vec<String>>,
    ids: FxHashMap<String, usize>,
    /// File that the agent has open, for editors whose commands do not repeat it.
    open: Option<String>,
}

/// Largest number of paths with the same file name that are compared.
const MAX_SAME_NAME: usize = 64;

impl Holders {
    /// Returns the items that hold what the call names.
    pub(super) fn used_by(&self, call: &Call) -> Vec<usize> {
        let paths = self.paths_of(call);
        let held = paths.iter().filter_map(|path| self.paths.get(self.known(path)?));
        let mut ids = Vec::new();
        ids_in(&call.arguments, &mut ids);
        let named = ids.iter().filter_map(|id| self.ids.get(id.as_str()));
        held.chain(named).copied().collect()
    }

    /// Whether a call names a path.
    pub(super) fn names_path(&self, call: &Call) -> bool {
        !self.paths_of(call).is_empty()
    }

    /// Records that a call and its result hold what the call names.
    pub(super) fn hold(&mut self, call: &Call, made: usize, answered: Option<usize>) {
        let kind = classify(call).kind;
        let holds = matches!(kind, CallKind::Read | CallKind::Edit);
        let paths = self.paths_of(call);
        if holds && let Some(path) = paths.first() {
            self.open = Some(path.clone());
        }
        for path in paths {
            let key = if let Some(known) = self.known(&path) {
                known.to_owned()
            } else {
                let same = self.by_name.entry(file_name(&path).to_owned()).or_default();
                if same.len() < MAX_SAME_NAME {
                    same.push(path.clone());
                }
                path
            };
            // A search result is not the file, but it is the latest that is known about it.
            if holds || !self.paths.contains_key(&key) {
                self.paths.insert(key, answered.unwrap_or(made));
            }
        }
    }

    /// Records the ids in a text.
    pub(super) fn learn(&mut self, text: &str, item: usize) {
        for word in text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '#' | '@' | '.'))) {
            let word = word.trim_matches(['.', '-', '@']);
            if is_id(word) {
                self.ids.insert(word.to_owned(), item);
            }
        }
    }

    /// Paths that a call names: in its arguments, its edits and its command line.
    fn paths_of(&self, call: &Call) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let mut push = |path: &str| {
            let path = path.trim_start_matches("./").trim_end_matches('/');
            if !path.is_empty() && !found.iter().any(|other| other == path) {
                found.push(path.to_owned());
            }
        };
        for key in PATH_KEYS {
            if let Some(path) = call.arguments.get(key).and_then(Value::as_str) {
                push(path);
            }
        }
        for edit in &call.edits {
            push(&edit.path);
        }
        if let Some(command) = call.command() {
            let separates = |c: char| {
                c.is_whitespace()
                    || matches!(
                        c,
                        '\'' | '"' | '`' | ';' | '|' | '&' | '<' | '>' | '(' | ')' | '='
                    )
            };
            // Files are named in the first lines; what follows is usually their content.
            let head: Vec<&str> = command.lines().take(MAX_COMMAND_LINES).collect();
            for word in head.iter().flat_map(|line| line.split(separates)) {
                let word = word.trim_end_matches([',', ':']);
                if is_path(word) {
                    push(word);
                }
            }
        }
        let unnamed = call.edits.iter().any(|edit| edit.path.is_empty())
            || call
                .command()
                .is_some_and(|line| line.trim_start().starts_with("scroll_"));
        if let Some(open) = self.open.as_deref().filter(|_| unnamed) {
            push(open);
        }
        found
    }

    /// The spelling under which a path is known: the same, or one that ends with the other.
    fn known(&self, path: &str) -> Option<&str> {
        let ends = |long: &str, short: &str| {
            long.strip_suffix(short)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        let same = self.by_name.get(file_name(path))?;
        let found = same.iter().find(|known| ends(known, path) || ends(path, known));
        found.map(String::as_str)
    }
}

/// Arguments that name a file.
const PATH_KEYS: [&str; 7] = [
    "file_path",
    "path",
    "notebook_path",
    "filename",
    "file",
    "target_file",
    "absolute_path",
];

/// Number of lines of a command that are searched for paths.
const MAX_COMMAND_LINES: usize = 4;

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a word of a command line names a file: it has a directory, or an extension.
fn is_path(word: &str) -> bool {
    if word.starts_with('-') || word.contains("://") || word.len() > 256 || word.contains('*') {
        return false;
    }
    if word.contains('/') {
        return word.chars().any(char::is_alphanumeric);
    }
    word.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty()
            && (1..=5).contains(&extension.len())
            && extension.chars().all(|c| c.is_ascii_alphanumeric())
            && extension.starts_with(|c: char| c.is_ascii_alphabetic())
            && stem.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '.')
    })
}

/// Whether a word is an identifier of a record: with a digit, and long enough not to be a count.
fn is_id(word: &str) -> bool {
    (MIN_ID_CHARS..=MAX_ID_CHARS).contains(&word.len())
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && (word.bytes().any(|byte| byte.is_ascii_alphabetic()) || word.len() >= MIN_NUMBER_CHARS)
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'#' | b'@' | b'.'))
}

const MIN_ID_CHARS: usize = 4;
const MAX_ID_CHARS: usize = 64;
/// Digits from which a number is an identifier.
const MIN_NUMBER_CHARS: usize = 7;

/// Collects the ids among the values of a call's arguments.
fn ids_in(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if is_id(text) => found.push(text.clone()),
        Value::Number(number) if is_id(&number.to_string()) => found.push(number.to_string()),
        Value::Array(values) => values.iter().for_each(|value| ids_in(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| ids_in(value, found)),
        _ => {}
    }
}
