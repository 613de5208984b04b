//! What a call does: reading, searching, editing, running, waiting, planning, asking or finishing. The names
//! are in `data/tools.toml`.

use std::sync::LazyLock;

use rustc_hash::FxHashSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::shell::{self, Command};
use super::step::{Call, Edit, PlanItem};

/// What a tool call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// Reads a file, a page or a state without changing it.
    Read,
    /// Searches for something.
    Search,
    /// Changes files or other state in a way that the arguments show.
    Edit,
    /// Waits or polls.
    Wait,
    /// Records a plan or a thought.
    Plan,
    /// Asks a person.
    Ask,
    /// Ends the run.
    Finish,
    /// Runs a program or an unknown tool; it may change state.
    Run,
}

/// Classification of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct CallClass {
    /// What the call does.
    pub kind: CallKind,
    /// Whether the call waits before or while it does its work, as `sleep 30 && status` does.
    pub waits: bool,
    /// Changes of files that its arguments show.
    pub edits: Vec<Edit>,
    /// The plan that it records, if it is a complete one.
    pub plan: Option<Vec<PlanItem>>,
}

/// Determines what a call does from its tool and arguments.
pub fn classify(call: &Call) -> CallClass {
    let names = &*NAMES;
    let tool = canonical_name(&call.tool);
    let plan = plan_of(&call.arguments);
    let mut edits = Vec::new();
    let has_command = call.command().is_some();
    let kind = if plan.is_some() || names.tools.plan.contains(&tool) {
        CallKind::Plan
    } else if names.tools.edit.contains(&tool) && !is_viewing(&call.arguments) {
        edits = edits_of(&call.arguments);
        CallKind::Edit
    } else if names.tools.edit.contains(&tool) {
        CallKind::Read
    } else if has_command && (names.tools.shell.contains(&tool) || tool.is_empty()) {
        of_command_line(call.command().unwrap_or_default(), &mut edits)
    } else if names.tools.finish.contains(&tool) {
        CallKind::Finish
    } else if names.tools.ask.contains(&tool) {
        CallKind::Ask
    } else if names.tools.wait.contains(&tool) {
        CallKind::Wait
    } else if names.tools.search.contains(&tool) {
        CallKind::Search
    } else if names.tools.read.contains(&tool) {
        CallKind::Read
    } else {
        by_prefix(&call.tool)
    };
    let waits = kind == CallKind::Wait || call.command().is_some_and(|line| line.contains("sleep "));
    CallClass {
        kind,
        waits,
        edits,
        plan,
    }
}

/// An unknown tool by the verb that its name begins with: `get_user_details` reads, `update_order` edits.
fn by_prefix(tool: &str) -> CallKind {
    let name = tool.rsplit("__").next().unwrap_or(tool);
    let verb: String = name
        .chars()
        .enumerate()
        .take_while(|(index, character)| {
            character.is_alphabetic() && (*index == 0 || !character.is_uppercase())
        })
        .map(|(_, character)| character)
        .collect();
    match verb.to_lowercase().as_str() {
        "get" | "read" | "list" | "show" | "view" | "fetch" | "describe" | "check" | "status" | "load"
        | "open" => CallKind::Read,
        "search" | "find" | "query" | "lookup" | "grep" | "retrieve" => CallKind::Search,
        "set" | "update" | "create" | "delete" | "remove" | "write" | "edit" | "insert" | "add"
        | "modify" | "cancel" | "book" | "send" | "post" | "put" | "patch" | "replace" | "apply" => {
            CallKind::Edit
        }
        "wait" | "sleep" | "poll" => CallKind::Wait,
        "ask" => CallKind::Ask,
        "submit" | "finish" => CallKind::Finish,
        _ => CallKind::Run,
    }
}

/// The most consequential kind among the simple commands of a line: editing, finishing, running, waiting,
/// searching, reading.
fn of_command_line(line: &str, edits: &mut Vec<Edit>) -> CallKind {
    let names = &*NAMES;
    // SWE-agent's `edit 3:5` takes the lines that follow as text, not as commands.
    let first = line.trim_start().lines().next().unwrap_or_default();
    let mut words = first.split_whitespace();
    if let (Some("edit" | "insert" | "append"), Some(range)) = (words.next(), words.next())
        && range.starts_with(|character: char| character.is_ascii_digit() || character == '"')
    {
        let removed = range
            .split_once(':')
            .and_then(|(begin, end)| Some(end.parse::<u32>().ok()?.checked_sub(begin.parse().ok()?)? + 1))
            .unwrap_or(0);
        let added = count_lines(line).saturating_sub(1);
        edits.push(Edit {
            path: String::new(),
            added,
            removed,
        });
        return CallKind::Edit;
    }
    let mut kind = None;
    for command in shell::commands(line) {
        let found = of_command(&command, names, edits);
        if found == Some(CallKind::Finish) {
            return CallKind::Finish;
        }
        kind = match (kind, found) {
            (Some(CallKind::Edit), _) | (_, Some(CallKind::Edit)) => Some(CallKind::Edit),
            (Some(CallKind::Run), _) | (_, Some(CallKind::Run)) => Some(CallKind::Run),
            (Some(CallKind::Wait), _) | (_, Some(CallKind::Wait)) => Some(CallKind::Wait),
            (Some(CallKind::Search), _) | (_, Some(CallKind::Search)) => Some(CallKind::Search),
            (earlier, found) => earlier.or(found),
        };
    }
    kind.unwrap_or(CallKind::Run)
}

/// The kind of one simple command; `None` for those without an effect of interest, such as `cd`.
fn of_command(command: &Command<'_>, names: &Names, edits: &mut Vec<Edit>) -> Option<CallKind> {
    for path in &command.writes {
        edits.push(Edit {
            path: (*path).to_owned(),
            added: command.here_lines,
            removed: 0,
        });
    }
    let mut words = command.words.iter().copied().skip_while(|word| {
        is_assignment(word) || names.commands.prefixes.contains(*word) || is_duration(word)
    });
    let Some(verb) = words.next() else {
        return (!command.writes.is_empty()).then_some(CallKind::Edit);
    };
    let verb = verb.rsplit('/').next().unwrap_or(verb);
    let arguments: Vec<&str> = words.collect();
    if verb == "echo"
        && arguments
            .iter()
            .any(|word| names.commands.finish_markers.contains(*word))
    {
        return Some(CallKind::Finish);
    }
    if !command.writes.is_empty() {
        return Some(CallKind::Edit);
    }
    match verb {
        "cd" | "export" | "set" | "source" | "." | "true" | ":" | "pushd" | "popd" => None,
        "sed" | "perl"
            if arguments
                .iter()
                .any(|word| word.starts_with("-i") || word.starts_with("-pi")) =>
        {
            let path = arguments.last().copied().unwrap_or_default();
            edits.push(Edit {
                path: path.to_owned(),
                added: 1,
                removed: 1,
            });
            Some(CallKind::Edit)
        }
        "git" => {
            let sub = arguments
                .iter()
                .find(|word| !word.starts_with('-'))
                .copied()
                .unwrap_or_default();
            Some(if names.git.read.contains(sub) {
                CallKind::Read
            } else {
                CallKind::Edit
            })
        }
        "find"
            if arguments
                .iter()
                .any(|word| matches!(*word, "-delete" | "-exec" | "-execdir")) =>
        {
            Some(CallKind::Run)
        }
        _ if names.commands.finish.contains(verb) && arguments.is_empty() => Some(CallKind::Finish),
        _ if names.commands.edit.contains(verb) => {
            if let Some(path) = arguments.iter().rev().find(|word| !word.starts_with('-')) {
                edits.push(Edit {
                    path: (*path).to_owned(),
                    added: command.here_lines,
                    removed: 0,
                });
            }
            Some(CallKind::Edit)
        }
        _ if names.commands.search.contains(verb) => Some(CallKind::Search),
        _ if names.commands.wait.contains(verb) => Some(CallKind::Wait),
        _ if names.commands.read.contains(verb) => Some(CallKind::Read),
        _ => Some(CallKind::Run),
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

fn is_duration(word: &str) -> bool {
    word.trim_end_matches(['s', 'm', 'h']).parse::<f64>().is_ok()
}

/// Whether an editor tool is used for reading (`{"command": "view"}`).
fn is_viewing(arguments: &Value) -> bool {
    arguments.get("command").and_then(Value::as_str) == Some("view")
}

/// Edits that the arguments of an editor tool describe.
fn edits_of(arguments: &Value) -> Vec<Edit> {
    if let Some(patch) = patch_text(arguments) {
        return edits_of_patch(patch);
    }
    let path = [
        "path",
        "file_path",
        "filename",
        "file",
        "target_file",
        "absolute_path",
        "notebook_path",
        "relative_path",
    ]
    .iter()
    .find_map(|key| arguments.get(key)?.as_str())
    .unwrap_or_default();
    let lines_of = |value: &Value, keys: &[&str]| -> u32 {
        keys.iter()
            .filter_map(|key| value.get(key)?.as_str())
            .map(count_lines)
            .fold(0, u32::saturating_add)
    };
    let added_keys = [
        "new_str",
        "new_string",
        "content",
        "file_text",
        "insert_text",
        "contents",
        "code_edit",
        "text",
        "replace",
    ];
    let removed_keys = ["old_str", "old_string", "search"];
    let parts = arguments.get("edits").and_then(Value::as_array);
    let (mut added, mut removed) = (
        lines_of(arguments, &added_keys),
        lines_of(arguments, &removed_keys),
    );
    for part in parts.into_iter().flatten() {
        added = added.saturating_add(lines_of(part, &added_keys));
        removed = removed.saturating_add(lines_of(part, &removed_keys));
    }
    vec![Edit {
        path: path.to_owned(),
        added,
        removed,
    }]
}

fn patch_text(arguments: &Value) -> Option<&str> {
    let text = match arguments {
        Value::String(text) => Some(text.as_str()),
        _ => ["patch", "input", "diff"]
            .iter()
            .find_map(|key| arguments.get(key)?.as_str()),
    }?;
    let is_patch = text.contains("*** Begin Patch")
        || text.contains("\n@@")
        || text.starts_with("--- ")
        || text.starts_with("diff ");
    is_patch.then_some(text)
}

/// Files and line counts of a unified diff or of Codex' patch format.
fn edits_of_patch(patch: &str) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    for line in patch.lines() {
        let file = ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "+++ "]
            .iter()
            .find_map(|prefix| line.strip_prefix(prefix));
        if let Some(file) = file {
            let path = file.trim();
            let path = path.strip_prefix("b/").unwrap_or(path);
            edits.push(Edit {
                path: path.to_owned(),
                added: 0,
                removed: 0,
            });
        } else if let Some(edit) = edits.last_mut() {
            match line.as_bytes().first() {
                Some(b'+') => edit.added = edit.added.saturating_add(1),
                Some(b'-') if !line.starts_with("--- ") => edit.removed = edit.removed.saturating_add(1),
                _ => {}
            }
        }
    }
    edits
}

/// The items of a plan: a list of objects in `todos`, `plan` or `task_list`, each with a text and a status.
fn plan_of(arguments: &Value) -> Option<Vec<PlanItem>> {
    let list = ["todos", "plan", "task_list"]
        .iter()
        .find_map(|key| arguments.get(key)?.as_array())?;
    let items: Vec<PlanItem> = list
        .iter()
        .filter_map(|item| {
            let text = ["content", "step", "text", "title", "task", "description"]
                .iter()
                .find_map(|key| item.get(key)?.as_str())?;
            let status = item.get("status").and_then(Value::as_str).unwrap_or_default();
            Some(PlanItem {
                text: text.to_owned(),
                done: matches!(status, "completed" | "done" | "cancelled" | "complete"),
            })
        })
        .collect();
    (!items.is_empty()).then_some(items)
}

fn count_lines(text: &str) -> u32 {
    u32::try_from(text.lines().count()).unwrap_or(u32::MAX)
}

/// A tool's name in lower case, without separators and without a server prefix.
pub(super) fn canonical_name(tool: &str) -> String {
    let name = tool.rsplit("__").next().unwrap_or(tool);
    name.chars()
        .filter(|character| !matches!(character, '_' | '-' | '.' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

#[derive(Deserialize)]
struct Names {
    tools: ToolNames,
    commands: CommandNames,
    git: GitNames,
}

#[derive(Deserialize)]
struct ToolNames {
    shell: FxHashSet<String>,
    read: FxHashSet<String>,
    search: FxHashSet<String>,
    edit: FxHashSet<String>,
    plan: FxHashSet<String>,
    ask: FxHashSet<String>,
    wait: FxHashSet<String>,
    finish: FxHashSet<String>,
}

#[derive(Deserialize)]
struct CommandNames {
    read: FxHashSet<String>,
    search: FxHashSet<String>,
    edit: FxHashSet<String>,
    wait: FxHashSet<String>,
    finish: FxHashSet<String>,
    prefixes: FxHashSet<String>,
    finish_markers: FxHashSet<String>,
}

#[derive(Deserialize)]
struct GitNames {
    read: FxHashSet<String>,
}

#[expect(clippy::expect_used, reason = "the file is compiled in, and a test parses it")]
static NAMES: LazyLock<Names> =
    LazyLock::new(|| toml::from_str(include_str!("data/tools.toml")).expect("data/tools.toml is valid"));

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(tool: &str, arguments: Value) -> CallKind {
        classify(&Call::new(tool, arguments)).kind
    }

    #[test]
    fn command_lines_are_what_they_do() {
        let bash = |line: &str| kind("bash", json!({ "command": line }));
        assert_eq!(bash("cd /repo && ls -la"), CallKind::Read);
        assert_eq!(bash("grep -rn foo . | head"), CallKind::Search);
        assert_eq!(bash("sed -n '1,20p' a.py"), CallKind::Read);
        assert_eq!(bash("sed -i 's/a/b/' a.py && python -m pytest"), CallKind::Edit);
        assert_eq!(bash("cat <<'EOF' > a.py\nprint(1)\nEOF"), CallKind::Edit);
        assert_eq!(bash("timeout 60 python -m pytest tests"), CallKind::Run);
        assert_eq!(bash("PYTHONPATH=. python x.py 2>&1"), CallKind::Run);
        assert_eq!(bash("sleep 30"), CallKind::Wait);
        assert_eq!(bash("git diff"), CallKind::Read);
        assert_eq!(bash("git checkout -- a.py"), CallKind::Edit);
        assert_eq!(bash("submit"), CallKind::Finish);
        assert_eq!(bash("edit 3:5\nimport os; submit\nend_of_edit"), CallKind::Edit);
        assert_eq!(
            bash("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A"),
            CallKind::Finish
        );
    }

    #[test]
    fn tools_are_known_by_name_whatever_the_spelling() {
        assert_eq!(kind("mcp__fs__read_file", json!({"path": "a"})), CallKind::Read);
        assert_eq!(kind("Grep", json!({"pattern": "a"})), CallKind::Search);
        assert_eq!(
            kind("str_replace_editor", json!({"command": "view", "path": "a"})),
            CallKind::Read
        );
        assert_eq!(kind("get_user_details", json!({"user_id": "a"})), CallKind::Read);
        assert_eq!(kind("updateReservation", json!({"id": "a"})), CallKind::Edit);
        assert_eq!(kind("", json!("ls")), CallKind::Read);
    }

    #[test]
    fn edits_have_path_and_size() {
        let call = Call::new(
            "str_replace_editor",
            json!({"command": "str_replace", "path": "a.py", "old_str": "x", "new_str": "y\nz"}),
        );
        assert_eq!(
            classify(&call).edits,
            [Edit {
                path: "a.py".into(),
                added: 2,
                removed: 1
            }]
        );
        let patch = "*** Begin Patch\n*** Update File: b.rs\n@@\n-old\n+new\n+more\n*** End Patch";
        assert_eq!(
            classify(&Call::new("apply_patch", json!({ "input": patch }))).edits,
            [Edit {
                path: "b.rs".into(),
                added: 2,
                removed: 1
            }]
        );
        assert_eq!(
            classify(&Call::new("bash", json!("cat <<EOF > a\n1\n2\nEOF"))).edits,
            [Edit {
                path: "a".into(),
                added: 2,
                removed: 0
            }]
        );
    }

    #[test]
    fn plans_are_read_from_arguments() {
        let class = classify(&Call::new(
            "TodoWrite",
            json!({"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}]}),
        ));
        assert_eq!(class.kind, CallKind::Plan);
        let plan = class.plan.unwrap();
        assert!(plan[0].done && !plan[1].done);
    }
}
