//! What the documents show is what the program prints: every ```` ```console ```` block is run.

use std::path::Path;

use crate::support::Place;

#[test]
fn console_blocks_print_what_they_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    pages.extend(
        fs_err::read_dir(root.join("docs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "md")),
    );
    let mut ran = 0;
    for page in pages {
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
    assert!(ran > 0, "no console block was found");
}

/// Paths of this repository that the help of a command, the README or a page names are there.
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
    let pages = fs_err::read_dir(root.join("docs")).unwrap();
    let pages = pages.map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    texts.extend(
        pages
            .chain([root.join("README.md"), root.join("CONTRIBUTING.md")])
            .map(|path| (path.file_name().unwrap().display().to_string(), path)),
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
    assert!(seen > 100, "only {seen} paths were found");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Commands and what should follow them.
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

/// `[..]` stands for anything.
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
