//! Runs the real binary in a temporary directory and shows its complete output.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A directory in which commands run, with a separate home.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, content).unwrap();
        path
    }

    /// The command, without the environment of the tester.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_satiety")), arguments)
    }

    fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("HOME", self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a command and returns exit code, stdout and stderr, with run-specific parts replaced.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        self.show(&mut self.command(arguments))
    }

    /// The same as an unprivileged user, so that permissions apply even if tests run as root.
    pub(crate) fn run_unprivileged(&self, arguments: &[&str]) -> String {
        let program = self.path("satiety-copy");
        fs_err::copy(env!("CARGO_BIN_EXE_satiety"), &program).unwrap();
        fs_err::set_permissions(self.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = self.command_of(&program, arguments);
        if std::os::unix::fs::MetadataExt::uid(&fs_err::metadata("/proc/self").unwrap()) == 0 {
            command.uid(65534).gid(65534);
        }
        let shown = self.show(&mut command);
        fs_err::remove_file(&program).unwrap();
        shown
    }

    /// Runs a command at a pseudo-terminal where `typed` is entered. Returns the exit code and the screen.
    pub(crate) fn at_terminal(
        &self,
        directory: &str,
        arguments: &[&str],
        typed: &str,
    ) -> (Option<i32>, String) {
        let mut line = env!("CARGO_BIN_EXE_satiety").to_owned();
        for argument in arguments {
            line = format!("{line} '{argument}'");
        }
        let mut child = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .current_dir(self.path(directory))
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = child.stdout.take().unwrap();
        // Typed shortly after the prompt appears, as a person would.
        let mut text = vec![0];
        output.read_exact(&mut text).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        input.write_all(format!("{typed}\n").as_bytes()).unwrap();
        output.read_to_end(&mut text).unwrap();
        let status = child.wait().unwrap();
        (status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    pub(crate) fn show(&self, command: &mut Command) -> String {
        let output = command.output().unwrap();
        check_json(command, &output);
        let text = format!(
            "exit {}\n----- stdout\n{}\n----- stderr\n{}",
            output
                .status
                .code()
                .map_or_else(|| "by signal".into(), |code| code.to_string()),
            String::from_utf8_lossy(&output.stdout).trim_end(),
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
        text.replace(&self.folder.path().display().to_string(), "[folder]")
    }
}

/// Path of a file below `examples/`.
pub(crate) fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
        .display()
        .to_string()
}

/// Runs a command that must succeed and parses its JSON.
pub(crate) fn json_of(place: &Place, arguments: &[&str]) -> serde_json::Value {
    let mut command = place.command(arguments);
    let output = command.output().unwrap();
    check_json(&command, &output);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Compares what a command printed with `--format json` with the published schema of its output.
fn check_json(command: &Command, output: &Output) {
    let arguments: Vec<&str> = command
        .get_args()
        .filter_map(|argument| argument.to_str())
        .collect();
    let is_json =
        arguments.windows(2).any(|pair| pair == ["--format", "json"]) || arguments.contains(&"--format=json");
    if !is_json || output.stdout.is_empty() {
        return;
    }
    let schema = output_schema();
    let Some(name) = command_name(&arguments, &schema["x-commands"]) else {
        return;
    };
    let wanted = &schema["x-commands"][&name];
    let wanted = json!({"anyOf": wanted["anyOf"], "$defs": schema["$defs"]});
    let validator = jsonschema::draft202012::new(&wanted).unwrap();
    for printed in serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>() {
        let printed = printed.unwrap_or_else(|error| panic!("{arguments:?} prints invalid JSON: {error}"));
        let errors: Vec<String> = validator
            .iter_errors(&printed)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{arguments:?}: {errors:#?}\n{printed:#}");
    }
}

/// Schema of the outputs, in which objects have no fields but the documented ones.
fn output_schema() -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/command-output.schema.json"
    );
    let mut schema: Value = serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
    let mut extended = Vec::new();
    find_extended(&schema, &mut extended);
    for (name, definition) in schema["$defs"].as_object_mut().unwrap() {
        if definition.get("properties").is_some()
            && definition.get("additionalProperties").is_none()
            && !extended.contains(&format!("#/$defs/{name}"))
        {
            definition["unevaluatedProperties"] = json!(false);
        }
    }
    schema
}

/// Finds definitions to which a reference adds fields, such as the tag of an enum.
fn find_extended(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties")
                && let Some(target) = fields.get("$ref").and_then(Value::as_str)
            {
                found.push(target.to_owned());
            }
            fields.values().for_each(|inner| find_extended(inner, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| find_extended(inner, found)),
        _ => {}
    }
}

/// The documented command whose words occur earliest, in this order.
fn command_name(arguments: &[&str], commands: &Value) -> Option<String> {
    let places = |name: &str| {
        let mut rest = arguments.iter().enumerate();
        let places = name
            .split(' ')
            .map(|word| rest.find(|(_, own)| **own == word).map(|(place, _)| place));
        places.collect::<Option<Vec<usize>>>()
    };
    let names = commands.as_object()?.keys();
    let found = names.filter_map(|name| Some((places(name)?, name)));
    found.min().map(|(_, name)| name.clone())
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < end, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
