//! Checks of the documentation: `console` blocks match the output, named paths exist, links resolve.

use std::path::{Path, PathBuf};

use crate::support::Place;

#[test]
fn console_blocks_match_the_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut ran = 0;
    for page in pages(&root) {
        for (command, expected) in console_blocks(&fs_err::read_to_string(&page).unwrap()) {
            let place = Place::new();
            let arguments: Vec<&str> = command.split_whitespace().collect();
            assert_eq!(arguments[0], "satiety", "{}: {command}", page.display());
            let output = place
                .command(&arguments[1..])
                .current_dir(&root)
                .output()
                .unwrap();
            let printed = String::from_utf8(output.stdout).unwrap();
            assert!(
                matches(&expected, &printed),
                "{}: `{command}` prints\n{printed}\n{}",
                page.display(),
                String::from_utf8_lossy(&output.stderr)
            );
            ran += 1;
        }
    }
    assert!(ran > 0, "no console blocks found");
}

/// Paths of this repository that command help, the README or a page names exist.
#[test]
fn named_paths_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let place = Place::new();
    let reference = place.path("reference");
    fs_err::create_dir(&reference).unwrap();
    let made = place.run(&["reference", &reference.display().to_string()]);
    assert!(made.starts_with("exit 0"), "{made}");
    // The help of every command.
    let mut texts = vec![("--help".to_owned(), reference.join("commands.md"))];
    texts.extend(
        pages(&root)
            .into_iter()
            .map(|path| (path.strip_prefix(&root).unwrap().display().to_string(), path)),
    );
    let (mut seen, mut missing) = (0, Vec::new());
    for (name, path) in texts {
        let text = fs_err::read_to_string(path).unwrap();
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_./-".contains(letter);
        for word in text.split(|letter| !is_part(letter)) {
            let path = word.trim_start_matches("../").trim_end_matches(['.', '/']);
            let first = path.split_once('/').map_or("", |(first, _)| first);
            if ["examples", "docs", "crates", "perf", "studies"].contains(&first) {
                seen += 1;
                if !root.join(path).exists() {
                    missing.push(format!("{name}: {path}"));
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} paths found");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Relative links lead to existing files, and their fragments to headings.
#[test]
fn links_resolve() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut checked, mut broken) = (0, Vec::new());
    for page in pages(&root) {
        let text = fs_err::read_to_string(&page).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() {
                page.clone()
            } else {
                page.parent().unwrap().join(path)
            };
            let is_page = target.extension().is_some_and(|ending| ending == "md");
            let resolves = target.exists()
                && (fragment.is_empty()
                    || !is_page
                    || anchors(&fs_err::read_to_string(&target).unwrap())
                        .iter()
                        .any(|anchor| anchor == fragment));
            if !resolves {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(checked > 100, "only {checked} links found");
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Every page of the book is in its table of contents.
#[test]
fn the_summary_lists_every_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = root.join("docs");
    let summary = fs_err::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed = links(&summary);
    let missing: Vec<String> = pages(&root)
        .iter()
        .filter_map(|page| page.strip_prefix(&docs).ok())
        .map(|page| page.display().to_string())
        .filter(|page| page != "SUMMARY.md" && !listed.contains(&page.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Handwritten pages: those at the root of the repository, and all below `docs` except generated ones.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![root.join("docs")];
    while let Some(directory) = directories.pop() {
        for entry in fs_err::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("docs/reference") {
                    directories.push(path);
                }
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    found.extend(
        [
            "README.md",
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "RELEASING.md",
            "SECURITY.md",
            "STYLE.md",
        ]
        .map(|name| root.join(name)),
    );
    found.sort();
    found
}

/// Targets of inline links outside of code.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, tail)) = after.split_once(')') else {
                break;
            };
            found.push(target);
            rest = tail;
        }
    }
    found
}

/// Fragments of a page's headings, as generated by GitHub and mdBook.
fn anchors(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        found.push(
            heading
                .trim()
                .to_lowercase()
                .chars()
                .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect(),
        );
    }
    found
}

/// Commands and their expected output.
fn console_blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            line if inside => match (line.strip_prefix("$ "), blocks.last_mut()) {
                (Some(command), _) => blocks.push((command.into(), String::new())),
                (None, Some((_, expected))) => {
                    expected.push_str(line);
                    expected.push('\n');
                }
                (None, None) => {}
            },
            _ => {}
        }
    }
    blocks
}

/// Matches text against a pattern in which `[..]` stands for any text.
fn matches(expected: &str, printed: &str) -> bool {
    let mut rest = printed.trim();
    let mut parts = expected.trim().split("[..]").map(str::trim);
    let Some(first) = parts.next() else { return true };
    let Some(after) = rest.strip_prefix(first) else {
        return false;
    };
    rest = after;
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    expected.trim().ends_with("[..]") || rest.trim().is_empty()
}
