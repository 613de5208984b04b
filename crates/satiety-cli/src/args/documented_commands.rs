//! Checks that commands in the documentation, in help texts and in messages exist: they must parse.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::Cli;

/// Languages of fenced blocks that may contain commands; the empty one is a block without a language.
const SHELLS: [&str; 7] = ["", "text", "sh", "bash", "console", "yaml", "yml"];

#[test]
fn commands_in_fenced_blocks_parse() {
    let mut checked = Checked::default();
    for page in files("md") {
        // Generated from the help, with broken lines.
        if page.ends_with("docs/reference/commands.md") {
            continue;
        }
        for line in fenced_lines(&read(&page)) {
            checked.check(&page.display(), &line, clap::Error::use_stderr);
        }
    }
    checked.finish();
}

#[test]
fn examples_in_help_texts_parse() {
    fn check(command: &clap::Command, checked: &mut Checked) {
        let help = [command.get_after_help(), command.get_after_long_help()];
        for help in help.into_iter().flatten() {
            for line in help.to_string().lines() {
                checked.check(&command.get_name(), line, clap::Error::use_stderr);
            }
        }
        command
            .get_subcommands()
            .for_each(|command| check(command, checked));
    }
    let mut checked = Checked::default();
    check(&Cli::command(), &mut checked);
    checked.finish();
}

/// Commands in running text and messages are often abbreviated, so only their subcommands and options are checked.
#[test]
fn commands_in_prose_and_messages_exist() {
    let is_unknown = |error: &clap::Error| {
        matches!(
            error.kind(),
            ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand
        )
    };
    let mut checked = Checked::default();
    for file in files("md").into_iter().chain(files("rs")) {
        let text = read(&file);
        let quoted = text.match_indices("`satiety ").map(|(start, _)| start);
        // The command of a hint is its second argument.
        let hints = text.match_indices("with_command(").filter_map(|(start, _)| {
            let call = text[start..].split(");").next()?;
            Some(start + call.find("\"satiety ")?)
        });
        for start in quoted.chain(hints) {
            let code = text[start + 1..].split(['`', '"']).next().unwrap_or_default();
            // Lines of comments and literals continue after a break; a placeholder may stand for anything.
            let code = code.replace("///", " ").replace("//!", " ").replace('\\', " ");
            let code = code.split(['…', '{', '[', '<']).next().unwrap_or_default();
            if !code.starts_with("satiety __") {
                checked.check(&file.display(), code, is_unknown);
            }
        }
    }
    checked.finish();
}

/// Commands that were found, and messages about those that are wrong.
#[derive(Default)]
struct Checked {
    count: usize,
    wrong: Vec<String>,
}

impl Checked {
    fn check(&mut self, place: &dyn Display, line: &str, is_wrong: impl Fn(&clap::Error) -> bool) {
        for command in satiety_commands(line) {
            self.count += 1;
            if let Err(error) = Cli::try_parse_from(&command)
                && is_wrong(&error)
            {
                let message = error.to_string();
                let first = message.lines().next().unwrap_or_default();
                self.wrong.push(format!("{place}: {}\n  {first}", line.trim()));
            }
        }
    }

    fn finish(self) {
        assert!(self.count > 50, "only {} commands were found", self.count);
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
    }
}

#[test]
fn shell_lines_are_split_into_commands() {
    let check = |line: &str, expected: &[&[&str]]| {
        assert_eq!(satiety_commands(line), expected, "{line}");
    };
    check("satiety score a.json  # why", &[&["satiety", "score", "a.json"]]);
    check(
        "$ A=1 satiety ab start 'x y' > out",
        &[&["satiety", "ab", "start", "x y"]],
    );
    check(
        "satiety gate - | jq . && satiety doctor",
        &[&["satiety", "gate", "-"], &["satiety", "doctor"]],
    );
    check("claude mcp add satiety -- satiety mcp", &[&["satiety", "mcp"]]);
    check(
        "- run: satiety harness check git:${{ github.sha }} .",
        &[&["satiety", "harness", "check", "git:X", "."]],
    );
    check(
        "for i in $(seq 9); do satiety -q bench run s; done",
        &[&["satiety", "-q", "bench", "run", "s"]],
    );
    check("cd satiety", &[]);
}

fn read(path: &Path) -> String {
    fs_err::read_to_string(path).unwrap()
}

/// Files of the repository with this ending. The help of every command is among the pages.
fn files(ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")];
    while let Some(directory) = directories.pop() {
        for entry in fs_err::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default();
            if path.is_dir() {
                if !["target", ".git", "node_modules"]
                    .iter()
                    .any(|skipped| name == *skipped)
                {
                    directories.push(path);
                }
            } else if path.extension().is_some_and(|own| own == ending) && !name.eq("documented_commands.rs")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Lines of the fenced blocks that may contain commands. Of a `console` block, only the typed lines.
fn fenced_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut language = None;
    let mut is_continued = false;
    for line in text.lines().map(str::trim) {
        if let Some(fence) = line.strip_prefix("```") {
            language = match language {
                None => Some(fence),
                Some(_) => None,
            };
            is_continued = false;
            continue;
        }
        let Some(language) = language.filter(|language| SHELLS.contains(language)) else {
            continue;
        };
        if language == "console" && !line.starts_with("$ ") && !is_continued {
            continue;
        }
        let (part, continues) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match lines.last_mut() {
            Some(last) if is_continued => last.push_str(part),
            _ => lines.push(part.to_owned()),
        }
        is_continued = continues;
    }
    lines
}

/// The calls of `satiety` in a line of shell, as words.
fn satiety_commands(line: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for words in simple_commands(line) {
        let is_prefix = |word: &String| {
            word.contains('=')
                || ["$", "-", "run:", "do", "then", "if", "!", "sudo", "exec"].contains(&word.as_str())
        };
        let start = words.iter().position(|word| word == "satiety").filter(|start| {
            words[..*start].iter().all(is_prefix)
                || start.checked_sub(1).is_some_and(|before| words[before] == "--")
        });
        // `claude mcp add satiety -- satiety mcp` names a server before it starts the command.
        let start = start.or_else(|| Some(words.windows(2).position(|pair| pair == ["--", "satiety"])? + 1));
        if let Some(start) = start {
            found.push(words[start..].to_vec());
        }
    }
    found
}

/// Splits a line at pipes and separators into commands of unquoted words; drops redirections and comments.
fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let line = replace_expressions(line);
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut is_target = false;
    let mut letters = line.chars();
    loop {
        let letter = letters.next();
        match (letter, quote) {
            (Some(letter), Some(open)) if letter == open => quote = None,
            (Some(letter), Some(_)) => word.get_or_insert_default().push(letter),
            (Some(letter @ ('\'' | '"')), None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (Some(letter), None) if !letter.is_whitespace() && !"|;&()<>#".contains(letter) => {
                word.get_or_insert_default().push(letter);
            }
            (Some('#'), None) if word.is_some() => word.get_or_insert_default().push('#'),
            (end, _) => {
                if let (Some(word), Some(words)) = (word.take(), commands.last_mut())
                    && !std::mem::take(&mut is_target)
                {
                    words.push(word);
                }
                match end {
                    None | Some('#') => return commands,
                    Some('<' | '>') => is_target = true,
                    Some('|' | ';' | '&' | '(' | ')') => commands.push(Vec::new()),
                    Some(_) => {}
                }
            }
        }
    }
}

/// Replaces `${{ … }}` of a workflow file, which has spaces, with a word.
fn replace_expressions(line: &str) -> String {
    let mut text = line.to_owned();
    while let Some(start) = text.find("${{")
        && let Some(end) = text[start..].find("}}")
    {
        text.replace_range(start..start + end + 2, "X");
    }
    text
}
