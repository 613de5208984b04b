//! Fenced code blocks in the text of an agent.

/// Info string and body of the last complete fence whose info string `accept` takes. As in the parsers of
/// SWE-agent, a fence begins in the first column and ends at the next line that begins with three backticks.
pub(super) fn last_fence(text: &str, accept: fn(&str) -> bool) -> Option<(&str, &str)> {
    fences(text, accept).last()
}

/// Info strings and bodies of all complete fences whose info string `accept` takes.
pub(super) fn fences(text: &str, accept: fn(&str) -> bool) -> impl Iterator<Item = (&str, &str)> {
    let mut open: Option<(&str, usize)> = None;
    let mut offset = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let begin = offset;
        offset += line.len();
        let info = line.strip_prefix("```")?.trim();
        match open.take() {
            Some((info, from)) => {
                let body = text[from..begin].trim_matches('\n');
                (!body.trim().is_empty()).then_some((info, body))
            }
            None => {
                open = accept(info).then_some((info, offset));
                None
            }
        }
    })
}

/// Whether an info string names a shell.
pub(super) fn is_shell(info: &str) -> bool {
    matches!(
        info.to_ascii_lowercase().as_str(),
        "bash" | "sh" | "shell" | "zsh" | "console" | "mswea_bash_command"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_accepted_fence_counts() {
        let text = "see\n```python\nx = 1\n```\nrun\n```bash\nls\n  ```\nend\n```\n```\nopen";
        assert_eq!(last_fence(text, is_shell), Some(("bash", "ls\n  ```\nend")));
        assert_eq!(fences(text, |_| true).count(), 2);
        assert_eq!(last_fence("no fence", |_| true), None);
        assert_eq!(last_fence("```\n\n```", |_| true), None);
    }
}
