//! Reads command lines as far as needed to tell reading, searching, editing, waiting and finishing apart.
//! It does not parse shell syntax in full: quotes, here-documents and operators are recognized, expansions are not.

/// One simple command of a command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Command<'a> {
    /// The words of the command, without quotes around them; redirections removed.
    pub(super) words: Vec<&'a str>,
    /// Files that output is redirected to, except `/dev/null` and descriptors.
    pub(super) writes: Vec<&'a str>,
    /// Number of lines in here-documents.
    pub(super) here_lines: u32,
}

/// Splits a command line into its simple commands, at most [`MAX_COMMANDS`].
pub(super) fn commands(line: &str) -> Vec<Command<'_>> {
    let mut found = Vec::new();
    let mut current = Command::default();
    let mut here_ends: Vec<&str> = Vec::new();
    let mut rest = line;
    let mut redirect = None;
    while let Some(token) = next_token(&mut rest) {
        if found.len() >= MAX_COMMANDS {
            break;
        }
        match token {
            Token::Newline if !here_ends.is_empty() => {
                let end = here_ends.remove(0);
                current.here_lines = current.here_lines.saturating_add(skip_here(&mut rest, end));
                if here_ends.is_empty() {
                    push(&mut found, &mut current);
                }
            }
            Token::Newline | Token::Separator => push(&mut found, &mut current),
            Token::Skipped => {}
            Token::Here(end) => here_ends.push(end),
            Token::Redirect(kind) => redirect = Some(kind),
            Token::Word(word) => match redirect.take() {
                Some(Redirect::Output) => {
                    if word != "/dev/null" {
                        current.writes.push(word);
                    }
                }
                Some(Redirect::Input) => {}
                None => current.words.push(word),
            },
        }
    }
    push(&mut found, &mut current);
    found
}

/// Number of simple commands that are looked at; longer scripts are judged by their beginning.
pub(super) const MAX_COMMANDS: usize = 32;

fn push<'a>(found: &mut Vec<Command<'a>>, current: &mut Command<'a>) {
    let command = std::mem::take(current);
    if !command.words.is_empty() || !command.writes.is_empty() {
        found.push(command);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redirect {
    Output,
    Input,
}

#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Separator,
    Newline,
    Redirect(Redirect),
    Here(&'a str),
    Skipped,
}

fn next_token<'a>(rest: &mut &'a str) -> Option<Token<'a>> {
    loop {
        match token_or_skip(rest)? {
            Token::Skipped => {}
            token => return Some(token),
        }
    }
}

/// Takes the next token, or skips a comment or a descriptor.
fn token_or_skip<'a>(rest: &mut &'a str) -> Option<Token<'a>> {
    *rest = rest.trim_start_matches([' ', '\t', '\r']);
    let text = *rest;
    let first = text.chars().next()?;
    let (token, used) = match first {
        '\n' => (Token::Newline, 1),
        ';' | '|' | '&' | '(' | ')' => {
            if text.starts_with("&>") {
                (Token::Redirect(Redirect::Output), 2)
            } else {
                let used = text.len() - text.trim_start_matches([';', '|', '&', '(', ')']).len();
                (Token::Separator, used)
            }
        }
        '<' => {
            if let Some(after) = text.strip_prefix("<<").filter(|after| !after.starts_with('<')) {
                let after = after.trim_start_matches('-').trim_start_matches([' ', '\t']);
                let mut tail = after;
                let end = word(&mut tail);
                (Token::Here(end), text.len() - tail.len())
            } else {
                let used = text.len() - text.trim_start_matches('<').len();
                (Token::Redirect(Redirect::Input), used)
            }
        }
        '>' => {
            let after = text.trim_start_matches(['>', '|']);
            // `>&2` copies a descriptor and writes no file.
            if let Some(descriptor) = after.strip_prefix('&') {
                let tail = descriptor
                    .trim_start_matches(|character: char| character.is_ascii_digit() || character == '-');
                if tail.len() < descriptor.len() {
                    *rest = tail;
                    return Some(Token::Skipped);
                }
            }
            (Token::Redirect(Redirect::Output), text.len() - after.len())
        }
        '#' => {
            let used = text.find('\n').unwrap_or(text.len());
            *rest = &text[used..];
            return Some(Token::Skipped);
        }
        _ => {
            let mut tail = text;
            let word = word(&mut tail);
            // A descriptor before a redirection (`2>`) is part of it.
            if tail.starts_with('>') && word.len() == 1 && word.as_bytes()[0].is_ascii_digit() {
                *rest = tail;
                return Some(Token::Skipped);
            }
            (Token::Word(word), text.len() - tail.len())
        }
    };
    *rest = &text[used..];
    Some(token)
}

/// Takes one word and removes a pair of quotes around the whole word.
fn word<'a>(rest: &mut &'a str) -> &'a str {
    let text = *rest;
    let mut quote = None;
    let mut escaped = false;
    let mut end = text.len();
    for (index, character) in text.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, character) {
            (None | Some('"'), '\\') => escaped = true,
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), close) if open == close => quote = None,
            (None, ' ' | '\t' | '\r' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')') => {
                end = index;
                break;
            }
            _ => {}
        }
    }
    *rest = &text[end..];
    let word = &text[..end];
    for quote in ['\'', '"'] {
        if let Some(inner) = word
            .strip_prefix(quote)
            .and_then(|inner| inner.strip_suffix(quote))
            .filter(|inner| !inner.contains(quote))
        {
            return inner;
        }
    }
    word
}

/// Skips a here-document up to its end word and returns the number of its lines.
fn skip_here(rest: &mut &str, end: &str) -> u32 {
    let mut count = 0_u32;
    while !rest.is_empty() {
        let (line, tail) = rest.split_once('\n').unwrap_or((rest, ""));
        *rest = tail;
        if line.trim() == end {
            break;
        }
        count = count.saturating_add(1);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<&str>> {
        commands(line).into_iter().map(|command| command.words).collect()
    }

    #[test]
    fn operators_quotes_and_comments() {
        assert_eq!(
            words("cd src && grep -n 'a b' x.py | head -5; # a comment\nls"),
            [
                vec!["cd", "src"],
                vec!["grep", "-n", "a b", "x.py"],
                vec!["head", "-5"],
                vec!["ls"]
            ]
        );
    }

    #[test]
    fn redirections_name_the_files_that_are_written() {
        let found = commands("python x.py > out.txt 2>&1; make >/dev/null; cmd &> all.log");
        assert_eq!(found[0].writes, ["out.txt"]);
        assert_eq!(found[0].words, ["python", "x.py"]);
        assert!(found[1].writes.is_empty());
        assert_eq!(found[2].writes, ["all.log"]);
    }

    #[test]
    fn a_here_document_is_content_and_not_commands() {
        let found = commands("cat <<'EOF' > a.py\nimport os; rm -rf\nprint(1)\nEOF\npython a.py");
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].writes, ["a.py"]);
        assert_eq!(found[0].here_lines, 2);
        assert_eq!(found[1].words, ["python", "a.py"]);
    }

    #[test]
    fn odd_input_ends() {
        for line in [
            "", "'", "<<", "<<EOF", ">", "2>", "&&", "\\", "a'b", "(((", "é>ü", "&1",
        ] {
            let _ = commands(line);
        }
    }
}
