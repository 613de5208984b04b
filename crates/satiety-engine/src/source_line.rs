//! Lines of cases, rules and keys in their files, for findings. Suites may be JSON, YAML or TOML, so lines are
//! found by the words on them: a best effort that falls back to an enclosing key and then to the first line.

use std::path::{Path, PathBuf};

use satiety_report::finding::{Finding, Level, Rule};

use crate::bench::suites;

/// Line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceLine {
    pub(crate) path: PathBuf,
    /// Number of the line, from 1.
    pub(crate) line: usize,
}

impl SourceLine {
    /// Finding at this line. `top` is the top of the repository; by default, the nearest directory with `.git`.
    pub(crate) fn finding(
        &self,
        rule: Rule,
        level: Level,
        place: &str,
        message: String,
        top: Option<&Path>,
    ) -> Finding {
        Finding {
            rule,
            level,
            place: place.to_owned(),
            message,
            file: repository_path(&self.path, top),
            line: self.line,
        }
    }
}

/// Line of a case or of one of its fields; of the list of cases if the suite has no such case.
pub(crate) fn case_line(suite_file: &Path, case_id: &str, field: Option<&str>) -> SourceLine {
    let directory = suite_file.with_file_name("cases");
    let mut files = suites::case_files(&directory).unwrap_or_default();
    files.push(suite_file.to_path_buf());
    let found = files.into_iter().find_map(|path| {
        let text = suites::read(&path).ok()?;
        let lines: Vec<&str> = text.lines().collect();
        let names_case = |line: &str| mentions(line, "case_id") || mentions(line, "id");
        let start = lines
            .iter()
            .position(|line| names_case(line) && mentions(line, case_id))?;
        let is_field = |index: &usize| field.is_some_and(|field| mentions(lines[*index], field));
        let is_other = |index: &usize| *index != start && names_case(lines[*index]);
        let after = (start..lines.len())
            .take_while(|index| !is_other(index))
            .find(is_field);
        let before = || {
            (0..start)
                .rev()
                .take_while(|index| !is_other(index))
                .find(is_field)
        };
        let line = after.or_else(before).unwrap_or(start) + 1;
        Some(SourceLine { path, line })
    });
    found.unwrap_or_else(|| key_line(suite_file, &["cases"], None))
}

/// Line of a key in a file. `table` is the path of the table that contains `field`, or of the key itself.
pub(crate) fn key_line(path: &Path, table: &[&str], field: Option<&str>) -> SourceLine {
    let text = suites::read(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let first = |words: &[&str]| {
        lines
            .iter()
            .position(|line| words.iter().all(|word| mentions(line, word)))
    };
    // A header such as `[gates.planner]`, a key below `[gates]`, or `[gates]` itself if the key is gone.
    let start = first(table)
        .or_else(|| first(table.get(1..).filter(|rest| !rest.is_empty())?))
        .or_else(|| first(table.get(..1)?));
    let inner = start.zip(field).and_then(|(start, field)| {
        (start..lines.len())
            .take_while(|index| *index == start || !lines[*index].starts_with('['))
            .find(|index| mentions(lines[*index], field))
    });
    SourceLine {
        path: path.to_path_buf(),
        line: inner.or(start).map_or(1, |index| index + 1),
    }
}

/// Whether a line that is not a comment contains a word.
fn mentions(line: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-');
    let is_comment = line.trim_start().starts_with(['#', '/']);
    !word.is_empty()
        && !is_comment
        && line.match_indices(word).any(|(start, _)| {
            let (before, after) = (&line[..start], &line[start + word.len()..]);
            !before.ends_with(is_part) && !after.starts_with(is_part)
        })
}

/// Path relative to the top of its repository; unchanged outside of one.
fn repository_path(path: &Path, top: Option<&Path>) -> String {
    let relative = path.canonicalize().ok().and_then(|path| {
        let top = match top {
            Some(top) => top.canonicalize().ok()?,
            None => path
                .ancestors()
                .find(|ancestor| ancestor.join(".git").exists())?
                .to_path_buf(),
        };
        path.strip_prefix(top).ok().map(Path::to_path_buf)
    });
    relative.as_deref().unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "\
# thresholds and gates
alpha = 0.05
[thresholds]
\"sums/pass_rate\" = { value = 0.8 }
\"sums/pass_rate_2\" = { value = 0.8 }
[gates.sums]
score_drop = 0.1
[gates.other]
margin = 0.1
";

    const SUITE: &str = r#"
suite_id: sums
cases:
  - case_id: plain-2
    repeats: 3
  - repeats: 5
    expected: {mode: exact, value: "4"}
    case_id: plain
    timeout_ms: 100
  - {case_id: "last", tier: regression}
"#;

    #[test]
    fn keys_are_found_in_their_table() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("harness.toml");
        fs_err::write(&path, RULES).unwrap();
        for (table, field, expected) in [
            (&["alpha"][..], None, 2),
            (&["thresholds", "sums/pass_rate"], None, 4),
            (&["thresholds", "gone"], None, 3),
            (&["gates", "sums"], Some("score_drop"), 7),
            // Not the margin of another gate.
            (&["gates", "sums"], Some("margin"), 6),
            (&["gates", "other"], Some("margin"), 9),
            (&["nothing"], None, 1),
        ] {
            assert_eq!(
                key_line(&path, table, field).line,
                expected,
                "{table:?} {field:?}"
            );
        }
        assert_eq!(key_line(&directory.path().join("none"), &["alpha"], None).line, 1);
    }

    #[test]
    fn cases_and_their_fields_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("suite.yaml");
        fs_err::write(&file, SUITE).unwrap();
        for (case, field, expected) in [
            ("plain-2", Some("repeats"), 5),
            ("plain", None, 8),
            ("plain", Some("timeout_ms"), 9),
            ("plain", Some("expected"), 7),
            // Without the field, the case itself.
            ("plain", Some("tier"), 8),
            ("last", Some("tier"), 10),
            ("gone", Some("tier"), 3),
        ] {
            assert_eq!(case_line(&file, case, field).line, expected, "{case} {field:?}");
        }
    }
}
