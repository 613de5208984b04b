//! Checks of the documentation: `console` blocks match the output, named paths exist, links resolve, generated pages
//! are up to date. That commands parse is checked next to their definition, in `src/args`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// The commands of each task run as they are on the page, in an empty directory with the bundled examples.
#[test]
fn common_tasks_run() {
    let root = fs_err::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    let page = fs_err::read_to_string(root.join("docs/guides/tasks.md")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_satiety"));
    let path = format!(
        "{}:/usr/local/bin:/usr/bin:/bin",
        program.parent().unwrap().display()
    );
    let has_jq = Command::new("jq").arg("--version").output().is_ok();
    let mut tasks = 0;
    for task in page.split("\n## ").skip(1) {
        let title = task.lines().next().unwrap_or_default();
        let (_, block) = task
            .split_once("```sh\n")
            .unwrap_or_else(|| panic!("no commands: {title}"));
        let script = block.split("\n```").next().unwrap_or_default();
        tasks += 1;
        // A server does not end by itself; `serve.rs` and `surfaces.rs` make such requests.
        if script.contains("satiety serve") {
            continue;
        }
        if script.contains("jq ") && !has_jq {
            eprintln!("skipped: {title}: jq is not installed");
            continue;
        }
        let script: Vec<&str> = script
            .lines()
            .filter(|line| !line.starts_with("claude "))
            .collect();
        let place = Place::new();
        std::os::unix::fs::symlink(root.join("examples"), place.path("examples")).unwrap();
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c"])
            .arg(format!("git init --quiet .\n{}", script.join("\n")))
            .current_dir(place.folder.path())
            .env_clear()
            .envs([("PATH", path.as_str()), ("USER", "me")])
            .env("HOME", place.folder.path())
            .envs(["AUTHOR", "COMMITTER"].map(|role| (format!("GIT_{role}_NAME"), "me")))
            .envs(["AUTHOR", "COMMITTER"].map(|role| (format!("GIT_{role}_EMAIL"), "me@example.org")))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{title}: {}\n{}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(tasks, 10);
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
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_./-@".contains(letter);
        for word in text.split(|letter| !is_part(letter)) {
            let path = word.trim_start_matches("../").trim_end_matches(['.', '/']);
            let first = path.split_once('/').map_or("", |(first, _)| first);
            if [
                "examples", "docs", "crates", "perf", "studies", "contrib", "fuzz", "xtask", ".github", ".ci",
            ]
            .contains(&first)
            {
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
    let generated = markdown_below(&root.join("docs/reference"));
    for page in pages(&root).into_iter().chain(generated) {
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
    let missing: Vec<String> = markdown_below(&docs)
        .iter()
        .filter_map(|page| page.strip_prefix(&docs).ok())
        .map(|page| page.display().to_string())
        .filter(|page| page != "SUMMARY.md" && !listed.contains(&page.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The committed pages, schemas and man pages are those that the program writes.
#[test]
fn generated_reference_is_up_to_date() {
    let place = Place::new();
    let fresh = place.path("reference");
    fs_err::create_dir(&fresh).unwrap();
    let made = place.run(&["reference", &fresh.display().to_string()]);
    assert!(made.starts_with("exit 0"), "{made}");
    let mut committed = contents(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference"));
    // The pictures are drawn by `cargo xtask gen`, from the output of `satiety score`; the tests of the Python package
    // check its page.
    committed.retain(|name, _| {
        name.extension().is_none_or(|ending| ending != "svg") && name != Path::new("python.md")
    });
    let fresh = contents(&fresh);
    assert_eq!(
        committed.keys().collect::<Vec<_>>(),
        fresh.keys().collect::<Vec<_>>(),
        "run `cargo xtask gen`"
    );
    let outdated: Vec<&PathBuf> = fresh
        .keys()
        .filter(|name| fresh[*name] != committed[*name])
        .collect();
    assert!(outdated.is_empty(), "run `cargo xtask gen`: {outdated:?}");
}

/// Files below a directory, by relative path.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files_below(directory)
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(directory).unwrap().to_owned();
            (name, fs_err::read(&path).unwrap())
        })
        .collect()
}

/// Pages that people write: those at the root of the repository, all below `docs` except generated ones, and the
/// README of a directory.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut found = markdown_below(&root.join("docs"));
    found.retain(|page| !page.starts_with(root.join("docs/reference")));
    found.extend(
        [
            "README.md",
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "RELEASING.md",
            "SECURITY.md",
            "STYLE.md",
            "crates/satiety/README.md",
            "perf/README.md",
            "studies/README.md",
        ]
        .map(|name| root.join(name)),
    );
    let examples = markdown_below(&root.join("examples"));
    found.extend(examples.into_iter().filter(|page| page.ends_with("README.md")));
    found.sort();
    found
}

fn markdown_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = files_below(directory);
    found.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    found
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs_err::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                found.push(path);
            }
        }
    }
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
