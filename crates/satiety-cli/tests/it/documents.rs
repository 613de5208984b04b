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
