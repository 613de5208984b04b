//! Runs the real binary in a temporary directory and shows its complete output.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        // Typed when the prompt appears, as a person would.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        input.write_all(format!("{typed}\n").as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(input);
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    }

    pub(crate) fn show(&self, command: &mut Command) -> String {
        let output = command.output().unwrap();
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
    let output = place.command(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}
