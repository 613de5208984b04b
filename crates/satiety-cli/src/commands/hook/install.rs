//! `satiety hook install` and `uninstall`: add our hooks to the settings of an agent and remove them.
//!
//! The files belong to the user. Hooks are inserted as text, and the inserted texts are recorded in the state
//! directory, so that removing them restores the file byte for byte, whatever else was changed in it. If one of
//! the texts was changed, our entries are found by their command instead.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use satiety_engine::agent_hooks::{EventKind, Host, name_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::event::state_directory;
use super::json_edit::{Insertion, Layout, Node, NodeValue, apply, parse, remove_child};
use crate::args::HookTarget;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::trust::{make_private_directory, printable_path};

/// Time limit that hosts are given, in seconds. Our own limit is much shorter.
const TIMEOUT_SECONDS: u64 = 10;
/// Maximum size of a settings file in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Events that are installed, in the order of a session. Codex and Gemini get those that all their recent
/// versions know, because an unknown one might make them refuse the whole file.
const EVENTS: [EventKind; 9] = [
    EventKind::SessionStarted,
    EventKind::PromptSubmitted,
    EventKind::ToolFinished,
    EventKind::ToolFailed,
    EventKind::CompactionStarting,
    EventKind::CompactionFinished,
    EventKind::SubagentStopping,
    EventKind::Stopping,
    EventKind::SessionEnded,
];

fn is_installed(host: Host, kind: EventKind) -> bool {
    match host {
        Host::Claude | Host::Gemini => true,
        Host::Codex => !matches!(kind, EventKind::SubagentStopping | EventKind::SessionEnded),
        Host::Copilot => !matches!(
            kind,
            EventKind::SubagentStopping | EventKind::CompactionStarting | EventKind::CompactionFinished
        ),
    }
}

/// What was changed in the settings of agents.
#[derive(Debug, Serialize, JsonSchema)]
pub(in crate::commands) struct HookChanges {
    /// Whether the files were left unchanged (`--dry-run`).
    dry_run: bool,
    /// One entry per agent.
    files: Vec<HookFileChange>,
}

/// Change of one settings file.
#[derive(Debug, Serialize, JsonSchema)]
struct HookFileChange {
    /// Agent that the settings belong to.
    host: Host,
    /// Path of the settings file.
    path: PathBuf,
    /// What happened: `installed`, `removed` or `unchanged`.
    change: &'static str,
    /// Changed lines, with `+` and `-` in front.
    diff: String,
}

/// What was inserted into a settings file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    path: PathBuf,
    /// Inserted texts, each of which occurs once.
    inserted: Vec<String>,
    /// Whether the file did not exist before.
    created_file: bool,
    /// Directories that did not exist before, the outermost first.
    created_directories: Vec<PathBuf>,
}

/// A settings file with the change that is planned for it.
struct Plan {
    host: Host,
    path: PathBuf,
    /// Content before; `None` if the file does not exist.
    old: Option<String>,
    /// Content after; `None` to delete the file.
    new: Option<String>,
    record: Option<Record>,
}

pub(super) fn run(
    target: &HookTarget,
    dry_run: bool,
    install: bool,
    printer: &Printer,
) -> Result<(), Failure> {
    let mut plans = Vec::new();
    for host in &target.hosts {
        let host = Host::from(*host);
        let path = settings_path(host, target.project)?;
        let plan = if install {
            plan_install(host, path, target.project)
        } else {
            plan_uninstall(host, path)
        };
        plans.push(plan?);
    }
    let mut files = Vec::new();
    for plan in plans {
        let change = match (plan.old == plan.new, install) {
            (true, _) => "unchanged",
            (false, true) => "installed",
            (false, false) => "removed",
        };
        files.push(HookFileChange {
            host: plan.host,
            path: plan.path.clone(),
            change,
            diff: diff(
                plan.old.as_deref().unwrap_or(""),
                plan.new.as_deref().unwrap_or(""),
            ),
        });
        if !dry_run {
            carry_out(plan)?;
        }
    }
    printer.answer(&HookChanges { dry_run, files })
}

/// Settings file of a host, with symbolic links resolved.
fn settings_path(host: Host, project: bool) -> Result<PathBuf, Failure> {
    let path = if project {
        let here = std::env::current_dir().map_err(|error| {
            Failure::environment(format!("cannot find the working directory: {error}"), None)
        })?;
        let file = match host {
            Host::Claude => ".claude/settings.json",
            Host::Codex => ".codex/hooks.json",
            Host::Gemini => ".gemini/settings.json",
            Host::Copilot => ".github/hooks/satiety.json",
        };
        crate::project::root_of(&here).join(file)
    } else {
        let (variable, directory, file) = match host {
            Host::Claude => (Some("CLAUDE_CONFIG_DIR"), ".claude", "settings.json"),
            Host::Codex => (Some("CODEX_HOME"), ".codex", "hooks.json"),
            Host::Gemini => (None, ".gemini", "settings.json"),
            Host::Copilot => (Some("COPILOT_HOME"), ".copilot", "hooks/satiety.json"),
        };
        let set = variable
            .and_then(std::env::var_os)
            .filter(|value| !value.is_empty());
        let directory = match set {
            Some(set) => PathBuf::from(set),
            None => etcetera::choose_base_strategy()
                .map_err(|_| {
                    Failure::environment("cannot find your home directory", Some("set HOME".into()))
                })?
                .home_dir()
                .join(directory),
        };
        directory.join(file)
    };
    Ok(fs_err::canonicalize(&path).unwrap_or(path))
}

fn plan_install(host: Host, path: PathBuf, project: bool) -> Result<Plan, Failure> {
    let refuse = |problem: String| {
        Failure::bad_input(
            format!("cannot add hooks to {}: {problem}", printable_path(&path)),
            "correct the file, then run the command again",
        )
    };
    let program = program(project);
    let wanted: Vec<(&'static str, HookEntry)> = EVENTS
        .into_iter()
        .filter(|kind| is_installed(host, *kind))
        .filter_map(|kind| name_of(host, kind))
        .map(|name| (name, HookEntry::new(host, &program, name)))
        .collect();
    let old = read(&path)?;
    let text = old.clone().unwrap_or_default();
    if !is_blank(&text) {
        let root = parse(&text).map_err(refuse)?;
        let mut installed = own_commands(&root);
        installed.sort_unstable();
        let mut commands: Vec<(&str, &str)> = wanted
            .iter()
            .map(|(name, entry)| (*name, entry.command()))
            .collect();
        commands.sort_unstable();
        if installed == commands {
            return Ok(Plan {
                host,
                path,
                new: old.clone(),
                old,
                record: None,
            });
        }
    }
    let known = Record::load(&path);
    // Entries of another version are replaced.
    let base = remove_entries(&text, known.as_ref()).map_err(refuse)?;
    let insertions = insertions(host, &base, &wanted).map_err(refuse)?;
    let new = apply(&base, &insertions);
    let record = Record {
        created_file: old.is_none() || known.as_ref().is_some_and(|known| known.created_file),
        created_directories: match known {
            Some(known) => known.created_directories,
            None => missing_directories(&path),
        },
        path: path.clone(),
        inserted: insertions.into_iter().map(|insertion| insertion.text).collect(),
    };
    Ok(Plan {
        host,
        path,
        old,
        new: Some(new),
        record: Some(record),
    })
}

fn plan_uninstall(host: Host, path: PathBuf) -> Result<Plan, Failure> {
    let old = read(&path)?;
    let record = Record::load(&path);
    let new = match &old {
        None => None,
        Some(text) => {
            let new = remove_entries(text, record.as_ref()).map_err(|problem| {
                Failure::bad_input(
                    format!("cannot remove hooks from {}: {problem}", printable_path(&path)),
                    "correct the file, then run the command again",
                )
            })?;
            // The file for Copilot has our name; without a record, it is taken for ours.
            let is_ours = record
                .as_ref()
                .map_or(host == Host::Copilot, |record| record.created_file);
            let is_left = !(is_blank(&new) || parse(&new).is_ok_and(|root| is_hollow(&root)));
            (is_left || !is_ours || new == *text).then_some(new)
        }
    };
    Ok(Plan {
        host,
        path,
        old,
        new,
        record,
    })
}

/// Whether a file that we created has nothing left in it.
fn is_hollow(root: &Node) -> bool {
    let is_own = |key: &str| matches!(key, "version" | "hooks");
    root.members()
        .iter()
        .all(|member| is_own(&member.key) && member.value.members().is_empty())
        && matches!(root.value, NodeValue::Object(_))
}

fn is_blank(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim().is_empty()
}

/// Insertions of our entries into a settings text without them.
fn insertions(
    host: Host,
    text: &str,
    wanted: &[(&'static str, HookEntry)],
) -> Result<Vec<Insertion>, String> {
    let layout = Layout::detect(text);
    let group = |entry: &HookEntry| match host {
        Host::Copilot => HookGroup::Entry(entry.clone()),
        _ => HookGroup::Group {
            hooks: vec![entry.clone()],
        },
    };
    let members: Vec<(Option<&str>, Vec<HookGroup>)> = wanted
        .iter()
        .map(|(name, entry)| (Some(*name), vec![group(entry)]))
        .collect();
    if is_blank(text) {
        let at = text.len() - text.trim_start_matches('\u{feff}').len();
        let document = SettingsDocument {
            version: (host == Host::Copilot).then_some(1),
            hooks: HookMap(members),
        };
        let text = layout.document(&document);
        return Ok(vec![Insertion { at, text }]);
    }
    let root = parse(text)?;
    if !matches!(root.value, NodeValue::Object(_)) {
        return Err("it is not a JSON object".into());
    }
    let Some(hooks) = root.member("hooks") else {
        return Ok(vec![layout.append(
            text,
            &root,
            &[(Some("hooks"), HookMap(members))],
        )]);
    };
    if !matches!(hooks.value.value, NodeValue::Object(_)) {
        return Err("`hooks` is not an object".into());
    }
    let mut insertions = Vec::new();
    let mut missing = Vec::new();
    for (name, groups) in members {
        let Some(event) = name.and_then(|name| hooks.value.member(name)) else {
            missing.push((name, groups));
            continue;
        };
        if !matches!(event.value.value, NodeValue::Array(_)) {
            return Err(format!("`hooks.{}` is not a list", event.key));
        }
        let groups: Vec<(Option<&str>, HookGroup)> = groups.into_iter().map(|group| (None, group)).collect();
        insertions.push(layout.append(text, &event.value, &groups));
    }
    if !missing.is_empty() {
        insertions.push(layout.append(text, &hooks.value, &missing));
    }
    Ok(insertions)
}

/// Removes our entries: the recorded texts if they are all unchanged, else the entries with our command.
fn remove_entries(text: &str, record: Option<&Record>) -> Result<String, String> {
    if let Some(record) = record.filter(|record| !record.inserted.is_empty()) {
        let mut rest = text.to_owned();
        let all_found = record.inserted.iter().all(|inserted| {
            let found = rest.matches(inserted.as_str()).count() == 1;
            if found {
                rest = rest.replacen(inserted.as_str(), "", 1);
            }
            found
        });
        let is_valid = is_blank(&rest) || parse(&rest).is_ok_and(|root| own_commands(&root).is_empty());
        if all_found && is_valid {
            return Ok(rest);
        }
    }
    let mut text = text.to_owned();
    while !is_blank(&text) {
        let root = parse(&text)?;
        let Some((children, index)) = own_entry(&root) else {
            break;
        };
        text = remove_child(&text, &children, index);
    }
    Ok(text)
}

/// Our commands with their events.
fn own_commands(root: &Node) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for event in root
        .member("hooks")
        .map_or(&[][..], |hooks| hooks.value.members())
    {
        for group in event.value.elements() {
            let inner = group
                .member("hooks")
                .map_or(&[][..], |hooks| hooks.value.elements());
            let commands = std::iter::once(group).chain(inner).filter_map(own_command);
            found.extend(commands.map(|command| (event.key.as_str(), command)));
        }
    }
    found
}

/// Command of an entry, if it is ours.
fn own_command(entry: &Node) -> Option<&str> {
    let command = entry.text("command").or_else(|| entry.text("bash"))?;
    let is_own = command.contains("satiety") && command.contains(" hook ") && command.contains(" --for ");
    is_own.then_some(command)
}

/// The next thing to remove: an entry of ours, or the outermost container that holds nothing else. Returns the
/// places of it and its siblings, and its index among them.
fn own_entry(root: &Node) -> Option<(Vec<(usize, usize)>, usize)> {
    let hooks_index = root.members().iter().rposition(|member| member.key == "hooks")?;
    let hooks = &root.members()[hooks_index].value;
    for (event_index, event) in hooks.members().iter().enumerate() {
        for (group_index, group) in event.value.elements().iter().enumerate() {
            let inner = group.member("hooks").map(|member| &member.value);
            let entries = inner.map_or(&[][..], Node::elements);
            let entry_index = entries.iter().position(|entry| own_command(entry).is_some());
            if entry_index.is_none() && own_command(group).is_none() {
                continue;
            }
            if let (Some(inner), Some(entry_index)) = (inner, entry_index)
                && entries.len() > 1
            {
                return Some((inner.children(), entry_index));
            }
            if event.value.elements().len() > 1 {
                return Some((event.value.children(), group_index));
            }
            if hooks.members().len() > 1 {
                return Some((hooks.children(), event_index));
            }
            return Some((root.children(), hooks_index));
        }
    }
    None
}

/// The program in commands of hooks: its name if that finds this program, else its path. Settings of a project
/// are shared between machines, so they have the name.
fn program(project: bool) -> String {
    let name = "satiety";
    let Some(own) = std::env::current_exe()
        .ok()
        .and_then(|path| fs_err::canonicalize(path).ok())
    else {
        return name.into();
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
        .and_then(|found| fs_err::canonicalize(found).ok());
    match own.to_str() {
        Some(own_path) if !project && on_path.as_ref() != Some(&own) => quote(own_path),
        _ => name.into(),
    }
}

/// Quotes a path for a shell, if it needs that.
fn quote(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte);
    if path.bytes().all(is_plain) {
        path.to_owned()
    } else if cfg!(windows) {
        format!("\"{path}\"")
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

/// An entry of a hook in the fields of its host.
#[derive(Debug, Clone, Serialize)]
struct HookEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    powershell: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    #[serde(rename = "timeoutSec", skip_serializing_if = "Option::is_none")]
    timeout_sec: Option<u64>,
}

impl HookEntry {
    fn new(host: Host, program: &str, event: &str) -> Self {
        let call = format!("{program} hook {event} --for {}", host.name());
        // A machine without this program, or one that is stopped by a signal, must not disturb the agent.
        let guarded = format!("{call} 2>/dev/null || true");
        let command = if cfg!(windows) {
            call.clone()
        } else {
            guarded.clone()
        };
        let is_copilot = host == Host::Copilot;
        Self {
            name: (host == Host::Gemini).then_some("satiety"),
            r#type: "command",
            command: (!is_copilot).then_some(command),
            bash: is_copilot.then_some(guarded),
            powershell: is_copilot.then(|| format!("{call}; exit 0")),
            timeout: match host {
                Host::Claude | Host::Codex => Some(TIMEOUT_SECONDS),
                Host::Gemini => Some(1000 * TIMEOUT_SECONDS),
                Host::Copilot => None,
            },
            timeout_sec: is_copilot.then_some(TIMEOUT_SECONDS),
        }
    }

    fn command(&self) -> &str {
        self.command
            .as_deref()
            .or(self.bash.as_deref())
            .unwrap_or_default()
    }
}

/// An element of the list of an event.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum HookGroup {
    Group { hooks: Vec<HookEntry> },
    Entry(HookEntry),
}

#[derive(Serialize)]
struct SettingsDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    hooks: HookMap<'a>,
}

/// Lists of events in the given order.
struct HookMap<'a>(Vec<(Option<&'a str>, Vec<HookGroup>)>);

impl Serialize for HookMap<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.0
                .iter()
                .filter_map(|(name, groups)| Some((name.as_ref()?, groups))),
        )
    }
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::environment(format!("cannot read {}: {error}", printable_path(path)), None)
    };
    match fs_err::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(about) if about.len() > MAX_FILE_BYTES => {
            return Err(failed(std::io::Error::other("it is larger than 4 MiB")));
        }
        Ok(_) => {}
    }
    fs_err::read_to_string(path).map(Some).map_err(failed)
}

/// Directories above a file that do not exist, the outermost first.
fn missing_directories(path: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> = path
        .ancestors()
        .skip(1)
        .take_while(|directory| !directory.exists() && !directory.as_os_str().is_empty())
        .map(Path::to_path_buf)
        .collect();
    missing.reverse();
    missing
}

fn carry_out(plan: Plan) -> Result<(), Failure> {
    let Plan {
        path,
        old,
        new,
        record,
        ..
    } = plan;
    if old != new {
        let failed = |error: std::io::Error| {
            Failure::environment(format!("cannot write {}: {error}", printable_path(&path)), None)
        };
        if let Some(text) = &new {
            replace(&path, text).map_err(failed)?;
        } else {
            fs_err::remove_file(&path).map_err(failed)?;
            let directories = record
                .iter()
                .flat_map(|record| record.created_directories.iter().rev());
            for directory in directories {
                // A directory with other files stays.
                let _ = fs_err::remove_dir(directory);
            }
        }
    }
    match record {
        Some(record) if new.as_deref().is_some_and(|text| record.is_in(text)) => record.save(),
        Some(record) => {
            record.forget();
            Ok(())
        }
        None => Ok(()),
    }
}

/// Replaces a file at once, with its permissions.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs_err::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    let permissions = fs_err::metadata(path).map(|about| about.permissions());
    #[cfg(unix)]
    let permissions = permissions.or_else(|_| {
        use std::os::unix::fs::PermissionsExt as _;
        Ok::<_, std::io::Error>(std::fs::Permissions::from_mode(0o644))
    });
    if let Ok(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

impl Record {
    fn place(path: &Path) -> Option<PathBuf> {
        let name = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
        Some(
            state_directory()?
                .join("hooks")
                .join(format!("{}.json", &name[..32])),
        )
    }

    fn load(path: &Path) -> Option<Self> {
        let text = fs_err::read_to_string(Self::place(path)?).ok()?;
        let record: Self = serde_json::from_str(&text).ok()?;
        (record.path == path).then_some(record)
    }

    fn is_in(&self, text: &str) -> bool {
        !self.inserted.is_empty() && self.inserted.iter().all(|inserted| text.contains(inserted))
    }

    fn save(&self) -> Result<(), Failure> {
        let Some(place) = Self::place(&self.path) else {
            return Ok(());
        };
        let failed = |error: std::io::Error| {
            Failure::environment(
                format!(
                    "cannot record what was added to {}: {error}",
                    printable_path(&self.path)
                ),
                Some("the records are in your state directory (XDG_STATE_HOME, or ~/.local/state)".into()),
            )
        };
        if let Some(directory) = place.parent() {
            make_private_directory(directory).map_err(failed)?;
        }
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        fs_err::write(&place, text).map_err(failed)
    }

    fn forget(&self) {
        if let Some(place) = Self::place(&self.path) {
            let _ = fs_err::remove_file(place);
        }
    }
}

/// Changed lines of a text with two lines around them. Both texts are settings files, so the quadratic table
/// of a longest common subsequence is small once equal lines at both ends are set aside.
fn diff(old: &str, new: &str) -> String {
    const AROUND: usize = 2;
    const MAX_LINES: usize = 2000;
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old
        .iter()
        .zip(&new)
        .take_while(|(left, right)| left == right)
        .count();
    let tail = old[head..]
        .iter()
        .rev()
        .zip(new[head..].iter().rev())
        .take_while(|(left, right)| left == right)
        .count();
    let (old_middle, new_middle) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut lines: Vec<(char, &str)> = old[..head].iter().map(|line| (' ', *line)).collect();
    if old_middle.len().max(new_middle.len()) > MAX_LINES {
        lines.extend(old_middle.iter().map(|line| ('-', *line)));
        lines.extend(new_middle.iter().map(|line| ('+', *line)));
    } else {
        lines.extend(changed_lines(old_middle, new_middle));
    }
    lines.extend(old[old.len() - tail..].iter().map(|line| (' ', *line)));
    let is_near = |index: usize| {
        let begin = index.saturating_sub(AROUND);
        let end = (index + AROUND + 1).min(lines.len());
        lines[begin..end].iter().any(|(mark, _)| *mark != ' ')
    };
    let shown: Vec<String> = lines
        .iter()
        .enumerate()
        .filter(|(index, _)| is_near(*index))
        .map(|(_, (mark, line))| format!("{mark} {line}"))
        .collect();
    shown.join("\n")
}

fn changed_lines<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    // lengths[i][j]: longest common subsequence of old[i..] and new[j..].
    let mut lengths = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for (i, left) in old.iter().enumerate().rev() {
        for (j, right) in new.iter().enumerate().rev() {
            lengths[i][j] = if left == right {
                lengths[i + 1][j + 1] + 1
            } else {
                lengths[i + 1][j].max(lengths[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((' ', old[i]));
            i += 1;
            j += 1;
        } else if i < old.len() && (j == new.len() || lengths[i + 1][j] >= lengths[i][j + 1]) {
            lines.push(('-', old[i]));
            i += 1;
        } else {
            lines.push(('+', new[j]));
            j += 1;
        }
    }
    lines
}

impl Render for HookChanges {
    fn human(&self) -> String {
        let mut parts = Vec::new();
        for file in &self.files {
            let state = match (file.change, self.dry_run) {
                ("unchanged", _) => "no change",
                ("installed", true) => "would add hooks",
                ("installed", false) => "hooks added",
                (_, true) => "would remove hooks",
                (_, false) => "hooks removed",
            };
            let path = printable_path(&file.path);
            parts.push(format!("{}: {path}: {state}", file.host.name()));
            if !file.diff.is_empty() {
                parts.push(file.diff.clone());
            }
        }
        if !self.dry_run && self.files.iter().any(|file| file.change == "installed") {
            parts.push("restart the agent, then see what fires with `satiety hook status`".into());
        }
        parts.join("\n")
    }
}
